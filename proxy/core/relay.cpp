#include "proxy/core/relay.h"

#include <algorithm>
#include <fmt/format.h>
#include <variant>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

constexpr bool is_edge(Phase from, Phase to) noexcept {
  const auto one_of = [to](auto... phases) { return ((to == phases) || ...); };
  using enum Phase;
  switch (from) {
    case starting:  // its bypass, too, once it cannot be started
      return one_of(starting, serving, restoring, draining, closing, stranded, waiting, spent, lost, ending,
                    over);
    case serving: return one_of(draining, closing, leaving, lost, ending);
    case leaving: return one_of(lost, ending);
    case lost: return one_of(starting, waiting, spent, ending, over);
    case waiting: return one_of(starting, over);
    case spent: return one_of(parked, starting, over);
    case parked: return one_of(starting, over);
    case restoring: return one_of(serving, draining, closing, leaving, lost, ending);
    case draining: return one_of(closing, leaving, ending);
    case closing: return one_of(ending);
    case ending: return one_of(lost, stranded, over);
    case stranded: return one_of(over);
    case over: return false;
  }
  return false;
}

}  // namespace

Relay::Relay(const Settings& settings)
    : settings_(settings),
      edge_(settings, client_link, agent_link_),
      stderr_tail_(settings.stderr_tail_lines),
      budget_(settings.restart_limit, settings.seed),
      agent_end_{.who = settings.component} {}

void Relay::start(Instant /*now*/, Actions& actions) {
  // The client is read once the command runs, so that a command that cannot be executed has been sent
  // nothing.
  actions.add(PauseReading{client_link});
  actions.add(StartAgent{epoch_, agent_link_});
}

void Relay::step(const Event& event, Instant now, Actions& actions) {
  if (phase_ == Phase::over) return;
  Step step{actions, now};
  std::visit([&](const auto& happened) { on(happened, step); }, event);
  after_step(step);
}

void Relay::take(Side from, const Frame& frame, Instant now, Actions& actions) {
  if (phase_ == Phase::over) return;
  Step step{actions, now};
  if (from == Side::client) {
    edge_.take_client(frame, step);
    after_client_frames(step);
  } else {
    edge_.take_agent(frame, step);
    after_agent_frames(step);
  }
  after_step(step);
}

void Relay::replace_client(Instant now, Actions& actions) {
  if (phase_ == Phase::over) return;
  Step step{actions, now};
  edge_.replace_client(step);
  client_backlog_ = 0;
  regulate_reading(step);
  after_step(step);
}

void Relay::after_step(Step& step) {
  const bool ends = phase_ == Phase::ending || phase_ == Phase::over;
  if (client_paused_ && !ends) regulate_reading(step);  // what was held may be gone
  if (phase_ != Phase::over) edge_.finish_step(step);
}

std::optional<Instant> Relay::next_deadline() const noexcept {
  if (phase_ == Phase::over) return std::nullopt;
  std::optional<Instant> first = phase_deadline_;
  for (const auto& other : {edge_.silence_deadline(), edge_.restore_deadline(), edge_.ledger_deadline()}) {
    if (other && (!first || *other < *first)) first = other;
  }
  return first;
}

void Relay::set_phase(Phase phase) {
  INVARIANT(is_edge(phase_, phase));
  phase_ = phase;
  phase_deadline_.reset();
}

void Relay::on(const BytesRead& event, Step& step) {
  if (event.link == client_link) {
    edge_.read_client(event.bytes, step);
    return after_client_frames(step);
  }
  if (event.link != agent_link_) return;  // what still comes from an epoch that was closed
  edge_.read_agent(event.bytes, step);
  after_agent_frames(step);
}

void Relay::after_client_frames(Step& step) {
  if (phase_ == Phase::stranded && edge_.has_answered_gone()) return exit(step);
  const bool asks = edge_.has_held_requests() || edge_.held_bytes() > limits::held_bytes_max;
  if (phase_ == Phase::parked && asks) return start_epoch(step);
  if (edge_.held_bytes() > limits::held_bytes_max) regulate_reading(step);
}

void Relay::on(const LinkEnded& event, Step& step) {
  const bool write_side = event.end == LinkEnd::write_failed;
  if (event.link == client_link) return write_side ? on_client_lost(step) : on_client_end(step);
  if (event.link != agent_link_) return;
  if (!write_side) return on_agent_stream_end(step);
  if (agent_ended_) return;  // told late: its end has been dealt with
  // It reads no more. What it still says counts; its exit usually follows.
  edge_.close_agent(may_restart());
  agent_backlog_ = 0;
  regulate_reading(step);
  const bool unexpected = phase_ == Phase::serving || phase_ == Phase::draining || phase_ == Phase::restoring;
  if (unexpected) begin_leaving(step);
}

// The client's stream has ended: a half close. What was read is delivered, what is open may still be
// answered.
void Relay::on_client_end(Step& step) {
  if (client_ended_) return;
  client_ended_ = true;
  edge_.finish_client(step);
  if (phase_ == Phase::serving || phase_ == Phase::restoring) return begin_draining(step);
  if (is_without_agent()) edge_.settle_lost(agent_end_, step);
  if (is_without_agent() || phase_ == Phase::stranded) exit(step);
}

// The client reads no more: there is nobody to answer.
void Relay::on_client_lost(Step& step) {
  edge_.lose_client();
  client_ended_ = true;
  client_backlog_ = 0;
  const bool idle = is_without_agent() || phase_ == Phase::stranded;
  if (idle) return exit(step);
  if (phase_ == Phase::serving || phase_ == Phase::restoring || phase_ == Phase::draining)
    begin_closing(step);
  regulate_reading(step);
}

void Relay::begin_draining(Step& step) {
  if (edge_.is_done() || edge_.is_client_gone()) return begin_closing(step);
  set_phase(Phase::draining);
  phase_deadline_ = step.now + settings_.drain;
}

void Relay::begin_closing(Step& step) {
  edge_.close_agent(false);  // its stdin ends here, though it may still answer
  set_phase(Phase::closing);
  phase_deadline_ = step.now + settings_.kill_grace;
  step.actions.add(CloseWriting{agent_link_});
}

void Relay::on(const LinkBacklog& event, Step& step) {
  if (event.link == client_link) client_backlog_ = event.bytes;
  // Which of them are this edge's is not known on a link of two: all of them count as taken then.
  if (event.link == agent_link_ && !settings_.is_inner) agent_unwritten_ = event.bytes;
  if (event.link == agent_link_ && !agent_ended_) agent_backlog_ = event.bytes;
  regulate_reading(step);
}

// Whoever fills a queue is not read until it has drained. The two directions are independent,
// so that two full pipes are no deadlock: what waits for a peer keeps that peer from being read only where it
// is more than the other side can have sent (the limit and one frame), hence made of our own answers.
void Relay::regulate_reading(Step& step) {
  const std::size_t back_limit = limits::backlog_bytes_hard + settings_.frame_bytes_max;
  const auto wants_pause = [&](bool paused, std::size_t across, std::size_t back) {
    const std::size_t across_limit = paused ? limits::backlog_bytes_low : limits::backlog_bytes_high;
    return across > across_limit || back > back_limit;
  };
  const auto apply = [&](LinkId link, bool& paused, bool pause) {
    if (paused == pause) return;
    paused = pause;
    if (pause) {
      step.actions.add(PauseReading{link});
    } else {
      step.actions.add(ResumeReading{link});
    }
  };
  const bool first_start = phase_ == Phase::starting && epoch_ == Epoch{1};
  if (!first_start) {
    const bool holds = edge_.held_bytes() > limits::held_bytes_max;
    apply(client_link, client_paused_, holds || wants_pause(client_paused_, agent_backlog_, client_backlog_));
  }
  apply(agent_link_, agent_paused_, wants_pause(agent_paused_, client_backlog_, agent_backlog_));
}

void Relay::on(const StderrRead& event, Step& step) {
  step.actions.add(WriteStderr{event.bytes});
  if (event.epoch != epoch_) return;
  stderr_tail_.add(event.bytes);
  edge_.note_stderr(step.now);
}

void Relay::on(const SignalReceived& event, Step& step) {
  switch (event.signal) {
    case Signal::report: return report_counters(step);
    case Signal::restart: return on_person_restart(step);
    case Signal::interrupt:
    case Signal::terminate:
    case Signal::hangup: break;
  }
  const bool again = signal_ != 0;
  if (!again) signal_ = event.number;
  if (phase_ == Phase::stranded) return exit(step);
  if (is_without_agent()) {
    edge_.settle_lost(agent_end_, step);
    return exit(step);
  }
  if (again) {
    step.actions.add(EndAgent{epoch_, Duration::zero()});  // a person who asks twice means now
    return;
  }
  if (phase_ == Phase::lost) return set_phase(Phase::ending);
  if (is_alive()) end_agent(settings_.kill_grace, step);
}

// SIGUSR2: for an agent that hangs alive, by the same rules as a death.
void Relay::on_person_restart(Step& step) {
  if (is_without_agent()) return start_epoch(step);
  const bool runs = phase_ == Phase::serving || phase_ == Phase::restoring;
  if (!runs || !may_restart()) {
    return step.actions.log(LogLevel::warning, "SIGUSR2: there is nothing to restart now");
  }
  step.actions.log(LogLevel::info, fmt::format("SIGUSR2: the {} is being restarted", settings_.component));
  end_agent(std::chrono::seconds(1), step);
}

void Relay::on(const DeadlineReached& /*event*/, Step& step) {
  edge_.check_silence(step);
  edge_.check_restores(step);
  edge_.check_ledger(step);
  after_agent_frames(step);
  if (!phase_deadline_ || step.now < *phase_deadline_) return;
  phase_deadline_.reset();
  if (phase_ == Phase::draining) return begin_closing(step);
  if (phase_ == Phase::waiting) return start_epoch(step);
  if (phase_ == Phase::spent) {
    edge_.await_agent();
    return set_phase(Phase::parked);
  }
  // Closing or leaving: no other phase has a deadline.
  ended_by_keyhop_ = true;
  end_agent(std::chrono::seconds(1), step);
}

void Relay::exit(Step& step) {
  const int status = exit_status();
  edge_.finish_step(step);
  set_phase(Phase::over);
  step.actions.add(Exit{status});
}

int Relay::exit_status() const noexcept {
  constexpr int cannot_start = 69;
  constexpr int internal = 70;
  constexpr int spent = 75;
  if (signal_ != 0) return 128 + signal_;
  if (phase_ == Phase::spent || phase_ == Phase::parked) return spent;
  if (agent_end_.start_error != 0) return cannot_start;
  if (client_ended_ && ended_by_keyhop_) return 0;
  return agent_end_.status ? agent_end_.status->as_shell_status() : internal;
}

void Relay::report_counters(Step& step) {
  const Counters& counters = edge_.counters();
  const std::string line = fmt::format(
      "keyhop: counters: from client {} frames {} bytes, from agent {} frames {} bytes, open {}, joined {}, "
      "remembered {} of {} keys, refused {}, noise {}, dropped {}, sessions {}, epoch {}, sent again {}\n",
      counters.frames_from_client, counters.bytes_from_client, counters.frames_from_agent,
      counters.bytes_from_agent, edge_.open_requests(), counters.joined, counters.remembered,
      edge_.remembered_keys(), counters.refused, counters.noise, counters.dropped, edge_.tracked_sessions(),
      epoch_.value, counters.sent_again);
  step.actions.add(WriteStderr{step.actions.arena().add(line)});
}

// What waited for the ledger may go on, and the end with it.
void Relay::on(const LedgerOpened& event, Step& step) {
  edge_.open_ledger(event, step);
  after_ledger(step);
}

void Relay::on(const LedgerCommitted& event, Step& step) {
  edge_.on_committed(event, step);
  after_ledger(step);
}

void Relay::on(const LedgerRead& event, Step& step) {
  edge_.on_ledger_read(event, step);
  after_ledger(step);
}

void Relay::after_ledger(Step& step) {
  after_client_frames(step);
  if (phase_ == Phase::draining && edge_.is_done()) begin_closing(step);
}

}  // namespace acp
