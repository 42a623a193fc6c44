// The safety phase of a history: its events one by one, but for those that the script leaves out.
//
// Invariant: every event draws under its own number, and so does what follows the phase. Lifetime: a
// function.
#pragma once

#include <cstddef>

#include "tests/sim/outcome.h"
#include "tests/sim/prng.h"
#include "tests/sim/script.h"

namespace acp::sim {

// At most `steps` events, while `goes_on()`; `happen()` is one. `script`: null if nothing is left out.
template <class GoesOn, class Happen>
void run_safety_phase(std::size_t steps, const Script* script, Prng& random, Outcome& outcome, GoesOn goes_on,
                      Happen happen) {
  for (std::size_t i = 0; i < steps && goes_on(); ++i) {
    outcome.steps = i + 1;
    if (script != nullptr && script->skips(i)) continue;
    random.begin_event(i + 1);
    happen();
  }
  random.begin_event(steps + 1);
}

}  // namespace acp::sim
