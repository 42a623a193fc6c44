// `keyhop ledger [--json] [--forget SESSION] [PATH]`: what is remembered of keyed prompts; erase a session's.
//
// Invariant: without --forget nothing is written. Lifetime: one call a run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace acp::tools {

struct LedgerRequest {
  std::string path;
  std::optional<std::string> forget;  // a session's id
  bool json = false;
  bool colour = false;       // terminal colours in the text
  std::int64_t unix_ms = 0;  // the time now
};

// Writes the prompts to `out`, oldest first: aligned text with local times, or with `json` an array of
// objects {agent, session, state, messageId, sentAt, changedAt}: state is open, inserted or unknown, times
// are RFC 3339 in UTC, messageId is null if there is none. With `forget`: how many prompts were erased, as
// text or {session, forgotten}. A ledger that is not there holds nothing. Problems go to stderr. Returns the
// exit status: 0; 1 nothing is remembered of the session to forget, or `out` cannot be written; 65 the file
// is damaged, no ledger, or a newer keyhop's; 74 it cannot be read or written; 75 another program keeps it
// locked.
int run_ledger(const LedgerRequest& request, std::FILE* out);

}  // namespace acp::tools
