// What can happen next in the exhaustive model, and how a person is told of it.
#include <algorithm>
#include <fmt/format.h>

#include "tests/sim/model_world.h"

namespace acp::sim {
namespace {

using Kind = Choice::Kind;

std::uint8_t small(std::size_t number) noexcept { return static_cast<std::uint8_t>(number); }

}  // namespace

std::vector<Choice> ModelWorld::choices() const {
  std::vector<Choice> list;
  if (is_broken()) return list;
  for (std::size_t who = 0; who < sides_.size(); ++who) {
    if (!sides_[who].over) add_client_choices(who, list);
    add_agent_choices(who, list);
    add_faults(who, list);
  }
  add_orphan_choices(list);
  return list;
}

void ModelWorld::add_client_choices(std::size_t who, std::vector<Choice>& list) const {
  const Side& side = sides_[who];
  const auto open = std::ranges::count_if(side.asks, [](const Ask& ask) { return ask.open; });
  bool fresh_session = false;
  for (std::size_t session = 0; session < scope_->sessions; ++session) {
    const auto of_session = [&](const Ask& ask) { return ask.open && ask.work.session == session; };
    const bool resumes = std::ranges::any_of(
        side.asks, [&](const Ask& ask) { return of_session(ask) && ask.kind == Ask::Kind::resume; });
    if (!side.active[session]) {
      if (!resumes) list.push_back({Kind::resume, small(who), small(session)});
      continue;
    }
    if (left_.prompts == 0 || static_cast<std::size_t>(open) >= scope_->asks_max || fresh_session) continue;
    for (std::size_t key = 0; key < scope_->keys; ++key) {
      list.push_back({Kind::prompt, small(who), small(session), small(key)});
      if (was_asked({small(session), small(key)})) continue;
      fresh_session = key == 0;
      break;
    }
  }
  for (std::size_t request = 0; left_.cancels > 0 && request < side.asks.size(); ++request) {
    const Ask& ask = side.asks[request];
    if (ask.open && ask.kind == Ask::Kind::prompt && !ask.cancelled)
      list.push_back({Kind::cancel, small(who), small(request)});
  }
}

void ModelWorld::add_agent_choices(std::size_t who, std::vector<Choice>& list) const {
  const Side& side = sides_[who];
  if (!side.over && !side.orders.empty()) list.push_back({Kind::commit, small(who)});
  if (!side.over && side.core.deadline() && (left_.timers > 0 || rests_))
    list.push_back({Kind::timer, small(who)});
  if (!side.process) return;
  const ModelProcess& process = *side.process;
  const bool runs = process.started && process.alive;
  if (!side.over && process.started && !process.words.empty()) list.push_back({Kind::read, small(who)});
  if (!side.over && (!process.started || (!process.alive && process.words.empty())))
    list.push_back({Kind::learn, small(who)});
  if (!runs) return;
  if (!process.pipe.empty()) list.push_back({Kind::take, small(who)});
  for (std::size_t session = 0; session < scope_->sessions; ++session) {
    if (process.next_to_insert(session) != nullptr)
      list.push_back({Kind::insert, small(who), small(session)});
    if (process.next_to_answer(session) != nullptr)
      list.push_back({Kind::answer, small(who), small(session)});
  }
  if (process.doomed || side.over) add_ends(Kind::agent_ends, who, process, list);
}

// It ends, with all that it inserted saved, or less of it.
void ModelWorld::add_ends(Kind kind, std::size_t who, const ModelProcess& process,
                          std::vector<Choice>& list) {
  for (std::size_t saved = process.inserted.size() + 1; saved > 0; --saved)
    list.push_back({kind, small(who), small(saved - 1)});
}

void ModelWorld::add_faults(std::size_t who, std::vector<Choice>& list) const {
  const Side& side = sides_[who];
  if (left_.failures > 0 && !side.over && !side.orders.empty() && side.orders.front().batch)
    list.push_back({Kind::commit_fails, small(who)});
  if (side.over) list.push_back({Kind::keyhop_dies, small(who)});  // another one is started
  if (left_.deaths == 0 || side.over) return;
  if (side.process && side.process->started && side.process->alive && !side.process->doomed)
    add_ends(Kind::agent_dies, who, *side.process, list);
  std::size_t batches = 0;
  for (const Order& order : side.orders) batches += order.batch ? 1 : 0;
  for (std::size_t applied = 0; applied <= batches; ++applied)
    list.push_back({Kind::keyhop_dies, small(who), small(applied)});
}

void ModelWorld::add_orphan_choices(std::vector<Choice>& list) const {
  for (std::size_t who = 0; who < orphans_.size(); ++who) {
    const ModelProcess& process = orphans_[who].process;
    if (!process.pipe.empty()) list.push_back({Kind::orphan_takes, small(who)});
    for (std::size_t session = 0; session < scope_->sessions; ++session) {
      if (process.next_to_insert(session) != nullptr)
        list.push_back({Kind::orphan_inserts, small(who), small(session)});
    }
    add_ends(Kind::orphan_ends, who, process, list);
  }
}

std::optional<Choice> ModelWorld::straight_on() const {
  const std::vector<Choice> steps = steps_without_fault();
  if (is_broken() || steps.empty() || steps.front().kind == Kind::timer) return std::nullopt;
  return steps.front();
}

// Those that bring the world to rest, the next one first.
std::vector<Choice> ModelWorld::steps_without_fault() const {
  const auto rank = [](Kind kind) {
    switch (kind) {
      case Kind::agent_ends: return 0;
      case Kind::learn: return 1;
      case Kind::read: return 2;
      case Kind::commit: return 3;
      case Kind::take: return 4;
      case Kind::insert: return 5;
      case Kind::answer: return 6;
      case Kind::orphan_takes: return 8;
      case Kind::orphan_inserts: return 9;
      case Kind::orphan_ends: return 11;
      case Kind::timer: return 12;
      case Kind::prompt:
      case Kind::cancel:
      case Kind::resume:
      case Kind::commit_fails:
      case Kind::agent_dies:
      case Kind::keyhop_dies: break;
    }
    return 99;
  };
  std::vector<Choice> list;
  for (std::size_t who = 0; who < sides_.size(); ++who) add_agent_choices(who, list);
  add_orphan_choices(list);
  const auto wait = [this](const Choice& choice) {
    if (choice.kind != Kind::timer) return Duration{};
    const Side& side = sides_[choice.who];
    return std::max(*side.core.deadline() - side.now, Duration{});
  };
  std::ranges::stable_sort(list, [&](const Choice& left, const Choice& right) {
    const auto place = [&](const Choice& choice) { return std::pair(rank(choice.kind), wait(choice)); };
    return place(left) < place(right);
  });
  return list;
}

std::string ModelWorld::in_words(const Choice& choice) const {
  const std::size_t who = choice.who + 1U;
  const auto session = [&] { return session_name(choice.what); };
  switch (choice.kind) {
    case Kind::prompt: {
      const bool again = was_asked({choice.what, choice.which});
      return fmt::format("client {} asks {} in {}{}", who, key_name(choice.which), session(),
                         again ? " again" : "");
    }
    case Kind::cancel: return fmt::format("client {} cancels its request {}", who, choice.what + 1);
    case Kind::resume: return fmt::format("client {} resumes {}", who, session());
    case Kind::commit:
      return fmt::format("keyhop {}: the ledger {}", who,
                         sides_[choice.who].orders.front().batch ? "has written the batch" : "is read");
    case Kind::commit_fails: return fmt::format("keyhop {}: the ledger cannot write the batch", who);
    case Kind::read: return fmt::format("keyhop {} reads its agent", who);
    case Kind::learn:
      return fmt::format("keyhop {} is told that its agent {}", who,
                         sides_[choice.who].process->started ? "has ended" : "runs");
    case Kind::timer: return fmt::format("keyhop {}: its timer fires", who);
    case Kind::take: return fmt::format("agent {} takes a line", who);
    case Kind::insert: return fmt::format("agent {} inserts in {}", who, session());
    case Kind::answer: return fmt::format("agent {} answers in {}", who, session());
    case Kind::agent_ends:
      return fmt::format("agent {} ends, as ordered, {} of its messages saved", who, choice.what);
    case Kind::agent_dies: return fmt::format("AGENT {} DIES, {} of its messages saved", who, choice.what);
    case Kind::keyhop_dies:
      return fmt::format("KEYHOP {} DIES, {} of its batches on the disk; another run begins", who,
                         choice.what);
    case Kind::orphan_takes: return fmt::format("orphan {} takes a line", who);
    case Kind::orphan_inserts: return fmt::format("orphan {} inserts in {}", who, session());
    case Kind::orphan_ends: break;
  }
  return fmt::format("orphan {} ends, {} of its messages saved", who, choice.what);
}

}  // namespace acp::sim
