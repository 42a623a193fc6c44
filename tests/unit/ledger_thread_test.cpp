// The ledger's thread: order, group commit, the end, and that a process forks safely beside it.
#include "proxy/shell/ledger_thread.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/descriptors.h"
#include "tests/unit/ledger_parts.h"
#include "tests/unit/shell_process.h"

namespace acp::shell {
namespace {

using std::chrono::milliseconds;
using test::batch_of;
using test::make_pipe;
using test::OtherProgram;
using test::row_of;
using test::TemporaryDirectory;

// A thread with its loop, and what it told.
class Told {
 public:
  Told() {
    uv_loop_init(&loop_);
    limit_.open(this, [&](uv_timer_t* timer) { return uv_timer_init(&loop_, timer); });
    uv_timer_start(
        limit_.get(), [](uv_timer_t* timer) { static_cast<Told*>(timer->data)->late_ = true; },
        test::patience_ms, 0);
    // Wakes the loop now and then: the end of a thread that hangs is a matter of time.
    tick_.open(this, [&](uv_timer_t* timer) { return uv_timer_init(&loop_, timer); });
    uv_timer_start(
        tick_.get(), [](uv_timer_t*) {}, 50, 50);
    LedgerThread::Callbacks callbacks;
    callbacks.warning = [this](std::string_view text) {
      words.emplace_back("warning: " + std::string(text));
    };
    callbacks.opened = [this](LedgerError error, const Salt* salt, Descriptor given) {
      CHECK((salt == nullptr) == (error != LedgerError::none));
      CHECK(given.open() == (error == LedgerError::none));
      opened = error;
      words.emplace_back("opened");
    };
    callbacks.committed = [this](std::uint64_t ticket, LedgerError error) {
      words.push_back("committed " + std::to_string(ticket));
      errors.push_back(error);
    };
    callbacks.read = [this](std::uint64_t ticket, LedgerError error, const LedgerSession* session) {
      CHECK((session == nullptr) == (error != LedgerError::none));
      words.push_back("read " + std::to_string(ticket) + ": " +
                      (session == nullptr ? "none" : std::to_string(session->rows.size())));
    };
    thread = std::make_unique<LedgerThread>(&loop_, std::move(callbacks));
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  ~Told() {
    thread.reset();
    limit_.reset();
    tick_.reset();
    while (uv_run(&loop_, UV_RUN_NOWAIT) != 0) {
    }
    uv_loop_close(&loop_);
  }

  bool until(const std::function<bool()>& condition) {
    while (!condition() && !late_) uv_run(&loop_, UV_RUN_ONCE);
    return condition();
  }
  bool until_told(std::size_t count) {
    return until([&] { return words.size() >= count; });
  }
  bool until_finished() {
    thread->finish();
    return until([&] { return thread->finished(); });
  }

  std::unique_ptr<LedgerThread> thread;
  LedgerError opened = LedgerError::failed;
  std::vector<std::string> words;
  std::vector<LedgerError> errors;

 private:
  uv_loop_t loop_{};
  Handle<uv_timer_t> limit_;
  Handle<uv_timer_t> tick_;
  bool late_ = false;
};

LedgerSettings settings_for(const std::string& path, Duration patience = std::chrono::seconds(5)) {
  return {.path = path, .patience = patience};
}

// Adds rows without end, starts agents beside that, and ends after many of them.
class BusyCore final : public Core {
 public:
  void start(Instant, Actions& actions) override { start_agent(actions); }
  void step(const Event& event, Instant, Actions& actions) override {
    if (const auto* ledger = std::get_if<LedgerOpened>(&event)) {
      is_usable_ = ledger->error == LedgerError::none;
      for (int count = 0; count < 20; ++count) add(actions);
    } else if (const auto* done = std::get_if<LedgerCommitted>(&event)) {
      is_usable_ = is_usable_ && done->error == LedgerError::none;
      ++committed_;
      add(actions);
    } else if (std::holds_alternative<AgentExited>(event)) {
      actions.add(EndAgent{Epoch{epoch_}, Duration::zero()});
    } else if (std::holds_alternative<AgentEnded>(event)) {
      if (epoch_ < 60) {
        start_agent(actions);
      } else {
        actions.add(Exit{is_usable_ && committed_ > 0 ? 42 : 1});
      }
    } else if (std::holds_alternative<AgentStartFailed>(event)) {
      actions.add(Exit{2});
    }
  }
  std::optional<Instant> next_deadline() const override { return std::nullopt; }

 private:
  void start_agent(Actions& actions) {
    ++epoch_;
    actions.add(StartAgent{Epoch{epoch_}, LinkId{epoch_ + 1}});
  }
  void add(Actions& actions) {
    ++rows_;
    actions.commit(batch_of("s" + std::to_string(rows_ % 50), {AddLedgerRow{row_of(rows_)}}));
  }

  std::uint32_t epoch_ = 0;
  int rows_ = 0;
  int committed_ = 0;
  bool is_usable_ = false;
};

// Orders a hundred rows and its own end in one step.
class HastyCore final : public Core {
 public:
  void start(Instant, Actions&) override {}
  void step(const Event& event, Instant, Actions& actions) override {
    if (!std::holds_alternative<LedgerOpened>(event)) return;
    for (int key = 0; key < 100; ++key) actions.commit(batch_of("s", {AddLedgerRow{row_of(key)}}));
    actions.add(Exit{42});
  }
  std::optional<Instant> next_deadline() const override { return std::nullopt; }
};

}  // namespace

TEST_CASE("a hundred batches that wait together are three transactions at most, told in order", "[ledger]") {
  const TemporaryDirectory directory;
  Told told;
  REQUIRE(told.thread->start(settings_for(directory.file("ledger.db"))));
  REQUIRE(told.until_told(1));
  CHECK(told.opened == LedgerError::none);
  std::vector<std::string> wanted{"opened"};
  for (int key = 0; key < 100; ++key) {
    told.thread->commit(batch_of("s", {AddLedgerRow{row_of(key)}}, static_cast<std::uint64_t>(key)));
    wanted.push_back("committed " + std::to_string(key));
  }
  told.thread->read(7, "agent", "s");
  wanted.emplace_back("read 7: 100");
  REQUIRE(told.until_told(wanted.size()));
  CHECK(told.words == wanted);
  CHECK(told.errors == std::vector(100, LedgerError::none));
  CHECK(told.thread->transactions() >= 1);
  CHECK(told.thread->transactions() <= 3);
}

TEST_CASE("what is read are the batches before and not those after", "[ledger]") {
  const TemporaryDirectory directory;
  Told told;
  // Ordered before it is open: it waits.
  REQUIRE(told.thread->start(settings_for(directory.file("ledger.db"))));
  for (int key = 0; key < 10; ++key) {
    const auto ticket = static_cast<std::uint64_t>(key);
    told.thread->commit(batch_of("s", {AddLedgerRow{row_of(key)}}, ticket));
    told.thread->read(ticket, "agent", "s");
  }
  REQUIRE(told.until_told(21));
  for (std::size_t key = 0; key < 10; ++key) {
    CHECK(told.words[1 + 2 * key] == "committed " + std::to_string(key));
    CHECK(told.words[2 + 2 * key] == "read " + std::to_string(key) + ": " + std::to_string(key + 1));
  }
}

TEST_CASE("a conflict is told to the batch that met it", "[ledger]") {
  const TemporaryDirectory directory;
  Told told;
  REQUIRE(told.thread->start(settings_for(directory.file("ledger.db"))));
  for (int count = 0; count < 3; ++count)
    told.thread->commit(batch_of("s", {AddLedgerRow{row_of(count == 1 ? 0 : count)}}));
  REQUIRE(told.until_told(4));
  CHECK(told.errors == std::vector{LedgerError::none, LedgerError::conflict, LedgerError::none});
}

TEST_CASE("a ledger that cannot be used says so once, and to every order", "[ledger]") {
  Told told;
  REQUIRE(told.thread->start(settings_for("/dev/null/ledger.db")));
  told.thread->commit(batch_of("s", {AddLedgerRow{row_of(1)}}, 1));
  told.thread->read(2, "agent", "s");
  REQUIRE(told.until_told(4));
  CHECK(told.words[0].starts_with("warning: the ledger /dev/null/ledger.db "));
  CHECK(told.words[1] == "opened");
  CHECK(told.opened == LedgerError::not_writable);
  CHECK(told.words[2] == "committed 1");
  CHECK(told.errors[0] == LedgerError::not_writable);
  CHECK(told.words[3] == "read 2: none");
}

TEST_CASE("what was ordered before the end is on the disk after it", "[ledger]") {
  const bool is_told_to_finish = GENERATE(true, false);
  CAPTURE(is_told_to_finish);
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  {
    Told told;
    REQUIRE(told.thread->start(settings_for(path)));
    for (int key = 0; key < 50; ++key) told.thread->commit(batch_of("s", {AddLedgerRow{row_of(key)}}));
    if (is_told_to_finish) CHECK(told.until_finished());
  }
  CHECK(OtherProgram(path).text("SELECT count(*) FROM keyed_prompts") == "50");
}

TEST_CASE("at the end a ledger that somebody keeps locked is not waited for as usual", "[ledger]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  Told told;
  REQUIRE(told.thread->start(settings_for(path, std::chrono::hours(1))));
  REQUIRE(told.until_told(1));
  OtherProgram other(path);
  REQUIRE(other.run("BEGIN IMMEDIATE"));
  told.thread->commit(batch_of("s", {AddLedgerRow{row_of(1)}}));
  CHECK(told.until_finished());
  REQUIRE(told.until_told(2));
  CHECK(told.errors[0] == LedgerError::busy);
  REQUIRE(other.run("COMMIT"));
}

TEST_CASE("keyhop ends only once what its core ordered is on the disk", "[ledger]") {
  const TemporaryDirectory directory;
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  test::Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.settings.ledger = settings_for(directory.file("ledger.db"));
  keyhop.start<HastyCore>("true", null.number(), null.number(), null.number());
  CHECK(keyhop.status() == 42);
  CHECK(OtherProgram(directory.file("ledger.db")).text("SELECT count(*) FROM keyed_prompts") == "100");
}

TEST_CASE("agents start and end while the ledger's thread writes without a pause", "[ledger]") {
  const TemporaryDirectory directory;
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  test::Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.settings.ledger = settings_for(directory.file("ledger.db"));
  keyhop.setup = [] { ::alarm(120); };  // a watchdog that waits for a lock would never end
  keyhop.start<BusyCore>("true", null.number(), null.number(), null.number());
  CHECK(keyhop.status() == 42);
}

}  // namespace acp::shell
