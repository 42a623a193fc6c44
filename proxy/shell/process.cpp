#include "proxy/shell/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "proxy/core/invariant.h"
#include "proxy/shell/process_tree.h"

namespace acp::shell {
namespace {

Instant now() { return Instant(Duration(static_cast<std::int64_t>(uv_hrtime()))); }

ExitStatus as_exit_status(int status) {
  if (WIFSIGNALED(status)) return {ExitStatus::Kind::signalled, WTERMSIG(status)};
  return {ExitStatus::Kind::exited, WEXITSTATUS(status)};
}

}  // namespace

AgentProcess::AgentProcess(uv_loop_t* loop, ReadBuffer& buffer, Epoch epoch, Callbacks callbacks)
    : loop_(loop),
      epoch_(epoch),
      callbacks_(std::move(callbacks)),
      errors_(loop, buffer,
              {[this](std::string_view bytes) {
                 callbacks_.event(StderrRead{epoch_, bytes});
               },
               [](LinkEnd, int) {}}) {}

int AgentProcess::start(const Launch& order, Descriptor& input, Descriptor& output) {
  AgentEnds ends;
  orphan_grace_ = order.orphan_grace;
  held_ = order.held;
  if (const int error = launch(order, watchdog_, ends); error != 0) {
    state_ = State::ended;
    return error;
  }
  watchdogs_.push_back(watchdog_.pid);
  input = std::move(ends.input);
  output = std::move(ends.output);
  errors_.open_own(std::move(ends.errors));
  const int error = watch_control();
  if (error != 0) {
    // The watchdog sees its socket close and ends what it has started.
    watchdog_.control.reset();
    state_ = State::ended;
  }
  return error;
}

int AgentProcess::watch_control() {
  const int status = control_poll_.open(
      this, [&](uv_poll_t* poll) { return uv_poll_init(loop_, poll, watchdog_.control.number()); });
  if (status < 0) return -status;
  return -uv_poll_start(control_poll_.get(), UV_READABLE, [](uv_poll_t* poll, int, int) noexcept {
    static_cast<AgentProcess*>(poll->data)->read_reports();
  });
}

void AgentProcess::end(Duration grace) {
  if (ended()) return;
  const Instant kill_at = now() + grace;
  if (kill_at_ && *kill_at_ <= kill_at) return;
  kill_at_ = kill_at;
  send_order();
}

void AgentProcess::hold(int descriptor) {
  held_ = descriptor;
  // If the watchdog is gone its successor gets it.
  if (!ended() && watchdog_.control.open()) send_held(watchdog_, held_);
}

void AgentProcess::send_order() {
  if (!watchdog_.control.open() || !kill_at_) return;
  WatchdogOrder order;
  order.grace_ns = std::max(Duration::zero(), *kill_at_ - now()).count();
  // If the watchdog is gone its successor gets the order; it never leaves so much unread that this would
  // block.
  send_record(watchdog_.control.number(), &order, sizeof order);
}

void AgentProcess::read_reports() {
  while (watchdog_.control.open()) {
    WatchdogReport report;
    const ssize_t size = ::recv(watchdog_.control.number(), &report, sizeof report, MSG_DONTWAIT);
    if (size == static_cast<ssize_t>(sizeof report)) {
      on_report(report);
    } else if (size < 0 && (errno == EINTR || errno == ECONNRESET)) {
      continue;  // reset: it ended before it had read all of ours, told once; what it wrote is still there
    } else if (size < 0 && errno == EAGAIN) {
      return;
    } else {
      control_poll_.reset();
      watchdog_.control.reset();
      if (!ended()) on_watchdog_lost();
    }
  }
}

void AgentProcess::on_report(const WatchdogReport& report) {
  if (ended()) return;
  switch (report.kind) {
    case WatchdogReport::Kind::forked:
      agent_ = report.pid;
      agent_started_ = report.started;
      return;
    case WatchdogReport::Kind::started: on_started(); return;
    case WatchdogReport::Kind::start_failed: fail(report.value); return;
    case WatchdogReport::Kind::exited: on_exited(report.value); return;
    case WatchdogReport::Kind::left_alone:
      callbacks_.left_alone(report.pid, {report.name, ::strnlen(report.name, sizeof report.name)});
      return;
    case WatchdogReport::Kind::ended: on_ended(); return;
  }
}

void AgentProcess::on_started() {
  if (state_ != State::starting) return;
  state_ = State::running;
  callbacks_.event(AgentStarted{epoch_, agent_});
  errors_.resume();
}

void AgentProcess::on_exited(int status) {
  if (agent_exited_) return;
  agent_exited_ = true;
  errors_.drain();  // its last words explain its end, so they come first
  callbacks_.event(AgentExited{epoch_, as_exit_status(status)});
  if (unguarded_) on_ended();
}

void AgentProcess::on_ended() {
  if (!agent_exited_) {
    // Its watchdog was replaced, so the agent is keyhop's own child.
    int status = SIGKILL;
    ::waitpid(agent_, &status, WNOHANG);
    on_exited(status);
    if (ended()) return;
  }
  errors_.drain();
  errors_.stop();
  state_ = State::ended;
  callbacks_.event(AgentEnded{epoch_});
}

void AgentProcess::fail(int error) {
  errors_.stop();
  state_ = State::ended;
  callbacks_.event(AgentStartFailed{epoch_, error});
}

// Somebody killed it. Its children are ours now.
void AgentProcess::on_watchdog_lost() {
  if (agent_ == 0) {
    fail(ECANCELED);  // what it may have forked does not execute without its word
    return;
  }
  on_started();
  callbacks_.warning("the watchdog of the agent was killed; another one takes over");
  const Adoption order{agent_, watchdog_.pid, agent_started_, orphan_grace_, held_};
  int error = adoptions_left_-- > 0 ? launch_adopting(order, watchdog_) : ECANCELED;
  if (error == 0) {
    watchdogs_.push_back(watchdog_.pid);
    error = watch_control();
  }
  if (error == 0) {
    send_order();
    return;
  }
  callbacks_.warning("no watchdog could be made; the agent is ended");
  watchdog_.control.reset();
  unguarded_ = true;
  kill_adopted(order);
  if (agent_exited_) on_ended();
}

bool AgentProcess::child_exited(pid_t pid, int status) {
  const auto place = std::find(watchdogs_.begin(), watchdogs_.end(), pid);
  if (place != watchdogs_.end()) {
    watchdogs_.erase(place);
    return true;
  }
  if (pid != agent_ || ended()) return false;
  on_exited(status);
  return true;
}

}  // namespace acp::shell
