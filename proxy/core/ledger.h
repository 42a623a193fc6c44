// What is remembered of keyed prompts beyond this process, as the core and the ledger's file speak of it.
//
// The core decides what is written and when a prompt may leave; the shell keeps the file. Invariant: no key,
// no text: hashes under the ledger's salt, and message ids that an agent gave. One batch is one session's
// change and is committed as a whole or not at all. Lifetime: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proxy/core/fingerprint.h"

namespace acp {

// What is known of a keyed prompt. The numbers are those in the file.
enum class LedgerState : std::uint8_t {
  open = 1,      // it was sent, or is about to be; no answer came
  inserted = 2,  // the agent said so
  unknown = 3,   // its answer was lost and nothing has decided since
};

// One keyed prompt of a session.
struct LedgerRow {
  Fingerprint key;      // hash of the key
  Fingerprint print;    // of the request's params
  Fingerprint content;  // of the message alone, as a replay would show it
  LedgerState state = LedgerState::open;
  bool is_command = false;      // its text begins with `/`: agents run such prompts and store nothing
  std::uint64_t sent_at = 0;    // its place in the session's order
  std::string message_id = {};  // raw JSON token; empty if the agent gave none
  std::uint64_t run = 0;        // who wrote it; set by the ledger, 0 for this run
};

// A prompt without a key that is with the agent; kept only while the session has an open row.
struct LedgerPrompt {
  Fingerprint content;
  bool is_command = false;
  std::uint64_t sent_at = 0;  // its name within the session, too
};

// A user message of the session that keyhop has seen.
struct LedgerMessage {
  Fingerprint id;  // hash of the message id
  Fingerprint content;
  bool is_content_known = false;
  bool is_given = false;      // an answer gave it to a prompt: it is no other prompt's
  std::uint64_t seen_at = 0;  // its place in the session's order; its name within the session
};

// ---- Changes of one session ----

// A row that is not there yet. If it is, the batch is not committed (LedgerError::conflict).
struct AddLedgerRow {
  LedgerRow row;
};
// Of a row that is there: everything but its key. Nothing happens if it is not.
struct UpdateLedgerRow {
  LedgerRow row;
};
// A row of this run's, or one that `run` wrote. What another keyhop has written beside us stays: it protects
// a prompt of that one's.
struct RemoveLedgerRow {
  Fingerprint key;
  std::uint64_t run = 0;
};
// Added, or (same sent_at) put in its place.
struct AddLedgerPrompt {
  LedgerPrompt prompt;
};
struct RemoveLedgerPrompt {
  std::uint64_t sent_at;
};
// Added, or its content told later.
struct PutLedgerMessage {
  LedgerMessage message;
};
// Forgets messages seen before that place.
struct TrimLedgerMessages {
  std::uint64_t before;
};
// Whether the messages of this session that keyhop knows are all there are.
struct SetLedgerComplete {
  bool complete;
};
// Everything of the session: it is deleted, or a new one has its id.
struct ForgetLedgerSession {};

using LedgerChange =
    std::variant<AddLedgerRow, UpdateLedgerRow, RemoveLedgerRow, AddLedgerPrompt, RemoveLedgerPrompt,
                 PutLedgerMessage, TrimLedgerMessages, SetLedgerComplete, ForgetLedgerSession>;

// `agent`: the name in its initialize answer, else its command. Agents of different names share nothing.
struct LedgerBatch {
  std::uint64_t ticket = 0;
  std::string agent = {};
  std::string session = {};
  std::vector<LedgerChange> changes = {};
};

// A session as the file has it. Rows and prompts in the order of sent_at, messages of seen_at.
struct LedgerSession {
  bool is_known = false;
  bool is_complete = false;
  // A run that wrote one of the open rows may still have processes: its agent could still insert.
  bool has_living_owner = false;
  std::vector<LedgerRow> rows = {};
  std::vector<LedgerPrompt> prompts = {};
  std::vector<LedgerMessage> messages = {};
};

enum class LedgerError : std::uint8_t {
  none,
  conflict,      // another keyhop wrote a row of this key meanwhile
  full,          // no space
  not_writable,  // read-only, or no permission
  busy,          // locked by somebody for longer than the ledger waits
  newer,         // written by a newer keyhop: not touched
  broken,        // the file is damaged
  failed,        // anything else
};

}  // namespace acp
