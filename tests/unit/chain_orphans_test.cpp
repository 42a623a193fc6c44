// What a dead proxy had asked of the agent: it goes on there for whoever asks again, and for nobody else.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/chain_proxy.h"

namespace acp::test {
namespace {

using std::chrono::seconds;

// The new agent takes over and shows that it knows of no message.
void take_over(ChainTalk& talk) {
  talk.agent(result_line(id_of(talk.take_agent().at(0)), R"({"protocolVersion":2})"));
  const Lines resumes = talk.take_agent();
  REQUIRE(methods_of(resumes) == Lines{"session/resume"});
  talk.agent(note_line("session/update",
                       R"({"sessionId":"s1","update":{"sessionUpdate":"state_update","state":"idle"}})"));
  talk.agent(result_line(id_of(resumes[0]), "{}"));
  CHECK(methods_of(talk.take(0)) == Lines{"^session/update"});
}

TEST_CASE("an agent is asked to initialize once, also if the proxy before it dies meanwhile",
          "[chain][loss]") {
  const auto answered = GENERATE(as<std::string>(), "before it is asked again", "after that");
  const auto params =
      GENERATE(as<std::string>(), R"({"protocolVersion":2})", R"({"protocolVersion":2,"x":1})");
  const std::string first = R"({"protocolVersion":2})";
  ChainTalk talk(plan_for(1));
  const auto ask = [&](const std::string& id, const std::string& with) {
    REQUIRE(talk.take(0).size() == 1);  // its role, in one spelling or the other
    talk.component(0, fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"proxy/successor",)"
                                  R"("params":{{"method":"initialize","params":{}}}}})",
                                  id, with));
  };
  talk.client(request_line("0", "initialize", first));
  ask("5", first);
  REQUIRE(methods_of(talk.take_agent()) == Lines{"initialize"});
  talk.restarts(0);
  const bool is_remembered = answered == "before it is asked again";
  if (is_remembered) talk.agent(result_line("5", R"({"protocolVersion":2})"));
  ask("7", params);
  const bool is_other = params != first;
  CHECK(methods_of(talk.take_agent()) == (is_other ? Lines{"initialize"} : Lines{}));
  if (!is_remembered) talk.agent(result_line("5", R"({"protocolVersion":2})"));
  if (is_other) talk.agent(result_line("7", R"({"protocolVersion":2})"));
  CHECK(talk.take(0) == Lines{result_line("7", R"({"protocolVersion":2})")});
  CHECK(talk.chain().relay(1).edge().open_requests() == 0);
}

TEST_CASE("what is proven absent is not sent again for a proxy that is gone", "[chain][loss]") {
  ChainPlan plan = plan_for(1);
  plan.edges[1].settings.recover_prompts = true;
  const auto who = GENERATE(as<std::string>(), "agent", "agent, proxy", "proxy, agent");
  OneProxy talk(plan);
  talk.component(0, talk.wrapped("50", "session/prompt", prompt));
  talk.take_agent();
  if (who == "proxy, agent") talk.again();
  talk.exits(1);
  if (who == "agent, proxy") talk.again();
  talk.starts(1);
  talk.take(0);
  take_over(talk);
  const bool is_wanted = who == "agent";
  CHECK(methods_of(talk.take_agent()) == (is_wanted ? Lines{"session/prompt"} : Lines{}));
  CHECK(talk.chain().relay(1).edge().open_requests() == (is_wanted ? 1 : 0));
  CHECK(talk.take(0).empty());
}

TEST_CASE("a keyed prompt of a dead proxy's outlives the agent, too", "[chain][loss]") {
  const KeyMode keys = GENERATE(KeyMode::guard, KeyMode::forward);
  const bool agent_first = GENERATE(false, true);
  ChainPlan plan = plan_for(1);
  plan.edges[1].settings.keys = keys;
  OneProxy talk(plan);
  talk.component(0, talk.wrapped("50", "session/prompt", keyed));
  talk.take_agent();
  if (!agent_first) talk.again();
  talk.exits(1);
  if (agent_first) talk.again();
  talk.starts(1);
  talk.take(0);
  take_over(talk);
  const Lines sent = talk.take_agent();
  REQUIRE(methods_of(sent) == Lines{"session/prompt"});
  CHECK(sim::member(sent[0], "params") == keyed);
  talk.component(0, talk.wrapped("9", "session/prompt", keyed));
  CHECK(talk.take_agent().empty());
  talk.agent(result_line(id_of(sent[0]), R"({"messageId":"m"})"));
  CHECK(talk.take(0) == Lines{result_line("9", R"({"messageId":"m"})")});
}

TEST_CASE("a second dead proxy changes nothing of what the first one left", "[chain][loss]") {
  OneProxy talk;
  talk.component(0, talk.wrapped("50", "session/prompt", prompt));
  talk.again();
  talk.component(0, result_line(id_of(talk.take(0).at(0))));  // its session is there again
  talk.again();
  talk.take(0);
  talk.take_agent();
  CHECK(talk.chain().relay(1).edge().open_requests() == 0);
  talk.agent(result_line("50"));
  CHECK(talk.take(0).empty());
}

TEST_CASE("silence is told to nobody who waits no more", "[chain][loss]") {
  ChainPlan plan = plan_for(1);
  plan.edges[1].settings.silence_timeout = seconds(10);
  OneProxy talk(plan);
  talk.component(0, talk.wrapped("50", "session/prompt", prompt));
  talk.again();
  talk.take(0);
  talk.take_agent();
  talk.pass(seconds(11));
  CHECK(methods_of(talk.take_agent()) == Lines{"session/cancel"});
  CHECK(talk.take(0).empty());
  talk.agent(result_line("50"));
  CHECK(talk.take(0).empty());
  CHECK(talk.chain().relay(1).edge().open_requests() == 0);
}

TEST_CASE("a cancellation that a dead proxy had is told the next one, unless another prompt runs",
          "[chain][loss]") {
  const auto beside =
      GENERATE(as<std::string>(), "", "a prompt", "a prompt of s2", "a list", "a late prompt");
  const bool by_request = GENERATE(false, true);
  OneProxy talk;
  talk.client(prompt_line("7", ""));
  talk.client(by_request ? cancel_line("7") : note_line("session/cancel", R"({"sessionId":"s1"})"));
  if (beside == "a prompt") talk.client(prompt_line("8", ""));
  if (beside == "a prompt of s2") talk.client(prompt_line("8", "", "T", "s2"));
  if (beside == "a list") talk.client(request_line("8", "session/close", R"({"sessionId":"s1"})"));
  talk.take(0);
  talk.restarts(0);
  if (beside == "a late prompt") talk.client(prompt_line("8", ""));
  const std::string own = id_of(talk.take(0).at(0));
  talk.component(0, result_line(own, R"({"protocolVersion":2})"));
  const Lines resumes = talk.take(0);
  REQUIRE(methods_of(resumes).at(0) == "session/resume");
  talk.component(0, result_line(id_of(resumes[0])));
  Lines told = methods_of(talk.take(0));
  if (beside == "a late prompt") {
    CHECK(told == Lines{"session/cancel", "session/prompt"});
  } else {
    std::erase(told, "session/close");
    CHECK(told == (beside == "a prompt" ? Lines{} : Lines{"session/cancel"}));
  }
  CHECK(in_short(talk.take_client()).at(0) ==
        (beside == "a prompt of s2" ? "8 -32603 agent_lost unknown" : "7 -32800 cancelled unknown"));
}

TEST_CASE("only a cancelled prompt of a session is cancelled once more", "[chain][loss]") {
  OneProxy talk;
  talk.client(prompt_line("7", ""));
  talk.client(request_line("8", "session/list"));
  talk.client(request_line("9", "session/prompt", "{}"));
  for (const auto* id : {"7", "8", "9"}) talk.client(cancel_line(id));
  talk.take(0);
  talk.restarts(0);
  talk.client(prompt_line("10", "", "T", "s2"));  // goes on while s1 is restored
  talk.component(0, result_line(id_of(talk.take(0).at(0)), R"({"protocolVersion":2})"));
  const Lines next = talk.take(0);
  CHECK(methods_of(next) == Lines{"session/resume", "session/prompt"});
  talk.component(0, result_line(id_of(next.at(0))));
  CHECK(methods_of(talk.take(0)) == Lines{"session/cancel"});
}

TEST_CASE("an edge that is over takes nothing, and nothing starts it", "[chain][relay]") {
  sim::Dialogue talk;
  Actions actions;
  const bool is_over = GENERATE(false, true);
  if (is_over) {
    talk.agent_dies(exited(0));
    talk.client(request_line("0", "initialize"));
    REQUIRE(talk.exit_status());
  } else {  // on its way out: its client is gone
    talk.client(request_line("0", "initialize"));
    talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
    talk.happen(LinkEnded{talk.link(), LinkEnd::eof, 0});
    REQUIRE(talk.relay().phase() == Phase::leaving);
  }
  CHECK_FALSE(talk.relay().start_afresh(true, Instant{}, actions));
  if (is_over) {
    talk.relay().take(Side::client, {FrameKind::whole, "{}", {}}, Instant{}, actions);
    talk.relay().replace_client(Instant{}, actions);
  }
  CHECK(actions.empty());
}

}  // namespace
}  // namespace acp::test
