// What can happen, and when: each event as a shell would tell it, or as one could that is late.
#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/phases_world.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view rubbish = "no message";

}  // namespace

void PhasesWorld::safety_step() {
  const Phase phase = relay_->phase();
  // Phases that are rare, and left soon.
  const bool is_rare = phase == Phase::parked || phase == Phase::spent || phase == Phase::stranded;
  if (is_rare && random_.chance(80)) {
    if (random_.chance(15)) return static_cast<void>(ledger_step());
    if (random_.chance(15)) return static_cast<void>(relay_reads_agent());
    if (phase == Phase::parked && client_open_ && random_.chance(10)) {  // no request: it stays parked
      said_.push_back(R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"old"}})");
      return static_cast<void>(relay_reads_client());
    }
    const auto deadline = relay_->next_deadline();
    if (has(Oddity::pauses) && deadline && random_.chance(15)) return pass_time(*deadline - now_);
    return odd_event();
  }
  switch (random_.below(20)) {
    case 0:
    case 1:
    case 2: return speak();
    case 3:
    case 4: static_cast<void>(relay_reads_client()); return;
    case 5:
    case 6: static_cast<void>(agent_reads()); return;
    case 7:
    case 8: static_cast<void>(agent_works()); return;
    case 9: static_cast<void>(relay_reads_agent()); return;
    case 10:
    case 11: static_cast<void>(process_news()); return;
    case 12:
      if (!has(Oddity::late_ledger) || ledger_opened_ || random_.chance(5)) static_cast<void>(ledger_step());
      return;
    case 13: static_cast<void>(drain_client()); return;
    case 14: static_cast<void>(drain_agent()); return;
    case 15:
      if (has(Oddity::pauses) && random_.chance(30)) {
        const auto deadline = relay_->next_deadline();
        if (deadline && *deadline > now_) return pass_time(*deadline - now_);
        return pass_time(milliseconds(random_.below(60'000)));
      }
      return pass_time(milliseconds(random_.below(random_.chance(70) ? 10 : 400)));
    default: return odd_event();
  }
}

void PhasesWorld::odd_event() {
  const auto oddity = static_cast<Oddity>(random_.below(static_cast<std::size_t>(Oddity::count_)));
  if (!has(oddity)) return;
  switch (oddity) {
    case Oddity::early_death:
      if (!asks_.empty()) return;
      [[fallthrough]];
    case Oddity::death:
    case Oddity::early_eof:
    case Oddity::deaf:
    case Oddity::lost_watchdog: return fault_of_process(oddity);
    case Oddity::stderr_words:
      if (process_->started) step(StderrRead{process_->epoch, "words of the agent's\n"});
      return;
    case Oddity::stale_news: return stale_news();
    case Oddity::late_pipe:  // somebody who was left alone has it
      if (!process_->ended_told || !process_->eof_told) return;
      fault();
      return random_.chance(50) ? step(LinkBacklog{process_->link, random_.below(1 << 24)})
                                : step(LinkEnded{process_->link, LinkEnd::write_failed, EPIPE});
    case Oddity::client_end:
      fault();
      client_open_ = false;
      return;
    case Oddity::client_loss: return lose_client();
    case Oddity::signals:
      return random_.chance(30) ? signal(Signal::report, 10) : signal(Signal::terminate, 15);
    case Oddity::person_restart: return signal(Signal::restart, 12);
    default: return;
  }
}

void PhasesWorld::signal(Signal signal, int number) {
  fault();
  tell("[signal]", std::to_string(number));
  if (signal == Signal::terminate && signal_ == 0) signal_ = number;
  step(SignalReceived{signal, number});
}

void PhasesWorld::lose_client() {
  if (client_lost_) return;
  fault();
  tell("[client lost]");
  client_lost_ = true;
  client_backlog_ = client_told_ = 0;
  step(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
}

void PhasesWorld::fault_of_process(Oddity oddity) {
  Process& process = *process_;
  if (oddity == Oddity::deaf) {
    if (!process.started || process.ended_told) return;
    fault();
    process.listens = false;
    static_cast<void>(tell_deaf());
    return;
  }
  if (!process.alive) return;
  fault();
  switch (oddity) {
    case Oddity::early_eof: process.stdout_open = false; return;
    case Oddity::lost_watchdog:
      die();
      process.exit_told = process.ended_told = true;
      return step(AgentEnded{process.epoch});
    default: return die();
  }
}

void PhasesWorld::die() {
  Process& process = *process_;
  if (!process.alive) return;
  tell("[agent dies]");
  process.alive = process.stdout_open = false;
  disk_.bury(process.agent.life(), person_, random_);
}

// Writing to the agent has failed. True if that was news.
bool PhasesWorld::tell_deaf() {
  Process& process = *process_;
  const bool writes = process.started && !process.ended_told && !process.listens && !process.backlog.empty();
  if (!writes || over_) return false;
  tell("[agent is deaf]");
  process.backlog.clear();
  agent_told_ = 0;
  step(LinkEnded{process.link, LinkEnd::write_failed, EPIPE});
  return true;
}

// What belongs to an epoch that is over is told late.
void PhasesWorld::stale_news() {
  if (!former_link_) return;
  fault();
  const Epoch old{process_->epoch.value - 1};
  tell("[stale news]");
  switch (random_.below(7)) {
    case 0: return step(AgentExited{old, {ExitStatus::Kind::exited, 3}});
    case 1: return step(AgentEnded{old});
    case 2: return step(LinkEnded{*former_link_, LinkEnd::eof, 0});
    case 3: return step(LinkEnded{*former_link_, LinkEnd::write_failed, EPIPE});
    case 4: return step(LinkBacklog{*former_link_, random_.below(1 << 20)});
    case 5: return step(StderrRead{old, "late words\n"});
    default: return read(*former_link_, result_line(std::to_string(next_id_ - 1)) + "\n");
  }
}

// ---- the client ----

void PhasesWorld::speak() {
  if (!client_open_ || said_.size() > 4) return;
  if (initialize_ == 0) {
    if (has(Oddity::early_death) && random_.chance(90)) {
      if (random_.chance(30)) say_rubbish();
      return;
    }
    initialize_ = next_id_;
    return say("initialize", R"({"protocolVersion":2})");
  }
  // An agent that takes long to initialize is not waited for, and what is sent along then has no ledger.
  if (!initialized_) {
    if (random_.chance(10)) say("session/list", "{}");
    return;
  }
  if (sessions_.size() == 1 && random_.chance(30)) {
    return random_.chance(70) ? say("session/new", R"({"cwd":"/w","mcpServers":[]})")
                              : say("session/list", "{}");
  }
  const std::string& session = random_.pick(sessions_);
  const std::size_t roll = random_.below(10);
  if (roll == 0) return say("session/list", "{}");
  if (roll == 1)
    return say("session/resume", fmt::format(R"({{"sessionId":"{}","cwd":"/w","mcpServers":[]}})", session));
  if (roll == 2) {
    const bool turn = random_.chance(50);
    const std::size_t request = 1 + random_.below(static_cast<std::size_t>(next_id_));
    return said_.push_back(
        turn ? fmt::format(R"({{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{}"}}}})",
                           session)
             : cancel_line(std::to_string(request)));
  }
  if (roll == 3 && !prompts_.empty()) return say("session/prompt", random_.pick(prompts_));
  const std::string key = roll < 6 ? "" : fmt::format(R"(,"idempotencyKey":"k{}")", next_key_);
  prompts_.push_back(fmt::format(R"({{"sessionId":"{}","prompt":[{{"type":"text","text":"t{}"}}]{}}})",
                                 session, next_key_++, key));
  say("session/prompt", prompts_.back());
  if (key.empty()) prompts_.pop_back();
}

void PhasesWorld::say_rubbish() {
  fault();
  said_.emplace_back(rubbish);
  tell("C", rubbish);
}

bool PhasesWorld::relay_reads_client() {
  if (over_ || client_paused_ || client_end_told_) return false;
  if (said_.empty()) {
    if (client_open_) return false;
    client_end_told_ = true;
    tell("[client's end]");
    step(LinkEnded{client_link, LinkEnd::eof, 0});
    return true;
  }
  std::string lines;
  do {
    const std::string_view line = said_.front();
    const std::string_view token = member(line, "id");
    if (!token.empty()) asks_[std::stoi(std::string(token))] = true;
    if (line == rubbish) ++open_rubbish_;
    lines.append(line).push_back('\n');
    said_.pop_front();
  } while (!said_.empty() && random_.chance(40));
  tell("[client is read]");
  read(client_link, lines);
  return true;
}

bool PhasesWorld::drain_client() {
  if (client_backlog_ == 0 || over_ || client_lost_) return false;
  client_backlog_ = faults_ && random_.chance(60) ? client_backlog_ / 2 : 0;
  tell_queues();
  return true;
}

// ---- the agent ----

bool PhasesWorld::agent_reads() {
  Process& process = *process_;
  if (!process.alive || process.pipe.empty()) return false;
  process.agent.take(process.pipe.front());
  process.pipe.pop_front();
  return true;
}

bool PhasesWorld::agent_works() { return process_->alive && process_->agent.work(); }

bool PhasesWorld::drain_agent() {
  Process& process = *process_;
  if (!process.alive || !process.listens || process.backlog.empty()) return false;
  process.pipe.push_back(std::move(process.backlog.front()));
  process.backlog.pop_front();
  tell_queues();
  return true;
}

bool PhasesWorld::relay_reads_agent() {
  Process& process = *process_;
  if (over_ || agent_paused_ || !process.started || process.eof_told) return false;
  std::deque<std::string>& words = process.agent.words();
  if (words.empty()) {
    if (process.stdout_open && !process.finish_reading) return false;
    process.eof_told = true;
    tell("[agent's stdout ends]");
    step(LinkEnded{process.link, LinkEnd::eof, 0});
    return true;
  }
  std::string lines;
  do {
    tell("A", words.front());
    lines += words.front() + '\n';
    words.pop_front();
  } while (!words.empty() && random_.chance(60));
  read(process.link, lines);
  return true;
}

// One piece of news of the process, if there is one.
bool PhasesWorld::process_news() {
  Process& process = *process_;
  if (over_ || process.failed) return false;
  if (!process.started) {
    if (faults_ && has(Oddity::failed_start) && random_.chance(process.epoch == Epoch{1} ? 5 : 40)) {
      fault();
      process.failed = true;
      tell("[start failed]");
      step(AgentStartFailed{process.epoch, ENOENT});
      return true;
    }
    process.started = process.alive = true;
    tell("[started]");
    step(AgentStarted{process.epoch, 42});
    return true;
  }
  const bool idle = process.pipe.empty() && process.backlog.empty() && !process.agent.is_busy();
  const bool goes = (process.doomed && random_.chance(40)) || (process.stdin_closed && idle);
  if (process.alive && goes) {
    die();
    return true;
  }
  if (process.alive) return process.doomed;
  if (!process.exit_told) {
    process.exit_told = true;
    tell("[exit of the agent]");
    step(AgentExited{process.epoch, {ExitStatus::Kind::signalled, 9}});
    return true;
  }
  if (process.ended_told || !process.doomed) return false;
  process.ended_told = true;
  tell("[end of the agent]");
  step(AgentEnded{process.epoch});
  return true;
}

// ---- the ledger ----

bool PhasesWorld::ledger_step() {
  if (over_ || !settings_.ledger) return false;
  if (!ledger_opened_) {
    ledger_opened_ = true;
    tell("[ledger opened]");
    step(LedgerOpened{LedgerError::none, &ledger_.salt()});
    return true;
  }
  if (orders_.empty()) return false;
  const LedgerOrder order = std::move(orders_.front());
  orders_.pop_front();
  if (order.batch) {
    const bool fails = has(Oddity::full_disk) && faults_ && random_.chance(20);
    if (fails) fault();
    const LedgerError error = fails ? LedgerError::full : ledger_.apply(*order.batch);
    tell("[committed]", std::to_string(order.ticket));
    step(LedgerCommitted{order.ticket, error});
  } else {
    tell("[rows read]", order.session);
    const LedgerSession session = ledger_.read(order.agent, order.session);
    step(LedgerRead{order.ticket, LedgerError::none, &session});
  }
  return true;
}

}  // namespace acp::sim
