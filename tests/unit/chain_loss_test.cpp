// A component of a chain dies: it alone is started again, what it was asked is settled, and its neighbours
// are told what they must know.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/chain_proxy.h"

namespace acp::test {
namespace {

using std::chrono::seconds;

TEST_CASE("a proxy is started again alone: initialize is answered from memory, its sessions restored",
          "[chain][loss]") {
  const std::size_t which = GENERATE(0U, 1U, 2U);
  const int version = GENERATE(1, 2);
  ChainTalk talk(plan_for(3));
  talk.open(version);
  const std::uint32_t others = talk.epoch((which + 1) % 3).value;
  talk.exits(which);
  CHECK(talk.take_orders() == Lines{fmt::format("close {}", which), fmt::format("end {} 1000", which),
                                    fmt::format("finish {}", which), fmt::format("start {}", which)});
  talk.starts(which);
  CHECK(methods_of(talk.take(which)) == Lines{"proxy/initialize"});
  const std::string own = fmt::format("\"k{}--1\"", which);
  talk.component(
      which,
      R"({"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":)" +
          std::to_string(version) + "}}}");
  const Lines answered = talk.take(which);
  REQUIRE(answered.size() == 1);
  CHECK(answered[0] == result_line("0", fmt::format(R"({{"protocolVersion":{}}})", version)));
  talk.component(which, result_line(own, fmt::format(R"({{"protocolVersion":{}}})", version)));
  talk.settle();
  if (version == 2) {
    // The session goes through all that stand behind it, who only synchronize again.
    CHECK(method_of(talk.take_agent().back()) == "session/resume");
  } else {
    CHECK(talk.take_agent().empty());
  }
  CHECK(talk.take_client().empty());
  CHECK(talk.epoch((which + 1) % 3).value == others);
  CHECK(talk.epoch(3).value == Epoch{3U << component_shift | 1U}.value);
}

TEST_CASE("the agent is started again, and its proxies stay", "[chain][loss]") {
  ChainTalk talk(plan_for(2));
  talk.open();
  talk.client_settled(request_line("7", "session/prompt", prompt));
  talk.take_agent();
  talk.restarts(2);
  CHECK(talk.was_ordered("start 2"));
  CHECK_FALSE(talk.was_ordered("start 0"));
  CHECK_FALSE(talk.was_ordered("start 1"));
  const Lines got = talk.take_agent();
  CHECK(methods_of(got) == Lines{"initialize"});
  talk.agent_settled(result_line(id_of(got[0]), R"({"protocolVersion":2})"));
  CHECK(methods_of(talk.take_agent()) == Lines{"session/resume"});
}

TEST_CASE("what the agent has of a dead proxy stays open there, its answer goes nowhere", "[chain][loss]") {
  OneProxy talk;
  talk.component(0, talk.wrapped("50", "session/prompt", prompt));
  talk.component(0, talk.wrapped("51", "session/list", "{}"));
  CHECK(talk.take_agent().size() == 2);
  talk.again();
  CHECK(talk.chain().relay(1).edge().open_requests() == 0);
  talk.agent(result_line("50", R"({"messageId":"m"})"));
  talk.agent(result_line("51", "{}"));
  talk.agent(result_line("51", "{}"));
  CHECK(methods_of(talk.take(0)) == Lines{"session/resume"});
  // Its ids are free again.
  talk.component(0, talk.wrapped("50", "session/list", "{}"));
  CHECK(talk.take_agent() == Lines{request_line("50", "session/list")});
  talk.agent(result_line("50", "{}"));
  CHECK(talk.take(0) == Lines{result_line("50", "{}")});
}

TEST_CASE("a keyed prompt of a dead proxy's: whoever asks again gets its answer", "[chain][loss]") {
  OneProxy talk;
  talk.component(0, talk.wrapped("50", "session/prompt", keyed));
  CHECK(talk.take_agent().size() == 1);
  talk.again();
  talk.take(0);
  const bool joins = GENERATE(true, false);
  if (joins) {
    talk.component(0, talk.wrapped("9", "session/prompt", keyed));
    CHECK(talk.take_agent().empty());
    talk.agent(result_line("50", R"({"messageId":"m"})"));
  } else {
    talk.agent(result_line("50", R"({"messageId":"m"})"));
    CHECK(talk.take(0).empty());
    talk.component(0, talk.wrapped("9", "session/prompt", keyed));
    CHECK(talk.take_agent().empty());
  }
  CHECK(talk.take(0) == Lines{result_line("9", R"({"messageId":"m"})")});
}

TEST_CASE("duplicates that waited beside it are gone with their client", "[chain][loss]") {
  OneProxy talk;
  talk.component(0, talk.wrapped("50", "session/prompt", keyed));
  talk.component(0, talk.wrapped("51", "session/prompt", keyed));
  talk.component(0, talk.wrapped("52", "session/prompt", keyed));
  CHECK(talk.take_agent().size() == 1);
  talk.again();
  CHECK(talk.chain().relay(1).edge().open_requests() == 0);
  talk.take(0);
  talk.component(0, talk.wrapped("9", "session/prompt", keyed));
  talk.agent(result_line("50", R"({"messageId":"m"})"));
  CHECK(talk.take(0) == Lines{result_line("9", R"({"messageId":"m"})")});
}

TEST_CASE("what the agent asked of a dead proxy is answered for it", "[chain][loss]") {
  OneProxy talk;
  talk.agent(request_line("0", "session/request_permission", R"({"sessionId":"s1"})"));
  talk.agent(request_line("1", "fs/read_text_file", R"({"sessionId":"s1"})"));
  CHECK(talk.take(0).size() == 2);
  talk.exits(0);
  CHECK(in_short(talk.take_agent()) == Lines{"0 -32603 client_lost unknown", "1 -32603 client_lost unknown"});
  talk.starts(0);
  const std::string own = id_of(talk.take(0)[0]);
  talk.component(0, result_line("0", "{}"));  // to what nobody asked it
  CHECK(talk.take_agent().empty());
  CHECK(talk.take_client().empty());
  talk.component(0, result_line(own, R"({"protocolVersion":2})"));
  CHECK(methods_of(talk.take(0)) == Lines{"session/resume"});
}

TEST_CASE("both a proxy and the agent are lost: what was open at either is settled once", "[chain][loss]") {
  OneProxy talk;
  talk.client(request_line("7", "session/prompt", prompt));
  talk.component(0, talk.wrapped("50", "session/prompt", prompt));
  talk.component(0, talk.wrapped("51", "session/list", "{}"));
  talk.component(0, talk.wrapped("55", "session/new", R"({"cwd":"/w"})"));
  talk.exits(1);
  talk.component(0, talk.wrapped("52", "session/prompt", prompt));  // held
  talk.component(0, talk.wrapped("53", "session/prompt", keyed));   // held, and its duplicate
  talk.component(0, talk.wrapped("54", "session/prompt", keyed));
  talk.component(
      0, note_line("proxy/successor", R"({"method":"session/cancel","params":{"sessionId":"none"}})"));
  talk.again();
  CHECK(in_short(talk.take_client()).empty());
  talk.starts(1);
  talk.take_agent();
  const auto restored = talk.take(0);
  talk.agent(result_line("\"k1--1\"", R"({"protocolVersion":2})"));
  const Lines resumes = talk.take_agent();
  CHECK(methods_of(resumes) == Lines{"session/resume"});
  talk.agent(result_line(id_of(resumes[0]), "{}"));
  // Nothing that the dead proxy had asked is sent again, and nobody is told of it.
  CHECK(methods_of(talk.take(0)) == Lines{});
  CHECK(talk.take_agent().empty());
  CHECK(talk.chain().relay(1).edge().open_requests() == 0);
}

TEST_CASE("what the agent says to a proxy that is started again waits for its initialize", "[chain][loss]") {
  OneProxy talk;
  talk.restarts(0);
  talk.agent(note_line("session/update", R"({"sessionId":"s1"})"));
  talk.agent(request_line("4", "session/request_permission", R"({"sessionId":"s1"})"));
  const Lines asked = talk.take(0);
  CHECK(methods_of(asked) == Lines{"proxy/initialize"});
  talk.component(0, result_line(id_of(asked[0]), R"({"protocolVersion":2})"));
  CHECK(methods_of(talk.take(0)) ==
        Lines{"^session/update", "^session/request_permission", "session/resume"});
}

TEST_CASE("a new client that says something new asks the agent itself", "[chain][loss]") {
  OneProxy talk;
  talk.restarts(0);
  talk.component(0, talk.wrapped("0", "initialize", R"({"protocolVersion":2,"x":1})"));
  CHECK(methods_of(talk.take_agent()) == Lines{"initialize"});
}

TEST_CASE("its second initialize is a client's like any other", "[chain][loss]") {
  OneProxy talk;
  talk.again();
  talk.component(0, talk.wrapped("1", "initialize", R"({"protocolVersion":2})"));
  CHECK(methods_of(talk.take_agent()) == Lines{"initialize"});
}

TEST_CASE("a proxy that dies before the agent has initialized asks it again", "[chain][loss]") {
  ChainTalk talk(plan_for(1));
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.settle();
  talk.take_agent();
  talk.exits(0);
  CHECK(talk.was_ordered("start 0"));  // it may not have understood
  talk.starts(0);
  CHECK(methods_of(talk.take(0)) == Lines{"_proxy/initialize"});
  talk.agent(result_line("0", R"({"protocolVersion":2})"));
  CHECK(talk.take(0).empty());
}

TEST_CASE("news of epochs that are over is nobody's", "[chain][loss]") {
  OneProxy talk;
  const Epoch dead = talk.epoch(0);
  const LinkId closed = talk.link(0);
  talk.again();
  talk.take(0);
  talk.take_orders();
  talk.read(closed, note_line("x") + "\n");
  talk.happen(LinkEnded{closed, LinkEnd::eof, 0});
  talk.happen(LinkEnded{closed, LinkEnd::write_failed, 32});
  talk.happen(LinkBacklog{closed, 10 * limits::mib});
  talk.happen(AgentStarted{dead, 42});
  talk.happen(AgentExited{dead, killed});
  talk.happen(AgentEnded{dead});
  talk.happen(AgentStartFailed{dead, 2});
  CHECK(talk.take_orders().empty());
  CHECK(talk.take_client().empty());
  CHECK(talk.take(0).empty());
  CHECK(talk.take_agent().empty());
}

TEST_CASE("a proxy that closes its stdin or stdout is on its way out", "[chain][loss]") {
  const LinkEnd how = GENERATE(LinkEnd::eof, LinkEnd::write_failed);
  OneProxy talk;
  talk.happen(LinkEnded{talk.link(0), how, how == LinkEnd::eof ? 0 : 32});
  CHECK(talk.was_ordered("close 0"));
  talk.pass(seconds(1));
  CHECK(talk.was_ordered("end 0 1000"));
  talk.obey();
  CHECK(talk.was_ordered("start 0"));
}

TEST_CASE("a proxy that was restarted too often gets no time to think: what goes to it fails at once",
          "[chain][loss]") {
  ChainPlan plan = plan_for(1);
  plan.edges[0].settings.restart_limit.restarts_max = 1;
  OneProxy talk(plan);
  talk.again();
  talk.take(0);
  talk.agent(request_line("3", "fs/read_text_file"));
  talk.take(0);
  talk.exits(0);
  CHECK(talk.chain().relay(0).phase() == Phase::spent);
  CHECK(in_short(talk.take_agent()) == Lines{"3 -32603 client_lost unknown"});
  talk.client(request_line("8", "session/list"));
  CHECK(in_short(talk.take_client()) == Lines{"8 -32603 agent_lost not_sent"});
  talk.agent(request_line("4", "fs/read_text_file"));
  talk.agent(note_line("session/update", R"({"sessionId":"s1"})"));
  CHECK(in_short(talk.take_agent()) == Lines{"4 -32603 client_lost unknown"});
  talk.pass(seconds(60));
  CHECK(talk.chain().relay(0).phase() == Phase::parked);
  talk.agent(request_line("5", "fs/read_text_file"));
  CHECK(in_short(talk.take_agent()) == Lines{"5 -32603 client_lost unknown"});
  talk.take_orders();
  talk.client(request_line("9", "session/list"));
  CHECK(talk.was_ordered("start 0"));
  talk.starts(0);
  CHECK(methods_of(talk.take(0)) == Lines{"proxy/initialize"});  // and nothing that was said meanwhile
  talk.end_client();
  talk.pass(seconds(20));
  talk.obey();
  talk.exits(1, exited(0));
  CHECK(talk.exit_status() == 0);
}

TEST_CASE("the client goes while a proxy waits for its budget: the status says so", "[chain][loss]") {
  ChainPlan plan = plan_for(2);
  const std::size_t which = GENERATE(0U, 1U);
  plan.edges[which].settings.restart_limit.restarts_max = 1;
  ChainTalk talk(plan);
  talk.open();
  talk.restarts(which);
  talk.settle();
  talk.exits(which);
  talk.settle();
  CHECK(talk.chain().relay(which).phase() == Phase::spent);
  talk.end_client();
  talk.pass(seconds(20));
  talk.obey();
  for (std::size_t number = 0; number <= 2; ++number) {
    if (number != which) talk.exits(number, exited(0));
  }
  CHECK(talk.exit_status() == 75);
}

TEST_CASE("the client goes without a word to a proxy that could not be started: the status says so",
          "[chain][loss]") {
  const std::size_t which = GENERATE(0U, 1U);
  ChainTalk talk(plan_for(2), false);
  for (std::size_t number = 0; number <= 2; ++number) {
    if (number == which) {
      talk.happen(AgentStartFailed{talk.epoch(number), -2});
    } else {
      talk.starts(number);
    }
  }
  talk.end_client();
  talk.pass(seconds(20));
  talk.obey();
  for (std::size_t number = 0; number <= 2; ++number) {
    if (number != which && !talk.exit_status()) talk.exits(number, exited(0));
  }
  CHECK(talk.exit_status() == 69);
}

TEST_CASE("a proxy that is never restarted ends the chain, with its own status", "[chain][loss]") {
  ChainPlan plan = plan_for(2);
  const std::size_t which = GENERATE(0U, 1U, 2U);
  plan.edges[which].settings.restarts = false;
  ChainTalk talk(plan);
  talk.open();
  talk.client(request_line("7", "session/list"));
  talk.settle();
  talk.exits(which, exited(5));
  talk.settle();
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  talk.pass(seconds(20));
  talk.obey();
  for (std::size_t number = 0; number <= 2; ++number) {
    if (number == which || talk.exit_status()) continue;
    talk.exits(number, exited(0));
  }
  CHECK(talk.exit_status() == 5);
}

TEST_CASE("a component that is gone for good: requests for it are refused", "[chain][loss]") {
  ChainPlan plan = plan_for(1);
  plan.edges[1].settings.restarts = false;
  for (ChainEdge& edge : plan.edges) edge.settings.frame_bytes_max = limits::frame_bytes_min;
  ChainTalk talk(plan);
  talk.open();
  talk.client(request_line("7", "session/list"));  // may still be answered
  talk.take(0);
  talk.exits(1, exited(5));
  talk.component(0, R"({"jsonrpc":"2.0","id":60,"method":"proxy/successor","params":{"method":"x"}})");
  CHECK(in_short(talk.take(0)) == Lines{"60 -32603 agent_lost unknown"});
  talk.component(0, R"({"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"x"}})");
  talk.component(0, R"({"jsonrpc":"2.0","id":[],"method":"proxy/successor","params":{"method":"x"}})");
  talk.take(0);
  talk.component(0, R"({"jsonrpc":"2.0","id":61,"method":"proxy/successor","params":{"method":")" +
                        std::string(limits::frame_bytes_min, 'x') + "\"}}");
  CHECK(in_short(talk.take(0)) == Lines{"61 -32603 agent_lost unknown"});
  talk.component(
      0, R"({"jsonrpc":"2.0","id":62,"result":")" + std::string(limits::frame_bytes_min, 'x') + "\"}");
  CHECK(talk.take(0).empty());
  CHECK(talk.take_client().empty());
  talk.pass(seconds(20));
  talk.exits(0, exited(0));
  CHECK(talk.exit_status() == 5);
}

TEST_CASE("what comes for a component whose stdin is closed is lost with it", "[chain][loss]") {
  OneProxy talk;
  talk.happen(LinkEnded{talk.link(0), LinkEnd::eof, 0});
  talk.agent(note_line("session/update", R"({"sessionId":"s1"})"));
  CHECK(talk.take(0).empty());
  talk.pass(seconds(1));
  talk.obey();
  talk.starts(0);
  CHECK(methods_of(talk.take(0)) == Lines{"proxy/initialize"});
}

TEST_CASE("what a dead component has not read holds up nobody", "[chain][loss]") {
  OneProxy talk;
  talk.happen(LinkBacklog{talk.link(0), 2 * limits::mib});
  CHECK(talk.take_orders() == Lines{"pause client", "pause 1"});
  const bool by_stdin = GENERATE(true, false);
  if (by_stdin) {
    talk.happen(LinkEnded{talk.link(0), LinkEnd::write_failed, 32});
  } else {
    talk.happen(AgentExited{talk.epoch(0), killed});
    CHECK_FALSE(talk.was_ordered("resume 1"));
    talk.happen(AgentEnded{talk.epoch(0)});
  }
  CHECK(talk.was_ordered("resume 1"));
}

TEST_CASE("the edge to the conductor's client has ended: what it still asks is refused", "[chain][loss]") {
  ChainPlan plan = plan_for(1, true);
  plan.edges[0].settings.restarts = false;
  ChainTalk talk(plan);
  talk.client_settled(request_line("0", "proxy/initialize", R"({"protocolVersion":2})"));
  talk.client_settled(result_line(id_of(talk.take_client().at(0)), R"({"protocolVersion":2})"));
  talk.take_client();
  talk.exits(0, exited(5));
  talk.client(request_line("9", "session/list"));
  CHECK(in_short(talk.take_client()) == Lines{"9 -32603 agent_lost not_sent"});
  talk.client(note_line("x"));
  talk.client("junk");
  CHECK(talk.take_client().empty());
  talk.pass(seconds(20));
  CHECK(talk.exit_status() == 5);
}

TEST_CASE("the client is not read any more once its edge has ended", "[chain][loss]") {
  ChainPlan plan = plan_for(1);
  plan.edges[0].settings.restarts = false;
  ChainTalk talk(plan);
  talk.open();
  talk.exits(0, exited(5));
  CHECK(talk.was_ordered("pause client"));
  talk.pass(seconds(20));
  talk.obey();
  CHECK(talk.exit_status() == 5);
}

TEST_CASE("a command that cannot be executed ends the chain", "[chain][loss]") {
  const std::size_t which = GENERATE(0U, 1U);
  ChainTalk talk(plan_for(1), false);
  talk.happen(AgentStartFailed{talk.epoch(which), 2});
  talk.starts(1 - which);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.settle();
  CHECK(in_short(talk.take_client()) == Lines{"0 -32603 agent_lost not_sent"});
  talk.pass(seconds(20));
  talk.obey();
  CHECK(talk.exit_status() == 69);
}

}  // namespace
}  // namespace acp::test
