// The worlds by name: what a seed can be played in.
//
// Invariant: a world and a seed (and a script) give one history. Lifetime: pure.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/outcome.h"
#include "tests/sim/script.h"
#include "tests/sim/shrink.h"

namespace acp::sim {

enum class Which : std::uint8_t { relay, lives, guard, phases, chains };
inline constexpr std::size_t worlds_count = 5;

// all: every seed in one of the first four, by its number. both: every seed in relay and in lives. each:
// every seed in every one of the four.
enum class Worlds : std::uint8_t { relay, lives, guard, phases, chains, both, all, each };

std::string_view name_of(Which which) noexcept;
std::optional<Worlds> worlds_named(std::string_view name) noexcept;
std::vector<Which> worlds_of(Worlds worlds, std::uint64_t seed);

// `trace`: where the history is told, or null. `script`: or null.
Outcome play(Which which, std::uint64_t seed, std::FILE* trace, Script* script = nullptr);

// Records a failing history and makes it short. `failed`: how it failed.
Shrunk shrink_seed(Which which, std::uint64_t seed, const Outcome& failed);
// Tells the short one line by line, and what is left of it.
void tell_shrunk(Which which, std::uint64_t seed, const Outcome& failed, std::FILE* out);

}  // namespace acp::sim
