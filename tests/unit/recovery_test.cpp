// A new epoch is told what the old one knew: initialize, sessions, values, in either version.
#include "tests/unit/recovery.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

TEST_CASE("restart: keyhop's own initialize with the client's params, nothing before its answer",
          "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.agent_dies({ExitStatus::Kind::signalled, 9});
  CHECK(talk.epoch() == Epoch{2});
  talk.client(request_line("7", "session/list"));
  CHECK(talk.take_agent().empty());
  talk.agent_starts();
  talk.client(request_line("8", "session/list"));
  talk.client(R"({"jsonrpc":"2.0","method":"_note"})");
  const std::string own = only_line(talk);
  CHECK(method_of(own) == "initialize");
  CHECK(member(own, "params") == R"({"protocolVersion":2,"clientInfo":{"name":"c"}})");
  talk.agent(result_line(id_of(own), v2));
  const Lines then = talk.take_agent();
  REQUIRE(then.size() == 4);
  CHECK(method_of(then[0]) == "session/resume");
  CHECK(then[1] == request_line("7", "session/list"));
  CHECK(then[2] == request_line("8", "session/list"));
  CHECK(then[3] == R"({"jsonrpc":"2.0","method":"_note"})");
  CHECK(talk.relay().phase() == Phase::restoring);
  talk.agent(result_line(id_of(then[0]), "{}"));
  CHECK(talk.relay().phase() == Phase::serving);
  CHECK(talk.take_client().empty());
}

TEST_CASE("a client's initialize without params crosses a restart too", "[recovery]") {
  Dialogue talk(restarting());
  talk.client(R"({"jsonrpc":"2.0","id":0,"method":"initialize"})");
  talk.agent(result_line("0", v2));
  talk.take_agent();
  talk.agent_restarts();
  const std::string own = only_line(talk);
  CHECK(method_of(own) == "initialize");
  CHECK(member(own, "params").empty());
  CHECK(is_json(own));
}

TEST_CASE("v2: resume with the last params the client gave; every success counts", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string params =
      R"("cwd":"/v","mcpServers":[{"name":"m"}],"additionalDirectories":["/d"],"systemPrompt":"p","_meta":{"t":1})";
  talk.client(request_line("2", "session/resume", R"({"sessionId":"s1",)" + params + "}"));
  talk.agent(result_line("2"));
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v2);
  const std::string resume = only_line(talk);
  CHECK(method_of(resume) == "session/resume");
  CHECK(member(resume, "params") == R"({"sessionId":"s1",)" + params + "}");
  talk.client(prompt_line("7", ""));
  CHECK(talk.take_agent().empty());
  const std::string result = GENERATE("null", "{}", R"({"configOptions":[]})", R"({"modes":null})");
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(resume), result));
  CHECK(talk.take_client() == Lines{update_line("s1", "state_update", R"(,"state":"idle")")});
  CHECK(talk.take_agent() == Lines{prompt_line("7", "")});
  CHECK(talk.relay().phase() == Phase::serving);
}

TEST_CASE("sessions that are not active are not restored", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string ends = GENERATE("session/close", "session/delete", "session/archive");
  talk.client(request_line("2", ends, R"({"sessionId":"s1"})"));
  talk.agent(result_line("2"));
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v2);
  CHECK(talk.take_agent().empty());
  CHECK(talk.relay().phase() == Phase::serving);
}

TEST_CASE("v1: resume if advertised, else load with its history hidden, else nothing", "[recovery]") {
  Dialogue talk(restarting());
  const bool by_load = GENERATE(true, false);
  const std::string_view initialized = by_load ? v1_load : v1_resume;
  open_with(talk, initialized);
  talk.client(request_line("2", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
  talk.agent(result_line("2", R"({"sessionId":"s2"})"));
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(initialized);
  const Lines ways = talk.take_agent();
  REQUIRE(ways.size() == 2);
  CHECK(method_of(ways[0]) == (by_load ? "session/load" : "session/resume"));
  CHECK(member(ways[0], "params") == R"({"sessionId":"s1","cwd":"/w","mcpServers":[]})");
  talk.agent(result_line(id_of(ways[1]), "null"));  // s2 is ready
  talk.agent(update_line("s1", "user_message_chunk"));
  talk.agent(update_line("s1", "tool_call"));
  talk.agent(update_line("s1", "available_commands_update"));
  talk.agent(update_line("s1", "_future"));
  talk.agent(update_line("s2", "agent_message_chunk"));
  Lines expected{update_line("s1", "available_commands_update"), update_line("s1", "_future"),
                 update_line("s2", "agent_message_chunk")};
  if (!by_load)
    expected.insert(expected.begin(),
                    {update_line("s1", "user_message_chunk"), update_line("s1", "tool_call")});
  CHECK(talk.take_client() == expected);
  talk.agent(result_line(id_of(ways[0]), "null"));
  talk.agent(update_line("s1", "agent_message_chunk"));
  CHECK(talk.take_client() == Lines{update_line("s1", "agent_message_chunk")});
}

TEST_CASE("v1: an agent that offers no way decides for itself", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v1_none);
  talk.agent_restarts();
  talk.agent_initializes(v1_none);
  CHECK(talk.take_agent().empty());
  CHECK(talk.relay().phase() == Phase::serving);
  talk.client(prompt_line("7", ""));
  CHECK(talk.take_agent() == Lines{prompt_line("7", "")});
}

TEST_CASE("a session's frames wait for its own restore only", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.client(request_line("2", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
  talk.agent(result_line("2", R"({"sessionId":"s2"})"));
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.client(prompt_line("7", "", "A", "s1"));
  talk.client(prompt_line("8", "", "B", "s2"));
  talk.client(request_line("9", "session/list"));
  talk.agent_initializes(v2);
  const Lines got = talk.take_agent();
  REQUIRE(got.size() == 3);
  CHECK(got[2] == request_line("9", "session/list"));
  talk.agent(result_line(id_of(got[1]), "null"));
  CHECK(talk.take_agent() == Lines{prompt_line("8", "", "B", "s2")});
  talk.agent(result_line("8"));  // answered while the other one still waits
  CHECK(talk.take_client() == Lines{result_line("8")});
  talk.agent(result_line(id_of(got[0]), "null"));
  CHECK(talk.take_agent() == Lines{prompt_line("7", "", "A", "s1")});
}

// ---- values ----

std::string set_mode(std::string_view id, std::string_view mode) {
  return request_line(id, "session/set_mode", fmt::format(R"({{"sessionId":"s1","modeId":"{}"}})", mode));
}
std::string set_option(std::string_view id, std::string_view option, std::string_view value) {
  return request_line(
      id, "session/set_config_option",
      fmt::format(R"({{"sessionId":"s1","configId":"{}","type":"id","value":"{}"}})", option, value));
}

TEST_CASE("values are set again where the restored session says otherwise, in the order last set",
          "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  int id = 10;
  for (const std::string& line : {set_mode("10", "code"), set_option("11", "model", "big"),
                                  set_option("12", "think", "high"), set_mode("13", "ask")}) {
    talk.client(line);
    talk.agent(result_line(std::to_string(id++)));
  }
  talk.client(set_option("14", "model", "none"));
  talk.agent(error_line("14"));  // not confirmed: does not count
  talk.agent(update_line("s1", "current_mode_update", R"(,"currentModeId":"plan")"));  // the agent's own word
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v2);
  const std::string resume = only_line(talk);
  // What the fresh agent begins with is news to the client and no wish of anybody's.
  talk.agent(update_line("s1", "current_mode_update", R"(,"currentModeId":"default")"));
  talk.agent(result_line(id_of(resume), R"({"configOptions":[{"configId":"think","currentValue":"high"}]})"));
  CHECK(talk.take_client().size() == 1);
  talk.client(prompt_line("7", ""));
  const std::string first = only_line(talk);
  CHECK(method_of(first) == "session/set_config_option");
  CHECK(member(first, "params") == R"({"sessionId":"s1","configId":"model","type":"id","value":"big"})");
  talk.agent(error_line(id_of(first)));
  const std::string second = only_line(talk);
  CHECK(member(second, "params") == R"({"sessionId":"s1","modeId":"plan"})");
  talk.agent(result_line(id_of(second)));
  const std::string again = only_line(talk);  // once more, after the rest
  CHECK(member(again, "params") == member(first, "params"));
  talk.agent(error_line(id_of(again)));
  CHECK(talk.take_agent() == Lines{prompt_line("7", "")});
  CHECK(talk.take_client().empty());
}

TEST_CASE("v1: modes and options in its own shapes", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v1_resume,
            R"({"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[]},)"
            R"("configOptions":[{"id":"fast","type":"boolean","currentValue":true}]})");
  talk.agent_restarts();
  talk.agent_initializes(v1_resume);
  talk.agent(result_line(
      id_of(only_line(talk)),
      R"({"modes":{"currentModeId":"code"},"configOptions":[{"id":"fast","currentValue":false}]})"));
  const std::string mode = only_line(talk);
  CHECK(member(mode, "params") == R"({"sessionId":"s1","modeId":"ask"})");
  talk.agent(result_line(id_of(mode)));
  const std::string option = only_line(talk);
  CHECK(member(option, "params") == R"({"sessionId":"s1","configId":"fast","type":"boolean","value":true})");
  talk.agent(result_line(id_of(option)));
  CHECK(talk.relay().phase() == Phase::serving);
}

TEST_CASE("an agent whose last words are its first answer to initialize is restarted, and loses nothing",
          "[recovery]") {
  Dialogue talk(restarting());
  talk.client(request_line("0", "initialize", v2));
  talk.take_agent();
  talk.happen(LinkEnded{talk.link(), LinkEnd::write_failed, 32});
  talk.client(request_line("7", "session/list"));
  talk.agent(result_line("0", v2));
  talk.agent_restarts();
  CHECK(talk.take_client() == Lines{result_line("0", v2)});
  talk.agent_initializes(v2);
  CHECK(talk.take_agent() == Lines{request_line("7", "session/list")});
}

}  // namespace
}  // namespace acp::sim
