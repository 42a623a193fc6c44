#include "tests/sim/chain_world.h"

#include <algorithm>
#include <fmt/format.h>

#include "proxy/core/limits.h"
#include "tests/sim/drive.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/safety_phase.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t rest_steps_max = 20000;

}  // namespace

ChainWorld::ChainWorld(std::uint64_t seed, std::FILE* trace, Script* script)
    : script_(script),
      random_(seed, script == nullptr ? nullptr : &script->tape),
      plan_(random_, script == nullptr ? Kinds() : script->off),
      trace_(trace),
      chain_(plan_.chain),
      processes_(chain_.size() - (plan_.chain.is_component ? 1 : 0)),
      waiting_(processes_.size()) {
  if (plan_.chain.is_component)
    agent_behind_ = std::make_unique<ChainAgent>(plan_.agent, disk_, ++lives_, random_);
}

Outcome ChainWorld::run() {
  chain_.start(now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
  if (plan_.begins_well) {
    faults_ = false;
    say_initialize();
    rest();
    if (initialized_) say(Ask::Kind::create, "session/new", R"("cwd":"/w","mcpServers":[])", {});
    rest();
    faults_ = true;
  }
  tell("-- faults");
  run_safety_phase(
      plan_.steps, script_, random_, outcome_, [&] { return outcome_.failure.empty() && !over_; },
      [&] { safety_step(); });
  if (outcome_.faults == 0 && outcome_.failure.empty()) fault_for_all();
  tell("-- rest");
  faults_ = false;
  rest();
  check_rest();
  last_words();
  check_rest();
  end_client();
  outcome_.trace_hash = hash_.value();
  return outcome_;
}

void ChainWorld::safety_step() {
  const std::size_t roll = random_.below(20);
  Process* process = pick_process();
  if (roll < 4) {
    if (random_.chance(12) && answer_question()) return;
    return speak();
  }
  if (roll < 6) return static_cast<void>(client_is_read());
  if (roll == 6) return pass_time(milliseconds(random_.below(random_.chance(80) ? 10 : 2000)));
  if (roll == 7) return static_cast<void>(tell_client_backlog());
  if (roll == 19) return random_.chance(80) ? go_wrong() : void();
  if (agent_behind_ != nullptr && random_.chance(30)) return static_cast<void>(agent_behind_works());
  if (process == nullptr) return;
  if (roll < 11) return static_cast<void>(process_reads(*process));
  if (roll < 13) return static_cast<void>(process_works(*process));
  if (roll < 16) return static_cast<void>(process_is_read(*process));
  if (roll < 18) return static_cast<void>(process_news(*process));
  static_cast<void>(tell_backlog(*process));
}

// Chance had none for this history.
void ChainWorld::fault_for_all() {
  fault();
  for (const auto& process : processes_) {
    if (process != nullptr && process->alive && random_.chance(60)) return kill(*process);
  }
  if (processes_.empty()) {
    client_done_ = true;
  } else if (processes_.back() != nullptr && processes_.back()->alive) {
    kill(*processes_.back());
  }
}

// ---- rest ----

bool ChainWorld::rest_step() {
  bool moved = client_is_read();
  moved |= answer_question();
  moved |= tell_client_backlog();
  moved |= agent_behind_works();
  for (std::size_t component = 0; component < processes_.size(); ++component) {
    // Each of them may bring another process into its place.
    const auto with_each = [&](bool (ChainWorld::*act)(Process&)) {
      if (processes_[component] != nullptr && !over_) moved |= (this->*act)(*processes_[component]);
    };
    with_each(&ChainWorld::process_reads);
    with_each(&ChainWorld::process_works);
    with_each(&ChainWorld::process_is_read);
    with_each(&ChainWorld::process_news);
    with_each(&ChainWorld::tell_backlog);
  }
  return moved;
}

// Everything that was asked is answered, or (the client has ended) keyhop is gone.
void ChainWorld::rest() {
  for (std::size_t i = 0; outcome_.failure.empty() && !over_; ++i) {
    if (i > rest_steps_max) return fail(Invariant::rest, "none without faults");
    if (rest_step()) continue;
    const bool idle = !has_open() && !client_end_told_ && !ending_;
    const bool settled = std::ranges::all_of(processes_, [](const auto& process) {
      return process != nullptr && process->started && process->alive && !process->doomed;
    });
    if (settled && cancel_held()) continue;
    const auto deadline = chain_.next_deadline();
    if (idle && settled && release_orphans()) continue;
    if (idle && (settled || !deadline)) return;
    if (waits_for_spent()) return fail(Invariant::budget, "a request waits for a component that is spent");
    if (!deadline && cancel_held()) continue;
    if (!deadline) {
      if (has_open()) return fail(Invariant::rest, "a request hangs");
      if (client_end_told_ || signal_ != 0) return fail(Invariant::rest, "keyhop does not end");
      return;
    }
    pass_time(std::max<Duration>(*deadline - now_, milliseconds(1)));
  }
}

// Nobody else keeps a request waiting than a component that was restarted too often.
bool ChainWorld::waits_for_spent() const {
  if (!has_open() || ending_) return false;
  bool any = false;
  for (std::size_t edge = 0; edge < chain_.size(); ++edge) {
    const Phase phase = chain_.relay(edge).phase();
    any = any || phase == Phase::spent;
    if (phase != Phase::spent && phase != Phase::serving) return false;
  }
  return any;
}

// What holds whenever nothing is under way.
void ChainWorld::check_rest() {
  if (!outcome_.failure.empty()) return;
  if (!disk_.failure.empty()) return fail(Invariant::once, disk_.failure);
  if (has_open() && !client_lost_) return fail(Invariant::one_answer, "a request has none");
  if (over_ || ending_) return;
  for (std::size_t edge = 0; edge < chain_.size(); ++edge) {
    const Relay& relay = chain_.relay(edge);
    if (relay.edge().open_requests() != 0) fail(Invariant::rest, fmt::format("edge {} holds requests", edge));
    const Process* process = edge < processes_.size() ? processes_[edge].get() : nullptr;
    const bool serves = process != nullptr && process->alive && process->started;
    if (serves && process->paused) fail(Invariant::pressure, fmt::format("{} is not read at rest", edge));
    if (serves && process->wire.owes() != 0)
      fail(Invariant::one_answer, fmt::format("component {} waits for an answer", edge));
  }
  check_cancelled();
  if (client_paused_) fail(Invariant::pressure, "the client is not read at rest");
  const Process* agent = processes_.empty() ? nullptr : processes_.back().get();
  const bool listens = agent_behind_ != nullptr || (agent != nullptr && agent->started && agent->alive);
  for (const ChainQuestion& question : disk_.questions) {
    if (listens && question.life == lives_ && !question.answered)
      fail(Invariant::questions, fmt::format("the agent's question has no answer: {}", question.params));
  }
  const auto told = std::ranges::count_if(disk_.news, [](const ChainNews& news) { return !news.replayed; });
  if (deaths_ == 0 && std::cmp_less(heard_news_, told))
    fail(Invariant::news, fmt::format("{} of {} updates came", heard_news_, told));
}

// Faults have stopped: what the client asks for now succeeds.
void ChainWorld::last_words() {
  last_ = true;
  if (!initialized_ || ending_ || over_ || client_done_) return;
  tell("-- last words");
  for (const std::string& session : sessions_) say_resume(session, random_.chance(30));
  rest();
  for (const Key& key : keys_) say_prompt(key.session, key.key, key.text);
  rest();
  for (const std::string& session : sessions_) say_prompt(session, {}, fmt::format("last {}", next_text_++));
  say_echo();
  rest();
}

void ChainWorld::end_client() {
  if (over_ || !outcome_.failure.empty()) return;
  tell("-- the end");
  calm_ = deaths_ == 0 && !ending_;
  client_done_ = true;
  rest();
  if (!outcome_.failure.empty()) return;
  if (!over_) fail(Invariant::rest, "keyhop does not end after its client");
}

void ChainWorld::pass_time(Duration duration) {
  const Instant end = now_ + duration;
  while (outcome_.failure.empty() && !over_) {
    const auto deadline = chain_.next_deadline();
    if (!deadline || *deadline > end) break;
    now_ = std::max(now_, *deadline);
    tell("[deadline]");
    step(DeadlineReached{});
  }
  now_ = end;
}

// ---- keyhop ----

void ChainWorld::step(const Event& event) {
  if (over_ || !outcome_.failure.empty()) return;
  ++outcome_.events;
  chain_.step(event, now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
  flush_agent();
}

void ChainWorld::carry_out(const Action& action) {
  if (over_) return fail(Invariant::phases, "something is done after Exit");
  if (const auto* send = std::get_if<Send>(&action)) {
    hash_.mix_number(now_);
    hash_.mix(send->bytes);
    sent(*send);
  } else if (const auto* pause = std::get_if<PauseReading>(&action)) {
    set_paused(pause->link, true);
  } else if (const auto* resume = std::get_if<ResumeReading>(&action)) {
    set_paused(resume->link, false);
  } else if (const auto* started = std::get_if<StartAgent>(&action)) {
    start(*started);
  } else if (const auto* ended = std::get_if<EndAgent>(&action)) {
    end(*ended);
  } else if (const auto* closed = std::get_if<CloseWriting>(&action)) {
    if (Process* process = of(closed->link)) process->stdin_closed = true;
  } else if (const auto* finished = std::get_if<FinishReading>(&action)) {
    if (Process* process = of(finished->link)) process->finishes = true;
  } else if (const auto* log = std::get_if<Log>(&action)) {
    tell("log", log->text);
  } else if (const auto* exit = std::get_if<Exit>(&action)) {
    tell("[exit]", static_cast<std::size_t>(exit->status));
    over_ = true;
    status_ = exit->status;
    if (!ending_) fail(Invariant::exit, "nobody told keyhop to go");
    if (has_open() && !client_lost_) fail(Invariant::one_answer, "gone, and a request has none");
    check_status();
  }
}

void ChainWorld::start(const StartAgent& order) {
  const std::size_t component = component_of(order.epoch);
  tell("[start]", component);
  if (component >= processes_.size() || component_of(order.link) != component)
    return fail(Invariant::one_life, "a component that there is not");
  auto& place = processes_[component];
  if (place != nullptr && !place->failed && !(place->ended_told && place->eof_told))
    fail(Invariant::one_life, fmt::format("component {} is started while its process lives", component));
  if (!links_.insert(order.link.value).second) fail(Invariant::one_life, "a link is used twice");
  place = std::make_unique<Process>(Process{component, order.epoch, order.link, nullptr});
  place->again = chain_.relay(component).edge().is_initialized();
  if (is_agent(component)) {
    place->peer = std::make_unique<ChainAgent>(plan_.agent, disk_, ++lives_, random_);
  } else {
    place->peer = std::make_unique<ChainProxy>(plan_.proxies[component], component);
  }
}

void ChainWorld::end(const EndAgent& order) {
  Process* process = of(order.epoch);
  if (process == nullptr) return fail(Invariant::dead_epochs, "an end is ordered of what is over");
  tell("[end]", process->component);
  const bool is_asked = restart_asked_ && process->component + 1 == processes_.size();
  const bool has_reason = !process->alive || process->has_reason || process->doomed || ending_ || is_asked ||
                          process->peer->was_misasked();
  if (!has_reason)
    fail(Invariant::apart, fmt::format("component {} is ended, and did nothing", process->component));
  process->doomed = true;
}

void ChainWorld::sent(const Send& order) {
  if (order.link == client_link) {
    if (client_lost_ && client_end_told_) return;
    client_backlog_ += order.bytes.size();
    return for_each_line(to_client_, order.bytes, [&](std::string_view line) {
      tell(">C", line);
      report(client_wire_.wrote(line));
      agent_behind_ != nullptr ? conduct(line) : hear(line);
    });
  }
  Process* process = of(order.link);
  const bool is_proxy = process != nullptr && !is_agent(process->component);
  if (process == nullptr || process->ended_told || process->failed)
    return fail(Invariant::dead_epochs, "bytes for a process that is gone");
  if (process->stdin_closed) return fail(Invariant::whole_lines, "bytes for a stdin that was closed");
  for_each_line(process->cut, order.bytes, [&](std::string_view line) {
    tell("to", process->component, line);
    report(process->wire.wrote(line));
    check_first(*process, line);
    if (is_proxy) check_own_request(process->component, line);
  });
  (is_proxy ? process->in.bytes : process->unwritten) += order.bytes;
}

// A load shows the whole history again, to whoever stands before the component.
void ChainWorld::check_own_request(std::size_t component, std::string_view line) {
  if (plan_.agent.version != 1) return;
  TopLevel top;
  if (!read_top_level(line, top) || top.method != "session/load") return;
  const std::string prefix = fmt::format("\"keyhop{}-", component);
  // The client's own may have got another id, where its own is open.
  const auto asked = asks_.find(number_in_meta(top.params, "tag"));
  const bool is_clients =
      asked != asks_.end() && asked->second.open && asked->second.kind == Ask::Kind::resume;
  if (top.id.starts_with(prefix) && !top.id.starts_with(prefix + "hop-") && !is_clients)
    fail(Invariant::own_requests, fmt::format("a load in the middle of the chain: {}", line));
}

void ChainWorld::set_paused(LinkId link, bool paused) {
  Process* process = link == client_link ? nullptr : of(link);
  if (link != client_link && process == nullptr) return fail(Invariant::dead_epochs, "a link that is over");
  bool& state = process == nullptr ? client_paused_ : process->paused;
  tell(paused ? "[pause]" : "[resume]", link.value);
  if (state == paused)
    return fail(Invariant::pressure, fmt::format("{} twice", paused ? "paused" : "resumed"));
  state = paused;
}

ChainWorld::Process* ChainWorld::of(LinkId link) {
  const std::size_t component = component_of(link);
  if (component >= processes_.size()) return nullptr;
  Process* process = processes_[component].get();
  return process != nullptr && process->link == link ? process : nullptr;
}

ChainWorld::Process* ChainWorld::of(Epoch epoch) {
  const std::size_t component = component_of(epoch);
  if (component >= processes_.size()) return nullptr;
  Process* process = processes_[component].get();
  return process != nullptr && process->epoch == epoch ? process : nullptr;
}

void ChainWorld::report(const std::optional<ChainFinding>& finding) {
  if (finding) fail(finding->invariant, finding->text);
}

void ChainWorld::fail(Invariant invariant, std::string text) {
  tell("FAILED", text);
  if (outcome_.broken) return;
  outcome_.broken = invariant;
  outcome_.failure = fmt::format("{}: {}", name_of(invariant), text);
}

void ChainWorld::tell(std::string_view what, std::size_t number, std::string_view text) {
  if (trace_ != nullptr) tell(fmt::format("{} {}", what, number), text);
}

void ChainWorld::tell(std::string_view what, std::string_view text) {
  if (trace_ != nullptr)
    fmt::print(trace_, "{:6} ms  {} {}\n", now_.time_since_epoch() / milliseconds(1) - 3600000, what, text);
}

}  // namespace acp::sim
