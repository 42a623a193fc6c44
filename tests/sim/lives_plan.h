// What one history of many lives is about: its settings, its agent, and which faults it may hold ("swarm":
// each seed switches kinds off, so that rare ones are not always drowned by common ones).
//
// Invariant: a plan depends on its seed only. Lifetime: plain value, made before the first event.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/core/settings.h"
#include "tests/sim/lives_agent.h"
#include "tests/sim/prng.h"

namespace acp::sim {

enum class Fault : std::uint8_t {
  death,          // the process goes at any moment
  cut_words,      // ... in the middle of what it says
  wrapper_death,  // what was started goes; its child holds the stdout and goes on
  held_stdout,    // it goes, and somebody holds its stdout
  early_eof,      // its stdout ends, it lives
  deaf,           // writing to it fails
  partly_taken,   // it takes some bytes of what was written
  stubborn,       // it goes when it is killed, not when it is told
  talks_on,       // it talks when it was told to go
  slow_start,     // the process is there late
  failed_start,   // or not at all
  refused_restore,
  silent_restore,  // --restore-timeout
  forgetful,       // mode and options begin anew
  refused_values,
  refused_takeover,  // initialize is refused, or tells another version
  shrinking,         // v1: it lost session/resume
  lost_watchdog,     // the end of all is told before the exit
  stale_news,        // events of epochs that are over
  person_restart,    // SIGUSR2
  client_end,
  client_loss,
  signals,
  small_budget,  // restarts are spent soon
  early,         // faults from the first byte on
  cancels,       // not faults, but what races them
  duplicates,
  asks,
  late_answers,
  splits,
  count_,
};

struct LivesPlan {
  std::bitset<static_cast<std::size_t>(Fault::count_)> faults;
  Personality person;
  std::size_t steps = 0;  // of the safety phase
  Settings settings;

  bool has(Fault fault) const noexcept { return faults[static_cast<std::size_t>(fault)]; }
  static std::span<const std::string_view> kind_names() noexcept;
  // `off`: kinds that are switched off, whatever was drawn.
  explicit LivesPlan(Prng& random, Kinds off = {});
};

}  // namespace acp::sim
