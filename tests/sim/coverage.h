// Which pairs of a relay's phase and an event the histories reached.
//
// A pair that no history reaches is an error unless it is listed with its reason, and a listed one that is
// reached is an error, too: the list must be true. Invariant: every event has one column. Lifetime: counts of
// one campaign; the table is constant.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/core/event.h"
#include "proxy/core/relay.h"

namespace acp::sim {

inline constexpr std::size_t phases_count = static_cast<std::size_t>(Phase::over) + 1;
// The events, those of a link told apart by it, the signals by what they ask for.
inline constexpr std::size_t columns_count = 17;

using Reached = std::bitset<phases_count * columns_count>;

// Which of them an event in that phase is.
std::size_t pair_of(Phase phase, const Event& event) noexcept;

class Coverage {
 public:
  void add(const Reached& reached) noexcept;
  void add(const Coverage& other) noexcept;
  // One line a phase, how many histories reached each pair; then what is missing. In words.
  std::string table() const;
  // The first pair that is neither reached nor listed, or both; empty: none.
  std::string wrong() const;

 private:
  std::array<std::uint64_t, phases_count * columns_count> counts_{};
};

}  // namespace acp::sim
