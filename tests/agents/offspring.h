// Processes that an agent leaves about, in every relation to it that a supervisor has to find.
//
// Invariant: when spawn_offspring() returns, the process runs and its pid is in the file. It ends itself
// after the given time, so that a failed test leaves nothing for ever. Lifetime: independent of the agent,
// that is the point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace acp::test_agent {

// Modes: plain (child, same group) | group (its own process group) | session (leads its own POSIX session,
// the parent stays) | orphan (the same, its parent is gone) | daemon (in a session whose leader is gone) |
// stubborn (plain, ignores TERM, HUP and INT) | holder (plain, keeps our stdout open). False: no such mode,
// or the system refused.
bool spawn_offspring(std::string_view mode, const std::string& pids_path, std::uint64_t seconds);

}  // namespace acp::test_agent
