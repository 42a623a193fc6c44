#include "tests/sim/guard_world.h"

#include <algorithm>
#include <fmt/format.h>

#include "proxy/core/limits.h"
#include "tests/sim/drive.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/safety_phase.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t rest_steps_max = 6000;

std::string in_words(const LedgerBatch& batch) {
  std::string words = fmt::format("{} {}:", batch.ticket, batch.session);
  for (const LedgerChange& change : batch.changes) {
    if (const auto* add = std::get_if<AddLedgerRow>(&change)) {
      words += fmt::format(" row sent_at {} added", add->row.sent_at);
    } else if (const auto* update = std::get_if<UpdateLedgerRow>(&change)) {
      words += fmt::format(" row sent_at {} state {} {}", update->row.sent_at,
                           static_cast<int>(update->row.state), update->row.message_id);
    } else if (std::holds_alternative<RemoveLedgerRow>(change)) {
      words += " row removed";
    } else if (const auto* put = std::get_if<PutLedgerMessage>(&change)) {
      words +=
          fmt::format(" message seen_at {}{}", put->message.seen_at, put->message.is_given ? " given" : "");
    }
  }
  return words;
}

}  // namespace

GuardWorld::GuardWorld(std::uint64_t seed, std::FILE* trace, Script* script)
    : script_(script),
      random_(seed, script == nullptr ? nullptr : &script->tape),
      plan_(random_, script == nullptr ? Kinds() : script->off),
      trace_(trace) {}

Outcome GuardWorld::run() {
  tell("the agent", plan_.person.in_words());
  begin_run();
  run_safety_phase(
      plan_.steps, script_, random_, outcome_, [&] { return outcome_.failure.empty(); },
      [&] { safety_step(); });
  if (outcome_.faults == 0 && outcome_.failure.empty()) fault_for_all();
  tell("-- rest");
  faults_ = false;
  rest();
  if (outcome_.failure.empty()) last_run();
  outcome_.trace_hash = hash_.value();
  return outcome_;
}

// Chance had none for this history.
void GuardWorld::fault_for_all() {
  fault();
  if (process_->alive && process_->started) {
    tell("[agent dies]");
    process_->alive = false;
    return bury(process_->agent);
  }
  kill_keyhop();
  begin_run();
}

void GuardWorld::begin_run() {
  tell("== keyhop starts");
  first_of_run_ = next_id_;
  initialized_ = client_done_ = client_end_told_ = over_ = ledger_opened_ = false;
  active_.clear();
  client_lines_.clear();
  orders_.clear();
  to_client_.clear();
  to_agent_.clear();
  relay_ = std::make_unique<Relay>(plan_.settings);
  relay_->start(now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
}

void GuardWorld::bury(GuardAgent& agent) { disk_.bury(agent.life(), plan_.person, random_); }

// Nothing of keyhop is left but what was on the disk and in the agent's pipe.
void GuardWorld::kill_keyhop() {
  tell("== keyhop is killed");
  for (LedgerOrder& order : orders_) {
    if (!over_ && random_.chance(50)) break;
    if (order.batch && !order.applied) ledger_.apply(*order.batch);
  }
  for (auto it = asks_.lower_bound(first_of_run_); it != asks_.end(); ++it) {
    Ask& ask = it->second;
    ask.open = false;
    if (ask.kind == Ask::Kind::prompt && ask.key.empty() && !ask.settled) blurred_.insert(ask.session);
  }
  tell_ledger();
  relay_.reset();
  if (plan_.orphans && !last_ && !over_ && process_->started && process_->alive) {
    while (!process_->pipe.empty() && random_.chance(30)) process_->pipe.pop_back();
    note_recorded(*process_);
    orphans_.push_back(std::move(process_));
    ledger_.owner_lives = true;
  } else if (process_->alive) {
    bury(process_->agent);
  }
  process_.reset();
}

// The agent of a keyhop that was killed goes on with what it has.
bool GuardWorld::orphan_step(bool ends) {
  if (orphans_.empty()) return false;
  Process& process = *orphans_.front();
  if (random_.chance(ends ? 30 : 8)) {
    tell("[orphan ends]");
    bury(process.agent);
    orphans_.erase(orphans_.begin());
    ledger_.owner_lives = !orphans_.empty();
    return true;
  }
  if (!process.pipe.empty() && random_.chance(50)) {
    process.agent.take(process.pipe.front());
    process.pipe.pop_front();
  } else if (process.agent.work()) {
    tell("[orphan works]");
  }
  return true;
}

void GuardWorld::safety_step() {
  if (over_) {
    kill_keyhop();
    return begin_run();
  }
  switch (random_.below(16)) {
    case 0:
    case 1:
    case 2: return speak();
    case 3:
    case 4: static_cast<void>(relay_reads_client()); return;
    case 5:
    case 6: static_cast<void>(agent_reads()); return;
    case 7:
    case 8:
      if (process_->alive && process_->started) process_->agent.work();
      return;
    case 9: static_cast<void>(relay_reads()); return;
    case 10:
    case 11: static_cast<void>(ledger_step()); return;
    case 12: static_cast<void>(process_news()); return;
    case 13:
      if (!initialized_) return;  // an agent that takes long to initialize is not waited for
      return pass_time(milliseconds(random_.below(random_.chance(80) ? 10 : 2000)));
    case 14: static_cast<void>(orphan_step(false)); return;
    default: break;
  }
  if (plan_.kills_agent && random_.chance(20) && process_->alive && process_->started) {
    fault();
    tell("[agent dies]");
    process_->alive = false;
    bury(process_->agent);
  } else if (plan_.kills_keyhop && random_.chance(25)) {
    fault();
    kill_keyhop();
    begin_run();
  } else if (plan_.ends_client && random_.chance(15)) {
    fault();
    client_done_ = true;
  }
}

// ---- the pipes ----

void GuardWorld::read(LinkId link, std::string_view lines) {
  std::string bytes(lines);
  bytes.append(limits::padding_bytes, '"');
  step(BytesRead{link, std::string_view(bytes).substr(0, lines.size())});
}

bool GuardWorld::relay_reads_client() {
  if (over_) return false;
  if (client_lines_.empty()) {
    if (!client_done_ || client_end_told_) return false;
    client_end_told_ = true;
    tell("[client's end]");
    step(LinkEnded{client_link, LinkEnd::eof, 0});
    return true;
  }
  std::string lines;
  do {
    lines += client_lines_.front() + '\n';
    client_lines_.pop_front();
  } while (!client_lines_.empty() && random_.chance(40));
  tell("[client is read]");
  read(client_link, lines);
  return true;
}

bool GuardWorld::relay_reads() {
  if (over_ || process_->eof_told || !process_->started) return false;
  std::deque<std::string>& words = process_->agent.words();
  if (words.empty()) {
    if (process_->alive) return false;
    process_->eof_told = true;
    step(LinkEnded{process_->link, LinkEnd::eof, 0});
    return true;
  }
  std::string lines;
  do {
    tell("A", words.front());
    lines += words.front() + '\n';
    words.pop_front();
  } while (!words.empty() && random_.chance(60));
  read(process_->link, lines);
  return true;
}

bool GuardWorld::agent_reads() {
  if (!process_->started || !process_->alive || process_->pipe.empty()) return false;
  process_->agent.take(process_->pipe.front());
  process_->pipe.pop_front();
  if (!disk_.failure.empty()) fail(Invariant::once, disk_.failure);
  return true;
}

bool GuardWorld::process_news() {
  Process& process = *process_;
  if (over_) return false;
  if (!process.started) {
    process.started = true;
    tell("[started]");
    step(AgentStarted{process.epoch, 42});
    return true;
  }
  const bool idle = process.pipe.empty() && !process.agent.is_busy();
  if (process.alive && ((process.doomed && random_.chance(40)) || (process.stdin_closed && idle))) {
    tell("[agent ends]");
    process.alive = false;
    bury(process.agent);
    return true;
  }
  if (process.alive) return process.doomed;
  if (!process.exit_told) {
    process.exit_told = true;
    step(AgentExited{process.epoch, {ExitStatus::Kind::signalled, 9}});
    return true;
  }
  if (process.ended_told || !process.doomed) return false;
  process.ended_told = true;
  step(AgentEnded{process.epoch});
  return true;
}

bool GuardWorld::ledger_step() {
  if (over_) return false;
  if (!ledger_opened_) {
    ledger_opened_ = true;
    tell("[ledger opened]");
    step(LedgerOpened{LedgerError::none, &ledger_.salt()});
    return true;
  }
  if (orders_.empty()) return false;
  LedgerOrder& front = orders_.front();
  if (front.batch && !front.applied) {
    const bool fails = plan_.ledger_fails && !last_ && random_.chance(20) && faults_;
    if (fails) fault();
    ledger_.fails = fails ? LedgerError::full : LedgerError::none;
    front.applied = ledger_.apply(*front.batch);
    ledger_.fails = LedgerError::none;
    if (random_.chance(40)) return true;  // on the disk, and nobody knows
  }
  const LedgerOrder order = std::move(front);
  orders_.pop_front();
  if (order.batch) {
    tell("[committed]", std::to_string(order.ticket));
    step(LedgerCommitted{order.ticket, *order.applied});
  } else {
    tell("[rows read]", order.session);
    const LedgerSession session = ledger_.read(order.agent, order.session);
    step(LedgerRead{order.ticket, LedgerError::none, &session});
  }
  return true;
}

// ---- rest ----

bool GuardWorld::rest_step() {
  bool moved = relay_reads_client();
  moved |= ledger_step();
  moved |= agent_reads();
  if (process_->alive && process_->started) moved |= process_->agent.work();
  moved |= relay_reads();
  moved |= process_news();
  moved |= orphan_step(true);
  if (!disk_.failure.empty()) fail(Invariant::once, disk_.failure);
  return moved;
}

// Everything that was asked is answered.
void GuardWorld::rest() {
  for (std::size_t i = 0; outcome_.failure.empty() && !over_; ++i) {
    if (i > rest_steps_max) return fail(Invariant::rest, "none without faults");
    if (rest_step()) continue;
    if (client_lines_.empty() && !has_open() && (!client_done_ || !client_end_told_)) return;
    const auto deadline = relay_->next_deadline();
    if (!deadline) return fail(Invariant::rest, "a request hangs");
    pass_time(std::max<Duration>(*deadline - now_, milliseconds(1)));
  }
}

// Nothing of the earlier runs lives. Another one asks for every key again.
void GuardWorld::last_run() {
  last_ = true;
  kill_keyhop();
  for (const auto& orphan : orphans_) bury(orphan->agent);
  orphans_.clear();
  ledger_.owner_lives = false;
  begin_run();
  for (const std::string& session : sessions_) {
    if (ledger_.read("A", session).is_complete && !blurred_.contains(session)) decidable_.insert(session);
  }
  say_initialize();
  rest();
  for (const std::string& session : sessions_) say_resume(session, random_.chance(40));
  rest();
  for (int round = 0; round < 2 && outcome_.failure.empty() && !over_; ++round) {
    for (const Key& key : keys_) say_prompt(key.session, key.key, key.text);
    rest();
    if (has_open()) fail(Invariant::one_answer, "a request has none");
  }
}

void GuardWorld::pass_time(Duration duration) {
  sim::pass_time(
      *relay_, now_, duration, [&] { return outcome_.failure.empty() && !over_; },
      [&] {
        tell("[deadline]");
        step(DeadlineReached{});
      });
}

// ---- keyhop ----

void GuardWorld::step(const Event& event) {
  if (over_ || !outcome_.failure.empty()) return;
  ++outcome_.events;
  outcome_.reached.set(pair_of(relay_->phase(), event));
  relay_->step(event, now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
  if (!disk_.failure.empty()) fail(Invariant::once, disk_.failure);
}

void GuardWorld::carry_out(const Action& action) {
  if (const auto* send = std::get_if<Send>(&action)) {
    hash_.mix_number(now_);
    hash_.mix(send->bytes);
    if (send->link != client_link) return sent_to_agent(*send);
    for_each_line(to_client_, send->bytes, [&](std::string_view line) { hear(line); });
  } else if (const auto* start = std::get_if<StartAgent>(&action)) {
    tell("[start]");
    process_ = std::make_unique<Process>(
        Process{GuardAgent(plan_.person, disk_, ++lives_, random_), start->epoch, start->link});
    to_agent_.clear();
  } else if (std::holds_alternative<CloseWriting>(action)) {
    process_->stdin_closed = true;
  } else if (std::holds_alternative<EndAgent>(action)) {
    tell("[end agent]");
    process_->doomed = true;
  } else if (const auto* commit = std::get_if<CommitLedger>(&action)) {
    tell("[commit]", in_words(*commit->batch));
    spare_orphans(*commit->batch);
    orders_.push_back({*commit->batch, commit->batch->ticket, {}, {}, {}});
  } else if (const auto* reading = std::get_if<ReadLedger>(&action)) {
    orders_.push_back(
        {std::nullopt, reading->ticket, std::string(reading->agent), std::string(reading->session), {}});
  } else if (const auto* log = std::get_if<Log>(&action)) {
    tell("log", log->text);
  } else if (std::holds_alternative<Exit>(action)) {
    tell("[exit]");
    over_ = true;
  }
}

void GuardWorld::sent_to_agent(const Send& send) {
  if (!process_ || process_->link != send.link)
    return fail(Invariant::dead_epochs, "bytes for an agent that is gone");
  for_each_line(to_agent_, send.bytes, [&](std::string_view line) {
    tell(">A", line);
    check_leaving(line);
    spare_orphans(line);
    process_->pipe.emplace_back(line);
  });
}

// What the next run will find.
void GuardWorld::tell_ledger() {
  if (trace_ == nullptr) return;
  for (const std::string& name : sessions_) {
    const LedgerSession& session = ledger_.read("A", name);
    for (const LedgerRow& row : session.rows)
      tell("  row", fmt::format("{} state {} sent_at {} {}", name, static_cast<int>(row.state), row.sent_at,
                                row.message_id));
    for (const LedgerPrompt& prompt : session.prompts)
      tell("  prompt", fmt::format("{} sent_at {}", name, prompt.sent_at));
    for (const LedgerMessage& message : session.messages)
      tell("  message",
           fmt::format("{} seen_at {}{}", name, message.seen_at, message.is_given ? " given" : ""));
    if (session.is_complete) tell("  complete", name);
  }
}

void GuardWorld::fail(Invariant invariant, std::string text) {
  tell("FAILED", text);
  if (outcome_.broken) return;
  outcome_.broken = invariant;
  outcome_.failure = fmt::format("{}: {}", name_of(invariant), text);
}

void GuardWorld::tell(std::string_view what, std::string_view text) {
  if (trace_ != nullptr)
    fmt::print(trace_, "{:6} ms  {} {}\n", now_.time_since_epoch() / milliseconds(1) - 3600000, what, text);
}

}  // namespace acp::sim
