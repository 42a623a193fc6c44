// Who counts as living: a run whose keyhop was killed, as long as its agent's processes are there.
#include "proxy/shell/ledger_owners.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <vector>

#include "proxy/shell/ledger.h"
#include "proxy/shell/process_tree.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/ledger_parts.h"
#include "tests/unit/shell_process.h"

namespace acp::shell {
namespace {

using test::batch_of;
using test::LifeSign;
using test::make_pipe;
using test::row_of;
using test::TemporaryDirectory;

// Starts its agent at once, or only when its row is written; says `written` to the client then.
template <bool starts_at_once>
class OwnerCore final : public test::ByteCore {
 public:
  void start(Instant now, Actions& actions) override {
    if (starts_at_once) ByteCore::start(now, actions);
  }
  void step(const Event& event, Instant now, Actions& actions) override {
    if (std::holds_alternative<LedgerOpened>(event)) {
      actions.commit(batch_of("s", {AddLedgerRow{row_of(1)}}));
    } else if (const auto* done = std::get_if<LedgerCommitted>(&event)) {
      actions.send(client_link, done->error == LedgerError::none ? "written\n" : "failed\n");
      if (!starts_at_once) ByteCore::start(now, actions);
    } else {
      ByteCore::step(event, now, actions);
    }
  }
};

void wait_for_children() {
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
}

LedgerSession session_at(const std::string& path) {
  Ledger ledger({.path = path, .patience = std::chrono::seconds(5)});
  LedgerSession found;
  CHECK(ledger.open() == LedgerError::none);
  CHECK(ledger.read("agent", "s", found) == LedgerError::none);
  return found;
}

pid_t parent_of(pid_t pid) {
  ProcessInfo info;
  return read_process(pid, info) ? info.parent : 0;
}

}  // namespace

TEST_CASE("a lock is its run's: others see it, and it ends with the last descriptor", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  auto one = std::make_unique<LedgerOwners>();
  LedgerOwners other;
  REQUIRE(one->open(path) == LedgerError::none);
  REQUIRE(other.open(path) == LedgerError::none);
  CHECK(one->hold(5) == LedgerError::none);
  CHECK(one->hold(1ULL << 40) == LedgerError::none);
  CHECK(other.hold(5) == LedgerError::busy);
  CHECK(other.hold(6) == LedgerError::none);
  CHECK(other.is_held_elsewhere(5));
  CHECK(other.is_held_elsewhere(1ULL << 40));
  CHECK_FALSE(other.is_held_elsewhere(4));
  CHECK_FALSE(other.is_held_elsewhere(6));
  CHECK_FALSE(one->is_held_elsewhere(5));
  LedgerOwners asks;
  REQUIRE(asks.open_to_ask(path) == LedgerError::none);
  CHECK(asks.is_held_elsewhere(5));
  CHECK_FALSE(asks.is_held_elsewhere(0));
  CHECK_FALSE(asks.is_held_elsewhere(~0ULL));
  Descriptor copy = one->copy();
  REQUIRE(copy.open());
  one.reset();
  CHECK(other.is_held_elsewhere(5));
  copy.reset();
  CHECK_FALSE(other.is_held_elsewhere(5));
  LedgerOwners nobody;
  CHECK(nobody.open_to_ask(directory.file("nothing")) == LedgerError::none);
  CHECK_FALSE(nobody.is_held_elsewhere(5));
}

TEST_CASE("a killed keyhop's run lives until its agent is gone, and the agent has no part in that",
          "[ledger]") {
  const auto kind = GENERATE(as<std::string>(), "started before the ledger is open", "started after",
                             "its first watchdog killed, too");
  CAPTURE(kind);
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  const LifeSign life(directory.file("life"));
  const std::string hold = directory.file("hold");
  REQUIRE(::mkfifo(hold.c_str(), 0600) == 0);
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto out = make_pipe();
  // Ignores TERM and waits for somebody who writes to `hold`.
  const std::string script = "trap '' TERM; exec 9>'" + life.path() + "'; ls -l /proc/$$/fd >'" +
                             directory.file("open") + "'; echo $$ >&9; read line <'" + hold + "'";
  test::Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.settings.ledger = LedgerSettings{.path = path, .patience = std::chrono::seconds(5)};
  keyhop.settings.orphan_grace = std::chrono::hours(1);
  auto in = make_pipe();
  if (kind == "started after") {
    keyhop.start<OwnerCore<false>>(script, in.reading.number(), out.writing.number(), null.number());
  } else {
    keyhop.start<OwnerCore<true>>(script, in.reading.number(), out.writing.number(), null.number());
  }
  out.writing.reset();
  CHECK(test::read_line(out.reading.number()) == "written");
  const pid_t agent = std::stoi(life.line());
  CHECK(test::read_file(directory.file("open")).find("-owners") == std::string::npos);
  CHECK(session_at(path).has_living_owner);

  if (kind.starts_with("its first")) {
    const pid_t first = parent_of(agent);
    REQUIRE(::kill(first, SIGKILL) == 0);
    // keyhop is the agent's parent now; it has another watchdog once that has the lock.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(test::patience_ms);
    const auto has_new_watchdog = [&] {
      ProcessList all;
      read_processes(all);
      for (const ProcessInfo& info : all) {
        if (info.parent == keyhop.pid() && info.pid != first && info.alive &&
            std::string(info.name) == watchdog_name)
          return true;
      }
      return false;
    };
    while (!has_new_watchdog() && std::chrono::steady_clock::now() < limit) {
    }
    REQUIRE(has_new_watchdog());
  }
  REQUIRE(::kill(keyhop.pid(), SIGKILL) == 0);
  CHECK(keyhop.status() == 128 + SIGKILL);
  CHECK(session_at(path).has_living_owner);
  CHECK(test::runs(agent));

  const Descriptor go(::open(hold.c_str(), O_WRONLY | O_CLOEXEC));
  test::write_all(go.number(), "go\n");
  CHECK(life.all_gone());
  wait_for_children();  // its watchdog came to this process
  const LedgerSession after = session_at(path);
  CHECK_FALSE(after.has_living_owner);
  REQUIRE(after.rows.size() == 1);
  CHECK(after.rows[0].run != 0);
}

TEST_CASE("a keyhop that ends by itself leaves no living run", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto out = make_pipe();
  test::Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.settings.ledger = LedgerSettings{.path = path, .patience = std::chrono::seconds(5)};
  keyhop.start<OwnerCore<false>>("exit 7", null.number(), out.writing.number(), null.number());
  out.writing.reset();
  CHECK(test::read_all(out.reading.number()) == "written\n");
  CHECK(keyhop.status() == 7);
  wait_for_children();
  CHECK_FALSE(session_at(path).has_living_owner);
}

}  // namespace acp::shell
