// A keyhop for the tests of the shell: the real shell in a process of its own, around a core that only relays
// bytes.
//
// Invariant: what the shell does here it does in production; only who decides is another. Lifetime: the
// process is waited for by status().
#pragma once

#include <chrono>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <variant>

#include "proxy/core/limits.h"
#include "proxy/shell/launcher.h"
#include "proxy/shell/loop.h"

namespace acp::test {

inline constexpr LinkId agent_link{2};
inline constexpr Epoch epoch{1};

// The smallest core that relays bytes both ways and ends as keyhop does: enough to see what the shell does.
class ByteCore : public shell::Core {
 public:
  void start(Instant, Actions& actions) override { actions.add(StartAgent{epoch, agent_link}); }

  void step(const Event& event, Instant now, Actions& actions) override {
    if (const auto* read = std::get_if<BytesRead>(&event)) {
      actions.send(read->link == client_link ? agent_link : client_link, read->bytes);
    } else if (const auto* backlog = std::get_if<LinkBacklog>(&event)) {
      regulate(*backlog, actions);
    } else if (const auto* end = std::get_if<LinkEnded>(&event)) {
      if (end->link == client_link) {
        actions.add(CloseWriting{agent_link});
      } else if (end->end != LinkEnd::write_failed) {
        output_ended_ = true;
      }
    } else if (std::holds_alternative<AgentStartFailed>(event)) {
      actions.add(Exit{69});
    } else if (const auto* exited = std::get_if<AgentExited>(&event)) {
      if (!status_) status_ = exited->status.as_shell_status();
      actions.add(EndAgent{epoch, std::chrono::milliseconds(200)});
    } else if (std::holds_alternative<AgentEnded>(event)) {
      ended_ = true;
      actions.add(FinishReading{agent_link});
      actions.add(ResumeReading{agent_link});
    } else if (const auto* words = std::get_if<StderrRead>(&event)) {
      actions.add(WriteStderr{words->bytes});
    } else if (const auto* signal = std::get_if<SignalReceived>(&event)) {
      status_ = 128 + signal->number;
      actions.add(CloseWriting{agent_link});
      actions.add(EndAgent{epoch, std::chrono::milliseconds(200)});
    } else if (std::holds_alternative<DeadlineReached>(event)) {
      on_deadline(now, actions);
    }
    if (ended_ && output_ended_ && !over_) {
      over_ = true;
      actions.add(Exit{*status_});
    }
  }
  std::optional<Instant> next_deadline() const override { return std::nullopt; }

 protected:
  virtual void on_deadline(Instant, Actions&) {}

 private:
  static void regulate(const LinkBacklog& backlog, Actions& actions) {
    const LinkId other = backlog.link == client_link ? agent_link : client_link;
    if (backlog.bytes > limits::backlog_bytes_high) actions.add(PauseReading{other});
    if (backlog.bytes < limits::backlog_bytes_low) actions.add(ResumeReading{other});
  }

  bool ended_ = false;
  bool output_ended_ = false;
  bool over_ = false;
  std::optional<int> status_;
};

// A keyhop with that core in a process of its own.
class Keyhop {
 public:
  // The descriptors become its 0, 1 and 2 (-1: closed).
  template <class CoreType = ByteCore>
  void start(const std::string& script, int input, int output, int errors) {
    // Orphans would come here: a test sees that there are none.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_ = shell::fork_plainly();
    if (pid_ != 0) return;
    const int wanted[] = {input, output, errors};
    int kept[3];
    for (int number = 0; number < 3; ++number) {
      kept[number] = wanted[number] < 0 ? -1 : ::fcntl(wanted[number], F_DUPFD_CLOEXEC, 64);
    }
    for (int number = 0; number < 3; ++number) {
      ::close(number);
      if (kept[number] >= 0) ::dup2(kept[number], number);
    }
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    if (setup) setup();
    shell::fill_stdio();
    CoreType core;
    settings.components = {{{"sh", "-c", script}, shell::agent_environment(environ), "agent"}};
    int status = 0;
    {
      shell::Shell relay(core, settings);
      status = relay.run();
    }
    ::_exit(status);
  }

  pid_t pid() const { return pid_; }
  // Waits for its end: as a shell would report it.
  int status() {
    int found = 0;
    if (::waitpid(pid_, &found, 0) != pid_) return -1;
    return WIFEXITED(found) ? WEXITSTATUS(found) : 128 + WTERMSIG(found);
  }

  shell::ShellSettings settings;
  std::function<void()> setup;

 private:
  pid_t pid_ = 0;
};

}  // namespace acp::test
