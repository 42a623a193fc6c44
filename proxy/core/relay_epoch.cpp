// The agent's epochs: how one starts, serves, is lost, and what follows.
#include <fmt/format.h>
#include <utility>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"
#include "proxy/core/relay.h"

namespace acp {
namespace {

// Between the end of a process's stdout and its exit: long enough that a busy machine does not turn an
// orderly exit into a TERM.
constexpr Duration exit_wait = std::chrono::milliseconds(250);
constexpr Duration term_to_kill = std::chrono::seconds(1);

long long milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

// A process of the epoch may be running, and nobody has ordered its end.
bool Relay::is_alive() const noexcept {
  using enum Phase;
  return phase_ == starting || phase_ == serving || phase_ == restoring || phase_ == draining ||
         phase_ == closing || phase_ == leaving;
}

// Between two epochs: nothing runs.
bool Relay::is_without_agent() const noexcept {
  return phase_ == Phase::waiting || phase_ == Phase::spent || phase_ == Phase::parked;
}

// Not restarted: an agent that never initialized, one whose client has gone, one that was told to go.
bool Relay::may_restart() const noexcept {
  const bool by_settings =
      settings_.restarts && settings_.restart_limit.restarts_max > 0 && edge_.is_initialized();
  return (starts_afresh_ || by_settings) && !client_ended_ && signal_ == 0;
}

bool Relay::start_afresh(bool bypass, Instant now, Actions& actions) {
  const bool runs = phase_ == Phase::serving || phase_ == Phase::restoring || phase_ == Phase::leaving;
  if (!runs || client_ended_) return false;
  Step step{actions, now};
  starts_afresh_ = true;
  bypasses_ = bypass;
  end_agent(Duration::zero(), step);
  after_step(step);
  return true;
}

void Relay::on(const AgentStarted& event, Step& step) {
  if (event.epoch != epoch_ || phase_ != Phase::starting) return;  // a signal came first
  if (epoch_ != Epoch{1}) return begin_restore(step);
  set_phase(Phase::serving);
  served_ = true;
  if (client_ended_) return begin_closing(step);  // gone already
  regulate_reading(step);
}

void Relay::begin_restore(Step& step) {
  set_phase(Phase::restoring);
  edge_.begin_restore(agent_link_, step);
  if (client_ended_) begin_draining(step);
}

void Relay::on(const AgentStartFailed& event, Step& step) {
  if (event.epoch != epoch_) return;
  agent_end_ = AgentEnd{.who = settings_.component};
  agent_end_.start_error = event.error;
  agent_ended_ = stdout_ended_ = true;
  step.actions.log(LogLevel::error, fmt::format("the {}", describe(agent_end_)));
  if (phase_ == Phase::starting && epoch_ != Epoch{1} && may_restart()) {
    edge_.lose_epoch(agent_end_, 0, step);
    return plan_restart(false, step);
  }
  edge_.settle_lost(agent_end_, step);
  if (signal_ != 0 || client_ended_ || epoch_ != Epoch{1}) return exit(step);
  set_phase(Phase::stranded);
  regulate_reading(step);
}

void Relay::on_agent_stream_end(Step& step) {
  if (stdout_ended_) return;
  stdout_ended_ = true;
  edge_.finish_agent(step);
  if (phase_ == Phase::ending || phase_ == Phase::lost) return end_epoch_if_complete(step);
  // While closing it was told to go, and has the grace for what it must still do without a stdout.
  if (phase_ == Phase::serving || phase_ == Phase::draining || phase_ == Phase::restoring)
    begin_leaving(step);
}

void Relay::after_agent_frames(Step& step) {
  if (edge_.is_agent_unreadable() && is_alive()) return end_agent(term_to_kill, step);
  if (phase_ == Phase::draining && edge_.is_done()) return begin_closing(step);
  const bool restores = phase_ == Phase::restoring || (phase_ == Phase::draining && epoch_ != Epoch{1});
  if (!restores) return;
  switch (edge_.epoch_state()) {
    case EpochState::initializing:
    case EpochState::restoring: return;
    case EpochState::failed: takes_over_ = false; return end_agent(term_to_kill, step);
    case EpochState::ready: break;
  }
  served_ = true;
  if (phase_ != Phase::restoring) return;
  set_phase(Phase::serving);
  step.actions.log(LogLevel::info, fmt::format("the {} serves again, {} ms after it went away",
                                               settings_.component, milliseconds(step.now - lost_at_)));
}

void Relay::begin_leaving(Step& step) {
  lost_at_ = step.now;
  edge_.close_agent(may_restart());
  set_phase(Phase::leaving);
  phase_deadline_ = step.now + exit_wait;
  step.actions.add(CloseWriting{agent_link_});
}

void Relay::on(const AgentExited& event, Step& step) {
  if (event.epoch != epoch_) return;
  agent_end_.status = event.status;
  // Its children may live, and what it wrote may still be unread.
  if (is_alive()) end_agent(term_to_kill, step);
}

void Relay::end_agent(Duration grace, Step& step) {
  if (phase_ != Phase::leaving) lost_at_ = step.now;
  const bool again = may_restart();
  edge_.close_agent(again);
  set_phase(again ? Phase::lost : Phase::ending);
  step.actions.add(CloseWriting{agent_link_});
  step.actions.add(EndAgent{epoch_, grace});
}

void Relay::on(const AgentEnded& event, Step& step) {
  if (event.epoch != epoch_ || agent_ended_) return;
  agent_ended_ = true;
  if (is_alive()) {  // its watchdog was lost
    lost_at_ = step.now;
    edge_.close_agent(may_restart());
    set_phase(may_restart() ? Phase::lost : Phase::ending);
  }
  agent_backlog_ = 0;  // nobody will read it, and its last words must be read
  regulate_reading(step);
  if (!stdout_ended_) step.actions.add(FinishReading{agent_link_});
  end_epoch_if_complete(step);
}

void Relay::end_epoch_if_complete(Step& step) {
  if (agent_ended_ && stdout_ended_) end_epoch(step);
}

// Nothing of the agent lives and everything it said was passed on. What still comes from it is dropped.
void Relay::end_epoch(Step& step) {
  agent_end_.stderr_tail = stderr_tail_.text();
  edge_.mask_keys(agent_end_.stderr_tail);
  if (phase_ == Phase::lost && !may_restart()) set_phase(Phase::ending);  // the client went meanwhile
  // Its last words were its first answer to initialize: another one follows after all.
  if (phase_ == Phase::ending && may_restart()) set_phase(Phase::lost);
  if (phase_ == Phase::ending) return end_last_epoch(step);
  if (!starts_afresh_) {
    step.actions.log(LogLevel::warning, fmt::format("the {}; {} requests were open", describe(agent_end_),
                                                    edge_.open_requests()));
  }
  edge_.lose_epoch(agent_end_, agent_unwritten_, step);
  if (starts_afresh_) return start_epoch(step);
  if (!takes_over_) return give_up(step);
  plan_restart(served_, step);
}

void Relay::end_last_epoch(Step& step) {
  const std::size_t open = edge_.open_requests();
  const bool expected = client_ended_ || signal_ != 0;
  step.actions.log(expected ? LogLevel::info : LogLevel::warning,
                   fmt::format("the {}; {} open requests of the client's were answered for it",
                               describe(agent_end_), open));
  edge_.settle_lost(agent_end_, step);
  const bool stays = !edge_.was_asked() && !expected;
  if (!stays) return exit(step);
  set_phase(Phase::stranded);
  regulate_reading(step);
}

void Relay::plan_restart(bool served, Step& step) {
  const RestartBudget::Ruling ruling = budget_.on_loss(served, step.now);
  switch (ruling.answer) {
    case RestartBudget::Answer::now: return start_epoch(step);
    case RestartBudget::Answer::wait:
      set_phase(Phase::waiting);
      phase_deadline_ = ruling.at;
      return step.actions.log(LogLevel::info,
                              fmt::format("the {} is started again in {} ms", settings_.component,
                                          milliseconds(ruling.at - step.now)));
    case RestartBudget::Answer::spent: break;
  }
  if (start_bypass(step)) return;
  edge_.settle_lost(agent_end_, step);
  edge_.set_gone_advice(
      " It was restarted too often (--restart-limit); try again in a while, or look at its stderr.");
  set_phase(Phase::spent);
  phase_deadline_ = ruling.at;
  step.actions.log(
      LogLevel::error,
      fmt::format("the {} was restarted too often (--restart-limit); requests get an error for {} s, "
                  "the first one after that starts it again",
                  settings_.component, milliseconds(ruling.at - step.now) / 1000));
}

// The new agent cannot take over (another protocol version, initialize refused): no loop of tries.
void Relay::give_up(Step& step) {
  constexpr Duration pause = std::chrono::seconds(30);
  takes_over_ = true;
  if (start_bypass(step)) return;
  edge_.settle_lost(agent_end_, step);
  edge_.set_gone_advice(fmt::format(" Its successor could not take over: {}.", edge_.restore_failure()));
  set_phase(Phase::spent);
  phase_deadline_ = step.now + pause;
}

// Once: should even that fail, it fails like a component.
bool Relay::start_bypass(Step& step) {
  if (!settings_.is_bypassed || std::exchange(bypasses_, true)) return false;
  start_epoch(step);
  return true;
}

void Relay::start_epoch(Step& step) {
  if (!std::exchange(starts_afresh_, false)) budget_.on_restart(step.now);
  epoch_ = Epoch{epoch_.value + 1};
  agent_link_ = LinkId{agent_link_.value + 1};
  agent_end_ = AgentEnd{.who = settings_.component};
  stderr_tail_.clear();
  agent_ended_ = stdout_ended_ = served_ = ended_by_keyhop_ = false;
  agent_backlog_ = agent_unwritten_ = 0;
  agent_paused_ = false;
  edge_.await_agent();
  set_phase(Phase::starting);
  step.actions.add(StartAgent{epoch_, agent_link_, bypasses_});
  regulate_reading(step);
}

}  // namespace acp
