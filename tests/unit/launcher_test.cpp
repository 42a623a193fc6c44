#include "proxy/shell/launcher.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <variant>
#include <vector>

#include "proxy/shell/process.h"
#include "proxy/shell/process_tree.h"
#include "proxy/shell/signals.h"
#include "tests/unit/descriptors.h"

namespace acp::shell {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::LifeSign;
using test::TemporaryDirectory;

using Pids = std::vector<pid_t>;

// Runs one agent epoch on a loop as the Shell does, and keeps what it told.
class Epochs {
 public:
  Epochs() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    uv_loop_init(&loop_);
    limit_.open(this, [&](uv_timer_t* timer) { return uv_timer_init(&loop_, timer); });
    uv_timer_start(
        limit_.get(), [](uv_timer_t* timer) { static_cast<Epochs*>(timer->data)->late_ = true; },
        test::patience_ms, 0);
    signals_ = std::make_unique<Signals>(&loop_, [this](int number) {
      if (number == SIGCHLD) reap();
    });
  }
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;
  ~Epochs() {
    agent_.reset();
    signals_.reset();
    limit_.reset();
    while (uv_run(&loop_, UV_RUN_NOWAIT) != 0) {
    }
    uv_loop_close(&loop_);
  }

  int start(std::vector<std::string> command, Duration orphan_grace = seconds(1)) {
    AgentProcess::Callbacks callbacks;
    callbacks.event = [this](const Event& event) { on_event(event); };
    callbacks.left_alone = [this](std::int64_t pid, std::string_view) {
      left_alone.push_back(static_cast<pid_t>(pid));
    };
    callbacks.warning = [this](std::string_view) { ++warnings; };
    agent_ = std::make_unique<AgentProcess>(&loop_, buffer_, Epoch{1}, std::move(callbacks));
    Launch order;
    order.command = std::move(command);
    order.environment = agent_environment(environ);
    order.orphan_grace = orphan_grace;
    return agent_->start(order, input, output);
  }
  int start_script(const std::string& script) { return start({"sh", "-c", script}); }

  AgentProcess& process() { return *agent_; }
  bool until(const std::function<bool()>& condition) {
    while (!condition() && !late_) uv_run(&loop_, UV_RUN_ONCE);
    return condition();
  }
  bool until_started() {
    return until([&] { return agent_pid != 0; });
  }
  bool until_gone() {
    return until([&] { return agent_->gone(); });
  }
  pid_t watchdog() const {
    ProcessInfo info;
    return read_process(agent_pid, info) ? info.parent : 0;
  }

  Descriptor input;
  Descriptor output;
  pid_t agent_pid = 0;
  std::string words;
  std::vector<std::string> events;  // in order
  ExitStatus status;
  int start_error = 0;
  std::vector<pid_t> left_alone;
  int warnings = 0;
  std::string words_at_exit;

 private:
  void on_event(const Event& event) {
    if (const auto* started = std::get_if<AgentStarted>(&event)) {
      agent_pid = static_cast<pid_t>(started->pid);
      events.emplace_back("started");
    } else if (const auto* failed = std::get_if<AgentStartFailed>(&event)) {
      start_error = failed->error;
      events.emplace_back("start failed");
    } else if (const auto* exited = std::get_if<AgentExited>(&event)) {
      status = exited->status;
      words_at_exit = words;
      events.emplace_back("exited");
    } else if (std::holds_alternative<AgentEnded>(event)) {
      events.emplace_back("ended");
    } else if (const auto* read = std::get_if<StderrRead>(&event)) {
      words += read->bytes;
    }
  }

  void reap() {
    if (!agent_) return;
    agent_->read_reports();
    int found = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &found, WNOHANG)) > 0;) agent_->child_exited(child, found);
  }

  uv_loop_t loop_{};
  Handle<uv_timer_t> limit_;
  ReadBuffer buffer_;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<AgentProcess> agent_;
  bool late_ = false;
};

// The watchdog among this process's children; a new one needs a moment until it has its name, an old one
// until it is gone.
pid_t wait_for_watchdog(pid_t other_than) {
  const auto limit = std::chrono::steady_clock::now() + milliseconds(test::patience_ms);
  ProcessList all;
  while (std::chrono::steady_clock::now() < limit) {
    read_processes(all);
    for (const ProcessInfo& info : all) {
      if (info.parent == ::getpid() && info.pid != other_than && info.alive &&
          std::string(info.name) == watchdog_name)
        return info.pid;
    }
  }
  return 0;
}

const std::vector<std::string> whole_life = {"started", "exited", "ended"};

}  // namespace

TEST_CASE("the agent gets no variable of keyhop's own") {
  const char* const environment[] = {"A=1", "KEYHOP_KEYS=forward", "KEYHOP_LOG_LEVEL=debug", "B", nullptr};
  CHECK(agent_environment(environment) == std::vector<std::string>{"A=1", "B"});
}

TEST_CASE("an agent runs in its own session, with blocking stdio and default signals, below its watchdog") {
  ::signal(SIGPIPE, SIG_IGN);
  Epochs epochs;
  const char* const script = R"sh(
    for n in 0 1 2; do grep flags /proc/self/fdinfo/$n; done
    grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status
    cut -d' ' -f1,5,6 /proc/$$/stat
    echo done; read line; echo "got $line"; exit 3)sh";
  REQUIRE(epochs.start_script(script) == 0);
  REQUIRE(epochs.until_started());
  ::fcntl(epochs.output.number(), F_SETFL, 0);
  std::vector<std::string> lines;
  for (std::string line; (line = test::read_line(epochs.output.number())) != "done";) lines.push_back(line);
  REQUIRE(lines.size() == 7);
  for (int index = 0; index < 3; ++index) {
    const long flags = std::stol(lines[static_cast<std::size_t>(index)].substr(6), nullptr, 8);
    CHECK((flags & O_NONBLOCK) == 0);
  }
  CHECK(std::stoull(lines[3].substr(7), nullptr, 16) == 0);
  CHECK(std::stoull(lines[4].substr(7), nullptr, 16) == 0);
  const std::string pid = std::to_string(epochs.agent_pid);
  CHECK(lines[6] == pid + " " + pid + " " + pid);
  for (int number = 3; number < 1024; ++number) {
    CHECK(::access(("/proc/" + pid + "/fd/" + std::to_string(number)).c_str(), F_OK) != 0);
  }
  const pid_t watchdog = epochs.watchdog();
  ProcessInfo info;
  REQUIRE(read_process(watchdog, info));
  CHECK(info.session == watchdog);
  CHECK(info.parent == ::getpid());
  CHECK(std::string(info.name) == watchdog_name);
  test::write_all(epochs.input.number(), "hello\n");
  CHECK(test::read_line(epochs.output.number()) == "got hello");
  REQUIRE(epochs.until([&] { return epochs.events.back() == "exited"; }));
  CHECK(epochs.status == ExitStatus{ExitStatus::Kind::exited, 3});
  epochs.process().end(seconds(0));
  REQUIRE(epochs.until_gone());
  CHECK(epochs.events == whole_life);
}

TEST_CASE("a command that cannot be executed says why, and nothing else follows") {
  const TemporaryDirectory directory;
  test::write_all(
      Descriptor(::open(directory.file("plain").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).number(),
      "not a program");
  const auto [name, error] = GENERATE(table<std::string, int>({
      {"/no/such/agent", ENOENT},
      {"no-such-agent-in-path", ENOENT},
      {"plain", EACCES},
  }));
  const std::string command = name == "plain" ? directory.file(name) : name;
  Epochs epochs;
  REQUIRE(epochs.start(std::vector<std::string>{command}) == 0);
  REQUIRE(epochs.until_gone());
  CHECK(epochs.events == std::vector<std::string>{"start failed"});
  CHECK(epochs.start_error == error);
}

TEST_CASE("an exit by signal is told as such, and the agent's last words come first") {
  Epochs epochs;
  REQUIRE(epochs.start_script("printf 'last words' >&2; kill -SEGV $$") == 0);
  REQUIRE(epochs.until([&] { return !epochs.events.empty() && epochs.events.back() == "exited"; }));
  CHECK(epochs.status == ExitStatus{ExitStatus::Kind::signalled, SIGSEGV});
  CHECK(epochs.words_at_exit == "last words");
  epochs.process().end(seconds(5));
  REQUIRE(epochs.until_gone());
  CHECK(epochs.events == whole_life);
}

TEST_CASE("TERM is enough for those that obey, long before the grace is over") {
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Epochs epochs;
  REQUIRE(epochs.start_script("exec 9>" + life.path() +
                              "; trap 'exit 7' TERM; echo up >&9; while :; do sleep 600 & wait; done") == 0);
  REQUIRE(epochs.until_started());
  CHECK(life.line() == "up");
  const auto before = std::chrono::steady_clock::now();
  epochs.process().end(seconds(600));
  REQUIRE(epochs.until_gone());
  CHECK(std::chrono::steady_clock::now() - before < seconds(60));
  CHECK(life.all_gone());
  CHECK(epochs.status == ExitStatus{ExitStatus::Kind::exited, 7});
}

namespace {

// Each leaves something behind that a plain kill of the agent does not reach. FD 9 tells who lives.
struct Stubborn {
  const char* what;
  const char* script;
};
const Stubborn stubborn_trees[] = {
    {"ignores TERM", "trap '' TERM HUP; echo up >&9; while :; do sleep 600; done"},
    {"a child behind a launcher ignores TERM",
     "sh -c \"trap '' TERM HUP; echo up >&9; while :; do sleep 600; done\"; :"},
    {"stopped", "(kill -STOP $(sh -c 'echo $PPID')) & echo up >&9; wait; sleep 600"},
    {"own process group", "set -m; sh -c \"trap '' TERM; echo up >&9; sleep 600\" & wait"},
    {"own session below the agent", "setsid sh -c \"trap '' TERM; echo up >&9; sleep 600; :\" & wait"},
    {"an orphan that leads its own session, with children",
     "sh -c 'setsid sh -c \"trap \\\"\\\" TERM; sleep 600 & echo up >&9; wait\" & exit 0'; sleep 600"},
    {"the agent is gone, its session is not", "sh -c \"trap '' TERM; echo up >&9; sleep 600; :\" & exit 0"},
};

}  // namespace

TEST_CASE("nothing of a stubborn tree survives") {
  const Stubborn tree = GENERATE(from_range(std::begin(stubborn_trees), std::end(stubborn_trees)));
  CAPTURE(tree.what);
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Epochs epochs;
  REQUIRE(epochs.start_script("exec 9>" + life.path() + "; " + tree.script) == 0);
  REQUIRE(epochs.until_started());
  CHECK(life.line() == "up");
  epochs.process().end(milliseconds(50));
  REQUIRE(epochs.until_gone());
  CHECK(life.all_gone());
  CHECK(epochs.events == whole_life);
  CHECK(epochs.left_alone.empty());
}

TEST_CASE("a later order with a shorter grace holds, a longer one does not") {
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Epochs epochs;
  REQUIRE(epochs.start_script("exec 9>" + life.path() +
                              "; trap '' TERM; echo up >&9; while :; do sleep 600; done") == 0);
  REQUIRE(epochs.until_started());
  CHECK(life.line() == "up");
  epochs.process().end(seconds(600));
  epochs.process().end(milliseconds(1));
  epochs.process().end(seconds(600));
  REQUIRE(epochs.until_gone());
  CHECK(life.all_gone());
  CHECK(epochs.status == ExitStatus{ExitStatus::Kind::signalled, SIGKILL});
}

TEST_CASE("a daemon on purpose is left alone and named") {
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Epochs epochs;
  // Twice forked: the session's leader is gone, the daemon is nobody's child.
  REQUIRE(epochs.start_script("setsid sh -c 'sh -c \"echo \\$\\$ >" + life.path() +
                              "; exec sleep 600\" >/dev/null 2>&1 & :' ; sleep 600") == 0);
  REQUIRE(epochs.until_started());
  const pid_t daemon = static_cast<pid_t>(std::stol(life.line()));
  // It is a daemon once its parent is gone.
  REQUIRE(epochs.until([&] {
    ProcessInfo info;
    return read_process(daemon, info) && info.parent == epochs.watchdog();
  }));
  epochs.process().end(milliseconds(50));
  REQUIRE(epochs.until_gone());
  CHECK(epochs.left_alone == Pids{daemon});
  CHECK(test::runs(daemon));
  ::kill(daemon, SIGKILL);
  CHECK(::waitpid(daemon, nullptr, 0) ==
        daemon);  // with its watchdog gone it is ours, as it would be keyhop's
}

TEST_CASE("keyhop killed: the watchdog ends everything and goes") {
  const bool end_ordered = GENERATE(false, true);
  CAPTURE(end_ordered);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  test::Pipe told = test::make_pipe();
  const pid_t keyhop = fork_plainly();
  if (keyhop == 0) {
    Epochs epochs;
    epochs.start(
        {"sh", "-c",
         "exec 9>" + life.path() + "; trap '' TERM; sh -c 'sleep 600; :' & echo up >&2; wait; sleep 600"},
        milliseconds(50));
    epochs.until_started();
    epochs.until([&] { return epochs.words == "up\n"; });
    if (end_ordered) epochs.process().end(milliseconds(50));
    test::write_all(told.writing.number(), std::to_string(epochs.watchdog()) + "\n");
    for (;;) ::pause();
  }
  told.writing.reset();
  const pid_t watchdog = static_cast<pid_t>(std::stol(test::read_line(told.reading.number())));
  ::kill(keyhop, SIGKILL);
  CHECK(::waitpid(keyhop, nullptr, 0) == keyhop);
  CHECK(::waitpid(watchdog, nullptr, 0) == watchdog);
  CHECK(life.all_gone());
}

TEST_CASE("the watchdog does not end because of a signal") {
  Epochs epochs;
  REQUIRE(epochs.start_script("read line; exit 4") == 0);
  REQUIRE(epochs.until_started());
  const pid_t watchdog = epochs.watchdog();
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM})
    ::kill(watchdog, number);
  epochs.input.reset();
  REQUIRE(epochs.until([&] { return epochs.events.back() == "exited"; }));
  CHECK(epochs.status == ExitStatus{ExitStatus::Kind::exited, 4});
  CHECK(epochs.warnings == 0);
  epochs.process().end(seconds(1));
  REQUIRE(epochs.until_gone());
}

TEST_CASE("a watchdog that is killed is replaced, and the agent goes on") {
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Epochs epochs;
  REQUIRE(epochs.start_script(
              "exec 9>" + life.path() +
              "; setsid sh -c \"trap '' TERM; echo up >&9; sleep 600; :\" & read line; exit 5") == 0);
  REQUIRE(epochs.until_started());
  CHECK(life.line() == "up");
  pid_t watchdog = 0;
  for (int round = 1; round <= 2; ++round) {
    CAPTURE(round);
    watchdog = wait_for_watchdog(watchdog);
    REQUIRE(watchdog > 0);
    ::kill(watchdog, SIGKILL);
    REQUIRE(epochs.until([&] { return epochs.warnings == round; }));
    CHECK(test::runs(epochs.agent_pid));
  }
  SECTION("the agent's own exit is still told") {
    test::write_all(epochs.input.number(), "go\n");
    REQUIRE(epochs.until([&] { return epochs.events.back() == "exited"; }));
    CHECK(epochs.status == ExitStatus{ExitStatus::Kind::exited, 5});
    epochs.process().end(milliseconds(50));
  }
  SECTION("and it can be ended") { epochs.process().end(milliseconds(50)); }
  REQUIRE(epochs.until_gone());
  CHECK(epochs.events == whole_life);
  CHECK(life.all_gone());
}

TEST_CASE("a watchdog killed while it is ending an epoch is replaced and the end goes on") {
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Epochs epochs;
  REQUIRE(epochs.start_script("exec 9>" + life.path() +
                              "; trap '' TERM; echo up >&9; while :; do sleep 600; done") == 0);
  REQUIRE(epochs.until_started());
  CHECK(life.line() == "up");
  epochs.process().end(milliseconds(200));
  ::kill(epochs.watchdog(), SIGKILL);
  REQUIRE(epochs.until_gone());
  CHECK(life.all_gone());
  CHECK(epochs.events == whole_life);
  CHECK(epochs.status == ExitStatus{ExitStatus::Kind::signalled, SIGKILL});
}

}  // namespace acp::shell
