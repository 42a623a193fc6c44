// The words that every part of the core shares: time, sides, links, epochs, exit statuses.
//
// Invariant: a LinkId and an Epoch are never used twice in one run, so that an event which comes late names
// something that is gone and can be dropped. Lifetime: plain values.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace acp {

// Monotonic time as the shell (or the simulator) tells it. The core never reads a clock.
struct MonotonicClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};
using Duration = MonotonicClock::duration;
using Instant = MonotonicClock::time_point;

// The two ends of one relay. What comes from the client goes to the agent, and the other way round.
enum class Side : std::uint8_t { client, agent };

// One byte stream (both directions) to one peer.
struct LinkId {
  std::uint32_t value = 0;
  auto operator<=>(const LinkId&) const = default;
};
// The link to the client exists from the start; links to agents are named by the core when it orders one
// started.
inline constexpr LinkId client_link{1};

// One incarnation of an agent (or component) process.
struct Epoch {
  std::uint32_t value = 0;
  auto operator<=>(const Epoch&) const = default;
};

// In a chain every component has links and epochs of its own: their numbers say whose they are, the agent of
// a single edge being component 0.
inline constexpr unsigned component_shift = 24;
constexpr std::uint32_t component_of(LinkId link) noexcept { return link.value >> component_shift; }
constexpr std::uint32_t component_of(Epoch epoch) noexcept { return epoch.value >> component_shift; }

// How a process ended, as wait(2) tells it.
struct ExitStatus {
  enum class Kind : std::uint8_t { exited, signalled };
  Kind kind = Kind::exited;
  int value = 0;  // exit code 0..255, or signal number
  auto operator<=>(const ExitStatus&) const = default;
  // As a shell would report it: the code, or 128 + signal.
  constexpr int as_shell_status() const noexcept { return kind == Kind::exited ? value : 128 + value; }
};

}  // namespace acp
