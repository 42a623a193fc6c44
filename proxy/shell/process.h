// keyhop's side of one agent epoch: the watchdog's reports and the agent's stderr, as events.
//
// Invariant: the events of an epoch come in this order: AgentStarted or AgentStartFailed (nothing follows the
// latter); AgentExited once; AgentEnded once, after everything the agent had written to stderr by then. A
// watchdog that is killed is replaced, the agent goes on. Lifetime: pinned; owned by the Shell, destroyed
// between two turns of the loop once gone().
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "proxy/core/event.h"
#include "proxy/shell/launcher.h"
#include "proxy/shell/link.h"

namespace acp::shell {

class AgentProcess {
 public:
  struct Callbacks {
    std::function<void(const Event&)> event;
    // A daemon of the agent's that is not ended; the name is the process's own choice, any bytes.
    std::function<void(std::int64_t pid, std::string_view name)> left_alone;
    std::function<void(std::string_view text)> warning;
  };

  AgentProcess(uv_loop_t* loop, ReadBuffer& buffer, Epoch epoch, Callbacks callbacks);

  // Starts the command and hands out keyhop's ends of its stdin and stdout. 0 or an errno value, in which
  // case nothing was started and no event follows.
  int start(const Launch& order, Descriptor& input, Descriptor& output);
  // Ends everything of the epoch: TERM now, KILL after `grace`; a repeat can only shorten it.
  void end(Duration grace);
  // Whoever guards the epoch holds that open file until the epoch has ended. The descriptor stays open as
  // long as this object. A launch's is held from its start.
  void hold(int descriptor);
  // Takes in what the watchdog reported up to now. Called before children are reaped, so that their pids are
  // known.
  void read_reports();
  // A child of keyhop's was reaped. True if it is of this epoch.
  bool child_exited(pid_t pid, int status);

  Epoch epoch() const noexcept { return epoch_; }
  bool end_ordered() const noexcept { return kill_at_.has_value(); }
  // No more events come.
  bool ended() const noexcept { return state_ == State::ended; }
  // And no process of ours is left that guards it.
  bool gone() const noexcept { return ended() && watchdogs_.empty(); }

 private:
  enum class State : std::uint8_t { starting, running, ended };

  int watch_control();
  void on_report(const WatchdogReport& report);
  void on_watchdog_lost();
  void on_started();
  void on_exited(int status);
  void on_ended();
  void fail(int error);
  void send_order();

  uv_loop_t* loop_;
  Epoch epoch_;
  Callbacks callbacks_;
  Reader errors_;
  Watchdog watchdog_;
  Handle<uv_poll_t> control_poll_;
  std::vector<pid_t> watchdogs_;  // not reaped yet
  Duration orphan_grace_{};
  int held_ = -1;
  pid_t agent_ = 0;
  std::uint64_t agent_started_ = 0;
  std::optional<Instant> kill_at_;  // set: the end was ordered
  State state_ = State::starting;
  bool agent_exited_ = false;
  int adoptions_left_ = 8;  // a new watchdog that dies too, again and again, helps nobody
  bool unguarded_ = false;  // no watchdog could be made: ended by hand
};

}  // namespace acp::shell
