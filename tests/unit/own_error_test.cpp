// keyhop's own errors are frames that anybody can read.
#include "proxy/core/own_error.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

namespace acp {
namespace {

nlohmann::json parsed(std::string_view id_token, const OwnError& error) {
  std::string out;
  append_error(out, id_token, error);
  REQUIRE(out.back() == '\n');
  REQUIRE(out.find('\n') == out.size() - 1);
  return nlohmann::json::parse(out);
}

}  // namespace

TEST_CASE("an error says who made it, and echoes the id as it was written", "[own_error]") {
  std::string out = "kept";
  append_error(out, "1.0e2", {.code = code::invalid_params, .message = "M \"q\"\n", .reason = "r"});
  CHECK(out ==
        "kept{\"jsonrpc\":\"2.0\",\"id\":1.0e2,\"error\":{\"code\":-32602,\"message\":\"M \\\"q\\\"\\n\","
        "\"data\":{\"source\":\"keyhop\",\"reason\":\"r\"}}}\n");
  CHECK(parsed("", {.message = "m", .reason = "r"})["id"].is_null());
  CHECK(parsed("\"\\u0031\"", {.message = "m", .reason = "r"})["id"] == "1");
  CHECK(parsed("7", {.message = "m", .reason = "r"})["error"]["code"] == -32603);
}

TEST_CASE("only what is known is told", "[own_error]") {
  const auto data = parsed("1", {.message = "m", .reason = "r"})["error"]["data"];
  for (const char* name : {"outcome", "progress", "agent", "sessionId"}) CHECK_FALSE(data.contains(name));
  const auto full = parsed("1", {.message = "m",
                                 .reason = "r",
                                 .outcome = rules::Outcome::unknown,
                                 .progress = false,
                                 .session_id_token = "\"s\""})["error"]["data"];
  CHECK(full["outcome"] == "unknown");
  CHECK(full["progress"] == false);
  CHECK(full["sessionId"] == "s");
  CHECK(parsed("1", {.outcome = rules::Outcome::not_sent, .progress = true})["error"]["data"]["outcome"] ==
        "not_sent");
  CHECK(parsed("1", {.outcome = rules::Outcome::inserted})["error"]["data"]["outcome"] == "inserted");
}

TEST_CASE("an agent's end is told with its last words", "[own_error]") {
  AgentEnd end;
  end.status = ExitStatus{ExitStatus::Kind::exited, 3};
  end.stderr_tail = "line\n\x01\xFF";
  auto agent = parsed("1", {.message = "m", .agent = &end})["error"]["data"]["agent"];
  CHECK(agent["exitCode"] == 3);
  CHECK(agent["stderrTail"] == "line\n\x01\xEF\xBF\xBD");
  CHECK(describe(end) == "agent exited with code 3");

  end.status = ExitStatus{ExitStatus::Kind::signalled, SIGKILL};
  agent = parsed("1", {.message = "m", .agent = &end})["error"]["data"]["agent"];
  CHECK(agent["signal"] == SIGKILL);
  CHECK_FALSE(agent.contains("exitCode"));
  CHECK(describe(end) == "agent was killed by signal 9 (Killed)");

  end = AgentEnd{};
  end.start_error = ENOENT;
  agent = parsed("1", {.message = "m", .agent = &end})["error"]["data"]["agent"];
  CHECK(agent["startError"] == "No such file or directory");
  CHECK(describe(end) == "agent could not be started (No such file or directory)");

  end = AgentEnd{};
  agent = parsed("1", {.message = "m", .agent = &end})["error"]["data"]["agent"];
  CHECK(agent == nlohmann::json{{"stderrTail", ""}});
  CHECK(describe(end) == "agent went away");
}

TEST_CASE("what is said of a lost request", "[own_error]") {
  using rules::Outcome;
  using rules::Reason;
  using rules::Verdict;
  AgentEnd end;
  end.status = ExitStatus{ExitStatus::Kind::exited, 3};
  const auto [decision, is_prompt, words] = GENERATE(table<rules::Decision, bool, std::string>({
      {{Verdict::fail, Outcome::unknown, Reason::cancelled, code::request_cancelled}, true, "Cancelled; "},
      {{Verdict::fail, Outcome::not_sent, Reason::agent_lost, code::internal_error},
       true,
       "this request had not been sent"},
      {{Verdict::fail, Outcome::unknown, Reason::newer_change, code::internal_error},
       false,
       "A later change"},
      {{Verdict::fail, Outcome::unknown, Reason::replay_interrupted, code::internal_error},
       false,
       "in the middle of the replay"},
      {{Verdict::fail, Outcome::unknown, Reason::agent_lost, code::internal_error},
       true,
       "Whether the prompt was taken in is unknown"},
      {{Verdict::fail, Outcome::unknown, Reason::agent_lost, code::internal_error},
       false,
       "Whether the request took effect is unknown"},
  }));
  const std::string message = describe_loss(decision, is_prompt, end);
  CAPTURE(message);
  CHECK(message.find(words) != std::string::npos);
  CHECK(message.find("exited with code 3") != std::string::npos);
}

TEST_CASE("a shell's status of an ending", "[own_error]") {
  CHECK(ExitStatus{ExitStatus::Kind::exited, 0}.as_shell_status() == 0);
  CHECK(ExitStatus{ExitStatus::Kind::exited, 255}.as_shell_status() == 255);
  CHECK(ExitStatus{ExitStatus::Kind::signalled, SIGTERM}.as_shell_status() == 143);
}

}  // namespace acp
