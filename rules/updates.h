// What kinds of session/update there are, as far as a restore must know: history or state.
//
// Invariant: total; a kind that is not known counts as state, since hiding news is worse than showing a line
// twice. Source: SessionUpdate in the ACP schemas v1 and v2. Lifetime: pure.
#pragma once

#include <string_view>

namespace acp::rules {

// Messages, thoughts, tool calls, plans and their chunks, and the end of a replay: what a replay consists of.
bool is_history(std::string_view session_update) noexcept;

}  // namespace acp::rules
