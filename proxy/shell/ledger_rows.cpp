#include "proxy/shell/ledger_rows.h"

#include <algorithm>
#include <variant>
#include <vector>

namespace acp::shell {
namespace {

constexpr std::int64_t no_session = 0;

LedgerError find_session(Database& database, std::string_view agent, std::string_view session,
                         std::int64_t& number) noexcept {
  Query query(database, "SELECT number FROM sessions WHERE agent = ?1 AND session = ?2", agent, session);
  number = query.next() ? query.number(0) : no_session;
  return query.error();
}

// One batch: its changes in order. The session's row is made by the first change that needs one.
class BatchWriter {
 public:
  BatchWriter(Database& database, const LedgerBatch& batch, const LedgerWriter& writer) noexcept
      : database_(database), batch_(batch), writer_(writer) {}

  LedgerError write() noexcept {
    LedgerError error = find_session(database_, batch_.agent, batch_.session, session_);
    for (const LedgerChange& change : batch_.changes) {
      if (error != LedgerError::none) break;
      error = std::visit([this](const auto& one) noexcept { return write(one); }, change);
    }
    return error;
  }

 private:
  template <class... Values>
  LedgerError run(const char* sql, const Values&... values) noexcept {
    return Query(database_, sql, values...).run();
  }

  LedgerError need_session() noexcept {
    if (session_ != no_session) return LedgerError::none;
    const LedgerError error =
        run("INSERT INTO sessions (agent, session) VALUES (?1, ?2)", batch_.agent, batch_.session);
    if (error == LedgerError::none) session_ = database_.last_number();
    return error;
  }

  LedgerError write(const AddLedgerRow& change) noexcept {
    if (const LedgerError error = need_session(); error != LedgerError::none) return error;
    const LedgerRow& row = change.row;
    Query query(database_,
                "INSERT INTO keyed_prompts (session, key, print, content, state, is_command, sent_at, "
                "message_id, run, added, changed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)",
                session_, row.key, row.print, row.content, static_cast<std::int64_t>(row.state),
                row.is_command, row.sent_at, row.message_id, writer_.run, writer_.unix_ms);
    const LedgerError error = query.run();
    return query.met_constraint() ? LedgerError::conflict : error;
  }

  LedgerError write(const UpdateLedgerRow& change) noexcept {
    const LedgerRow& row = change.row;
    return run(
        "UPDATE keyed_prompts SET print = ?3, content = ?4, state = ?5, is_command = ?6, sent_at = ?7, "
        "message_id = ?8, run = ?9, changed = ?10 WHERE session = ?1 AND key = ?2",
        session_, row.key, row.print, row.content, static_cast<std::int64_t>(row.state), row.is_command,
        row.sent_at, row.message_id, writer_.run, writer_.unix_ms);
  }

  LedgerError write(const RemoveLedgerRow& change) noexcept {
    return run("DELETE FROM keyed_prompts WHERE session = ?1 AND key = ?2 AND run IN (?3, ?4)", session_,
               change.key, writer_.run, change.run);
  }

  LedgerError write(const AddLedgerPrompt& change) noexcept {
    if (const LedgerError error = need_session(); error != LedgerError::none) return error;
    return run(
        "INSERT OR REPLACE INTO prompts (session, sent_at, content, is_command) "
        "VALUES (?1, ?2, ?3, ?4)",
        session_, change.prompt.sent_at, change.prompt.content, change.prompt.is_command);
  }

  LedgerError write(const RemoveLedgerPrompt& change) noexcept {
    return run("DELETE FROM prompts WHERE session = ?1 AND sent_at = ?2", session_, change.sent_at);
  }

  LedgerError write(const PutLedgerMessage& change) noexcept {
    if (const LedgerError error = need_session(); error != LedgerError::none) return error;
    static constexpr char sql[] =
        "INSERT OR REPLACE INTO messages (session, seen_at, id, is_given, content) "
        "VALUES (?1, ?2, ?3, ?4, ?5)";
    const LedgerMessage& message = change.message;
    if (message.is_content_known)
      return run(sql, session_, message.seen_at, message.id, message.is_given, message.content);
    return run(sql, session_, message.seen_at, message.id, message.is_given, nullptr);
  }

  LedgerError write(const TrimLedgerMessages& change) noexcept {
    return run("DELETE FROM messages WHERE session = ?1 AND seen_at < ?2", session_, change.before);
  }

  LedgerError write(const SetLedgerComplete& change) noexcept {
    if (const LedgerError error = need_session(); error != LedgerError::none) return error;
    return run("UPDATE sessions SET is_complete = ?2 WHERE number = ?1", session_, change.complete);
  }

  LedgerError write(const ForgetLedgerSession&) noexcept {
    std::int64_t rows = 0;
    const LedgerError error = forget(database_, session_, rows);
    session_ = no_session;
    return error;
  }

  Database& database_;
  const LedgerBatch& batch_;
  const LedgerWriter& writer_;
  std::int64_t session_ = no_session;
};

LedgerError load_rows(Database& database, std::int64_t session, std::uint64_t run,
                      std::vector<LedgerRow>& into) {
  Query query(database,
              "SELECT key, print, content, state, is_command, sent_at, message_id, run FROM keyed_prompts "
              "WHERE session = ?1 ORDER BY sent_at",
              session);
  while (query.next()) {
    LedgerRow row;
    const std::int64_t state = query.number(3);
    const bool is_sound = query.bytes(0, row.key.bytes) && query.bytes(1, row.print.bytes) &&
                          query.bytes(2, row.content.bytes) && state >= 1 && state <= 3;
    if (!is_sound) return LedgerError::broken;
    row.state = static_cast<LedgerState>(state);
    row.is_command = query.number(4) != 0;
    row.sent_at = query.place(5);
    row.message_id = query.text(6);
    row.run = query.place(7) == run ? 0 : query.place(7);
    into.push_back(std::move(row));
  }
  return query.error();
}

LedgerError load_prompts(Database& database, std::int64_t session, std::vector<LedgerPrompt>& into) {
  Query query(database,
              "SELECT content, is_command, sent_at FROM prompts WHERE session = ?1 ORDER BY sent_at",
              session);
  while (query.next()) {
    LedgerPrompt prompt;
    if (!query.bytes(0, prompt.content.bytes)) return LedgerError::broken;
    prompt.is_command = query.number(1) != 0;
    prompt.sent_at = query.place(2);
    into.push_back(prompt);
  }
  return query.error();
}

LedgerError load_messages(Database& database, std::int64_t session, std::vector<LedgerMessage>& into) {
  Query query(database,
              "SELECT id, content, seen_at, is_given FROM messages WHERE session = ?1 ORDER BY seen_at",
              session);
  while (query.next()) {
    LedgerMessage message;
    message.is_content_known = !query.is_null(1);
    const bool is_sound = query.bytes(0, message.id.bytes) &&
                          (!message.is_content_known || query.bytes(1, message.content.bytes));
    if (!is_sound) return LedgerError::broken;
    message.seen_at = query.place(2);
    message.is_given = query.number(3) != 0;
    into.push_back(message);
  }
  return query.error();
}

LedgerError load_all(Database& database, std::uint64_t run, std::string_view agent, std::string_view session,
                     LedgerSession& into) {
  std::int64_t number = no_session;
  {
    Query query(database, "SELECT number, is_complete FROM sessions WHERE agent = ?1 AND session = ?2", agent,
                session);
    into.is_known = query.next();
    if (!into.is_known) return query.error();
    number = query.number(0);
    into.is_complete = query.number(1) != 0;
  }
  LedgerError error = load_rows(database, number, run, into.rows);
  if (error == LedgerError::none) error = load_prompts(database, number, into.prompts);
  if (error == LedgerError::none) error = load_messages(database, number, into.messages);
  return error;
}

// Other runs that wrote open rows, sorted.
std::vector<std::uint64_t> owners_of(const std::vector<LedgerRow>& rows) {
  std::vector<std::uint64_t> runs;
  for (const LedgerRow& row : rows) {
    if (row.state == LedgerState::open && row.run != 0) runs.push_back(row.run);
  }
  std::sort(runs.begin(), runs.end());
  runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  return runs;
}

LedgerError load_at_once(Database& database, std::uint64_t run, std::string_view agent,
                         std::string_view session, LedgerSession& into) {
  into = {};
  LedgerError error = Query(database, "BEGIN").run();
  if (error != LedgerError::none) return error;
  error = load_all(database, run, agent, session, into);
  const LedgerError ended = Query(database, "COMMIT").run();
  if (error == LedgerError::none) error = ended;
  if (error != LedgerError::none) database.roll_back();
  return error;
}

}  // namespace

LedgerError apply(Database& database, const LedgerBatch& batch, const LedgerWriter& writer) noexcept {
  LedgerError error = Query(database, "SAVEPOINT batch").run();
  if (error != LedgerError::none) return error;
  error = BatchWriter(database, batch, writer).write();
  if (error != LedgerError::none && error != LedgerError::conflict) return error;
  if (error == LedgerError::conflict) {
    const LedgerError taken_back = Query(database, "ROLLBACK TO batch").run();
    if (taken_back != LedgerError::none) return taken_back;
  }
  const LedgerError released = Query(database, "RELEASE batch").run();
  return released == LedgerError::none ? error : released;
}

LedgerError load(Database& database, const LedgerOwners& owners, std::uint64_t run, std::string_view agent,
                 std::string_view session, LedgerSession& into) {
  // An owner may write its last and end between the reading and the question whether it lives. So what
  // counts is what is read after all of them were seen to be gone.
  std::vector<std::uint64_t> gone;
  for (;;) {
    const LedgerError error = load_at_once(database, run, agent, session, into);
    if (error != LedgerError::none) {
      into = {};
      return error;
    }
    const std::vector<std::uint64_t> runs = owners_of(into.rows);
    if (std::includes(gone.begin(), gone.end(), runs.begin(), runs.end())) return error;
    into.has_living_owner = std::any_of(runs.begin(), runs.end(),
                                        [&](std::uint64_t one) { return owners.is_held_elsewhere(one); });
    if (into.has_living_owner) return error;
    gone = runs;
  }
}

LedgerError forget(Database& database, std::int64_t session, std::int64_t& rows) noexcept {
  LedgerError error = Query(database, "DELETE FROM keyed_prompts WHERE session = ?1", session).run();
  rows = database.changed_rows();
  if (error == LedgerError::none)
    error = Query(database, "DELETE FROM prompts WHERE session = ?1", session).run();
  if (error == LedgerError::none)
    error = Query(database, "DELETE FROM messages WHERE session = ?1", session).run();
  if (error == LedgerError::none)
    error = Query(database, "DELETE FROM sessions WHERE number = ?1", session).run();
  return error;
}

}  // namespace acp::shell
