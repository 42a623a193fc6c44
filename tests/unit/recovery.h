// What the tests of a restart share: dialogues with an agent that dies, and their words.
//
// Invariant: none but those of the dialogue. Lifetime: plain functions and constants.
#pragma once

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
using Lines = std::vector<std::string>;
using std::chrono::seconds;

inline constexpr std::string_view v2 = R"({"protocolVersion":2})";
inline constexpr std::string_view v1_load =
    R"({"protocolVersion":1,"agentCapabilities":{"loadSession":true}})";
inline constexpr std::string_view v1_resume =
    R"({"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}})";
inline constexpr std::string_view v1_none = R"({"protocolVersion":1})";

inline Settings restarting() {
  Settings settings;
  settings.restarts = true;
  return settings;
}

inline std::string_view method_of(std::string_view line) { return unquoted(member(line, "method")); }
inline std::string_view id_of(std::string_view line) { return member(line, "id"); }

inline std::string update_line(std::string_view session, std::string_view kind, std::string_view more = "") {
  return fmt::format(
      R"({{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","update":{{"sessionUpdate":"{}"{}}}}}}})",
      session, kind, more);
}

// initialize and session/new "s1", with these answers.
inline void open_with(Dialogue& talk, std::string_view initialized,
                      std::string_view opened = R"({"sessionId":"s1"})") {
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2,"clientInfo":{"name":"c"}})"));
  talk.agent(result_line("0", initialized));
  talk.client(request_line("1", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
  talk.agent(result_line("1", opened));
  talk.take_client();
  talk.take_agent();
}

// The one line that the agent got.
inline std::string only_line(Dialogue& talk) {
  const Lines lines = talk.take_agent();
  REQUIRE(lines.size() == 1);
  return lines.front();
}

}  // namespace acp::sim
