#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <variant>
#include <vector>

#include "proxy/core/limits.h"
#include "proxy/shell/launcher.h"
#include "proxy/shell/loop.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/shell_process.h"

namespace acp::shell {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ByteCore;
using test::Keyhop;
using test::LifeSign;
using test::make_pipe;
using test::Pipe;
using test::TemporaryDirectory;

// Says three instants in a row, then ends; a deadline that is told early would be seen.
class DeadlineCore final : public Core {
 public:
  void start(Instant now, Actions&) override { wanted_ = now + milliseconds(3); }
  void step(const Event& event, Instant now, Actions& actions) override {
    if (!std::holds_alternative<DeadlineReached>(event)) return;
    if (now < *wanted_) actions.add(Exit{1});
    if (++reached_ == 3) {
      wanted_.reset();
      actions.add(Exit{42});
    } else {
      wanted_ = now + milliseconds(3);
    }
  }
  std::optional<Instant> next_deadline() const override { return wanted_; }

 private:
  std::optional<Instant> wanted_;
  int reached_ = 0;
};

// Wants its agent read before its start is told; 42 if nothing of it came before that all the same.
class HastyCore final : public ByteCore {
 public:
  void start(Instant now, Actions& actions) override {
    ByteCore::start(now, actions);
    actions.add(PauseReading{test::agent_link});
    actions.add(ResumeReading{test::agent_link});
  }
  void step(const Event& event, Instant now, Actions& actions) override {
    if (std::holds_alternative<AgentStarted>(event)) started_ = true;
    const auto* read = std::get_if<BytesRead>(&event);
    if (read != nullptr && read->link == test::agent_link) actions.add(Exit{started_ ? 42 : 1});
    ByteCore::step(event, now, actions);
  }

 private:
  bool started_ = false;
};

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t index = 0; index < size; ++index)
    text[index] = static_cast<char>('a' + (index / 3 + index / 977) % 26);
  return text;
}

// How many bytes a process has read, once that number has not changed for many looks.
std::size_t bytes_read_when_settled(pid_t pid) {
  std::size_t last = 0;
  for (int same = 0; same < 5000; ++same) {
    const std::string text = test::read_file("/proc/" + std::to_string(pid) + "/io");
    const std::size_t now = std::stoul(text.substr(text.find("rchar: ") + 7));
    if (now != last) same = 0;
    last = now;
  }
  return last;
}

bool nothing_left_behind() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

}  // namespace

TEST_CASE("bytes cross both ways, the exit status is the agent's, nothing is left") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe errors = make_pipe();
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.start("echo words >&2; cat; exit 7", in.reading.number(), out.writing.number(),
               errors.writing.number());
  in.reading.reset();
  out.writing.reset();
  errors.writing.reset();
  test::write_all(in.writing.number(), "hello\n");
  CHECK(test::read_line(out.reading.number()) == "hello");
  test::write_all(in.writing.number(), "rest without end");
  in.writing.reset();
  CHECK(test::read_all(out.reading.number()) == "rest without end");
  CHECK(test::read_all(errors.reading.number()) == "words\n");
  CHECK(keyhop.status() == 7);
  CHECK(nothing_left_behind());
}

TEST_CASE("nothing of an agent comes before its start is told, even if it is to be read") {
  Pipe in = make_pipe();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int run = 0; run < 50; ++run) {
    Keyhop keyhop;
    keyhop.settings.log.level = std::nullopt;
    keyhop.start<HastyCore>("echo first", in.reading.number(), null.number(), null.number());
    REQUIRE(keyhop.status() == 42);
  }
}

TEST_CASE("stdin and stdout may be files, /dev/null, one socket, or closed") {
  const auto kind = GENERATE(as<std::string>(), "files", "null", "socket", "closed");
  CAPTURE(kind);
  const TemporaryDirectory directory;
  const std::string text = pattern(3 * limits::mib);
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  if (kind == "files") {
    test::write_all(
        Descriptor(::open(directory.file("in").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).number(),
        text);
    const Descriptor in(::open(directory.file("in").c_str(), O_RDONLY | O_CLOEXEC));
    const Descriptor out(::open(directory.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    keyhop.start("cat; exit 3", in.number(), out.number(), null.number());
    CHECK(keyhop.status() == 3);
    CHECK((test::read_file(directory.file("out")) == text));
  } else if (kind == "null") {
    keyhop.start("cat; echo out; exit 3", null.number(), null.number(), null.number());
    CHECK(keyhop.status() == 3);
  } else if (kind == "closed") {
    keyhop.start("cat; echo out; echo words >&2; exit 3", -1, -1, -1);
    CHECK(keyhop.status() == 3);
  } else {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const Descriptor client(ends[0]);
    {
      const Descriptor keyhops(ends[1]);
      keyhop.start("cat; exit 3", keyhops.number(), keyhops.number(), null.number());
    }
    std::thread writer([&] {
      test::write_all(client.number(), text);
      ::shutdown(client.number(), SHUT_WR);
    });
    const std::string got = test::read_all(client.number());
    writer.join();
    CHECK((got == text));
    CHECK(keyhop.status() == 3);
  }
  CHECK(nothing_left_behind());
}

TEST_CASE("a client that does not read stops the agent, and nothing is lost") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  constexpr std::size_t size = 256 * limits::mib;
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.start("head -c " + std::to_string(size) + " /dev/zero; exit 0", in.reading.number(),
               out.writing.number(), null.number());
  out.writing.reset();
  // It reads until the client's backlog is high, and then no more.
  REQUIRE(test::wait_readable(out.reading.number()));
  CHECK(bytes_read_when_settled(keyhop.pid()) < 8 * limits::mib);
  std::size_t got = 0;
  std::vector<char> bytes(limits::mib);
  for (ssize_t part = 0; (part = ::read(out.reading.number(), bytes.data(), bytes.size())) > 0;) {
    got += static_cast<std::size_t>(part);
  }
  CHECK(got == size);
  CHECK(keyhop.status() == 0);
}

TEST_CASE("both pipes full in both directions is no deadlock") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::string text = pattern(16 * limits::mib);
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.start("cat", in.reading.number(), out.writing.number(), null.number());
  in.reading.reset();
  out.writing.reset();
  std::thread writer([&] {
    test::write_all(in.writing.number(), text);
    in.writing.reset();
  });
  const std::string got = test::read_all(out.reading.number());
  writer.join();
  CHECK((got == text));
  CHECK(keyhop.status() == 0);
}

TEST_CASE("a stderr that nobody reads blocks nothing; what did not fit is counted and said") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe errors = make_pipe();
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.start("head -c 10485760 /dev/zero | tr '\\0' e >&2; echo done; read line; echo later >&2; exit 0",
               in.reading.number(), out.writing.number(), errors.writing.number());
  out.writing.reset();
  errors.writing.reset();
  CHECK(test::read_line(out.reading.number()) == "done");
  // Now it is read again, until the count comes.
  std::string words;
  while (words.find("stderr dropped\n") == std::string::npos) {
    char bytes[65536];
    REQUIRE(test::wait_readable(errors.reading.number()));
    const ssize_t size = ::read(errors.reading.number(), bytes, sizeof bytes);
    REQUIRE(size > 0);
    words.append(bytes, static_cast<std::size_t>(size));
  }
  const std::size_t note = words.find("\nkeyhop: ");
  REQUIRE(note != std::string::npos);
  const auto kept = static_cast<std::size_t>(
      std::count(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(note), 'e'));
  CHECK(kept + std::stoul(words.substr(note + 9)) == 10485760);
  CHECK(kept <= limits::stderr_backlog_bytes_max + 2 * limits::mib);
  test::write_all(in.writing.number(), "go\n");
  CHECK(test::read_all(errors.reading.number()) == "later\n");
  CHECK(keyhop.status() == 0);
}

TEST_CASE("stderr closed by its reader is silence, not an end") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe errors = make_pipe();
  errors.reading.reset();
  Keyhop keyhop;
  keyhop.start("echo words >&2; cat; exit 5", in.reading.number(), out.writing.number(),
               errors.writing.number());
  in.reading.reset();
  out.writing.reset();
  test::write_all(in.writing.number(), "x\n");
  CHECK(test::read_line(out.reading.number()) == "x");
  in.writing.reset();
  CHECK(keyhop.status() == 5);
}

TEST_CASE("flags of inherited descriptors are left as found") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe errors = make_pipe();
  Keyhop keyhop;
  keyhop.start("cat", in.reading.number(), out.writing.number(), errors.writing.number());
  test::write_all(in.writing.number(), "x\n");
  CHECK(test::read_line(out.reading.number()) == "x");
  for (const int number : {in.reading.number(), out.writing.number(), errors.writing.number()}) {
    CHECK(!test::is_nonblocking(number));
  }
  in.writing.reset();
  CHECK(keyhop.status() == 0);
  for (const int number : {in.reading.number(), out.writing.number(), errors.writing.number()}) {
    CHECK(!test::is_nonblocking(number));
  }
}

TEST_CASE("a command that cannot be executed ends with 69") {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  class FailingCore final : public ByteCore {};
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.setup = [&] { ::setenv("PATH", "/nonexistent", 1); };
  keyhop.start<FailingCore>("", null.number(), null.number(), null.number());
  CHECK(keyhop.status() == 69);
  CHECK(nothing_left_behind());
}

TEST_CASE("signals end it with 128+n, and an ignored SIGINT or SIGHUP stays ignored") {
  const auto [number, ignored] = GENERATE(
      table<int, bool>({{SIGINT, false}, {SIGTERM, false}, {SIGHUP, false}, {SIGINT, true}, {SIGHUP, true}}));
  CAPTURE(number, ignored);
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.setup = [number = number, ignored = ignored] {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);  // a parent that blocks signals does not make keyhop deaf
    ::signal(number, ignored ? SIG_IGN : SIG_DFL);
  };
  keyhop.start("echo up; cat", in.reading.number(), out.writing.number(), null.number());
  in.reading.reset();
  out.writing.reset();
  CHECK(test::read_line(out.reading.number()) == "up");
  ::kill(keyhop.pid(), number);
  if (ignored) {
    test::write_all(in.writing.number(), "still here\n");
    CHECK(test::read_line(out.reading.number()) == "still here");
    in.writing.reset();
    CHECK(keyhop.status() == 0);
  } else {
    CHECK(keyhop.status() == 128 + number);
  }
  CHECK(nothing_left_behind());
}

TEST_CASE("keyhop killed by SIGKILL leaves no process behind") {
  const TemporaryDirectory directory;
  const LifeSign life(directory.file("life"));
  Pipe in = make_pipe();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.settings.orphan_grace = milliseconds(50);
  keyhop.start(
      "exec 9>" + life.path() +
          "; trap '' TERM; setsid sh -c \"trap '' TERM; echo up >&9; sleep 600; :\" & cat; sleep 600",
      in.reading.number(), null.number(), null.number());
  CHECK(life.line() == "up");
  ::kill(keyhop.pid(), SIGKILL);
  CHECK(keyhop.status() == 128 + SIGKILL);
  CHECK(life.all_gone());
  CHECK(::waitpid(-1, nullptr, 0) > 0);  // the watchdog, whose children were reaped by itself
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_CASE("no descriptor leaks from one agent into the shell") {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Pipe out = make_pipe();
  Keyhop keyhop;
  keyhop.settings.log.level = std::nullopt;
  keyhop.setup = [] {
    // Just as many as a relay needs: a handful of its own, three pipes, the control socket.
    const rlimit limit{40, 40};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  keyhop.start("echo fine", null.number(), out.writing.number(), null.number());
  out.writing.reset();
  CHECK(test::read_all(out.reading.number()) == "fine\n");
  CHECK(keyhop.status() == 0);
}

TEST_CASE("too few descriptors are a failed start, never a hang") {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  int failed_starts = 0;
  for (rlim_t most = 12; most < 32; ++most) {  // libuv itself aborts where it gets none
    Keyhop keyhop;
    keyhop.settings.log.level = std::nullopt;
    keyhop.setup = [most] {
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_NOFILE, &limit);
    };
    keyhop.start("exit 0", null.number(), null.number(), null.number());
    const int status = keyhop.status();
    CAPTURE(most);
    CHECK((status == 0 || status == 69));
    if (status == 69) ++failed_starts;
  }
  CHECK(failed_starts > 0);
  CHECK(nothing_left_behind());
}

TEST_CASE("deadlines come when they are due, not before") {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Pipe in = make_pipe();
  Keyhop keyhop;
  keyhop.start<DeadlineCore>("", in.reading.number(), null.number(), null.number());
  CHECK(keyhop.status() == 42);
}

TEST_CASE("a log file is private and appended to") {
  const TemporaryDirectory directory;
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int run = 1; run <= 2; ++run) {
    Keyhop keyhop;
    keyhop.settings.log.file = directory.file("log");
    keyhop.start("exit 0", null.number(), null.number(), null.number());
    CHECK(keyhop.status() == 0);
    struct stat status {};
    REQUIRE(::stat(directory.file("log").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    const std::string text = test::read_file(directory.file("log"));
    CHECK(std::count(text.begin(), text.end(), '\n') == run);
  }
}

}  // namespace acp::shell
