#include "proxy/shell/ledger_schema.h"

#include <array>
#include <fmt/format.h>

namespace acp::shell {
namespace {

// Times are milliseconds since 1970. `key`, `print`, `content` and a message's `id` are salted hashes.
// `sent_at` and `seen_at` count in one order within a session.
constexpr const char* first_tables = R"(
CREATE TABLE meta (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  salt BLOB NOT NULL
);
CREATE TABLE runs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  started INTEGER NOT NULL
);
CREATE TABLE sessions (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  is_complete INTEGER NOT NULL DEFAULT 0,
  UNIQUE (agent, session)
);
CREATE INDEX sessions_by_id ON sessions (session);
CREATE TABLE keyed_prompts (
  session INTEGER NOT NULL REFERENCES sessions (number),
  key BLOB NOT NULL,
  print BLOB NOT NULL,
  content BLOB NOT NULL,
  state INTEGER NOT NULL,
  is_command INTEGER NOT NULL,
  sent_at INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  run INTEGER NOT NULL,
  added INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY (session, key)
) WITHOUT ROWID;
CREATE INDEX open_prompts_by_run ON keyed_prompts (run) WHERE state = 1;
CREATE TABLE prompts (
  session INTEGER NOT NULL REFERENCES sessions (number),
  sent_at INTEGER NOT NULL,
  content BLOB NOT NULL,
  is_command INTEGER NOT NULL,
  PRIMARY KEY (session, sent_at)
) WITHOUT ROWID;
CREATE TABLE messages (
  session INTEGER NOT NULL REFERENCES sessions (number),
  seen_at INTEGER NOT NULL,
  id BLOB NOT NULL,
  content BLOB,
  is_given INTEGER NOT NULL,
  PRIMARY KEY (session, seen_at)
) WITHOUT ROWID;
)";

constexpr std::array<const char*, 1> steps{first_tables};

LedgerError read_number(Database& database, const char* sql, std::int64_t& number) noexcept {
  Query query(database, sql);
  if (query.next()) number = query.number(0);
  return query.error();
}

}  // namespace

std::span<const char* const> ledger_steps() noexcept { return steps; }

LedgerError read_mark(Database& database, LedgerMark& mark) noexcept {
  LedgerError error = read_number(database, "PRAGMA application_id", mark.application);
  if (error == LedgerError::none) error = read_number(database, "PRAGMA user_version", mark.version);
  if (error == LedgerError::none)
    error = read_number(database, "SELECT count(*) FROM sqlite_schema", mark.tables);
  return error;
}

LedgerError judge_mark(const LedgerMark& mark, std::int64_t newest) noexcept {
  if (mark.application == 0 && mark.version == 0 && mark.tables == 0) return LedgerError::none;
  if (mark.application != ledger_application_id) return LedgerError::failed;
  if (mark.version > newest) return LedgerError::newer;
  return mark.version >= 1 && mark.tables > 0 ? LedgerError::none : LedgerError::broken;
}

LedgerError migrate(Database& database, std::span<const char* const> all) noexcept {
  LedgerMark mark;
  const auto newest = static_cast<std::int64_t>(all.size());
  LedgerError error = read_mark(database, mark);
  if (error == LedgerError::none) error = judge_mark(mark, newest);
  if (error != LedgerError::none || mark.version == newest) return error;
  for (const char* const step : all.subspan(static_cast<std::size_t>(mark.version))) {
    error = database.run(step);
    if (error != LedgerError::none) return error;
  }
  const std::string numbers =
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", ledger_application_id, newest);
  return database.run(numbers.c_str());
}

}  // namespace acp::shell
