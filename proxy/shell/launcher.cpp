#include "proxy/shell/launcher.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <signal.h>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/shell/options.h"
#include "proxy/shell/watchdog.h"

namespace acp::shell {
namespace {

// A pipe of which keyhop holds one end, non-blocking, and the agent the other.
int make_pipe(bool agent_reads, Descriptor& ours, Descriptor& agents) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
  ours = Descriptor(ends[agent_reads ? 1 : 0]);
  agents = Descriptor(ends[agent_reads ? 0 : 1]);
  return ::fcntl(ours.number(), F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

int make_control(Descriptor& ours, Descriptor& watchdogs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return errno;
  ours = Descriptor(ends[0]);
  watchdogs = Descriptor(ends[1]);
  return 0;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// Until the call succeeds or fails for good. 0 or an errno value.
template <class Call>
int insist(Call call) noexcept {
  constexpr int pauses_max = 100;
  constexpr timespec pause{0, 1'000'000};
  for (int pauses = 0;;) {
    if (call() >= 0) return 0;
    if (errno == EINTR) continue;
    if ((errno != ENOBUFS && errno != ENOMEM) || pauses == pauses_max) return errno;
    ++pauses;
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
}

// Forks; the child runs the watchdog and never returns. Signals stay blocked over the fork, so that no
// handler of keyhop's runs in the child. The ledger's thread may be anywhere: of the locks that
// it may hold the watchdog takes none, not even malloc's (page_allocator.h). libuv's atfork handler makes
// pipes anew that the watchdog closes with all the rest.
int fork_watchdog(const WatchdogPlan& plan, Watchdog& watchdog) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  const int error = errno;
  if (pid == 0) run_watchdog(plan);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return error;
  watchdog.pid = pid;
  return 0;
}

// What belongs to an agent whose watchdog was killed, as of now.
ProcessTree tree_of(const Adoption& order) {
  ProcessTree tree({.agent = order.agent,
                    .agent_started = order.agent_started,
                    .reaper = ::getpid(),
                    .reaper_is_shared = true,
                    .former_reaper = order.killed_watchdog});
  ProcessList all;
  if (read_processes(all)) tree.update(all);
  return tree;
}

}  // namespace

int launch(const Launch& order, Watchdog& watchdog, AgentEnds& ends) {
  if (order.command.empty()) return ENOENT;
  Descriptor input;
  Descriptor output;
  Descriptor errors;
  Descriptor control;
  if (const int error = make_pipe(true, ends.input, input); error != 0) return error;
  if (const int error = make_pipe(false, ends.output, output); error != 0) return error;
  if (const int error = make_pipe(false, ends.errors, errors); error != 0) return error;
  if (const int error = make_control(watchdog.control, control); error != 0) return error;

  if (const int error = send_held(watchdog, order.held); error != 0) return error;

  const std::vector<char*> arguments = pointers(order.command);
  const std::vector<char*> environment = pointers(order.environment);
  WatchdogPlan plan;
  plan.control = control.number();
  plan.agent_stdio[0] = input.number();
  plan.agent_stdio[1] = output.number();
  plan.agent_stdio[2] = errors.number();
  plan.arguments = arguments.data();
  plan.environment = environment.data();
  plan.orphan_grace = order.orphan_grace;
  return fork_watchdog(plan, watchdog);
}

int launch_adopting(const Adoption& order, Watchdog& watchdog) {
  Descriptor control;
  if (const int error = make_control(watchdog.control, control); error != 0) return error;
  if (const int error = send_held(watchdog, order.held); error != 0) return error;
  WatchdogPlan plan;
  plan.control = control.number();
  const ProcessTree tree = tree_of(order);
  plan.adopted_agent = order.agent;
  plan.adopted_tree = &tree;
  plan.orphan_grace = order.orphan_grace;
  return fork_watchdog(plan, watchdog);
}

void kill_adopted(const Adoption& order) {
  constexpr int looks = 3;  // what forks while it dies can slip through one
  for (int look = 0; look < looks; ++look) {
    const ProcessTree tree = tree_of(order);
    for (const ProcessInfo& process : tree.living()) signal_process(process, SIGKILL);
  }
  ::kill(-order.agent, SIGKILL);
}

int send_held(const Watchdog& watchdog, int descriptor) noexcept {
  if (descriptor < 0) return 0;
  WatchdogOrder order;
  order.kind = WatchdogOrder::Kind::hold;
  iovec bytes{&order, sizeof order};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return insist([&] { return ::sendmsg(watchdog.control.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

int send_record(int socket, const void* record, std::size_t size) noexcept {
  return insist([&] { return ::send(socket, record, size, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

std::vector<std::string> agent_environment(const char* const* environment) {
  std::vector<std::string> result;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view variable(*environment);
    if (!is_option_variable(variable.substr(0, variable.find('=')))) result.emplace_back(variable);
  }
  return result;
}

pid_t fork_plainly() noexcept { return ::_Fork(); }

void reset_signals() noexcept {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace acp::shell
