// What a history of the guard's may hold.
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "tests/sim/guard_world.h"

namespace acp::sim {
namespace {

constexpr std::string_view kinds_of_guard[] = {
    "honours keys", "refuses replay", "rewrites",     "forgets",     "echoes late",  "echoes nothing",
    "chunks",       "renames",        "replays late", "hides state", "gives no ids", "refuses prompts",
    "distinct",     "cancels",        "ledger fails", "orphans",     "kills keyhop", "kills the agent",
    "ends client",  "hasty",          "other texts"};

}  // namespace

GuardPlan::GuardPlan(Prng& random, Kinds off) {
  const auto trait = [&](unsigned percent) { return random.chance(percent); };
  if (trait(60)) {
    person.honours_keys = trait(15);
    person.refuses_replay = trait(12);
    person.rewrites = trait(12);
    person.forgets = trait(25);
    person.echoes_late = trait(25);
    person.echoes_nothing = trait(15);
    person.chunks = trait(30);
    // Both the id and the words changed: nobody could know such a message again.
    person.renames = trait(15) && !person.rewrites;
    person.replays_late = trait(12);
    person.hides_state = trait(10);
    person.gives_no_id = trait(8);
    person.refuses_prompts = trait(15);
  } else {
    person.echoes_late = trait(20);
    person.chunks = trait(30);
  }
  distinct = trait(50);
  cancels = trait(25);
  ledger_fails = trait(10);
  kills_keyhop = trait(70);
  kills_agent = !kills_keyhop || trait(60);
  orphans = kills_keyhop && trait(50);
  ends_client = trait(20);
  hasty = trait(20);
  other_texts = trait(40);
  steps = 40 + random.below(trait(80) ? 160 : 500);
  settings.ledger = true;
  settings.agent_command = "agent";
  settings.recover_prompts = trait(30);
  settings.restart_limit.restarts_max = trait(85) ? 1000 : 2;
  for (std::size_t i = 0; i < std::size(kinds_of_guard); ++i) kind(i) = kind(i) && !off[i];
}

std::span<const std::string_view> GuardPlan::kind_names() noexcept { return kinds_of_guard; }

bool& GuardPlan::kind(std::size_t number) noexcept {
  bool* const each[] = {&person.honours_keys,
                        &person.refuses_replay,
                        &person.rewrites,
                        &person.forgets,
                        &person.echoes_late,
                        &person.echoes_nothing,
                        &person.chunks,
                        &person.renames,
                        &person.replays_late,
                        &person.hides_state,
                        &person.gives_no_id,
                        &person.refuses_prompts,
                        &distinct,
                        &cancels,
                        &ledger_fails,
                        &orphans,
                        &kills_keyhop,
                        &kills_agent,
                        &ends_client,
                        &hasty,
                        &other_texts};
  static_assert(std::size(each) == std::size(kinds_of_guard));
  return *each[number];
}

Kinds GuardPlan::kinds() const {
  GuardPlan copy(*this);
  Kinds on;
  for (std::size_t i = 0; i < std::size(kinds_of_guard); ++i) on[i] = copy.kind(i);
  return on;
}

}  // namespace acp::sim
