// A component that does not understand its role, and a chain that does without one of its components.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/chain_parts.h"

namespace acp::test {
namespace {

using std::chrono::seconds;

const std::string first = request_line("0", "initialize", R"({"protocolVersion":2})");

Lines roles_of(ChainTalk& talk, std::size_t number) {
  Lines methods;
  for (const std::string& line : talk.take(number))
    methods.emplace_back(sim::unquoted(sim::member(line, "method")));
  return methods;
}

// The component was told to go and goes, another one is started.
void again(ChainTalk& talk, std::size_t number) {
  REQUIRE(talk.was_ordered(fmt::format("end {} 0", number)));
  const Epoch before = talk.epoch(number);
  talk.obey();
  REQUIRE(talk.epoch(number) > before);
  talk.starts(number);
  talk.take_orders();
}

ChainPlan bypassing(std::size_t proxies, std::size_t which, bool is_component = false) {
  ChainPlan plan = plan_for(proxies, is_component);
  plan.edges[which].settings.is_bypassed = true;
  return plan;
}

// Everything goes through: a request, its answer, a request of the agent's, news.
void check_passes(ChainTalk& talk) {
  talk.client_settled(request_line("70", "_x/y", "[1.0]"));
  const Lines got = talk.take_agent();
  REQUIRE(got.size() == 1);
  CHECK(sim::member(got[0], "params") == "[1.0]");
  talk.agent(note_line("_x/note"));
  talk.agent(request_line("0", "_x/ask", "[2.0]"));
  talk.agent(result_line(sim::member(got[0], "id"), "[3.0]"));
  talk.settle();
  const Lines told = talk.take_client();
  REQUIRE(told.size() == 3);
  CHECK(told[0] == note_line("_x/note"));
  CHECK(sim::member(told[1], "params") == "[2.0]");
  CHECK(told[2] == result_line("70", "[3.0]"));
  talk.client_settled(error_line(sim::member(told[1], "id")));
  CHECK(talk.take_agent() == Lines{error_line("0")});
}

TEST_CASE("a component that does not understand is started afresh, in no budget's account",
          "[chain][afresh]") {
  const auto way = GENERATE(as<std::string>(), "older", "error", "wrap", "ends");
  ChainPlan plan = plan_for(2);
  plan.edges[1].settings.restarts = false;
  ChainTalk talk(plan);
  if (way == "older") talk.proxy(1).method_prefix = "_";
  if (way == "error" || way == "wrap") talk.proxy(1).answer_of_role = way;
  talk.client(first);
  for (const std::string& line : talk.take(0)) talk.component(0, talk.proxy(0).read(line));
  if (way == "ends") {
    CHECK(roles_of(talk, 1) == Lines{"proxy/initialize"});
    talk.exits(1);
    talk.starts(1);
  } else {
    talk.settle();
    again(talk, 1);
  }
  talk.proxy(1).answer_of_role.clear();
  talk.proxy(1).method_prefix = "_";
  CHECK_FALSE(talk.was_ordered("start 0"));
  talk.settle();
  const Lines asked = talk.take_agent();
  REQUIRE(asked.size() == 1);
  talk.agent_settled(result_line(sim::member(asked[0], "id"), R"({"protocolVersion":2})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
  check_passes(talk);
}

TEST_CASE("one that knows neither spelling is no proxy: its error is the client's", "[chain][afresh]") {
  ChainTalk talk(plan_for(1));
  talk.proxy(0).answer_of_role = "error";
  talk.client_settled(first);
  again(talk, 0);
  talk.settle();
  CHECK(talk.take_client() == Lines{error_line("0", -32601)});
  CHECK_FALSE(talk.was_ordered("end 0 0"));
  CHECK(talk.take_agent().empty());
  talk.component(0, note_line("x"));
  CHECK(talk.take_client() == Lines{note_line("x")});
}

TEST_CASE("one that died of something else first is asked in the present spelling again", "[chain][afresh]") {
  ChainPlan plan = plan_for(1);
  plan.edges[0].settings.silence_timeout = seconds(10);
  ChainTalk talk(plan);
  talk.client(first);
  talk.client(prompt_line("1", ""));
  CHECK(roles_of(talk, 0) == Lines{"proxy/initialize", "session/prompt"});
  talk.exits(0);
  talk.starts(0);
  talk.proxy(0).answer_of_role = "error";
  talk.settle();
  again(talk, 0);
  talk.pass(seconds(10));  // no time of a restore's runs: the client may take as long as it wants
  CHECK_FALSE(talk.was_ordered("end 0 1000"));
  talk.proxy(0).answer_of_role.clear();
  talk.settle();
  CHECK(sim::member(talk.take_agent().at(0), "method") == "\"initialize\"");
}

TEST_CASE("one that ends before anything is asked of it", "[chain][bypass]") {
  ChainTalk talk(bypassing(1, 0));
  talk.exits(0);
  talk.open();
  check_passes(talk);
}

TEST_CASE("one that cannot be executed a second time is tried again first", "[chain][bypass]") {
  ChainTalk talk(bypassing(1, 0));
  talk.open();
  talk.exits(0);
  talk.happen(AgentStartFailed{talk.epoch(0), 2});
  CHECK(talk.chain().relay(0).phase() == Phase::waiting);
}

TEST_CASE("a person restarts one that is left out: there is nothing to start", "[chain][bypass]") {
  ChainPlan plan = bypassing(1, 0, true);
  plan.edges[0].settings.restart_limit.restarts_max = 1;
  ChainTalk talk(plan);
  talk.proxy(0).answer_of_role = "error";
  talk.client_settled(request_line("0", "proxy/initialize", R"({"protocolVersion":2})"));
  again(talk, 0);
  talk.settle();
  talk.obey();
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  talk.client(result_line(sim::member(got[0], "id"), R"({"protocolVersion":2})"));
  talk.take_client();
  talk.take_orders();
  for (int time = 0; time < 2; ++time) talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.take_orders().empty());
  CHECK(talk.chain().relay(0).phase() == Phase::spent);  // too often, even so
  talk.client(request_line("9", "session/list"));
  CHECK(in_short(talk.take_client()) == Lines{"9 -32603 agent_lost not_sent"});
}

TEST_CASE("nothing is started afresh for a client that is gone", "[chain][afresh]") {
  ChainTalk talk(plan_for(1));
  talk.proxy(0).answer_of_role = "error";
  talk.client(first);
  talk.end_client();
  talk.settle();
  CHECK_FALSE(talk.was_ordered("end 0 0"));
  talk.pass(seconds(20));
  talk.obey();
  CHECK_FALSE(talk.was_ordered("start 0"));
}

TEST_CASE("a command that cannot be executed is left out where that is allowed", "[chain][bypass]") {
  const std::size_t proxies = 3;
  const std::size_t which = GENERATE(0U, 1U, 2U);
  ChainTalk talk(bypassing(proxies, which), false);
  for (std::size_t number = 0; number <= proxies; ++number) {
    if (number == which) {
      talk.happen(AgentStartFailed{talk.epoch(which), 2});
    } else {
      talk.starts(number);
    }
  }
  talk.open();
  CHECK(talk.take(which).empty());
  check_passes(talk);
  talk.end_client();
  for (std::size_t number = 0; number <= proxies; ++number) {
    if (number != which) talk.exits(number, exited(0));
  }
  CHECK(talk.exit_status() == 0);
}

TEST_CASE("one that ends before it has initialized, in both spellings", "[chain][bypass]") {
  const std::size_t which = GENERATE(0U, 1U);
  const LinkEnd how = GENERATE(LinkEnd::eof, LinkEnd::write_failed);
  ChainTalk talk(bypassing(2, which));
  talk.client(first);
  if (which == 1) {
    for (const std::string& line : talk.take(0)) talk.component(0, talk.proxy(0).read(line));
  }
  CHECK(roles_of(talk, which) == Lines{"proxy/initialize"});
  talk.exits(which);
  talk.starts(which);
  CHECK(roles_of(talk, which) == Lines{"_proxy/initialize"});
  talk.happen(LinkEnded{talk.link(which), how, 0});
  talk.exits(which, exited(1));
  talk.settle();
  const Lines asked = talk.take_agent();
  REQUIRE(asked.size() == 1);
  CHECK(sim::member(asked[0], "method") == "\"initialize\"");
  talk.agent_settled(result_line(sim::member(asked[0], "id"), R"({"protocolVersion":2})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
  check_passes(talk);
}

TEST_CASE("one that refuses both spellings", "[chain][bypass]") {
  ChainTalk talk(bypassing(1, 0));
  talk.proxy(0).answer_of_role = "error";
  talk.client_settled(first);
  again(talk, 0);
  talk.settle();
  talk.obey();
  CHECK(talk.take_client().empty());
  CHECK(talk.take_agent() == Lines{first});
  talk.agent(result_line("0", R"({"protocolVersion":2})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
  check_passes(talk);
}

TEST_CASE("one that was restarted too often: nothing is lost on the way around it", "[chain][bypass]") {
  ChainPlan plan = bypassing(1, 0);
  plan.edges[0].settings.restart_limit.restarts_max = 1;
  ChainTalk talk(plan);
  talk.open();
  talk.restarts(0);
  talk.settle();
  const Lines resumes = talk.take_agent();
  REQUIRE(resumes.size() == 1);
  talk.agent_settled(result_line(sim::member(resumes[0], "id")));
  const std::string keyed =
      R"({"sessionId":"s1","prompt":[{"type":"text","text":"T"}],"idempotencyKey":"k"})";
  talk.client_settled(request_line("7", "session/prompt", keyed));
  talk.client_settled(request_line("8", "session/list"));
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 2);
  talk.agent_settled(request_line("0", "session/request_permission", R"({"sessionId":"s1"})"));
  CHECK(talk.take_client().size() == 1);
  talk.exits(0);
  // What it asked of the client is told moot, to both.
  CHECK(in_short(talk.take_client()) == Lines{cancel_line("\"k0--3\"")});
  const Lines after = talk.take_agent();
  CHECK(in_short(after[0]) == "0 -32603 client_lost unknown");
  REQUIRE(after.size() == 3);
  CHECK(sim::member(after[1], "method") == "\"session/resume\"");
  CHECK(sim::member(after[2], "method") == "\"session/list\"");
  talk.agent(result_line(sim::member(after[1], "id")));
  CHECK(talk.take_agent().empty());  // the prompt has joined the one that the agent has
  talk.agent(result_line(sim::member(after[2], "id"), "[8]"));
  talk.agent(result_line(sim::member(sent[0], "id"), R"({"messageId":"m"})"));
  CHECK(talk.take_client() == Lines{result_line("8", "[8]"), result_line("7", R"({"messageId":"m"})")});
  check_passes(talk);
  CHECK(talk.chain().relay(0).phase() == Phase::serving);
  talk.exits(1);  // the agent is restarted behind it as ever
  CHECK(talk.was_ordered("start 1"));
}

TEST_CASE("one that cannot take over", "[chain][bypass]") {
  ChainTalk talk(bypassing(1, 0));
  talk.open();
  talk.restarts(0);
  const Lines asked = talk.take(0);
  REQUIRE(asked.size() == 1);
  talk.component(0, result_line(sim::member(asked[0], "id"), R"({"protocolVersion":1})"));
  CHECK(talk.was_ordered("end 0 1000"));
  talk.obey();
  const Lines resumes = talk.take_agent();
  REQUIRE(resumes.size() == 1);
  talk.agent(result_line(sim::member(resumes[0], "id")));
  check_passes(talk);
}

TEST_CASE("all proxies of a chain are left out", "[chain][bypass]") {
  ChainPlan plan = bypassing(3, 0);
  plan.edges[1].settings.is_bypassed = plan.edges[2].settings.is_bypassed = true;
  ChainTalk talk(plan, false);
  for (std::size_t number = 0; number < 3; ++number) talk.happen(AgentStartFailed{talk.epoch(number), 2});
  talk.starts(3);
  talk.open();
  check_passes(talk);
  // Whose peer has not taken what was written is told to all of them.
  talk.take_orders();
  talk.happen(LinkBacklog{client_link, 2 * limits::mib});
  CHECK(talk.take_orders() == Lines{"pause 3"});
  talk.happen(LinkBacklog{client_link, 0});
  CHECK(talk.take_orders() == Lines{"resume 3"});
  talk.happen(LinkBacklog{talk.link(3), 2 * limits::mib});
  CHECK(talk.take_orders() == Lines{"pause client"});
  talk.happen(LinkBacklog{talk.link(3), 0});
  CHECK(talk.take_orders() == Lines{"resume client"});
  SECTION("the client goes") {
    talk.end_client();
    CHECK(talk.take_orders() == Lines{"close 3"});
    talk.exits(3, exited(4));
    CHECK(talk.exit_status() == 4);
  }
  SECTION("the agent goes for good") {
    talk.happen(SignalReceived{Signal::terminate, 15});
    talk.exits(3, exited(4));
    CHECK(talk.exit_status() == 128 + 15);
  }
  SECTION("a report says so") {
    talk.happen(SignalReceived{Signal::report, 10});
    CHECK(talk.stderr_text().find("chain: 1 of 4: proxy p1, epoch 1, bypassed") != std::string::npos);
  }
}

TEST_CASE("the agent behind one that is left out ends for good: so does the chain", "[chain][bypass]") {
  ChainPlan plan = bypassing(2, 1);
  plan.edges[2].settings.restarts = false;
  ChainTalk talk(plan, false);
  talk.happen(AgentStartFailed{talk.epoch(1), 2});
  talk.starts(0);
  talk.starts(2);
  talk.open();
  talk.client_settled(request_line("7", "session/list"));
  talk.exits(2, exited(6));
  talk.settle();
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  talk.pass(seconds(20));
  talk.exits(0, exited(0));
  CHECK(talk.exit_status() == 6);
}

TEST_CASE("a component of another conductor does without its own proxy", "[chain][bypass]") {
  ChainTalk talk(bypassing(1, 0, true), false);
  talk.happen(AgentStartFailed{talk.epoch(0), 2});
  talk.client(request_line("0", "proxy/initialize", R"({"protocolVersion":2})"));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(sim::member(got[0], "params") == R"({"method":"initialize","params":{"protocolVersion":2}})");
  talk.client(result_line(sim::member(got[0], "id"), R"({"protocolVersion":2})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
  talk.take_orders();
  talk.happen(LinkBacklog{client_link, 2 * limits::mib});
  talk.happen(LinkBacklog{client_link, 0});
  talk.end_client();
  CHECK(talk.exit_status() == 0);
}

}  // namespace
}  // namespace acp::test
