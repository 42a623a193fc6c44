#include "proxy/shell/ledger.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fmt/format.h>
#include <sys/random.h>
#include <utility>

#include "proxy/shell/ledger_file.h"
#include "proxy/shell/ledger_list.h"
#include "proxy/shell/ledger_rows.h"
#include "proxy/shell/ledger_schema.h"

namespace acp::shell {
namespace {

// Checked as a whole when it is opened; a bigger one only as far as it is read.
constexpr std::int64_t checked_bytes_max = 1 << 20;
// Ended runs that are forgotten at one opening.
constexpr std::int64_t ended_runs_max = 1000;

std::int64_t unix_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

// Whether the words of a check say that a page could not be read: that is no damage.
bool was_unreadable(std::string_view words) noexcept {
  constexpr std::string_view mark = "error code=";
  const std::size_t place = words.find(mark);
  if (place == std::string_view::npos) return words.find("failed to get page") != std::string_view::npos;
  words.remove_prefix(place + mark.size());
  int code = 0;
  std::from_chars(words.data(), words.data() + words.size(), code);
  constexpr int corrupt = 11;  // SQLITE_CORRUPT, in the low byte of its kinds
  return (code & 0xff) != corrupt;
}

LedgerError check_pages(Database& database) {
  Query query(database, "PRAGMA quick_check(1)");
  if (!query.next()) return query.error();
  const std::string words = query.text(0);
  if (words == "ok") return LedgerError::none;
  return was_unreadable(words) ? LedgerError::failed : LedgerError::broken;
}

}  // namespace

std::string_view words_of(LedgerError error) noexcept {
  switch (error) {
    case LedgerError::none: return "can be used";
    case LedgerError::conflict: return "has that key already";
    case LedgerError::full: return "cannot be written: no space";
    case LedgerError::not_writable: return "cannot be written: no permission, or a read-only file system";
    case LedgerError::busy: return "is locked by another program";
    case LedgerError::newer: return "was written by a newer keyhop; it is left as it is";
    case LedgerError::broken: return "is damaged";
    case LedgerError::failed: return "cannot be used: it is no ledger of keyhop's, or reading it failed";
  }
  return "";
}

Ledger::Ledger(LedgerSettings settings) : settings_(std::move(settings)), wait_(settings_.patience) {}

LedgerError Ledger::open() {
  // A newer one is left before anything is made beside it.
  LedgerLook look;
  LedgerError error = look_at(path_, look);
  if (error == LedgerError::none && look.kind == LedgerLook::Kind::database &&
      look.application == ledger_application_id && look.version > ledger_version())
    error = LedgerError::newer;
  // A mistaken path must not rename somebody's file.
  if (look.kind == LedgerLook::Kind::other && !path_.ends_with(".db") && !LedgerOwners::were_at(path_))
    error = LedgerError::failed;
  if (error == LedgerError::none) error = make_directory_of(path_);
  if (error == LedgerError::none) error = owners_.open(path_);
  if (error == LedgerError::none) error = owners_.enter(wait_);
  if (error == LedgerError::none) {
    error = open_entered();
    owners_.leave();
  }
  if (error != LedgerError::none) explain(error);
  state_ = error;
  return error;
}

// One opener at a time is here.
LedgerError Ledger::open_entered() {
  is_local_ = settings_.is_local.value_or(is_on_local_disk(path_));
  LedgerError error = open_file();
  if (error != LedgerError::broken) return error;
  error = move_broken_aside();
  return error == LedgerError::none ? open_file() : error;
}

LedgerError Ledger::open_file() {
  database_.close();
  LedgerLook look;
  LedgerError error = look_at(path_, look);
  has_log_ = look.has_log;
  if (error == LedgerError::none && look.kind == LedgerLook::Kind::other) {
    device_ = look.device;
    file_ = look.number;
    return LedgerError::broken;
  }
  if (error == LedgerError::none && look.kind == LedgerLook::Kind::database) error = check_unopened();
  if (error == LedgerError::none) error = make_private_file(path_);
  if (error == LedgerError::none) error = look_at(path_, look);
  device_ = look.device;
  file_ = look.number;
  if (error == LedgerError::none) error = database_.open(path_, Database::Access::read_write, wait_);
  if (error == LedgerError::none) error = choose_journal();
  if (error == LedgerError::none) error = begin_run();
  if (error != LedgerError::none) database_.close();
  if (error == LedgerError::none) take_place();
  return error;
}

// The first among its siblings needs none. The locks' numbers are far from any run's.
void Ledger::take_place() {
  constexpr std::uint64_t first_number = 1ULL << 56U;
  constexpr std::uint64_t siblings_max = 64;
  if (!settings_.siblings_of) return;
  const std::uint64_t parent = static_cast<std::uint64_t>(*settings_.siblings_of);
  for (std::uint64_t number = 0; number < siblings_max; ++number) {
    if (owners_.hold(first_number + parent * siblings_max + number) != LedgerError::none) continue;
    if (number > 0) settings_.place += fmt::format(" {}", number + 1);
    return;
  }
}

// Whose it is, and whether it is sound, by a connection that cannot write.
LedgerError Ledger::check_unopened() {
  // Where the shared memory of a log cannot be trusted, this would be the first read.
  if (has_log_ && !is_local_) return LedgerError::none;
  LedgerLook look;
  look_at(path_, look);
  device_ = look.device;
  file_ = look.number;
  Database database;
  LedgerMark mark;
  // Not immutable: what another keyhop writes meanwhile would look like damage.
  LedgerError error = database.open(path_, Database::Access::read_only, wait_);
  if (error == LedgerError::none) error = read_mark(database, mark);
  if (error == LedgerError::none) error = judge_mark(mark, ledger_version());
  // What only a writer can mend (a journal of a writer that died) is none of this connection's.
  if (error == LedgerError::not_writable) return LedgerError::none;
  if (error == LedgerError::none && look.size <= checked_bytes_max) error = check_pages(database);
  return error;
}

LedgerError Ledger::choose_journal() {
  // A log needs memory shared between its users, which a file system of several machines cannot give. One
  // that is there is read without it, alone, once.
  if (!is_local_ && has_log_) {
    const LedgerError error = database_.run("PRAGMA locking_mode = EXCLUSIVE");
    if (error != LedgerError::none) return error;
  }
  std::string mode;
  {
    Query query(database_, is_local_ ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE");
    if (query.next()) mode = query.text(0);
    if (mode.empty() && query.error() != LedgerError::none) return query.error();
  }
  if (!is_local_ && mode == "wal") return LedgerError::busy;
  if (!is_local_ && has_log_) {
    const LedgerError error =
        database_.run("PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema");
    if (error != LedgerError::none) return error;
  }
  // Without a log only EXTRA makes a commit last: the journal's end is a name that goes.
  return database_.run(mode == "wal" ? "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304"
                                     : "PRAGMA synchronous = EXTRA");
}

LedgerError Ledger::begin_run() {
  LedgerError error = Query(database_, "BEGIN IMMEDIATE").run();
  if (error == LedgerError::none) error = migrate(database_, ledger_steps());
  if (error == LedgerError::none) error = read_salt();
  if (error == LedgerError::none) error = forget_ended_runs();
  if (error == LedgerError::none) error = take_number();
  if (error == LedgerError::none) error = Query(database_, "COMMIT").run();
  if (error != LedgerError::none) database_.roll_back();
  return error;
}

LedgerError Ledger::read_salt() {
  Salt fresh;
  if (::getrandom(fresh.data(), fresh.size(), 0) != static_cast<ssize_t>(fresh.size()))
    return LedgerError::failed;
  const LedgerError error =
      Query(database_, "INSERT OR IGNORE INTO meta (only, salt) VALUES (1, ?1)", fresh).run();
  if (error != LedgerError::none) return error;
  Query query(database_, "SELECT salt FROM meta");
  if (!query.next()) return query.error() == LedgerError::none ? LedgerError::broken : query.error();
  return query.bytes(0, salt_) ? LedgerError::none : LedgerError::broken;
}

LedgerError Ledger::take_number() {
  for (;;) {
    const LedgerError error = Query(database_, "INSERT INTO runs (started) VALUES (?1)", unix_ms()).run();
    if (error != LedgerError::none) return error;
    run_ = static_cast<std::uint64_t>(database_.last_number());
    const LedgerError held = owners_.hold(run_);
    // Held, though new: by a run of a ledger that was moved aside. The next number then.
    if (held != LedgerError::busy) return held;
  }
}

// Their locks are free and nothing open is theirs.
LedgerError Ledger::forget_ended_runs() {
  std::vector<std::int64_t> ended;
  {
    Query query(
        database_,
        "SELECT number FROM runs WHERE NOT EXISTS (SELECT 1 FROM keyed_prompts WHERE run = number AND "
        "state = 1) ORDER BY number LIMIT ?1",
        ended_runs_max);
    while (query.next()) {
      if (!owners_.is_held_elsewhere(query.place(0))) ended.push_back(query.number(0));
    }
    if (query.error() != LedgerError::none) return query.error();
  }
  for (const std::int64_t number : ended) {
    const LedgerError error = Query(database_, "DELETE FROM runs WHERE number = ?1", number).run();
    if (error != LedgerError::none) return error;
  }
  return LedgerError::none;
}

std::vector<LedgerError> Ledger::commit(std::span<const LedgerBatch> batches) {
  std::vector<LedgerError> results(batches.size(), LedgerError::none);
  LedgerError error = state_;
  if (error == LedgerError::none) {
    error = noted(commit_all(batches, results));
    ++transactions_;
  }
  if (error != LedgerError::none) std::fill(results.begin(), results.end(), error);
  return results;
}

LedgerError Ledger::commit_all(std::span<const LedgerBatch> batches, std::vector<LedgerError>& results) {
  const LedgerWriter writer{run_, unix_ms()};
  LedgerError error = Query(database_, "BEGIN IMMEDIATE").run();
  for (std::size_t index = 0; index < batches.size() && error == LedgerError::none; ++index) {
    results[index] = apply(database_, batches[index], writer);
    if (results[index] != LedgerError::conflict) error = results[index];
  }
  if (error == LedgerError::none) error = Query(database_, "COMMIT").run();
  if (error != LedgerError::none) database_.roll_back();
  return error;
}

LedgerError Ledger::read(std::string_view agent, std::string_view session, LedgerSession& into) {
  if (state_ != LedgerError::none) return state_;
  return noted(load(database_, owners_, run_, agent, session, into));
}

LedgerError Ledger::noted(LedgerError error) {
  if (error != LedgerError::broken) return error;
  // This run remembers what the file no longer tells, so it does not go on with a new one.
  state_ = LedgerError::broken;
  explain(error);
  database_.close();
  if (owners_.enter(wait_) == LedgerError::none) {
    move_broken_aside();
    owners_.leave();
  }
  return error;
}

// The file that was opened; if another one has its name by now, somebody has done it already.
LedgerError Ledger::move_broken_aside() {
  database_.close();
  LedgerLook look;
  const LedgerError error = look_at(path_, look);
  if (error != LedgerError::none) return error;
  if (look.kind == LedgerLook::Kind::absent || look.device != device_ || look.number != file_)
    return LedgerError::none;
  std::string name;
  const LedgerError moved = move_aside(path_, name);
  if (moved == LedgerError::none) {
    warnings_.push_back(
        fmt::format("the ledger {} was damaged: moved to {}; what it remembered is forgotten", path_, name));
  }
  return moved;
}

void Ledger::explain(LedgerError error) {
  warnings_.push_back(fmt::format("the ledger {} {}", path_, words_of(error)));
}

std::vector<std::string> Ledger::take_warnings() { return std::exchange(warnings_, {}); }

}  // namespace acp::shell
