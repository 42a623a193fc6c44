// The ledger as `keyhop ledger` needs it: to look, and to forget a session.
//
// Invariant: listing never writes, not even a file beside the ledger. Lifetime: no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/ledger.h"

namespace acp::shell {

// One keyed prompt. Times in milliseconds since 1970.
struct LedgerEntry {
  std::string agent;
  std::string session;
  LedgerState state{};
  std::string message_id;  // raw JSON token; empty if there is none
  std::int64_t added = 0;
  std::int64_t changed = 0;
};

// Every keyed prompt, in the order in which they came. `is_there`: whether there is such a file.
LedgerError list_ledger(const std::string& path, bool& is_there, std::vector<LedgerEntry>& entries);

struct Forgotten {
  bool is_known = false;         // there was such a session
  std::int64_t rows = 0;         // keyed prompts
  bool is_known_to_run = false;  // a keyhop that runs wrote some of them, and remembers them still
};
// Everything of the sessions of that id, whatever the agent. A file that is not there is not made.
LedgerError forget_in_ledger(const std::string& path, std::string_view session, Forgotten& forgotten);

// A ledger error as words that end "the ledger PATH ".
std::string_view words_of(LedgerError error) noexcept;

}  // namespace acp::shell
