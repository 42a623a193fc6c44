// Makes a failing history short: leaves out of it what it does not need to break the same invariant.
//
// Events of the safety phase first, in pieces that get smaller; then kinds of faults, sessions and keys; then
// over again until nothing more can go. Invariant: what comes out breaks the invariant that came in. Bounded
// by `runs_max`. Lifetime: pure but for the runs.
#pragma once

#include <cstddef>
#include <functional>

#include "tests/sim/outcome.h"
#include "tests/sim/script.h"

namespace acp::sim {

inline constexpr std::size_t shrink_runs_max = 6000;

struct Shrunk {
  Script script;
  Outcome outcome;
  std::size_t runs = 0;
  std::size_t events = 0;  // of the safety phase that are left
};

// `script`: a recorded history that broke `broken` after `steps` events, whose plan held `kinds`. `run` plays
// a script.
Shrunk shrink(Script script, Invariant broken, std::size_t steps, Kinds kinds,
              const std::function<Outcome(Script&)>& run, std::size_t runs_max = shrink_runs_max);

}  // namespace acp::sim
