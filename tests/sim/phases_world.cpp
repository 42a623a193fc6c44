// What comes of the events: the relay's actions are carried out, and held against what it promises.
#include "tests/sim/phases_world.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "proxy/core/limits.h"
#include "proxy/core/salted_hash.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/drive.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/safety_phase.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t rest_steps_max = 6000;
// Told for each byte that waits, so that a few frames fill a queue.
constexpr std::size_t backlog_scale = 8192;

constexpr std::string_view names[] = {
    "death",        "early death",   "early eof", "deaf",         "slow agent", "slow client",
    "failed start", "lost watchdog", "stderr",    "stale news",   "client end", "client loss",
    "signals",      "SIGUSR2",       "pauses",    "small budget", "no ledger",  "late ledger",
    "full disk",    "silence",       "late pipe"};
static_assert(std::size(names) == static_cast<std::size_t>(Oddity::count_) && std::size(names) <= kinds_max);

int number_of(std::string_view token) {
  int number = -1;
  std::from_chars(token.data(), token.data() + token.size(), number);
  return number;
}

}  // namespace

std::span<const std::string_view> PhasesWorld::kind_names() noexcept { return names; }

PhasesWorld::PhasesWorld(std::uint64_t seed, std::FILE* trace, Script* script)
    : script_(script), random_(seed, script == nullptr ? nullptr : &script->tape), trace_(trace) {
  plan(script == nullptr ? Kinds() : script->off);
  relay_ = std::make_unique<Relay>(settings_);
}

void PhasesWorld::plan(Kinds off) {
  for (std::size_t i = 0; i < oddities_.size(); ++i) oddities_[i] = random_.chance(40);
  // What ends a history early stands in few of them.
  const auto rarely = [&](Oddity oddity) {
    if (random_.chance(60)) oddities_.reset(static_cast<std::size_t>(oddity));
  };
  for (const Oddity oddity : {Oddity::early_death, Oddity::client_end, Oddity::client_loss, Oddity::signals})
    rarely(oddity);
  for (std::size_t i = 0; i < oddities_.size(); ++i) oddities_[i] = oddities_[i] && !off[i];
  person_.echoes_late = random_.chance(30);
  person_.chunks = random_.chance(30);
  person_.refuses_replay = random_.chance(10);
  settings_.ledger = !has(Oddity::no_ledger);
  settings_.agent_command = "agent";
  settings_.drain = milliseconds(random_.below(1000));
  settings_.kill_grace = milliseconds(10 + random_.below(1000));
  settings_.restore_timeout = milliseconds(100 + random_.below(5000));
  settings_.restart_limit.restarts_max =
      static_cast<std::uint32_t>(has(Oddity::small_budget) ? 1 + random_.below(2) : 1000);
  if (has(Oddity::silence)) settings_.silence_timeout = milliseconds(50 + random_.below(2000));
  steps_ = 40 + random_.below(200);
  // One that the agent has of an earlier day.
  disk_.sessions["old"];
  sessions_.emplace_back("old");
}

Outcome PhasesWorld::run() {
  relay_->start(now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
  run_safety_phase(
      steps_, script_, random_, outcome_, [&] { return outcome_.failure.empty() && !over_; },
      [&] { safety_step(); });
  if (outcome_.faults == 0 && outcome_.failure.empty() && !over_) {  // chance had none
    fault();
    die();
  }
  tell("-- rest");
  faults_ = false;
  rest();
  outcome_.trace_hash = hash_.value();
  return outcome_;
}

// ---- rest ----

bool PhasesWorld::rest_step() {
  bool moved = drain_client();
  moved |= drain_agent();
  moved |= relay_reads_client();
  moved |= ledger_step();
  moved |= agent_reads();
  moved |= agent_works();
  moved |= relay_reads_agent();
  moved |= tell_deaf();
  moved |= process_news();
  return moved;
}

// Everything that was asked is answered; then the client goes, and keyhop must follow.
void PhasesWorld::rest() {
  for (std::size_t i = 0; outcome_.failure.empty() && !over_; ++i) {
    if (i > rest_steps_max) return fail(Invariant::rest, "none without faults");
    if (rest_step()) continue;
    if (client_open_ && !has_open()) {
      client_open_ = false;
      continue;
    }
    const auto deadline = relay_->next_deadline();
    if (!deadline) return fail(Invariant::rest, client_open_ ? "a request hangs" : "keyhop does not end");
    pass_time(std::max<Duration>(*deadline - now_, milliseconds(1)));
  }
  if (outcome_.failure.empty() && !client_lost_ && has_open())
    fail(Invariant::one_answer, "a request that was read has none");
}

// Those that were read; nobody is owed an answer to others.
bool PhasesWorld::has_open() const noexcept {
  return !client_lost_ &&
         std::any_of(asks_.begin(), asks_.end(), [](const auto& each) { return each.second; });
}

void PhasesWorld::pass_time(Duration duration) {
  sim::pass_time(
      *relay_, now_, duration, [&] { return outcome_.failure.empty() && !over_; },
      [&] {
        tell("[deadline]");
        step(DeadlineReached{});
      });
}

// ---- keyhop ----

void PhasesWorld::read(LinkId link, std::string_view lines) {
  std::string bytes(lines);
  bytes.append(limits::padding_bytes, '"');
  step(BytesRead{link, std::string_view(bytes).substr(0, lines.size())});
}

void PhasesWorld::step(const Event& event) {
  if (over_ || !outcome_.failure.empty()) return;
  ++outcome_.events;
  outcome_.reached.set(pair_of(relay_->phase(), event));
  relay_->step(event, now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
  if (!to_client_.empty()) fail(Invariant::whole_lines, to_client_);
  if (!to_agent_.empty()) fail(Invariant::whole_lines, to_agent_);
  if ((relay_->phase() == Phase::over) != over_) fail(Invariant::phases, "over without Exit");
  if (!disk_.failure.empty()) fail(Invariant::once, disk_.failure);
  tell_queues();
}

// Told whenever it changed over a flush.
void PhasesWorld::tell_queues() {
  if (over_ || !outcome_.failure.empty()) return;
  if (client_told_ != client_backlog_ && !client_lost_) {
    client_told_ = client_backlog_;
    return step(LinkBacklog{client_link, client_told_ * backlog_scale});
  }
  std::size_t waits = 0;
  for (const std::string& line : process_->backlog) waits += line.size() + 1;
  if (agent_told_ == waits || !process_->listens || process_->ended_told) return;
  agent_told_ = waits;
  step(LinkBacklog{process_->link, waits});
}

void PhasesWorld::carry_out(const Action& action) {
  hash_.mix_number(now_);
  if (over_) return fail(Invariant::phases, "an action after Exit");
  if (const auto* send = std::get_if<Send>(&action)) {
    hash_.mix(send->bytes);
    if (send->link != client_link) return sent_to_agent(*send);
    if (has(Oddity::slow_client) && faults_) client_backlog_ += send->bytes.size();
    for_each_line(to_client_, send->bytes, [&](std::string_view line) { hear(line); });
  } else if (const auto* start = std::get_if<StartAgent>(&action)) {
    tell("[start]");
    if (process_ && !(process_->ended_told || process_->failed))
      fail(Invariant::one_life, "another process, and the one before it lives");
    if (process_) former_link_ = process_->link;
    const auto life = static_cast<int>(start->epoch.value);
    process_ = std::make_unique<Process>(
        Process{GuardAgent(person_, disk_, life, random_), start->epoch, start->link});
    agent_told_ = 0;
    agent_paused_ = false;
  } else if (const auto* pause = std::get_if<PauseReading>(&action)) {
    (pause->link == client_link ? client_paused_ : agent_paused_) = true;
  } else if (const auto* resume = std::get_if<ResumeReading>(&action)) {
    (resume->link == client_link ? client_paused_ : agent_paused_) = false;
  } else if (std::holds_alternative<CloseWriting>(action)) {
    process_->stdin_closed = true;
  } else if (std::holds_alternative<FinishReading>(action)) {
    process_->finish_reading = true;
  } else if (std::holds_alternative<EndAgent>(action)) {
    tell("[end agent]");
    process_->doomed = true;
  } else if (const auto* commit = std::get_if<CommitLedger>(&action)) {
    orders_.push_back({*commit->batch, commit->batch->ticket, {}, {}});
  } else if (const auto* reading = std::get_if<ReadLedger>(&action)) {
    orders_.push_back(
        {std::nullopt, reading->ticket, std::string(reading->agent), std::string(reading->session)});
  } else if (const auto* log = std::get_if<Log>(&action)) {
    tell("log", log->text);
  } else if (const auto* exit = std::get_if<Exit>(&action)) {
    tell("[exit]", std::to_string(exit->status));
    hash_.mix_number(exit->status);
    over_ = true;
    if (signal_ != 0 && exit->status != 128 + signal_)
      fail(Invariant::exit, fmt::format("exit status {} after signal {}", exit->status, signal_));
  }
}

void PhasesWorld::sent_to_agent(const Send& send) {
  Process& process = *process_;
  if (process.link != send.link || !process.started || process.ended_told)
    return fail(Invariant::dead_epochs, fmt::format("to link {}: {}", send.link.value, send.bytes));
  if (process.stdin_closed) return fail(Invariant::dead_epochs, "bytes after its stdin was closed");
  for_each_line(to_agent_, send.bytes, [&](std::string_view line) {
    tell(">A", line);
    check_row(line);
    process.backlog.emplace_back(line);
  });
  if (!has(Oddity::slow_agent) && process.listens) {
    for (std::string& line : process.backlog) process.pipe.push_back(std::move(line));
    process.backlog.clear();
  }
}

void PhasesWorld::check_row(std::string_view line) {
  if (!settings_.ledger || unquoted(member(line, "method")) != "session/prompt") return;
  const std::string_view key = unquoted(member(line, "params", "idempotencyKey"));
  if (key.empty()) return;
  const Fingerprint hash = SaltedHash(ledger_.salt(), 'k').add(key).print();
  const std::string session(unquoted(member(line, "params", "sessionId")));
  const bool known = std::ranges::any_of(ledger_.read("A", session).rows,
                                         [&](const LedgerRow& row) { return row.key == hash; });
  if (!known) fail(Invariant::row_first, fmt::format("left before its row was written: {}", line));
}

// ---- the client ----

void PhasesWorld::say(std::string_view method, std::string_view params) {
  said_.push_back(request_line(std::to_string(next_id_++), method, params));
  tell("C", said_.back());
}

void PhasesWorld::hear(std::string_view line) {
  ++outcome_.messages;
  tell(">C", line);
  const std::string_view token = member(line, "id");
  if (token.empty() || !member(line, "method").empty()) return;
  if (token == "null" && open_rubbish_-- > 0) return;
  const auto ask = asks_.find(number_of(token));
  if (ask == asks_.end()) return fail(Invariant::one_answer, fmt::format("an answer to nothing: {}", line));
  if (!ask->second) return fail(Invariant::one_answer, fmt::format("a second answer: {}", line));
  ask->second = false;
  const bool success = member(line, "error").empty();
  if (ask->first == initialize_ && !success) initialize_ = 0;  // once more
  initialized_ = initialized_ || (ask->first == initialize_ && success);
  const std::string_view session = unquoted(member(line, "result", "sessionId"));
  if (!session.empty()) sessions_.emplace_back(session);
}

void PhasesWorld::fail(Invariant invariant, std::string text) {
  tell("FAILED", text);
  if (outcome_.broken) return;
  outcome_.broken = invariant;
  outcome_.failure = fmt::format("{}: {}", name_of(invariant), text);
}

void PhasesWorld::tell(std::string_view what, std::string_view text) {
  if (trace_ == nullptr) return;
  fmt::print(trace_, "{:6} ms  {} {}\n", now_.time_since_epoch() / milliseconds(1) - 3600000, what, text);
}

}  // namespace acp::sim
