// The tables of the ledger's file, their version, and the way from each version to the next.
//
// Invariant: a step that was released is never edited: a change of the tables is a new step. Lifetime:
// static, immutable.
#pragma once

#include <cstdint>
#include <span>

#include "proxy/shell/ledger_database.h"

namespace acp::shell {

// In the file's header (PRAGMA application_id): "khlg".
inline constexpr std::int64_t ledger_application_id = 0x6b686c67;

// Step n makes version n + 1 of version n. Version 0 is an empty file.
std::span<const char* const> ledger_steps() noexcept;
inline std::int64_t ledger_version() noexcept { return static_cast<std::int64_t>(ledger_steps().size()); }

// What a file says of itself.
struct LedgerMark {
  std::int64_t application = 0;
  std::int64_t version = 0;
  std::int64_t tables = 0;
};
LedgerError read_mark(Database& database, LedgerMark& mark) noexcept;
// none: a ledger of this version or one before it, or an empty file. newer. failed: somebody else's database.
LedgerError judge_mark(const LedgerMark& mark, std::int64_t newest) noexcept;

// Brings the file to the newest version. Within a transaction of the caller's; on an error that is to be
// taken back.
LedgerError migrate(Database& database, std::span<const char* const> steps) noexcept;

}  // namespace acp::shell
