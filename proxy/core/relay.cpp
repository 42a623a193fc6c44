#include "proxy/core/relay.h"

#include <fmt/format.h>
#include <variant>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

constexpr LinkId agent_link{2};
constexpr Epoch first_epoch{1};
constexpr Duration exit_wait =
    std::chrono::milliseconds(50);  // between the end of a process's stdout and its exit
constexpr Duration term_to_kill = std::chrono::seconds(1);  // design §9

constexpr bool is_edge(Phase from, Phase to) noexcept {
  switch (from) {
    case Phase::starting:
      return to == Phase::serving || to == Phase::stranded || to == Phase::ending || to == Phase::over;
    case Phase::serving:
      return to == Phase::draining || to == Phase::closing || to == Phase::leaving || to == Phase::ending;
    case Phase::draining: return to == Phase::closing || to == Phase::leaving || to == Phase::ending;
    case Phase::closing: return to == Phase::ending;
    case Phase::leaving: return to == Phase::ending;
    case Phase::ending: return to == Phase::stranded || to == Phase::over;
    case Phase::stranded: return to == Phase::over;
    case Phase::over: return false;
  }
  return false;
}

}  // namespace

Relay::Relay(const Settings& settings)
    : settings_(settings),
      edge_(settings, client_link, agent_link),
      stderr_tail_(settings.stderr_tail_lines) {}

void Relay::start(Instant /*now*/, Actions& actions) {
  // The client is read once the command runs, so that a command that cannot be executed has been sent
  // nothing.
  actions.add(PauseReading{client_link});
  actions.add(StartAgent{first_epoch, agent_link});
}

void Relay::step(const Event& event, Instant now, Actions& actions) {
  if (phase_ == Phase::over) return;
  Step step{actions, now};
  std::visit([&](const auto& happened) { on(happened, step); }, event);
}

std::optional<Instant> Relay::next_deadline() const noexcept {
  if (phase_ == Phase::over) return std::nullopt;
  const auto silence = edge_.silence_deadline();
  if (!silence || (phase_deadline_ && *phase_deadline_ < *silence)) return phase_deadline_;
  return silence;
}

void Relay::set_phase(Phase phase) {
  INVARIANT(is_edge(phase_, phase));
  phase_ = phase;
  phase_deadline_.reset();
}

// A process of the epoch may still be running.
bool Relay::is_alive() const noexcept {
  switch (phase_) {
    case Phase::starting:
    case Phase::serving:
    case Phase::draining:
    case Phase::closing:
    case Phase::leaving: return true;
    case Phase::ending:
    case Phase::stranded:
    case Phase::over: return false;
  }
  return false;
}

void Relay::on(const BytesRead& event, Step& step) {
  if (event.link == client_link) {
    edge_.read_client(event.bytes, step);
    if (phase_ == Phase::stranded && edge_.has_answered_gone()) exit(step);
    return;
  }
  if (event.link != agent_link) return;
  edge_.read_agent(event.bytes, step);
  after_agent_frames(step);
}

void Relay::after_agent_frames(Step& step) {
  if (edge_.is_agent_unreadable() && is_alive()) return end_agent(term_to_kill, step);
  if (phase_ == Phase::draining && edge_.open_requests() == 0) begin_closing(step);
}

void Relay::on(const LinkEnded& event, Step& step) {
  const bool write_side = event.end == LinkEnd::write_failed;
  if (event.link == client_link) return write_side ? on_client_lost(step) : on_client_end(step);
  if (event.link != agent_link) return;
  if (!write_side) return on_agent_stream_end(step);
  // It reads no more. What it still says counts; its exit usually follows.
  edge_.close_agent();
  agent_backlog_ = 0;
  regulate_reading(step);
  if (phase_ == Phase::serving || phase_ == Phase::draining) begin_leaving(step);
}

// The client's stream has ended: a half close. What was read is delivered, what is open may still be
// answered.
void Relay::on_client_end(Step& step) {
  if (client_ended_) return;
  client_ended_ = true;
  edge_.finish_client(step);
  if (phase_ == Phase::stranded) return exit(step);
  if (phase_ != Phase::serving) return;
  if (edge_.open_requests() == 0) return begin_closing(step);
  set_phase(Phase::draining);
  phase_deadline_ = step.now + settings_.drain;
}

// The client reads no more: there is nobody to answer.
void Relay::on_client_lost(Step& step) {
  edge_.lose_client();
  client_ended_ = true;
  client_backlog_ = 0;
  if (phase_ == Phase::stranded) return exit(step);
  if (phase_ == Phase::serving || phase_ == Phase::draining) begin_closing(step);
  regulate_reading(step);
}

void Relay::on_agent_stream_end(Step& step) {
  if (stdout_ended_) return;
  stdout_ended_ = true;
  edge_.finish_agent(step);
  if (phase_ == Phase::ending) return end_epoch_if_complete(step);
  // While closing it was told to go, and has the grace for what it must still do without a stdout.
  if (phase_ == Phase::serving || phase_ == Phase::draining) begin_leaving(step);
}

void Relay::on(const LinkBacklog& event, Step& step) {
  if (event.link == client_link) client_backlog_ = event.bytes;
  if (event.link == agent_link) agent_backlog_ = event.bytes;
  regulate_reading(step);
}

// Whoever fills a queue is not read until it has drained (design §4.8). The two directions are independent, so
// that two full pipes are no deadlock: what waits for a peer keeps that peer from being read only where it is
// more than the other side can have sent (the limit and one frame), hence made of our own answers.
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
  if (phase_ != Phase::starting)
    apply(client_link, client_paused_, wants_pause(client_paused_, agent_backlog_, client_backlog_));
  apply(agent_link, agent_paused_, wants_pause(agent_paused_, client_backlog_, agent_backlog_));
}

void Relay::on(const AgentStarted& /*event*/, Step& step) {
  if (phase_ != Phase::starting) return;  // a signal came first
  set_phase(Phase::serving);
  if (client_ended_) return begin_closing(step);  // gone already
  regulate_reading(step);
}

void Relay::on(const AgentStartFailed& event, Step& step) {
  agent_end_.start_error = event.error;
  agent_ended_ = stdout_ended_ = true;
  step.actions.log(LogLevel::error, fmt::format("the agent {}", describe(agent_end_)));
  edge_.settle_lost(agent_end_, step);
  if (signal_ != 0) return exit(step);
  set_phase(Phase::stranded);
  if (client_ended_) return exit(step);
  regulate_reading(step);
}

void Relay::on(const AgentExited& event, Step& step) {
  agent_end_.status = event.status;
  // Its children may live, and what it wrote may still be unread.
  if (is_alive()) end_agent(term_to_kill, step);
}

void Relay::on(const AgentEnded& /*event*/, Step& step) {
  if (agent_ended_) return;
  agent_ended_ = true;
  edge_.close_agent();
  if (phase_ != Phase::ending) set_phase(Phase::ending);
  agent_backlog_ = 0;  // nobody will read it, and its last words must be read
  regulate_reading(step);
  if (!stdout_ended_) step.actions.add(FinishReading{agent_link});
  end_epoch_if_complete(step);
}

void Relay::on(const StderrRead& event, Step& step) {
  stderr_tail_.add(event.bytes);
  step.actions.add(WriteStderr{event.bytes});
}

void Relay::on(const SignalReceived& event, Step& step) {
  switch (event.signal) {
    case Signal::report: return report_counters(step);
    case Signal::restart:
      return step.actions.log(LogLevel::warning, "SIGUSR2: restarting the agent is not in this version");
    case Signal::interrupt:
    case Signal::terminate:
    case Signal::hangup: break;
  }
  const bool again = signal_ != 0;
  if (!again) signal_ = event.number;
  if (phase_ == Phase::stranded) return exit(step);
  if (again) {
    step.actions.add(EndAgent{first_epoch, Duration::zero()});  // a person who asks twice means now
    return;
  }
  if (is_alive()) return end_agent(settings_.kill_grace, step);
}

void Relay::on(const DeadlineReached& /*event*/, Step& step) {
  edge_.check_silence(step);
  if (!phase_deadline_ || step.now < *phase_deadline_) return;
  phase_deadline_.reset();
  switch (phase_) {
    case Phase::draining: return begin_closing(step);
    case Phase::closing:
    case Phase::leaving: ended_by_keyhop_ = true; return end_agent(term_to_kill, step);
    case Phase::starting:
    case Phase::serving:
    case Phase::ending:
    case Phase::stranded:
    case Phase::over: return;
  }
}

void Relay::begin_closing(Step& step) {
  edge_.close_agent();  // its stdin ends here, though it may still answer
  set_phase(Phase::closing);
  phase_deadline_ = step.now + settings_.kill_grace;
  step.actions.add(CloseWriting{agent_link});
}

void Relay::begin_leaving(Step& step) {
  edge_.close_agent();
  set_phase(Phase::leaving);
  phase_deadline_ = step.now + exit_wait;
  step.actions.add(CloseWriting{agent_link});
}

void Relay::end_agent(Duration grace, Step& step) {
  edge_.close_agent();
  set_phase(Phase::ending);
  step.actions.add(CloseWriting{agent_link});
  step.actions.add(EndAgent{first_epoch, grace});
}

void Relay::end_epoch_if_complete(Step& step) {
  if (phase_ == Phase::ending && agent_ended_ && stdout_ended_) end_epoch(step);
}

// Nothing of the agent lives and everything it said was passed on: now every open request gets its one
// answer.
void Relay::end_epoch(Step& step) {
  agent_end_.stderr_tail = stderr_tail_.text();
  edge_.mask_keys(agent_end_.stderr_tail);
  const std::size_t open = edge_.open_requests();
  const bool expected = client_ended_ || signal_ != 0;
  step.actions.log(expected ? LogLevel::info : LogLevel::warning,
                   fmt::format("the agent {}; {} open requests of the client's were answered for it",
                               describe(agent_end_), open));
  edge_.settle_lost(agent_end_, step);
  const bool stays = !edge_.was_asked() && !expected;
  if (!stays) return exit(step);
  set_phase(Phase::stranded);
  regulate_reading(step);
}

void Relay::exit(Step& step) {
  set_phase(Phase::over);
  step.actions.add(Exit{exit_status()});
}

int Relay::exit_status() const noexcept {
  constexpr int cannot_start = 69;
  constexpr int internal = 70;
  if (signal_ != 0) return 128 + signal_;
  if (agent_end_.start_error != 0) return cannot_start;
  if (client_ended_ && ended_by_keyhop_) return 0;
  return agent_end_.status ? agent_end_.status->as_shell_status() : internal;
}

void Relay::report_counters(Step& step) {
  const Counters& counters = edge_.counters();
  const std::string line = fmt::format(
      "keyhop: counters: from client {} frames {} bytes, from agent {} frames {} bytes, open {}, joined {}, "
      "remembered {} of {} keys, "
      "refused {}, noise {}, dropped {}, sessions {}\n",
      counters.frames_from_client, counters.bytes_from_client, counters.frames_from_agent,
      counters.bytes_from_agent, edge_.open_requests(), counters.joined, counters.remembered,
      edge_.remembered_keys(), counters.refused, counters.noise, counters.dropped, edge_.tracked_sessions());
  step.actions.add(WriteStderr{step.actions.arena().add(line)});
}

}  // namespace acp
