// What a history is made from besides its seed: the numbers that were drawn, event by event, and what of it
// is left out when a failing one is made short.
//
// Draws are kept by event, so that an event that is left out does not change what the others draw. Where an
// event draws more than it did when it was recorded it goes on with numbers of its own, by seed and event.
// Invariant: one script gives one history. Lifetime: of a shrinking.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace acp::sim {

struct Tape {
  bool records = true;
  std::vector<std::vector<std::uint64_t>> events;  // what each drew; 0 is the beginning
  std::size_t event = 0;
  std::size_t next = 0;  // of its draws
};

// At most so many kinds of faults or traits has a world's plan.
inline constexpr std::size_t kinds_max = 64;
using Kinds = std::bitset<kinds_max>;

struct Script {
  Tape tape;
  Kinds off;                  // kinds of faults that do not happen, whatever the seed says
  std::vector<bool> skipped;  // events of the safety phase that do not happen
  std::size_t sessions_max = std::numeric_limits<std::size_t>::max();  // that the client talks about
  std::size_t keys_max = std::numeric_limits<std::size_t>::max();      // that it makes up

  bool skips(std::size_t event) const noexcept { return event < skipped.size() && skipped[event]; }
};

}  // namespace acp::sim
