// A restore that the agent refuses, or does not answer in time.
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"
#include "tests/unit/recovery.h"

namespace acp::sim {
namespace {

// ---- refusals ----

// A second epoch whose restore of s1 was refused with this code, a prompt held.
void refuse_restore(Dialogue& talk, int code) {
  open_with(talk, v2);
  talk.agent_restarts();
  talk.client(prompt_line("7", ""));
  talk.client(request_line("8", "session/close", R"({"sessionId":"s1"})"));
  talk.agent_initializes(v2);
  talk.agent(error_line(id_of(only_line(talk)), code));
}

TEST_CASE("a refused restore: prompts that waited get the agent's error, the rest goes on", "[recovery]") {
  const int code = GENERATE(-32002, -32602, -32000, -32603);
  Dialogue talk(restarting());
  refuse_restore(talk, code);
  CHECK(talk.take_client() == Lines{error_line("7", code)});
  CHECK(talk.take_agent() == Lines{request_line("8", "session/close", R"({"sessionId":"s1"})")});
  CHECK(talk.relay().phase() == Phase::serving);
  talk.client(prompt_line("9", ""));
  CHECK(talk.take_agent() == Lines{prompt_line("9", "")});  // for the agent to decide
  talk.agent(error_line("9", code));
  CHECK(talk.take_client() == Lines{error_line("9", code)});
  talk.pass(seconds(11));
  talk.client(prompt_line("10", ""));
  const bool tries_again = code == -32603;
  const std::string next = only_line(talk);
  CHECK(method_of(next) == (tries_again ? "session/resume" : "session/prompt"));
}

TEST_CASE("a refusal that wears off: tried before the next request, at most every 10 s", "[recovery]") {
  Dialogue talk(restarting());
  refuse_restore(talk, -32603);
  talk.take_client();
  talk.take_agent();
  talk.pass(seconds(10));
  talk.client(prompt_line("9", ""));
  std::string resume = only_line(talk);
  REQUIRE(method_of(resume) == "session/resume");
  talk.client(request_line("10", "session/list"));
  CHECK(talk.take_agent() == Lines{request_line("10", "session/list")});
  talk.agent(error_line(id_of(resume), -32603));
  CHECK(talk.take_client() == Lines{error_line("9", -32603)});
  talk.pass(seconds(9));
  talk.client(prompt_line("11", ""));
  CHECK(talk.take_agent() == Lines{prompt_line("11", "")});
  talk.pass(seconds(1));
  talk.client(prompt_line("12", ""));
  resume = only_line(talk);
  REQUIRE(method_of(resume) == "session/resume");
  // A cancel now reaches the prompt that the agent has; the one that waits is answered.
  talk.client(R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})");
  CHECK(in_short(talk.take_client()) == Lines{"12 -32800 cancelled not_sent"});
  CHECK(talk.take_agent().size() == 1);
  talk.client(prompt_line("13", ""));
  talk.agent(result_line(id_of(resume), "null"));
  CHECK(talk.take_agent() == Lines{prompt_line("13", "")});
  CHECK(talk.take_client().empty());
}

TEST_CASE("after -32000: restored once the client has authenticated", "[recovery]") {
  Dialogue talk(restarting());
  refuse_restore(talk, -32000);
  talk.take_client();
  talk.take_agent();
  talk.client(request_line("9", "auth/login", R"({"methodId":"m"})"));
  CHECK(method_of(only_line(talk)) == "auth/login");
  talk.agent(result_line("9"));
  CHECK(talk.take_client() == Lines{result_line("9")});
  const std::string resume = only_line(talk);
  CHECK(method_of(resume) == "session/resume");
  talk.client(prompt_line("10", ""));
  CHECK(talk.take_agent().empty());
  talk.agent(result_line(id_of(resume), "null"));
  CHECK(talk.take_agent() == Lines{prompt_line("10", "")});
  CHECK(talk.take_client().empty());
}

TEST_CASE("the client's own resume repairs a session", "[recovery]") {
  Dialogue talk(restarting());
  refuse_restore(talk, -32603);
  talk.take_client();
  talk.take_agent();
  talk.pass(seconds(20));
  const std::string resume = request_line("9", "session/resume", R"({"sessionId":"s1","cwd":"/w"})");
  talk.client(resume);
  CHECK(talk.take_agent() == Lines{resume});
  talk.agent(result_line("9"));
  talk.client(prompt_line("10", ""));
  CHECK(talk.take_agent() == Lines{prompt_line("10", "")});
}

TEST_CASE("an answer to a restore that cannot be read is a refusal", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.agent_restarts();
  talk.client(prompt_line("7", ""));
  talk.agent_initializes(v2);
  const std::string id(id_of(only_line(talk)));
  talk.agent(fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{{}},"error":"x"}})", id));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 malformed_answer not_sent"});
  CHECK(talk.relay().phase() == Phase::serving);
}

// ---- time-outs ----

TEST_CASE("a restore has its time, re-armed by the session's frames; a late success counts", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.agent_restarts();
  talk.client(prompt_line("7", ""));
  talk.agent_initializes(v2);
  const std::string resume = only_line(talk);
  talk.pass(seconds(119));
  talk.agent(update_line("s1", "state_update"));
  talk.pass(seconds(119));
  CHECK(talk.take_client().size() == 1);
  talk.agent(update_line("s2", "state_update"));  // another's
  talk.pass(seconds(1));
  CHECK(in_short(talk.take_client().back()) == "7 -32603 restore_timeout not_sent");
  CHECK(talk.relay().phase() == Phase::serving);
  if (GENERATE(true, false)) {
    talk.agent(result_line(id_of(resume), "null"));
  } else {  // the second try is on its way, then both answers come
    talk.client(prompt_line("9", ""));
    const std::string again = only_line(talk);
    CHECK(method_of(again) == "session/resume");
    talk.agent(result_line(id_of(resume), "null"));
    talk.agent(result_line(id_of(again), "null"));
    CHECK(talk.take_agent() == Lines{prompt_line("9", "")});
  }
  talk.client(prompt_line("10", ""));
  CHECK(talk.take_agent() == Lines{prompt_line("10", "")});
  CHECK(talk.take_client().empty());
}

TEST_CASE("initialize has its time, re-armed by stderr; then the epoch is given up", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.agent_restarts();
  talk.client(prompt_line("7", ""));
  talk.pass(seconds(119));
  talk.happen(StderrRead{talk.epoch(), "indexing\n"});
  talk.pass(seconds(119));
  talk.take_orders();
  talk.pass(seconds(1));
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  talk.pass(seconds(200));
  talk.agent_dies({ExitStatus::Kind::signalled, 15});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost not_sent"});
  CHECK(talk.relay().phase() == Phase::spent);
}

TEST_CASE("another protocol version or a refused initialize: given up, clearly", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.client(prompt_line("7", ""));
  talk.take_agent();
  talk.agent_restarts();
  talk.client(prompt_line("8", ""));
  const bool other = GENERATE(true, false);
  const std::string id(id_of(only_line(talk)));
  talk.take_orders();
  talk.agent(other ? result_line(id, v1_none) : error_line(id, -32603));
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  talk.agent_dies({ExitStatus::Kind::signalled, 15});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown", "8 -32603 agent_lost not_sent"});
  talk.client(prompt_line("9", ""));
  CHECK(in_short(talk.take_client()) == Lines{"9 -32603 agent_lost not_sent"});
  CHECK(talk.take_agent().empty());
}

TEST_CASE("fewer capabilities: it goes on", "[recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v1_resume);
  talk.agent_restarts();
  talk.agent_initializes(v1_load);
  CHECK(method_of(only_line(talk)) == "session/load");
}

TEST_CASE("last words of an epoch that is being ended restore nothing", "[recovery]") {
  Dialogue talk(restarting());
  talk.open();
  talk.client(request_line("2", "session/close", R"({"sessionId":"s1"})"));
  talk.agent(result_line("2"));
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  const std::string id(id_of(only_line(talk)));
  talk.happen(AgentExited{talk.epoch(), {ExitStatus::Kind::signalled, 9}});
  talk.agent(result_line(id, v2));
  talk.client(request_line("7", "session/list"));
  CHECK(talk.take_agent().empty());
  talk.agent_dies({ExitStatus::Kind::signalled, 9});
  talk.pass(seconds(1));
  talk.agent_starts();
  talk.agent_initializes(v2);
  CHECK(talk.take_agent() == Lines{request_line("7", "session/list")});
}

}  // namespace
}  // namespace acp::sim
