// --silence-timeout beside restarts: a restore has times of its own, and a given-up prompt owes nothing.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/recovery.h"

namespace acp::sim {
namespace {

const Lines none;

Settings silent_and_restarting() {
  Settings settings = restarting();
  settings.silence_timeout = seconds(5);
  return settings;
}

TEST_CASE("silence: while the agent is lost or restored no prompt is given up", "[recovery][silence]") {
  Dialogue talk(silent_and_restarting());
  open_with(talk, v2);
  talk.client(request_line("6", "session/status", R"({"sessionId":"s1"})"));
  talk.take_agent();
  talk.happen(AgentExited{talk.epoch(), {ExitStatus::Kind::signalled, 9}});
  talk.client(prompt_line("7", ""));
  talk.pass(seconds(6));
  CHECK(talk.take_client() == none);
  talk.agent_restarts();
  talk.agent_initializes(v2);
  const std::string resume = only_line(talk);
  talk.pass(seconds(6));
  CHECK(talk.take_client() == none);
  talk.agent(result_line(id_of(resume), "{}"));
  CHECK(talk.take_agent() ==
        Lines{request_line("6", "session/status", R"({"sessionId":"s1"})"), prompt_line("7", "")});
  talk.pass(seconds(11));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 silence_timeout unknown"});
}

TEST_CASE("silence: a given-up prompt of a dead agent's is over, and is not sent again",
          "[recovery][silence]") {
  Dialogue talk(silent_and_restarting());
  open_with(talk, v2);
  talk.client(prompt_line("7", ""));
  talk.pass(seconds(5));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 silence_timeout unknown"});
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v2);
  const std::string resume = only_line(talk);
  talk.agent(result_line(id_of(resume), "{}"));
  CHECK(talk.take_agent() == none);
  CHECK(talk.take_client() == none);
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("silence: a prompt that waits for its session to be restored again is not the agent's",
          "[recovery][silence]") {
  Dialogue talk(silent_and_restarting());
  open_with(talk, v2);
  talk.agent_restarts();
  talk.agent_initializes(v2);
  talk.agent(error_line(id_of(only_line(talk)), -32603));
  talk.client(prompt_line("7", ""));  // for the agent to decide
  CHECK(talk.take_agent() == Lines{prompt_line("7", "")});
  talk.pass(seconds(4));
  talk.agent(update_line("s1", "state_update"));
  talk.pass(seconds(4));
  talk.agent(update_line("s1", "state_update"));
  talk.pass(seconds(4));
  talk.take_client();
  talk.client(prompt_line("8", ""));
  const std::string again = only_line(talk);
  REQUIRE(method_of(again) == "session/resume");
  talk.pass(seconds(6));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 silence_timeout unknown"});
  CHECK(talk.take_agent().size() == 1);  // session/cancel
  talk.agent(result_line(id_of(again), "{}"));
  CHECK(talk.take_agent() == Lines{prompt_line("8", "")});
}

TEST_CASE("silence: the agent may still name a request that was given up", "[recovery][silence]") {
  Dialogue talk(silent_and_restarting());
  open_with(talk, v2);
  talk.client(prompt_line("7", ""));
  talk.client(prompt_line("7", ""));
  const std::string wire(id_of(talk.take_agent().at(1)));
  CHECK(wire != "7");
  const auto ask = [](std::string_view id, std::string_view named) {
    return request_line(id, "elicitation/create",
                        R"({"mode":"form","requestId":)" + std::string(named) + "}");
  };
  talk.agent(ask("20", wire));
  CHECK(talk.take_client() == Lines{ask("20", "7")});
  talk.pass(seconds(6));
  talk.take_client();
  talk.agent(ask("21", wire));  // the client's 7 may be another request by now
  CHECK(talk.take_client() == Lines{ask("21", wire)});
}

TEST_CASE("silence: what is kept for the next agent is not given up", "[recovery]") {
  Settings settings = restarting();
  settings.silence_timeout = seconds(1);
  Dialogue talk(settings);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.happen(AgentExited{talk.epoch(), {ExitStatus::Kind::signalled, 9}});
  const std::string prompt = prompt_line("2", "");
  talk.client(prompt);
  talk.pass(seconds(2));
  CHECK(talk.take_client().empty());
  // Its last words are the answer: another one follows after all, and that is sent the prompt.
  talk.agent(result_line("0", v2));
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v2);
  CHECK(talk.take_agent() == Lines{prompt});
  talk.agent(result_line("2"));
  CHECK(talk.take_client() == Lines{result_line("0", v2), result_line("2")});
}

}  // namespace
}  // namespace acp::sim
