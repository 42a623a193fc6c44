#include "rules/updates.h"

#include <algorithm>
#include <array>

namespace acp::rules {
namespace {

constexpr std::array<std::string_view, 20> history{
    "agent_message",
    "agent_message_chunk",
    "agent_thought",
    "agent_thought_chunk",
    "compaction_summary_chunk",
    "compaction_update",
    "notice",
    "plan",
    "plan_removed",
    "plan_update",
    "replay_complete",
    "session_message",
    "session_message_chunk",
    "terminal_output_chunk",
    "terminal_update",
    "tool_call",
    "tool_call_content_chunk",
    "tool_call_update",
    "user_message",
    "user_message_chunk",
};
static_assert(std::is_sorted(history.begin(), history.end()));

}  // namespace

bool is_history(std::string_view session_update) noexcept {
  return std::binary_search(history.begin(), history.end(), session_update);
}

}  // namespace acp::rules
