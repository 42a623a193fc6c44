// The ledger's file: modes, journals, what is moved aside and what is never touched, and every way in which
// it cannot be written.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "proxy/shell/launcher.h"
#include "proxy/shell/ledger.h"
#include "proxy/shell/ledger_list.h"
#include "proxy/shell/ledger_schema.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/ledger_parts.h"

namespace acp::shell {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using test::batch_of;
using test::make_pipe;
using test::OtherProgram;
using test::print_of;
using test::read_file;
using test::row_of;
using test::TemporaryDirectory;

LedgerSettings settings_for(const std::string& path, Duration patience = std::chrono::seconds(5)) {
  return {.path = path, .patience = patience};
}

LedgerError open_once(const std::string& path, std::vector<std::string>* warnings = nullptr) {
  Ledger ledger(settings_for(path, milliseconds(100)));
  const LedgerError error = ledger.open();
  if (warnings != nullptr) *warnings = ledger.take_warnings();
  return error;
}

LedgerError add(Ledger& ledger, int key, const std::string& session = "s") {
  const std::vector<LedgerBatch> batches{batch_of(session, {AddLedgerRow{row_of(key)}})};
  return ledger.commit(batches).front();
}

std::size_t rows_of(Ledger& ledger, const std::string& session = "s") {
  LedgerSession found;
  return ledger.read("agent", session, found) == LedgerError::none ? found.rows.size() : 999;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

unsigned mode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 07777U : 0U;
}

// Runs that in a process of its own; its result there as the exit status.
pid_t run_apart(const std::function<int()>& part) {
  const pid_t pid = fork_plainly();
  if (pid == 0) ::_exit(part());
  return pid;
}
int status_of(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A ledger with a row that nobody has open.
void make_ledger(const std::string& path, int rows = 1, LedgerState state = LedgerState::open) {
  Ledger ledger(settings_for(path));
  REQUIRE(ledger.open() == LedgerError::none);
  std::vector<LedgerBatch> batches;
  for (int key = 1; key <= rows; ++key) batches.push_back(batch_of("s", {AddLedgerRow{row_of(key, state)}}));
  for (const LedgerError error : ledger.commit(batches)) REQUIRE(error == LedgerError::none);
}

}  // namespace

TEST_CASE("the ledger and all beside it are its user's alone, whatever the umask", "[ledger]") {
  const auto mask = GENERATE(as<mode_t>(), 0, 022, 0377);
  CAPTURE(mask);
  const TemporaryDirectory directory;
  const std::string path = directory.file("a/b/ledger.db");
  REQUIRE(::mkdir(directory.file("a").c_str(), 0755) == 0);
  const mode_t before = ::umask(mask & 0077);
  if (mask > 0077) REQUIRE(::mkdir(directory.file("a/b").c_str(), 0700) == 0);
  ::umask(mask);
  Ledger ledger(settings_for(path));
  const LedgerError opened = ledger.open();
  const LedgerError added = add(ledger, 1);
  ::umask(before);
  CHECK(opened == LedgerError::none);
  CHECK(added == LedgerError::none);
  CHECK(mode_of(directory.file("a/b")) == 0700);
  const std::vector<std::string> names{"ledger.db", "ledger.db-owners", "ledger.db-shm", "ledger.db-wal"};
  CHECK(names_in(directory.file("a/b")) == names);
  for (const auto& name : names) {
    CAPTURE(name);
    CHECK(mode_of(directory.file("a/b/" + name)) == 0600);
  }
}

TEST_CASE("a ledger that others could read is theirs no longer", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  make_ledger(path);
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(open_once(path) == LedgerError::none);
  CHECK(mode_of(path) == 0600);
}

TEST_CASE("any path is a file's name and nothing else", "[ledger]") {
  const auto name = GENERATE(as<std::string>(), "a b", "a?mode=memory", "a%20#b", "a'\"b", "ä");
  const TemporaryDirectory directory;
  make_ledger(directory.file(name));
  CHECK(names_in(directory.file(".")) == std::vector<std::string>{name, name + "-owners"});
  make_ledger("/" + directory.file(name + ".2"));
  CHECK(fs::exists(directory.file(name + ".2")));
}

TEST_CASE("commits last by log and sync where one machine has the disk, else without a log", "[ledger]") {
  const bool is_local = GENERATE(true, false);
  CAPTURE(is_local);
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  make_ledger(path);  // with a log: /tmp is local
  for (int run = 0; run < 2; ++run) {
    Ledger ledger({.path = path, .patience = std::chrono::seconds(5), .is_local = is_local});
    REQUIRE(ledger.open() == LedgerError::none);
    CHECK(rows_of(ledger) == static_cast<std::size_t>(1 + run));
    CHECK(add(ledger, 10 + run) == LedgerError::none);
    CHECK(fs::exists(path + "-wal") == is_local);
    CHECK(fs::exists(path + "-shm") == is_local);
    OtherProgram other(path);
    CHECK(other.text("PRAGMA journal_mode") == (is_local ? "wal" : "delete"));
    CHECK(other.run("BEGIN IMMEDIATE; COMMIT"));  // nothing is kept locked
  }
  CHECK(open_once(path) == LedgerError::none);
}

TEST_CASE("a newer ledger is not touched", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  make_ledger(path);
  const bool only_in_log = GENERATE(false, true);
  CAPTURE(only_in_log);
  auto newer = std::make_unique<OtherProgram>(path);
  REQUIRE(newer->run("PRAGMA user_version = 2"));
  if (!only_in_log) newer.reset();
  const std::string bytes = read_file(path);
  const auto names = names_in(directory.file("."));
  std::vector<std::string> warnings;
  CHECK(open_once(path, &warnings) == LedgerError::newer);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find(path) != std::string::npos);
  CHECK((read_file(path) == bytes));
  CHECK(names_in(directory.file(".")) == names);
  bool is_there = false;
  std::vector<LedgerEntry> entries;
  Forgotten forgotten;
  CHECK(list_ledger(path, is_there, entries) == LedgerError::newer);
  CHECK(forget_in_ledger(path, "s", forgotten) == LedgerError::newer);
  CHECK((read_file(path) == bytes));
  CHECK(names_in(directory.file(".")) == names);
}

TEST_CASE("somebody else's file is not touched", "[ledger]") {
  const auto kind = GENERATE(as<std::string>(), "database", "text", "fifo", "directory");
  CAPTURE(kind);
  const TemporaryDirectory directory;
  const std::string path = directory.file("notes");
  if (kind == "database") OtherProgram(path).run("CREATE TABLE notes (text); INSERT INTO notes VALUES (1)");
  if (kind == "text") write_file(path, std::string(5000, 'x'));
  if (kind == "fifo") REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  if (kind == "directory") REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  const std::string bytes = fs::is_regular_file(path) ? read_file(path) : "";
  for (int time = 0; time < 2; ++time) CHECK(open_once(path) == LedgerError::failed);
  bool is_there = false;
  std::vector<LedgerEntry> entries;
  CHECK(list_ledger(path, is_there, entries) == LedgerError::failed);
  if (fs::is_regular_file(path)) CHECK((read_file(path) == bytes));
  CHECK(fs::exists(path));
}

TEST_CASE("a damaged ledger is moved aside once, however many find it, and kept", "[ledger]") {
  const auto kind = GENERATE(as<std::string>(), "text", "cut", "no header", "a page", "no salt");
  CAPTURE(kind);
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  make_ledger(path, 50);
  std::string bytes = read_file(path);
  if (kind == "text") bytes = "not a database\n";
  if (kind == "cut") bytes.resize(bytes.size() / 2 + 100);
  if (kind == "no header") std::fill_n(bytes.begin(), 100, '\0');
  if (kind == "a page") std::fill(bytes.begin() + 4096 + 8, bytes.end(), '\x55');
  if (kind == "no salt") {
    OtherProgram(path).run("UPDATE meta SET salt = x'00'");
    bytes = read_file(path);
  } else {
    write_file(path, bytes);
  }
  // All at once: they wait for the pipe's end of file.
  auto gate = make_pipe();
  std::vector<pid_t> openers;
  for (int opener = 0; opener < 4; ++opener) {
    openers.push_back(run_apart([&] {
      gate.writing.reset();
      test::read_all(gate.reading.number());
      Ledger ledger(settings_for(path, milliseconds(test::patience_ms)));
      if (ledger.open() != LedgerError::none) return 100;
      return static_cast<int>(ledger.take_warnings().size());
    }));
  }
  gate.writing.reset();
  int said = 0;
  for (const pid_t opener : openers) said += status_of(opener);
  CHECK(said == 1);
  std::vector<std::string> moved;
  for (const auto& name : names_in(directory.file("."))) {
    const bool is_beside = name.ends_with("-wal") || name.ends_with("-shm");
    if (name.find(".broken-") != std::string::npos && !is_beside) moved.push_back(name);
  }
  REQUIRE(moved.size() == 1);
  CHECK((read_file(directory.file(moved[0])) == bytes));
  Ledger fresh(settings_for(path));
  REQUIRE(fresh.open() == LedgerError::none);
  CHECK(rows_of(fresh) == 0);
  CHECK(add(fresh, 1) == LedgerError::none);
}

TEST_CASE("damage that is met later ends the ledger for this run, and the next one begins anew", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  make_ledger(path, 12000, LedgerState::inserted);  // too much to be looked through at once
  std::string bytes = read_file(path);
  REQUIRE(bytes.size() > (1U << 20));
  std::fill(bytes.begin() + 60 * 1024, bytes.end(), '\x55');
  write_file(path, bytes);
  Ledger ledger(settings_for(path));
  REQUIRE(ledger.open() == LedgerError::none);
  LedgerSession found;
  CHECK(ledger.read("agent", "s", found) == LedgerError::broken);
  CHECK(found.rows.empty());
  CHECK(ledger.read("agent", "other", found) == LedgerError::broken);
  CHECK(add(ledger, 1) == LedgerError::broken);
  CHECK_FALSE(fs::exists(path));
  CHECK_FALSE(ledger.take_warnings().empty());
  // Its number is still locked, so a fresh ledger gives out the next one.
  Ledger fresh(settings_for(path));
  REQUIRE(fresh.open() == LedgerError::none);
  CHECK(fresh.run() != ledger.run());
  CHECK(rows_of(fresh) == 0);
}

TEST_CASE("a directory or file that may not be written is said, and nothing is committed", "[ledger]") {
  const auto kind = GENERATE(as<std::string>(), "directory", "missing below", "file", "owners");
  CAPTURE(kind);
  const TemporaryDirectory directory;
  const std::string path = directory.file("a/ledger.db");
  REQUIRE(::mkdir(directory.file("a").c_str(), 0755) == 0);
  make_ledger(path);
  const std::string wanted = kind == "missing below" ? directory.file("a/b/c/ledger.db") : path;
  const bool closed = kind == "directory" || kind == "missing below";
  REQUIRE(::chmod(directory.file(".").c_str(), 0755) == 0);
  REQUIRE(::chmod(path.c_str(), kind == "file" ? 0444 : 0666) == 0);
  REQUIRE(::chmod((path + "-owners").c_str(), kind == "owners" ? 0444 : 0666) == 0);
  REQUIRE(::chmod(directory.file("a").c_str(), closed ? 0555 : 0777) == 0);
  const int status = status_of(run_apart([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 101;
    Ledger ledger(settings_for(wanted));
    const LedgerError error = ledger.open();
    if (add(ledger, 1) != error || ledger.take_warnings().size() != 1) return 102;
    return static_cast<int>(error);
  }));
  CHECK(status == static_cast<int>(LedgerError::not_writable));
  REQUIRE(::chmod(directory.file("a").c_str(), 0755) == 0);
}

TEST_CASE("a full disk is said, and what was committed before stays", "[ledger]") {
  const bool from_the_start = GENERATE(true, false);
  CAPTURE(from_the_start);
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  if (!from_the_start) make_ledger(path);
  const int status = status_of(run_apart([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{from_the_start ? 2000U : 300'000U, 1'000'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Ledger ledger(settings_for(path));
    const LedgerError opened = ledger.open();
    if (opened != LedgerError::none) return static_cast<int>(opened);
    int added = 0;
    LedgerError error = LedgerError::none;
    for (; added < 2000 && error == LedgerError::none; ++added) error = add(ledger, 100 + added);
    if (added < 10 || rows_of(ledger) != static_cast<std::size_t>(added)) return 103;
    return static_cast<int>(error);
  }));
  CHECK(status == static_cast<int>(LedgerError::full));
  Ledger after(settings_for(path));
  REQUIRE(after.open() == LedgerError::none);
  CHECK(rows_of(after) == (from_the_start ? 0 : rows_of(after)));
  CHECK(rows_of(after) != 999);
  CHECK(add(after, 5000) == LedgerError::none);
}

TEST_CASE("a locked ledger is waited for, but not for ever", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  Ledger ledger(settings_for(path, milliseconds(60)));
  REQUIRE(ledger.open() == LedgerError::none);
  OtherProgram other(path);
  REQUIRE(other.run("BEGIN IMMEDIATE"));
  CHECK(add(ledger, 1) == LedgerError::busy);
  CHECK(rows_of(ledger) == 0);  // reading goes on
  REQUIRE(other.run("COMMIT"));
  CHECK(add(ledger, 1) == LedgerError::none);

  Ledger patient(settings_for(path, std::chrono::hours(1)));
  REQUIRE(patient.open() == LedgerError::none);
  REQUIRE(other.run("BEGIN IMMEDIATE"));
  patient.hurry(milliseconds(20));
  CHECK(add(patient, 2) == LedgerError::busy);
  REQUIRE(other.run("COMMIT"));
  CHECK(add(patient, 2) == LedgerError::none);
}

TEST_CASE("an opener that hangs is waited for, but not for ever", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  LedgerWait wait(milliseconds(100));
  LedgerOwners hanging;
  REQUIRE(hanging.open(path) == LedgerError::none);
  REQUIRE(hanging.enter(wait) == LedgerError::none);
  CHECK(open_once(path) == LedgerError::busy);
  hanging.leave();
  CHECK(open_once(path) == LedgerError::none);
}

TEST_CASE("an older schema is brought up step by step, or not at all", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  make_ledger(path);
  LedgerWait wait(milliseconds(100));
  Database database;
  REQUIRE(database.open(path, Database::Access::read_write, wait) == LedgerError::none);
  const auto mark_of = [&] {
    LedgerMark mark;
    CHECK(read_mark(database, mark) == LedgerError::none);
    return mark;
  };
  CHECK(mark_of().version == ledger_version());
  std::vector<const char*> steps(ledger_steps().begin(), ledger_steps().end());
  steps.push_back("ALTER TABLE sessions ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'");
  steps.push_back("UPDATE sessions SET colour = 'blue'; CREATE TABLE extra (place INTEGER)");

  steps.push_back("no SQL");
  REQUIRE(database.run("BEGIN IMMEDIATE") == LedgerError::none);
  CHECK(migrate(database, steps) == LedgerError::failed);
  database.roll_back();
  CHECK(mark_of().version == ledger_version());

  steps.pop_back();
  REQUIRE(database.run("BEGIN IMMEDIATE") == LedgerError::none);
  CHECK(migrate(database, steps) == LedgerError::none);
  CHECK(migrate(database, steps) == LedgerError::none);  // nothing is left to do
  REQUIRE(database.run("COMMIT") == LedgerError::none);
  CHECK(mark_of().version == ledger_version() + 2);
  CHECK(mark_of().application == ledger_application_id);
  OtherProgram other(path);
  CHECK(other.text("SELECT colour FROM sessions") == "blue");
  CHECK(other.text("SELECT count(*) FROM keyed_prompts") == "1");
  CHECK(open_once(path) == LedgerError::newer);
}

}  // namespace acp::shell
