// What a chain is held to that no single line shows: who is initialized when, what waits in memory, how it
// ends; and what only a cancel settles.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>

#include "proxy/core/limits.h"
#include "tests/sim/chain_world.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

constexpr int signal_base = 128;
constexpr int cannot_start = 69;

}  // namespace

// ---- a process that takes another one's place ----

// It is initialized first, and gets nothing else before it has answered that.
void ChainWorld::check_first(Process& process, std::string_view line) {
  if (!process.again || process.initialized) return;
  TopLevel top;
  if (!read_top_level(line, top) || top.method.empty()) return;
  const std::string_view method = top.method;
  if (!method.ends_with("initialize") || !process.initialize_id.empty())
    return fail(Invariant::initialize, fmt::format("component {} gets {}", process.component, line));
  process.initialize_id = top.id;
}

void ChainWorld::note_initialized(Process& process, std::string_view line) {
  if (process.initialized || process.initialize_id.empty()) return;
  TopLevel top;
  if (!read_top_level(line, top) || !top.method.empty() || top.id != process.initialize_id) return;
  process.initialized = true;
  waiting_[process.component] = 0;
}

// What the component behind says while it starts waits for it in keyhop's memory: not without bounds.
void ChainWorld::check_waiting(const Process& behind, std::size_t bytes) {
  if (behind.component == 0 || ending_) return;
  const std::size_t component = behind.component - 1;
  const Process* starting = processes_[component].get();
  const Phase phase = chain_.relay(component).phase();
  const bool drops = phase == Phase::spent || phase == Phase::parked;
  if (starting == nullptr || !starting->again || starting->initialized || drops || plan_.bypasses) {
    waiting_[component] = 0;
    return;
  }
  waiting_[component] += bytes;
  if (waiting_[component] > limits::backlog_bytes_high + 2 * limits::read_bytes && !behind.paused)
    fail(Invariant::pressure,
         fmt::format("{} bytes wait for {}, and what is behind it is read", waiting_[component], component));
}

// The agent says very much while a proxy starts. False: this is not the time.
bool ChainWorld::flood() {
  if (!plan_.floods || flooded_ || sessions_.empty() || processes_.size() < 2) return false;
  Process* agent = processes_.back().get();
  const bool runs = agent != nullptr && is_agent(agent->component) && agent->started && agent->alive;
  const bool is_time = std::ranges::any_of(processes_, [&](const auto& process) {
    return process != nullptr && process.get() != agent && process->again && !process->initialized;
  });
  if (!runs || !is_time) return false;
  flooded_ = true;
  tell("[flood]");
  static_cast<ChainAgent&>(*agent->peer).flood(sessions_.front());
  return true;
}

// ---- what only a cancel settles ----

// The client gives up on a prompt that the agent holds. False: there is none.
bool ChainWorld::cancel_held() {
  if (client_done_) return false;
  for (auto& [id, ask] : asks_) {
    if (!ask.open || !ask.read || ask.cancelled || !ask.text.starts_with("hold")) continue;
    ask.cancelled = true;
    say_line(cancel_line(std::to_string(id)));
    return true;
  }
  return false;
}

ChainAgent* ChainWorld::present_agent() const {
  if (agent_behind_ != nullptr) return agent_behind_.get();
  const Process* process = processes_.empty() ? nullptr : processes_.back().get();
  const bool runs = process != nullptr && process->started && process->alive;
  return runs ? static_cast<ChainAgent*>(process->peer.get()) : nullptr;
}

// What a dead proxy had sent on stays with the agent, and nobody is left to cancel it. If somebody had,
// keyhop has seen to it, unless that could have ended another prompt, too.
bool ChainWorld::release_orphans() {
  ChainAgent* agent = present_agent();
  return agent != nullptr && agent->release([&](int tag) {
    const auto found = asks_.find(tag);
    if (found == asks_.end()) return false;
    return found->second.open || (found->second.cancelled && found->second.alone);
  });
}

void ChainWorld::check_cancelled() {
  const ChainAgent* agent = present_agent();
  if (agent == nullptr) return;
  for (const int tag : agent->held()) {
    const auto found = asks_.find(tag);
    if (found != asks_.end() && !found->second.open)
      fail(Invariant::cancelled, fmt::format("the agent still works on request {}", tag));
  }
}

// ---- how it ends ----

void ChainWorld::note_broken(const Process& process) {
  if (chain_.relay(process.component).edge().is_initialized()) return;
  broken_with_.insert(process.failed ? cannot_start : process.status.as_shell_status());
}

// Everybody is told to go at once.
void ChainWorld::check_told_to_go() {
  for (const auto& process : processes_) {
    const bool runs = process != nullptr && process->started && process->alive;
    if (runs && !process->doomed)
      fail(Invariant::exit, fmt::format("component {} goes on after a signal", process->component));
  }
}

void ChainWorld::check_status() {
  if (signal_ != 0) {
    if (status_ != signal_base + signal_)
      fail(Invariant::exit, fmt::format("status {} after signal {}", status_, signal_));
  } else if (calm_) {
    if (status_ != 0) fail(Invariant::exit, fmt::format("status {} after the client's end", status_));
  } else if (!client_end_told_ && !client_lost_ && !plan_.bypasses && !plan_.is_component) {
    if (!broken_with_.contains(status_))
      fail(Invariant::exit, fmt::format("status {}, which is that of no component that broke it", status_));
  }
}

}  // namespace acp::sim
