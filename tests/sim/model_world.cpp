#include "tests/sim/model_world.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "tests/sim/dialogue.h"
#include "tests/sim/drive.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Kind = Choice::Kind;

constexpr std::string_view agent_name = "A";

const Salt& salt_of_all() {
  static const MemoryLedger ledger;
  return ledger.salt();
}

}  // namespace

const Settings& ModelWorld::settings_of_all() {
  static const Settings settings = [] {
    Settings made;
    made.ledger = true;
    made.agent_command = "agent";
    return made;
  }();
  return settings;
}

ModelWorld::ModelWorld(const ModelScope& scope)
    : scope_(std::make_shared<const ModelScope>(scope)),
      asked_(scope.sessions * scope.keys),
      is_doubtful_(scope.clients > 1 || scope.same_text) {
  for (std::size_t who = 0; who < scope.clients; ++who) {
    sides_.emplace_back(settings_of_all());
    begin_run(who);
    for (std::size_t session = 0; session < scope.sessions; ++session) {
      if (who > 0) {
        ask_resume(who, session);
      } else {
        sides_[0].asks.push_back({Ask::Kind::other, {static_cast<std::uint8_t>(session), 0}});
        say(0, request_line(std::to_string(sides_[0].asks.size()), "session/new",
                            R"({"cwd":"/w","mcpServers":[]})"));
      }
      come_to_rest();
      sides_[who].active[session] = true;
    }
  }
  left_ = scope;
  rests_ = false;
}

// Another connection, another run: as far as initialize.
void ModelWorld::begin_run(std::size_t who) {
  Side& side = sides_[who] = Side(settings_of_all());
  side.now = Instant(std::chrono::hours(1));
  side.run = ++runs_;
  side.active.assign(scope_->sessions, false);
  carry_out(who, side.core.start(side.now));
  start_process(who);
  tell_core(who, LedgerOpened{LedgerError::none, &salt_of_all()});
  side.asks.push_back({Ask::Kind::other, {}});
  say(who, request_line("1", "initialize", R"({"protocolVersion":2})"));
  make({Kind::read, static_cast<std::uint8_t>(who)});
}

// The process runs; of a later epoch keyhop has asked its initialize then, and is answered.
void ModelWorld::start_process(std::size_t who) {
  Side& side = sides_[who];
  side.process->started = true;
  tell_core(who, AgentStarted{side.process->epoch, 42});
  if (!side.process->words.empty()) make({Kind::read, static_cast<std::uint8_t>(who)});
}

void ModelWorld::learn(std::size_t who) {
  Side& side = sides_[who];
  if (!side.process->started) return start_process(who);
  for (Ask& ask : side.asks) ask.is_final = ask.is_final || (ask.cancelled && ask.sent);
  const Epoch epoch = side.process->epoch;
  tell_core(who, LinkEnded{side.process->link, LinkEnd::eof, 0});
  tell_core(who, AgentExited{epoch, {ExitStatus::Kind::signalled, 9}});
  if (!side.process->doomed) return fail(Invariant::phases, "the rest of a dead agent is not ended");
  side.process.reset();
  tell_core(who, AgentEnded{epoch});
  if (side.process) start_process(who);
}

// Nothing of it is left but what is on the disk, and for a while its agent.
void ModelWorld::kill_keyhop(std::size_t who, std::size_t on_the_disk) {
  Side& side = sides_[who];
  for (Order& order : side.orders) {
    if (!order.batch || on_the_disk == 0) continue;
    --on_the_disk;
    ledger_.apply(*order.batch, side.run);
  }
  if (!side.process || !side.process->started || !side.process->alive) return;
  bool owns = false;
  for (std::size_t session = 0; session < scope_->sessions; ++session) {
    const LedgerSession& known = ledger_.read(std::string(agent_name), session_name(session));
    owns = owns || std::ranges::any_of(known.rows, [&](const LedgerRow& row) {
             return row.run == side.run && row.state == LedgerState::open;
           });
  }
  side.process->leave_client();
  if (owns || !side.process->is_idle()) orphans_.push_back({side.run, std::move(*side.process)});
}

void ModelWorld::make(const Choice& choice) {
  if (choice.kind >= Kind::orphan_takes) return make_orphans(choice);
  const std::size_t who = choice.who;
  Side& side = sides_[who];
  switch (choice.kind) {
    case Kind::prompt: return ask_prompt(who, {choice.what, choice.which});
    case Kind::cancel: return cancel(who, choice.what);
    case Kind::resume: return ask_resume(who, choice.what);
    case Kind::commit: return run_ledger(who, false);
    case Kind::commit_fails: --left_.failures; return run_ledger(who, true);
    case Kind::read: {
      const std::string words = std::exchange(side.process->words, {});
      if (trace_ != nullptr) tell("  agent says", words);
      return carry_out(who, side.core.read(side.process->link, words, side.now));
    }
    case Kind::learn: return learn(who);
    case Kind::timer:
      left_.timers -= rests_ ? 0 : 1;
      side.now = std::max(side.now, *side.core.deadline());
      return tell_core(who, DeadlineReached{});
    case Kind::take: return side.process->take(disk_);
    case Kind::insert: return insert(*side.process, choice.what, &side);
    case Kind::answer: return side.process->answer(*side.process->next_to_answer(choice.what));
    case Kind::agent_dies: --left_.deaths; [[fallthrough]];
    case Kind::agent_ends: is_doubtful_ = side.process->die(disk_, choice.what) || is_doubtful_; return;
    case Kind::keyhop_dies:
      left_.deaths -= side.over ? 0 : 1;
      kill_keyhop(who, choice.what);
      return begin_run(who);
    case Kind::orphan_takes:
    case Kind::orphan_inserts:
    case Kind::orphan_ends: break;
  }
}

void ModelWorld::make_orphans(const Choice& choice) {
  ModelProcess& process = orphans_[choice.who].process;
  if (choice.kind == Kind::orphan_takes) return process.take(disk_);
  if (choice.kind == Kind::orphan_inserts) {
    insert(process, choice.what, nullptr);
    process.answer(*process.next_to_answer(choice.what));
    return process.words.clear();
  }
  is_doubtful_ = process.die(disk_, choice.what) || is_doubtful_;
  orphans_.erase(orphans_.begin() + choice.who);
}

// `side`: whose request it is, if it is still there.
void ModelWorld::insert(ModelProcess& process, std::size_t session, Side* side) {
  const ModelPrompt& prompt = *process.next_to_insert(session);
  if (disk_.has(prompt.work))
    fail(Invariant::once, fmt::format("a second insertion of {} in {}", key_name(prompt.work.key),
                                      session_name(prompt.work.session)));
  if (side != nullptr)
    side->asks[static_cast<std::size_t>(std::stoi(prompt.id)) - 1].message = disk_.messages.size();
  process.insert(prompt, disk_);
}

// ---- the ledger ----

void ModelWorld::run_ledger(std::size_t who, bool fails) {
  Side& side = sides_[who];
  const Order order = std::move(side.orders.front());
  side.orders.pop_front();
  if (order.batch) {
    is_doubtful_ = is_doubtful_ || fails;
    const LedgerError error = fails ? LedgerError::full : ledger_.apply(*order.batch, side.run);
    return tell_core(who, LedgerCommitted{order.ticket, error});
  }
  LedgerSession session = ledger_.read(std::string(agent_name), order.session);
  session.has_living_owner = owner_lives(side.run, session);
  for (LedgerRow& row : session.rows) row.run = row.run == side.run ? 0 : row.run;
  carry_out(who, side.core.ledger_read(order.ticket, session, side.now));
}

bool ModelWorld::owner_lives(std::uint64_t run, const LedgerSession& session) const {
  return std::ranges::any_of(session.rows, [&](const LedgerRow& row) {
    if (row.state != LedgerState::open || row.run == run) return false;
    return std::ranges::any_of(sides_, [&](const Side& side) { return side.run == row.run; }) ||
           std::ranges::any_of(orphans_, [&](const Orphan& orphan) { return orphan.run == row.run; });
  });
}

// ---- the client's words ----

void ModelWorld::say(std::size_t who, std::string line) {
  Side& side = sides_[who];
  if (trace_ != nullptr) tell("  client says", line);
  line += '\n';
  carry_out(who, side.core.read(client_link, line, side.now));
}

void ModelWorld::ask_prompt(std::size_t who, ModelWork work) {
  Side& side = sides_[who];
  asked_[place_of(work)] = true;
  left_.prompts -= rests_ ? 0 : 1;
  side.asks.push_back({Ask::Kind::prompt, work});
  say(who, prompt_line(std::to_string(side.asks.size()), fmt::format("\"{}\"", key_name(work.key)),
                       text_of(work, scope_->same_text), session_name(work.session)));
}

void ModelWorld::ask_resume(std::size_t who, std::size_t session) {
  Side& side = sides_[who];
  side.asks.push_back({Ask::Kind::resume, {static_cast<std::uint8_t>(session), 0}});
  say(who,
      request_line(std::to_string(side.asks.size()), "session/resume",
                   fmt::format(R"({{"sessionId":"{}","cwd":"/w","mcpServers":[]}})", session_name(session))));
}

void ModelWorld::cancel(std::size_t who, std::size_t request) {
  Side& side = sides_[who];
  Ask& ask = side.asks[request];
  ask.cancelled = true;
  // Nothing waits for its commit: it is with an agent, or lost with one.
  const bool waits =
      std::ranges::any_of(side.orders, [](const Order& order) { return order.batch.has_value(); });
  ask.is_final = ask.sent && !waits;
  --left_.cancels;
  is_doubtful_ = true;
  say(who, cancel_line(std::to_string(request + 1)));
}

// ---- keyhop ----

void ModelWorld::tell_core(std::size_t who, const Event& event) {
  Side& side = sides_[who];
  if (side.over) return;
  carry_out(who, side.core.tell(event, side.now));
}

void ModelWorld::carry_out(std::size_t who, const Actions& actions) {
  Side& side = sides_[who];
  for (const Action& action : actions.list()) {
    if (const auto* send = std::get_if<Send>(&action)) {
      if (send->link == client_link) {
        for_each_line(side.to_client, send->bytes, [&](std::string_view line) { hear(who, line); });
      } else if (!side.process || side.process->link != send->link || side.process->doomed) {
        fail(Invariant::dead_epochs, "bytes for an agent that is gone");
      } else {
        for_each_line(side.to_agent, send->bytes, [&](std::string_view line) {
          if (trace_ != nullptr) tell("  to the agent", line);
          check_leaving(who, line);
          if (side.process->alive) side.process->send(line, disk_);
        });
      }
    } else if (const auto* start = std::get_if<StartAgent>(&action)) {
      side.process.emplace(start->epoch, start->link, scope_->same_text);
      side.to_agent.clear();
    } else if (std::holds_alternative<EndAgent>(action) || std::holds_alternative<CloseWriting>(action)) {
      if (side.process) side.process->doomed = true;
    } else if (const auto* commit = std::get_if<CommitLedger>(&action)) {
      side.orders.push_back({*commit->batch, commit->batch->ticket, {}});
    } else if (const auto* reading = std::get_if<ReadLedger>(&action)) {
      side.orders.push_back({std::nullopt, reading->ticket, std::string(reading->session)});
    } else if (std::holds_alternative<Exit>(action)) {
      side.over = true;
    } else if (const auto* log = std::get_if<Log>(&action); log != nullptr && trace_ != nullptr) {
      tell("  keyhop logs", log->text);
    }
  }
}

void ModelWorld::fail(Invariant invariant, std::string text) {
  tell("FAILED", text);
  if (broken_) return;
  broken_ = invariant;
  failure_ = fmt::format("{}: {}", name_of(invariant), text);
}

void ModelWorld::tell(std::string_view what, std::string_view text) const {
  if (trace_ == nullptr) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  fmt::print(trace_, "{}{}{}\n", what, text.empty() ? "" : ": ", text);
}

}  // namespace acp::sim
