// What the core writes to the ledger and reads from it, as SQL.
//
// Invariant: one batch is one savepoint: a conflict takes back that batch alone. Lifetime: no state.
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/core/ledger.h"
#include "proxy/shell/ledger_database.h"
#include "proxy/shell/ledger_owners.h"

namespace acp::shell {

struct LedgerWriter {
  std::uint64_t run = 0;     // whose rows these are
  std::int64_t unix_ms = 0;  // the time now
};

// Within a transaction of the caller's. conflict: nothing of this batch is in it, the transaction goes on.
// Any other error: the transaction is to be taken back.
LedgerError apply(Database& database, const LedgerBatch& batch, const LedgerWriter& writer) noexcept;

// All of a session, from one moment. Rows of `run` come as run 0.
LedgerError load(Database& database, const LedgerOwners& owners, std::uint64_t run, std::string_view agent,
                 std::string_view session, LedgerSession& into);

// Everything of one session, by its number in the file. `rows`: how many keyed prompts that were.
LedgerError forget(Database& database, std::int64_t session, std::int64_t& rows) noexcept;

}  // namespace acp::shell
