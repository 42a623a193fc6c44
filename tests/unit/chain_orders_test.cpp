// Who is not read when, what a person's signals do to a chain, and who is told what of the world.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/chain_parts.h"

namespace acp::test {
namespace {

using std::chrono::seconds;

constexpr std::size_t much = 2 * limits::mib;

TEST_CASE("who does not read keeps those from being read that write to it", "[chain][pressure]") {
  ChainTalk talk(plan_for(2));
  talk.open();
  const auto told = [&](LinkId link, std::size_t bytes) {
    talk.happen(LinkBacklog{link, bytes});
    return talk.take_orders();
  };
  CHECK(told(client_link, much) == Lines{"pause 0"});
  CHECK(told(client_link, 0) == Lines{"resume 0"});
  CHECK(told(talk.link(0), much) == Lines{"pause client", "pause 1"});
  CHECK(told(talk.link(0), 0) == Lines{"resume client", "resume 1"});
  CHECK(told(talk.link(1), much) == Lines{"pause 0", "pause 2"});
  CHECK(told(talk.link(1), 0) == Lines{"resume 0", "resume 2"});
  CHECK(told(talk.link(2), much) == Lines{"pause 1"});
  CHECK(told(talk.link(2), 0) == Lines{"resume 1"});
  // A link of two edges goes on once both want it to.
  CHECK(told(client_link, much) == Lines{"pause 0"});
  CHECK(told(talk.link(1), much) == Lines{"pause 2"});
  CHECK(told(client_link, 0).empty());
  CHECK(told(talk.link(1), 0) == Lines{"resume 0", "resume 2"});
}

TEST_CASE("a component that is not read is not read after a restart either", "[chain][pressure]") {
  ChainTalk talk(plan_for(1));
  talk.open();
  talk.happen(LinkBacklog{talk.link(1), much});
  CHECK(talk.take_orders() == Lines{"pause 0"});
  talk.exits(0);
  talk.take_orders();
  talk.starts(0);
  CHECK(talk.take_orders() == Lines{"pause 0"});
  talk.happen(LinkBacklog{talk.link(1), 0});
  CHECK(talk.take_orders() == Lines{"resume 0"});
}

TEST_CASE("what waits for a component that initializes again counts as not taken", "[chain][pressure]") {
  ChainTalk talk(plan_for(1));
  talk.open();
  talk.restarts(0);
  const std::string own(sim::member(talk.take(0).at(0), "id"));
  talk.take_orders();
  const std::string text(limits::mib, 'x');
  talk.agent(note_line("_x/y", "[\"" + text + "\"]"));
  CHECK(talk.take_orders() == Lines{"pause 1"});
  talk.happen(LinkBacklog{talk.link(0), 100});
  CHECK(talk.take_orders().empty());
  talk.component(0, result_line(own, R"({"protocolVersion":2})"));
  CHECK(talk.take_orders() == Lines{"resume 1"});
  CHECK(talk.take(0).size() == 2);
}

TEST_CASE("a component of another conductor has two edges on its client's link", "[chain][pressure]") {
  ChainTalk talk(plan_for(1, true));
  talk.client_settled(request_line("0", "proxy/initialize", R"({"protocolVersion":2})"));
  talk.client_settled(result_line(sim::member(talk.take_client().at(0), "id"), R"({"protocolVersion":2})"));
  talk.take_orders();
  const auto told = [&](LinkId link, std::size_t bytes) {
    talk.happen(LinkBacklog{link, bytes});
    return talk.take_orders();
  };
  CHECK(told(client_link, much) == Lines{"pause 0"});
  CHECK(told(client_link, 0) == Lines{"resume 0"});
  CHECK(told(talk.link(0), much) == Lines{"pause client"});
  CHECK(told(talk.link(0), 0) == Lines{"resume client"});
}

TEST_CASE("a signal to go is for all components; its number is the status", "[chain][signals]") {
  const auto [signal, number] =
      GENERATE(table<Signal, int>({{Signal::interrupt, 2}, {Signal::terminate, 15}, {Signal::hangup, 1}}));
  const bool is_component = GENERATE(false, true);
  const bool is_draining = GENERATE(false, true);
  ChainTalk talk(plan_for(2, is_component));
  if (is_draining) talk.end_client();
  talk.take_orders();
  talk.happen(SignalReceived{signal, number});
  for (std::size_t proxy = 0; proxy < 2; ++proxy) CHECK(talk.was_ordered(fmt::format("end {} 4000", proxy)));
  CHECK(talk.was_ordered("end 2 4000") != is_component);
  talk.happen(SignalReceived{Signal::terminate, 15});  // now, a person says
  CHECK(talk.was_ordered("end 0 0"));
  talk.exits(1);
  talk.exits(0);
  if (!is_component) talk.exits(2);
  CHECK(talk.exit_status() == 128 + number);
}

TEST_CASE("a signal finds what has ended already alone", "[chain][signals]") {
  ChainTalk talk(plan_for(1));
  talk.end_client();
  talk.exits(0, exited(0));
  talk.take_orders();
  talk.happen(SignalReceived{Signal::terminate, 15});
  CHECK(talk.was_ordered("end 1 4000"));
  CHECK_FALSE(talk.was_ordered("end 0 4000"));
  talk.exits(1, exited(0));
  CHECK(talk.exit_status() == 128 + 15);
}

TEST_CASE("a person restarts the last component that keyhop started", "[chain][signals]") {
  const bool is_component = GENERATE(false, true);
  ChainTalk talk(plan_for(1, is_component));
  talk.client_settled(
      request_line("0", is_component ? "proxy/initialize" : "initialize", R"({"protocolVersion":2})"));
  const std::string answer = R"({"protocolVersion":2})";
  if (is_component) {
    talk.client_settled(result_line(sim::member(talk.take_client().at(0), "id"), answer));
  } else {
    talk.agent_settled(result_line(talk.last_id(), answer));
  }
  talk.take_orders();
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.was_ordered(fmt::format("end {} 1000", is_component ? 0 : 1)));
  CHECK_FALSE(talk.was_ordered(fmt::format("end {} 1000", is_component ? 1 : 0)));
  talk.obey();
  CHECK(talk.was_ordered(fmt::format("start {}", is_component ? 0 : 1)));
}

TEST_CASE("without a process of its own there is nothing to restart", "[chain][signals]") {
  ChainTalk talk(plan_for(0, true));
  talk.take_orders();
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.take_orders().empty());
  talk.happen(SignalReceived{Signal::terminate, 15});
  CHECK(talk.exit_status() == 128 + 15);
}

TEST_CASE("a report has a line for each component, and its counters", "[chain][signals]") {
  ChainPlan plan = plan_for(2);
  ChainTalk talk(plan);
  talk.proxy(1).method_prefix = "_";
  talk.client_settled(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.obey();
  talk.starts(1);
  talk.settle();
  talk.happen(SignalReceived{Signal::report, 10});
  const std::string& text = talk.stderr_text();
  CAPTURE(text);
  const auto has = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  CHECK(
      has("chain: 1 of 3: proxy p1, epoch 1, spoken to as proxy/...; open on its link: to it 1 (0), from it "
          "1 ("));
  CHECK(has("chain: 2 of 3: proxy p2, epoch 2, spoken to as _proxy/...; open on its link: to it 1 ("));
  CHECK(has(" in an envelope)\n"));
  CHECK(has("chain: 3 of 3: agent, epoch 1\n"));
  std::size_t counters = 0;
  for (std::size_t at = text.find("keyhop: counters:"); at != std::string::npos;
       at = text.find("keyhop: counters:", at + 1))
    ++counters;
  CHECK(counters == 3);
}

TEST_CASE("the ledger is the last edge's", "[chain]") {
  ChainPlan plan = plan_for(1);
  plan.edges[1].settings.ledger = true;
  ChainTalk talk(plan);
  const Salt salt{};
  talk.happen(LedgerOpened{LedgerError::none, &salt});
  talk.open();
  const auto prompt = [](std::string_view session) {
    return fmt::format(R"({{"sessionId":"{}","prompt":[],"idempotencyKey":"k"}})", session);
  };
  talk.client_settled(request_line("7", "session/prompt", prompt("s1")));
  CHECK(talk.take_orders() == Lines{"commit"});
  CHECK(talk.take_agent().empty());
  talk.happen(LedgerCommitted{talk.last_ticket(), LedgerError::none});
  CHECK(talk.take_agent().size() == 1);
  talk.client_settled(request_line("8", "session/prompt", prompt("s2")));
  CHECK(talk.take_orders() == Lines{"read ledger"});
  const LedgerSession nothing;
  talk.happen(LedgerRead{talk.last_ticket(), LedgerError::none, &nothing});
  CHECK(talk.take_orders() == Lines{"commit"});
}

TEST_CASE("a component's words go to stderr, whoever it is", "[chain]") {
  ChainTalk talk(plan_for(1));
  talk.happen(StderrRead{talk.epoch(0), "one\n"});
  talk.happen(StderrRead{talk.epoch(1), "two\n"});
  CHECK(talk.stderr_text() == "one\ntwo\n");
}

TEST_CASE("of several deadlines the first one counts, wherever it is", "[chain]") {
  ChainTalk talk(plan_for(1));
  talk.open();
  talk.client(request_line("7", "session/list"));
  talk.end_client();
  const auto drain = talk.chain().next_deadline();
  REQUIRE(drain);
  talk.happen(LinkEnded{talk.link(1), LinkEnd::eof, 0});
  REQUIRE(talk.chain().next_deadline());
  CHECK(*talk.chain().next_deadline() < *drain);
}

TEST_CASE("deadlines are told to those whose they are", "[chain]") {
  ChainPlan plan = plan_for(1);
  plan.edges[0].settings.restart_limit.restarts_max = 3;
  ChainTalk talk(plan);
  CHECK_FALSE(talk.chain().next_deadline());
  talk.open();
  talk.exits(0);
  talk.happen(AgentStartFailed{talk.epoch(0), 2});  // a while, then another try
  const auto first = talk.chain().next_deadline();
  REQUIRE(first);
  talk.happen(LinkEnded{talk.link(1), LinkEnd::eof, 0});
  CHECK(talk.chain().next_deadline() == first);
  talk.take_orders();
  talk.pass(std::chrono::milliseconds(100));
  CHECK(talk.take_orders() == Lines{"start 0"});
  talk.pass(seconds(1));
  CHECK(talk.was_ordered("end 1 1000"));
}

}  // namespace
}  // namespace acp::test
