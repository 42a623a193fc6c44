#include "proxy/shell/watchdog.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/shell/launcher.h"
#include "proxy/shell/process_tree.h"

namespace acp::shell {
namespace {

// How often the process table is looked at while something is being ended: at once at first, since most
// agents go at once, then seldom enough to cost nothing. A dying child wakes the watchdog anyway.
constexpr int scan_ms_first = 2;
constexpr int scan_ms_max = 20;
// A process that survives KILL that long hangs in the kernel and dies when it can; waiting longer helps
// nobody.
constexpr Duration kill_patience = std::chrono::seconds(30);
// An adopting watchdog is not the parent of what it guards and hears of nothing: it looks for itself. (The
// first watchdog was killed from outside; no other case wakes up while nothing happens.)
constexpr int adopted_look_ms = 250;
constexpr std::size_t left_alone_reports_max = 64;
constexpr int exit_could_not_execute = 127;

Instant now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void close_between(int first, int last) {
  if (first > last) return;
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), static_cast<unsigned>(last), 0U) == 0) return;
  // A kernel before 5.9.
  const long most = std::min<long>(last, ::sysconf(_SC_OPEN_MAX));
  for (long number = first; number <= most; ++number) ::close(static_cast<int>(number));
}

// Negative numbers stand for none.
template <std::size_t count>
void close_all_but(std::array<int, count> kept) {
  std::sort(kept.begin(), kept.end());
  int next = 0;
  for (const int number : kept) {
    if (number < 0) continue;
    close_between(next, number - 1);
    next = number + 1;
  }
  close_between(next, INT32_MAX);
}

void ignore_signals() {
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  for (int signal = 1; signal < NSIG; ++signal) {
    const bool needed = signal == SIGCHLD || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
                        signal == SIGILL || signal == SIGABRT;
    if (!needed) ::sigaction(signal, &ignored, nullptr);
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);
  // SIGCHLD is read from a signalfd, so it stays blocked; nothing else needs to.
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

// Between fork and exec. Waits for the word to go, so that keyhop knows the process before it executes.
[[noreturn]] void become_agent(const WatchdogPlan& plan, int gate) noexcept {
  ::setsid();
  char go = 0;
  ssize_t size = 0;
  do {
    size = ::read(gate, &go, 1);
  } while (size < 0 && errno == EINTR);
  if (size != 1) ::_exit(exit_could_not_execute);  // the watchdog died
  for (int number = 0; number < 3; ++number) ::dup2(plan.agent_stdio[number], number);
  reset_signals();
  ::execvpe(plan.arguments[0], plan.arguments, plan.environment);
  const int error = errno;
  send_record(gate, &error, sizeof error);
  ::_exit(exit_could_not_execute);
}

class WatchdogProcess {
 public:
  explicit WatchdogProcess(const WatchdogPlan& plan)
      : plan_(plan), control_(plan.control), agent_(plan.adopted_agent) {}

  // Returns when the epoch has ended.
  void run() {
    settle();
    if (plan_.adopted_agent == 0 && !start_agent()) return;
    make_tree();
    while (!finished()) wait();
    report_daemons();
    report({WatchdogReport::Kind::ended, 0, 0, {}, 0});
  }

 private:
  void settle();
  bool start_agent();
  void start_failed(int error) { report({WatchdogReport::Kind::start_failed, 0, error, {}, 0}); }
  void make_tree();
  bool look();
  void wait();
  void read_gate();
  ssize_t receive(WatchdogOrder& order);
  void read_control();
  void order_end(Duration grace);
  void reap();
  bool finished();
  bool nothing_lives();
  void press();
  void press_without_proc();
  void report_daemons();
  void report(const WatchdogReport& message);

  const WatchdogPlan& plan_;
  Descriptor control_;
  Descriptor gate_;  // open until the agent executes
  Descriptor children_;
  pid_t agent_;
  bool start_failed_ = false;
  bool childless_ = false;
  std::optional<ProcessTree> tree_;
  bool has_looked_ = false;  // /proc could be read: what a look does not show is gone
  ProcessList all_;
  ProcessList asked_;               // got their TERM
  std::optional<Instant> kill_at_;  // set: the end was ordered
  // Not counted from the order: whoever was stopped for that long has not killed anything yet.
  std::optional<Instant> killing_since_;
  int scan_ms_ = scan_ms_first;
};

// Away from keyhop: own session, own name, nothing of keyhop's open.
void WatchdogProcess::settle() {
  // The name first: an adopting watchdog tells this one by it from an orphan with a session of its own.
  ::prctl(PR_SET_NAME, watchdog_name, 0, 0, 0);
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ignore_signals();
  const int* const stdio = plan_.agent_stdio;
  close_all_but(std::array{control_.number(), stdio[0], stdio[1], stdio[2]});
  for (int number = 0; number < 3; ++number) {
    if (::open("/dev/null", O_RDWR) < 0) break;  // the lowest free number each time: 0, 1, 2
  }
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  children_ = Descriptor(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool WatchdogProcess::start_agent() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    start_failed(errno);
    return false;
  }
  gate_ = Descriptor(ends[0]);
  Descriptor inner(ends[1]);
  const pid_t pid = fork_plainly();
  if (pid < 0) {
    start_failed(errno);
    return false;
  }
  if (pid == 0) {
    gate_.reset();
    become_agent(plan_, inner.number());
  }
  agent_ = pid;
  for (const int number : plan_.agent_stdio) ::close(number);
  ProcessInfo info;
  const std::uint64_t started = read_process(pid, info) ? info.started : 0;
  report({WatchdogReport::Kind::forked, pid, 0, {}, started});
  const char go = 1;
  // Without its word it does not execute: it ends when the gate closes.
  if (const int error = send_record(gate_.number(), &go, 1); error != 0) {
    gate_.reset();
    start_failed_ = true;
    start_failed(error);
    order_end(Duration::zero());
  }
  return true;
}

void WatchdogProcess::make_tree() {
  if (plan_.adopted_tree != nullptr) {
    tree_.emplace(*plan_.adopted_tree);
    return;
  }
  ProcessTree::Roots roots;
  roots.agent = agent_;
  ProcessInfo info;
  if (read_process(agent_, info)) roots.agent_started = info.started;
  roots.reaper = ::getpid();
  tree_.emplace(roots);
}

// Who belongs now belongs for good, also once keyhop has died and its orphans have gone to somebody else.
// False if the look failed.
bool WatchdogProcess::look() {
  if (!read_processes(all_)) return false;
  has_looked_ = true;
  tree_->update(all_);
  return true;
}

void WatchdogProcess::wait() {
  // poll() skips negative numbers.
  pollfd asked[] = {
      {control_.number(), POLLIN, 0}, {children_.number(), POLLIN, 0}, {gate_.number(), POLLIN, 0}};
  const int idle_ms = plan_.adopted_agent != 0 ? adopted_look_ms : -1;
  const int ready = ::poll(asked, 3, kill_at_ ? scan_ms_ : idle_ms);
  if (ready < 0) return;
  if (ready == 0 && !kill_at_) look();
  if (asked[2].revents != 0) read_gate();
  if (asked[1].revents != 0) {
    signalfd_siginfo seen[8];
    while (::read(children_.number(), seen, sizeof seen) > 0) {
    }
  }
  if (asked[0].revents != 0) read_control();
}

// The agent's side closed it by executing, or says why it could not.
void WatchdogProcess::read_gate() {
  int error = 0;
  const ssize_t size = ::recv(gate_.number(), &error, sizeof error, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  gate_.reset();
  if (size == static_cast<ssize_t>(sizeof error)) {
    start_failed_ = true;
    start_failed(error);
    order_end(Duration::zero());
  } else {
    report({WatchdogReport::Kind::started, 0, 0, {}, 0});
  }
}

// With what is to be held: nothing more is done with it, so its locks last as long as this process.
ssize_t WatchdogProcess::receive(WatchdogOrder& order) {
  iovec bytes{&order, sizeof order};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  return ::recvmsg(control_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

void WatchdogProcess::read_control() {
  WatchdogOrder order;
  const ssize_t size = receive(order);
  if (size == static_cast<ssize_t>(sizeof order)) {
    if (order.kind == WatchdogOrder::Kind::end) order_end(Duration(order.grace_ns));
  } else if (size >= 0 || (errno != EAGAIN && errno != EINTR)) {
    // keyhop is gone. An order that stands keeps its time.
    control_.reset();
    if (!kill_at_) order_end(plan_.orphan_grace);
  }
}

void WatchdogProcess::order_end(Duration grace) {
  const Instant kill_at = now() + grace;
  if (!kill_at_ || kill_at < *kill_at_) kill_at_ = kill_at;
  scan_ms_ = scan_ms_first;
}

void WatchdogProcess::reap() {
  for (;;) {
    // Looked at first and reaped after the report: if this process is killed in between, keyhop still gets
    // the status.
    siginfo_t seen{};
    if (::waitid(P_ALL, 0, &seen, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      childless_ = errno == ECHILD;
      return;
    }
    if (seen.si_pid == 0) return;
    int status = 0;
    if (seen.si_pid == agent_ && !start_failed_ && plan_.adopted_agent == 0) {
      if (gate_.open()) read_gate();
      const int value = seen.si_code == CLD_EXITED ? (seen.si_status & 0xff) << 8 : seen.si_status & 0x7f;
      if (!start_failed_) report({WatchdogReport::Kind::exited, seen.si_pid, value, {}, 0});
    }
    while (::waitpid(seen.si_pid, &status, WNOHANG) < 0 && errno == EINTR) {
    }
  }
}

bool WatchdogProcess::finished() {
  reap();
  if (!kill_at_) return false;
  // Every process of the epoch is below this one: without children there is nothing to look for.
  if (childless_ && plan_.adopted_agent == 0) return true;
  if (nothing_lives()) return true;
  if (killing_since_ && now() > *killing_since_ + kill_patience) return true;
  if (!killing_since_ && now() >= *kill_at_) killing_since_ = now();
  press();
  scan_ms_ = std::min(scan_ms_ * 2, scan_ms_max);
  return false;
}

// Two looks: what forks while it dies can slip through one.
bool WatchdogProcess::nothing_lives() {
  for (int looks = 0; looks < 2; ++looks) {
    // One that fails for a moment proves nothing; the next one is soon, and kill_patience ends it all.
    if (!look()) return !has_looked_ && ::kill(-agent_, 0) != 0 && errno == ESRCH;
    // What runs as another user cannot be ended by us; it is named instead of waited for.
    const auto can_end = [](const ProcessInfo& process) {
      return ::kill(process.pid, 0) == 0 || errno != EPERM;
    };
    if (std::any_of(tree_->living().begin(), tree_->living().end(), can_end)) return false;
  }
  reap();
  return true;
}

void WatchdogProcess::press() {
  if (!has_looked_) {
    press_without_proc();
    return;
  }
  const bool kill_now = now() >= *kill_at_;
  for (const ProcessInfo& process : tree_->living()) {
    if (kill_now) {
      signal_process(process, SIGKILL);
      continue;
    }
    const bool asked = std::any_of(asked_.begin(), asked_.end(), [&](const ProcessInfo& other) {
      // One that has a new name executed another program since, maybe before it could act on its TERM.
      return other.pid == process.pid && other.started == process.started &&
             std::strcmp(other.name, process.name) == 0;
    });
    if (asked) continue;
    asked_.push_back(process);
    // A stopped process acts on TERM only once it goes on.
    if (signal_process(process, SIGTERM)) signal_process(process, SIGCONT);
  }
}

// No /proc: the agent's process group is all that can be named.
void WatchdogProcess::press_without_proc() {
  const bool kill_now = now() >= *kill_at_;
  if (kill_now || asked_.empty()) ::kill(-agent_, kill_now ? SIGKILL : SIGTERM);
  asked_.resize(1);
}

void WatchdogProcess::report_daemons() {
  if (childless_ && plan_.adopted_agent == 0) return;
  ProcessList left = tree_->daemons();
  left.insert(left.end(), tree_->living().begin(), tree_->living().end());  // those that could not be ended
  if (left.size() > left_alone_reports_max) left.resize(left_alone_reports_max);
  for (const ProcessInfo& process : left) {
    WatchdogReport message{WatchdogReport::Kind::left_alone, process.pid, 0, {}, 0};
    std::memcpy(message.name, process.name, sizeof message.name);
    report(message);
  }
}

void WatchdogProcess::report(const WatchdogReport& message) {
  if (!control_.open()) return;
  // Few and small: they all fit into the socket, also while keyhop is stopped.
  send_record(control_.number(), &message, sizeof message);
}

}  // namespace

void run_watchdog(const WatchdogPlan& plan) noexcept {
  {
    WatchdogProcess watchdog(plan);
    watchdog.run();
  }
  ::_exit(0);
}

}  // namespace acp::shell
