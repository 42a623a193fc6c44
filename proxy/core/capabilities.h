// What an agent says that it can do, as far as a restore must know.
//
// Invariant: reads only; unknown capabilities are compared like known ones. Lifetime: pure functions over raw
// JSON.
#pragma once

#include <string>
#include <string_view>

namespace acp {

// v1: `loadSession`, and `sessionCapabilities.resume` (an object; absent or null means no).
struct RestoreWays {
  bool resume = false;
  bool load = false;
};
RestoreWays restore_ways_v1(std::string_view agent_capabilities);

// The names of capabilities that `before` had and `now` has not, joined by ", "; empty if none. A capability
// is a member that is neither absent, null nor false; nested ones are named by path.
std::string missing_capabilities(std::string_view before, std::string_view now);

}  // namespace acp
