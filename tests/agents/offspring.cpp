#include "tests/agents/offspring.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace acp::test_agent {
namespace {

// What the spawned process does: says who it is, then waits to be ended.
[[noreturn]] void live_on(std::string_view mode, const std::string& pids_path, std::uint64_t seconds,
                          int ready) {
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDERR_FILENO);
  if (mode != "holder") ::dup2(null, STDOUT_FILENO);
  for (const int number : {SIGTERM, SIGHUP, SIGINT})
    std::signal(number, mode == "stubborn" ? SIG_IGN : SIG_DFL);
  if (!pids_path.empty()) {
    const int file = ::open(pids_path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
    const std::string line = std::to_string(::getpid()) + " " + std::string(mode) + "\n";
    if (::write(file, line.data(), line.size()) < 0) ::_exit(1);
    ::close(file);
  }
  ::alarm(static_cast<unsigned>(std::min<std::uint64_t>(seconds, 3600)));
  if (::write(ready, "r", 1) != 1) ::_exit(1);
  ::close(ready);
  for (;;) ::pause();
}

// Takes the place in the process tree that the mode names. Intermediate processes end here.
void take_place(std::string_view mode) {
  if (mode == "group") ::setpgid(0, 0);
  if (mode == "session") ::setsid();
  if (mode == "daemon") ::setsid();
  if (mode == "orphan" || mode == "daemon") {
    if (::fork() != 0) ::_exit(0);
  }
  if (mode == "orphan") ::setsid();
}

}  // namespace

bool spawn_offspring(std::string_view mode, const std::string& pids_path, std::uint64_t seconds) {
  constexpr std::string_view modes[] = {"plain",  "group",    "session", "orphan",
                                        "daemon", "stubborn", "holder"};
  if (std::find(std::begin(modes), std::end(modes), mode) == std::end(modes)) return false;
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ::close(ends[0]);
    take_place(mode);
    live_on(mode, pids_path, seconds, ends[1]);
  }
  ::close(ends[1]);
  char byte = 0;
  const bool ready = ::read(ends[0], &byte, 1) == 1;
  ::close(ends[0]);
  return ready;
}

}  // namespace acp::test_agent
