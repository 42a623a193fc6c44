// Which updates a replay consists of, and which tell a state: the kinds of the ACP schemas v1 and v2.
#include "rules/updates.h"

#include <catch2/catch.hpp>
#include <string_view>

namespace acp::rules {

TEST_CASE("messages, thoughts, tool calls and plans are history", "[updates]") {
  const std::string_view kind =
      GENERATE(as<std::string_view>{}, "agent_message", "agent_message_chunk", "agent_thought",
               "agent_thought_chunk", "compaction_summary_chunk", "compaction_update", "notice", "plan",
               "plan_removed", "plan_update", "replay_complete", "session_message", "session_message_chunk",
               "terminal_output_chunk", "terminal_update", "tool_call", "tool_call_content_chunk",
               "tool_call_update", "user_message", "user_message_chunk");
  CAPTURE(kind);
  CHECK(is_history(kind));
}

TEST_CASE("what tells a state is not, nor is a kind that nobody knows", "[updates]") {
  const std::string_view kind =
      GENERATE(as<std::string_view>{}, "state_update", "current_mode_update", "config_option_update",
               "available_commands_update", "session_info_update", "usage_update", "", "a", "zz", "tool_cal",
               "tool_call_", "_example.com/plan", "Plan");
  CAPTURE(kind);
  CHECK_FALSE(is_history(kind));
}

}  // namespace acp::rules
