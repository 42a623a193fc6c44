#include "tests/agents/fault_plan.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace acp::test_agent {
namespace {

constexpr std::pair<std::string_view, FaultPoint> points[] = {
    {"start", FaultPoint::start},     {"input", FaultPoint::input},       {"read", FaultPoint::read},
    {"acted", FaultPoint::acted},     {"insert", FaultPoint::insert},     {"inserted", FaultPoint::inserted},
    {"answer", FaultPoint::answer},   {"answered", FaultPoint::answered}, {"write", FaultPoint::write},
    {"written", FaultPoint::written}, {"output", FaultPoint::output},
};

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

std::optional<int> parse_signal(std::string_view text) {
  if (text == "KILL" || text.empty()) return SIGKILL;
  if (text == "TERM") return SIGTERM;
  if (text == "SEGV") return SIGSEGV;
  if (text == "ABRT") return SIGABRT;
  int number = 0;
  return parse_number(text, number) && number > 0 && number < 65 ? std::optional(number) : std::nullopt;
}

void become_null(int descriptor) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) {
    ::close(descriptor);
    return;
  }
  ::dup2(null, descriptor);
  ::close(null);
}

// Another process. That it is gone before we go on makes the moment of its death a certain one.
void shoot(const std::string& record) {
  pid_t pid = 0;
  std::ifstream file(record);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 2, "= ") == 0)
      parse_number(std::string_view(line).substr(2, line.find(' ', 2) - 2), pid);
  }
  if (pid <= 0) return;
  pollfd end{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  if (end.fd < 0) return;  // it is gone
  ::kill(pid, SIGKILL);
  while (::poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  ::close(end.fd);
}

[[noreturn]] void die_of(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  ::kill(::getpid(), signal_number);
  for (;;) ::pause();  // a pending signal comes at once; nothing may happen in between
}

}  // namespace

void perform(const FaultAction& action) {
  switch (action.kind) {
    case FaultAction::Kind::exit: ::_exit(action.value);
    case FaultAction::Kind::kill: die_of(action.value);
    case FaultAction::Kind::stall:
      for (;;) ::pause();
    case FaultAction::Kind::close_stdout: become_null(STDOUT_FILENO); break;
    case FaultAction::Kind::close_stdin: become_null(STDIN_FILENO); break;
    case FaultAction::Kind::shoot: shoot(action.record); break;
  }
}

std::optional<FaultAction> parse_action(std::string_view text) {
  const std::size_t space = text.find_first_of(" :");
  const std::string_view word = text.substr(0, space);
  const std::string_view rest = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
  if (word == "exit") {
    int code = 0;
    if (!rest.empty() && (!parse_number(rest, code) || code < 0 || code > 255)) return std::nullopt;
    return FaultAction{FaultAction::Kind::exit, code};
  }
  if (word == "kill") {
    const auto number = parse_signal(rest);
    return number ? std::optional(FaultAction{FaultAction::Kind::kill, *number}) : std::nullopt;
  }
  if (word == "shoot" && !rest.empty()) return FaultAction{FaultAction::Kind::shoot, 0, std::string(rest)};
  if (!rest.empty()) return std::nullopt;
  if (word == "stall") return FaultAction{FaultAction::Kind::stall, 0};
  if (word == "close_stdout") return FaultAction{FaultAction::Kind::close_stdout, 0};
  if (word == "close_stdin") return FaultAction{FaultAction::Kind::close_stdin, 0};
  return std::nullopt;
}

bool FaultPlan::add(std::string_view spec) {
  Fault fault;
  fault.spec = spec;
  const std::size_t equals = spec.rfind('=');
  const std::size_t at = spec.rfind('@', equals);
  if (equals == std::string_view::npos || at == std::string_view::npos) return false;
  const auto action = parse_action(spec.substr(equals + 1));
  if (!action) return false;
  fault.action = *action;

  std::string_view count = spec.substr(at + 1, equals - at - 1);
  if (const std::size_t slash = count.find('/'); slash != std::string_view::npos) {
    if (!parse_number(count.substr(slash + 1), fault.epoch_min)) return false;
    count = count.substr(0, slash);
  }
  if (!parse_number(count, fault.count)) return false;

  const std::string_view place = spec.substr(0, at);
  const std::size_t colon = place.find(':');
  const auto found = std::find_if(std::begin(points), std::end(points),
                                  [&](const auto& row) { return row.first == place.substr(0, colon); });
  if (found == std::end(points)) return false;
  fault.point = found->second;
  if (colon != std::string_view::npos) fault.method = place.substr(colon + 1);
  faults_.push_back(std::move(fault));
  return true;
}

void FaultPlan::limit(std::size_t times, std::string path) {
  times_ = times;
  path_ = std::move(path);
}

void FaultPlan::strike(Fault& fault) {
  fault.spent = true;
  if (epoch_ < fault.epoch_min) return;
  if (times_ > 0) {
    std::size_t before = 0;
    std::ifstream struck(path_);
    for (std::string line; std::getline(struck, line);) before += line == fault.spec ? 1 : 0;
    if (before >= times_) return;
    const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const std::string line = fault.spec + "\n";
    // A mark that is not on the disk would let the fault strike for ever: better not to strike at all.
    if (file < 0 || ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
        ::fsync(file) != 0) {
      return;
    }
    ::close(file);
  }
  stdin_closed_ = stdin_closed_ || fault.action.kind == FaultAction::Kind::close_stdin;
  perform(fault.action);
}

void FaultPlan::reach(FaultPoint point, std::string_view method) {
  for (Fault& fault : faults_) {
    if (fault.spent || fault.point != point || (!fault.method.empty() && fault.method != method)) continue;
    if (++fault.passed >= fault.count) strike(fault);
  }
}

std::size_t FaultPlan::allowance(FaultPoint point, std::size_t wanted) const {
  std::size_t allowed = wanted;
  for (const Fault& fault : faults_) {
    if (fault.spent || fault.point != point || epoch_ < fault.epoch_min) continue;
    allowed = std::min<std::size_t>(allowed, fault.count - std::min(fault.passed, fault.count));
  }
  return allowed;
}

void FaultPlan::moved(FaultPoint point, std::size_t bytes) {
  for (Fault& fault : faults_) {
    if (fault.spent || fault.point != point) continue;
    fault.passed += bytes;
    if (fault.passed >= fault.count) strike(fault);
  }
}

}  // namespace acp::test_agent
