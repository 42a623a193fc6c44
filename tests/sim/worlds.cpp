#include "tests/sim/worlds.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <span>

#include "tests/sim/chain_world.h"
#include "tests/sim/guard_world.h"
#include "tests/sim/lives_world.h"
#include "tests/sim/phases_world.h"
#include "tests/sim/world.h"

namespace acp::sim {
namespace {

struct Told {
  Outcome outcome;
  Kinds kinds;
  std::span<const std::string_view> names;
};

template <class World>
Told play_in(std::uint64_t seed, std::FILE* trace, Script* script) {
  World world(seed, trace, script);
  const Kinds kinds = world.kinds();
  return {world.run(), kinds, World::kind_names()};
}

Told play_and_tell(Which which, std::uint64_t seed, std::FILE* trace, Script* script) {
  switch (which) {
    case Which::relay: return play_in<World>(seed, trace, script);
    case Which::lives: return play_in<LivesWorld>(seed, trace, script);
    case Which::phases: return play_in<PhasesWorld>(seed, trace, script);
    case Which::chains: return play_in<ChainWorld>(seed, trace, script);
    case Which::guard: break;
  }
  return play_in<GuardWorld>(seed, trace, script);
}

}  // namespace

std::string_view name_of(Which which) noexcept {
  static constexpr std::string_view names[] = {"relay", "lives", "guard", "phases", "chains"};
  return names[static_cast<std::size_t>(which)];
}

std::optional<Worlds> worlds_named(std::string_view name) noexcept {
  static constexpr std::string_view names[] = {"relay",  "lives", "guard", "phases",
                                               "chains", "both",  "all",   "each"};
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Worlds>(found - std::begin(names));
}

std::vector<Which> worlds_of(Worlds worlds, std::uint64_t seed) {
  switch (worlds) {
    case Worlds::relay: return {Which::relay};
    case Worlds::lives: return {Which::lives};
    case Worlds::guard: return {Which::guard};
    case Worlds::phases: return {Which::phases};
    case Worlds::chains: return {Which::chains};
    case Worlds::both: return {Which::relay, Which::lives};
    case Worlds::each: return {Which::relay, Which::lives, Which::guard, Which::phases};
    case Worlds::all: break;
  }
  constexpr std::uint64_t mixed = 4;  // of one edge
  return {static_cast<Which>(seed % mixed)};
}

Outcome play(Which which, std::uint64_t seed, std::FILE* trace, Script* script) {
  return play_and_tell(which, seed, trace, script).outcome;
}

Shrunk shrink_seed(Which which, std::uint64_t seed, const Outcome& failed) {
  Script script;
  const Told told = play_and_tell(which, seed, nullptr, &script);
  return shrink(std::move(script), *failed.broken, told.outcome.steps, told.kinds,
                [&](Script& part) { return play(which, seed, nullptr, &part); });
}

void tell_shrunk(Which which, std::uint64_t seed, const Outcome& failed, std::FILE* out) {
  Shrunk shrunk = shrink_seed(which, seed, failed);
  if (!shrunk.outcome.broken) {
    fmt::print(out, "{} seed {}: played again from its record it does not fail\n", name_of(which), seed);
    return;
  }
  fmt::print(out, "== {} seed {}, made short: {} of {} events are left, after {} runs\n", name_of(which),
             seed, shrunk.events, failed.steps, shrunk.runs);
  const Told told = play_and_tell(which, seed, out, &shrunk.script);
  std::string kinds;
  for (std::size_t kind = 0; kind < told.names.size(); ++kind) {
    if (told.kinds[kind]) kinds.append(kinds.empty() ? "" : ", ").append(told.names[kind]);
  }
  fmt::print(out, "== needs: {}\n== FAILED {}\n", kinds.empty() ? "no kind of fault" : kinds,
             told.outcome.failure);
}

}  // namespace acp::sim
