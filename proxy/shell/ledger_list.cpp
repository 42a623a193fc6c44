#include "proxy/shell/ledger_list.h"

#include <vector>

#include "proxy/shell/ledger_database.h"
#include "proxy/shell/ledger_file.h"
#include "proxy/shell/ledger_owners.h"
#include "proxy/shell/ledger_rows.h"
#include "proxy/shell/ledger_schema.h"

namespace acp::shell {
namespace {

// A person waits, not a program.
constexpr Duration patience = std::chrono::seconds(5);

LedgerError open_checked(Database& database, const std::string& path, Database::Access access,
                         LedgerWait& wait, LedgerMark& mark) {
  LedgerError error = database.open(path, access, wait);
  if (error == LedgerError::none) error = read_mark(database, mark);
  if (error == LedgerError::none) error = judge_mark(mark, ledger_version());
  return error;
}

LedgerError look_for(const std::string& path, LedgerLook& look) {
  const LedgerError error = look_at(path, look);
  if (error == LedgerError::none && look.kind == LedgerLook::Kind::other)
    return LedgerOwners::were_at(path) ? LedgerError::broken : LedgerError::failed;
  // Seen without SQLite, which would make files beside it.
  const bool is_newer = look.kind == LedgerLook::Kind::database &&
                        look.application == ledger_application_id && look.version > ledger_version();
  return error == LedgerError::none && is_newer ? LedgerError::newer : error;
}

LedgerError list_with(const std::string& path, Database::Access access, std::vector<LedgerEntry>& entries) {
  LedgerWait wait(patience);
  Database database;
  LedgerMark mark;
  const LedgerError error = open_checked(database, path, access, wait, mark);
  if (error != LedgerError::none || mark.version == 0) return error;
  Query query(database,
              "SELECT sessions.agent, sessions.session, state, message_id, added, changed FROM keyed_prompts "
              "JOIN sessions ON sessions.number = keyed_prompts.session "
              "ORDER BY added, keyed_prompts.session, sent_at");
  while (query.next()) {
    const std::int64_t state = query.number(2);
    if (state < 1 || state > 3) return LedgerError::broken;
    entries.push_back({query.text(0), query.text(1), static_cast<LedgerState>(state), query.text(3),
                       query.number(4), query.number(5)});
  }
  return query.error();
}

LedgerError forget_sessions(Database& database, const LedgerOwners& owners, std::string_view session,
                            Forgotten& forgotten) {
  std::vector<std::int64_t> numbers;
  {
    Query query(database, "SELECT number FROM sessions WHERE session = ?1", session);
    while (query.next()) numbers.push_back(query.number(0));
    if (query.error() != LedgerError::none) return query.error();
  }
  for (const std::int64_t number : numbers) {
    forgotten.is_known = true;
    {
      Query query(database, "SELECT DISTINCT run FROM keyed_prompts WHERE session = ?1", number);
      while (query.next()) {
        if (owners.is_held_elsewhere(query.place(0))) forgotten.is_known_to_run = true;
      }
      if (query.error() != LedgerError::none) return query.error();
    }
    std::int64_t rows = 0;
    if (const LedgerError error = forget(database, number, rows); error != LedgerError::none) return error;
    forgotten.rows += rows;
  }
  return LedgerError::none;
}

}  // namespace

LedgerError list_ledger(const std::string& path, bool& is_there, std::vector<LedgerEntry>& entries) {
  entries.clear();
  LedgerLook look;
  LedgerError error = look_for(path, look);
  is_there = look.kind != LedgerLook::Kind::absent;
  if (error != LedgerError::none || look.kind != LedgerLook::Kind::database) return error;
  if (!look.log_is_used) {
    // While nobody has it open it is read without a trace.
    error = list_with(path, Database::Access::immutable, entries);
    if (error == LedgerError::none || error == LedgerError::newer) return error;
    look_at(path, look);  // somebody may have begun to write meanwhile
    if (!look.log_is_used) return error;
    entries.clear();
  }
  return list_with(path, Database::Access::read_only, entries);
}

LedgerError forget_in_ledger(const std::string& path, std::string_view session, Forgotten& forgotten) {
  forgotten = {};
  LedgerLook look;
  LedgerError error = look_for(path, look);
  if (error != LedgerError::none || look.kind != LedgerLook::Kind::database) return error;
  LedgerOwners owners;
  LedgerWait wait(patience);
  Database database;
  LedgerMark mark;
  error = owners.open_to_ask(path);
  if (error == LedgerError::none)
    error = open_checked(database, path, Database::Access::read_write, wait, mark);
  if (error != LedgerError::none || mark.version == 0) return error;
  error = database.run("PRAGMA synchronous = EXTRA; BEGIN IMMEDIATE");
  if (error == LedgerError::none) error = forget_sessions(database, owners, session, forgotten);
  if (error == LedgerError::none) error = database.run("COMMIT");
  if (error != LedgerError::none) {
    database.roll_back();
    forgotten = {};
  }
  return error;
}

}  // namespace acp::shell
