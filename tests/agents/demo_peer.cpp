#include "tests/agents/demo_peer.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace acp::demo {
namespace {

using Clock = std::chrono::steady_clock;

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

// Waits until a process has ended, without reaping it. False at the deadline.
bool wait_for_end(pid_t pid, Clock::time_point deadline) {
  const int watch = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (watch < 0) return true;  // no such process
  pollfd entry{watch, POLLIN, 0};
  const int ready = ::poll(&entry, 1, left_ms(deadline));
  ::close(watch);
  return ready > 0;
}

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
  return pids;
}

}  // namespace

Peer::Peer(const std::vector<std::string>& command, const std::string& stderr_path,
           const Variables& environment) {
  int to_child[2];
  int from_child[2];
  if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    const int errors = ::open(stderr_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(to_child[0], STDIN_FILENO);
    ::dup2(from_child[1], STDOUT_FILENO);
    if (errors >= 0) ::dup2(errors, STDERR_FILENO);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    std::perror(words[0]);
    ::_exit(127);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  input_ = to_child[1];
  output_ = from_child[0];
}

Peer::~Peer() {
  if (input_ >= 0) ::close(input_);
  if (output_ >= 0) ::close(output_);
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    if (!wait_for_end(pid_, Clock::now() + std::chrono::seconds(8))) ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void Peer::send(const Json& frame) {
  const std::string line = test_agent::to_line(frame) + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(input_, line.data() + done, line.size() - done);
    if (count <= 0) return;  // the child is gone; receive() will say so
    done += static_cast<std::size_t>(count);
  }
}

// Reads what is there within the time. False: nothing came, or the output is closed.
bool Peer::fill(int timeout_ms) {
  pollfd entry{output_, POLLIN, 0};
  if (::poll(&entry, 1, timeout_ms) <= 0) return false;
  char buffer[16 * 1024];
  const ssize_t count = ::read(output_, buffer, sizeof buffer);
  if (count <= 0) return false;
  rest_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

bool Peer::has_frame() {
  while (rest_.find('\n') == std::string::npos) {
    if (!fill(0)) return false;
  }
  return true;
}

std::optional<Json> Peer::receive(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const std::size_t end = rest_.find('\n');
    if (end == std::string::npos) {
      if (!fill(left_ms(deadline))) return std::nullopt;
      continue;
    }
    Json frame = Json::parse(rest_.substr(0, end), nullptr, false);
    rest_.erase(0, end + 1);
    if (frame.is_object()) return frame;
  }
}

std::optional<int> Peer::finish(std::chrono::milliseconds patience) {
  ::close(input_);
  input_ = -1;
  if (!wait_for_end(pid_, Clock::now() + patience)) return std::nullopt;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> remaining_processes(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    const std::vector<pid_t> alive = children();
    if (alive.empty() || !wait_for_end(alive.front(), deadline)) return alive;
  }
}

}  // namespace acp::demo
