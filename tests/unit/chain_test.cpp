// A chain from its first start to its orderly end: who is started and asked in which order, whose messages go
// where, under which ids.
#include "proxy/core/chain.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "tests/unit/chain_parts.h"

namespace acp::test {
namespace {

const std::string first = request_line("0", "initialize", R"({"protocolVersion":2})");
std::string as_role(const std::string& method) {
  return request_line("0", method, R"({"protocolVersion":2})");
}

TEST_CASE("all components are started at once, and the client is read once the first one runs", "[chain]") {
  const std::size_t proxies = GENERATE(0U, 1U, 2U, 3U);
  ChainTalk talk(plan_for(proxies), false);
  CHECK(talk.chain().size() == proxies + 1);
  // Who is in front of a component that does not run yet is not read either.
  Lines expected{"pause client"};
  for (std::size_t number = 0; number <= proxies; ++number) {
    if (number > 0) expected.push_back(fmt::format("pause {}", number - 1));
    expected.push_back(fmt::format("start {}", number));
  }
  CHECK(talk.take_orders() == expected);
  for (std::size_t number = 0; number < proxies; ++number) {
    talk.starts(number);
    CHECK(talk.take_orders() == Lines{number == 0 ? "resume client" : fmt::format("resume {}", number - 1),
                                      fmt::format("pause {}", number)});
  }
  talk.starts(proxies);
  CHECK(talk.take_orders() == Lines{proxies == 0 ? "resume client" : fmt::format("resume {}", proxies - 1)});
}

TEST_CASE("each component is told its role when its predecessor asks for it", "[chain]") {
  ChainTalk talk(plan_for(2));
  talk.client(first);
  CHECK(talk.take(0) == Lines{as_role("proxy/initialize")});
  CHECK(talk.take(1).empty());
  talk.component(
      0,
      R"({"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":2}}})");
  CHECK(talk.take(1) == Lines{as_role("proxy/initialize")});
  talk.component(
      1,
      R"({"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":2}}})");
  CHECK(talk.take_agent() == Lines{first});
  talk.agent(result_line("0", R"({"protocolVersion":2})"));
  CHECK(talk.take(1) == Lines{result_line("0", R"({"protocolVersion":2})")});
  talk.component(1, result_line("0", R"({"protocolVersion":2,"x":1.0})"));
  CHECK(talk.take(0) == Lines{result_line("0", R"({"protocolVersion":2,"x":1.0})")});
  CHECK(talk.take_client().empty());
  talk.component(0, result_line("0", R"({"protocolVersion":2,"x":2.0})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2,"x":2.0})")});
}

TEST_CASE("messages go from end to end, both ways, in order, their params untouched", "[chain]") {
  const std::size_t proxies = GENERATE(0U, 1U, 2U, 3U);
  const bool prefixed = GENERATE(false, true);
  ChainTalk talk(plan_for(proxies));
  for (std::size_t number = 0; number < proxies; ++number)
    talk.proxy(number).method_prefix = prefixed && number % 2 == 0 ? "_" : "";
  talk.client(first);
  for (int round = 0; round < 6; ++round) {
    talk.settle();
    for (std::size_t number = 0; number < proxies; ++number) {
      if (talk.was_ordered(fmt::format("end {} 0", number))) {
        talk.obey();
        talk.starts(number);
        talk.take_orders();
      }
    }
  }
  talk.agent_settled(result_line(talk.last_id(), R"({"protocolVersion":2})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
  talk.take_agent();

  const std::string odd = R"({"a":[1E400,-0,1.50],"t":"\ud800\/"})";
  talk.client(request_line("7", "_x/y", odd));
  talk.client(note_line("_x/note", odd));
  talk.settle();
  const Lines got = talk.take_agent();
  REQUIRE(got.size() == 2);
  CHECK(sim::member(got[0], "params") == odd);
  CHECK(got[1] == note_line("_x/note", odd));
  talk.agent(note_line("session/update", odd));
  talk.agent(result_line(sim::member(got[0], "id"), odd));
  talk.agent(request_line("0", "session/request_permission", odd));
  talk.settle();
  const Lines answered = talk.take_client();
  REQUIRE(answered.size() == 3);
  CHECK(answered[0] == note_line("session/update", odd));
  CHECK(answered[1] == result_line("7", odd));
  CHECK(sim::member(answered[2], "params") == odd);
  talk.client_settled(error_line(sim::member(answered[2], "id"), -32000));
  CHECK(talk.take_agent() == Lines{error_line("0", -32000)});
  for (std::size_t edge = 0; edge <= proxies; ++edge)
    CHECK(talk.chain().relay(edge).edge().open_requests() == 0);
}

TEST_CASE("a cancel goes from hop to hop under the ids of each", "[chain]") {
  ChainTalk talk(plan_for(2));
  talk.open();
  talk.client_settled(request_line("77", "session/prompt", R"({"sessionId":"s1","prompt":[]})"));
  const std::string id = talk.last_id();
  talk.take_agent();
  talk.client_settled(cancel_line("77"));
  CHECK(talk.take_agent() == Lines{cancel_line(id)});
  talk.agent_settled(request_line("5", "session/request_permission", R"({"sessionId":"s1"})"));
  const Lines asked = talk.take_client();
  REQUIRE(asked.size() == 1);
  talk.agent_settled(cancel_line("5"));
  CHECK(talk.take_client() == Lines{cancel_line(sim::member(asked[0], "id"))});
}

TEST_CASE("a component that is started without an agent joins its conductor to its last proxy", "[chain]") {
  const std::size_t proxies = GENERATE(0U, 1U, 2U);
  const bool prefixed = GENERATE(false, true);
  const std::string prefix = prefixed ? "_" : "";
  ChainTalk talk(plan_for(proxies, true), false);
  for (std::size_t number = 0; number < proxies; ++number) talk.starts(number);
  CHECK(talk.was_ordered("resume client"));
  talk.client_settled(as_role(prefix + "proxy/initialize"));
  Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(sim::unquoted(sim::member(got[0], "method")) == prefix + "proxy/successor");
  CHECK(sim::member(got[0], "params") == R"({"method":"initialize","params":{"protocolVersion":2}})");
  talk.client_settled(result_line(sim::member(got[0], "id"), R"({"protocolVersion":2})"));
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
  talk.client_settled(request_line("1", "session/new", R"({"cwd":"/w"})"));
  got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(sim::member(got[0], "params") == R"({"method":"session/new","params":{"cwd":"/w"}})");
  talk.client_settled(fmt::format(
      R"({{"jsonrpc":"2.0","id":3,"method":"{}proxy/successor","params":{{"method":"fs/read_text_file","params":{{"a":1.0}}}}}})",
      prefix));
  const Lines asked = talk.take_client();
  REQUIRE(asked.size() == 1);
  CHECK(sim::member(asked[0], "params") == R"({"a":1.0})");
  talk.client_settled(result_line(sim::member(asked[0], "id")));
  CHECK(talk.take_client() == Lines{result_line("3")});
  talk.client(request_line("9", "proxy/initialize", "5"));
  talk.client("junk");
  talk.settle();
  CHECK(talk.take_client().size() >= 1);
}

TEST_CASE("what the conductor writes wrongly is answered to it", "[chain]") {
  ChainTalk talk(plan_for(0, true));
  talk.client(first);
  CHECK(in_short(talk.take_client()) == Lines{"0 -32600 no_agent not_sent"});
  talk.client(cancel_line("8"));
  CHECK(talk.take_client().empty());
  talk.client(as_role("proxy/initialize"));
  CHECK(talk.take_client().size() == 1);
  talk.read(client_link, result_line("0", R"({"protocolVersion":2})"));  // the last line, without its end
  talk.end_client();
  CHECK(talk.take_client() == Lines{result_line("0", R"({"protocolVersion":2})")});
}

TEST_CASE("one that is no component of its own: proxies that ask for a role are told", "[chain]") {
  ChainTalk talk(plan_for(1));
  talk.component(0, request_line("4", "proxy/initialize"));
  CHECK(in_short(talk.take(0)) == Lines{"4 -32600 not_a_component not_sent"});
  talk.component(0, cancel_line("4"));
  CHECK(talk.take_agent().empty());
}

TEST_CASE("the client goes: every component is closed in turn, and the status is the agent's", "[chain]") {
  const std::size_t proxies = GENERATE(0U, 1U, 3U);
  ChainTalk talk(plan_for(proxies));
  talk.open();
  talk.end_client();
  for (std::size_t number = 0; number < proxies; ++number) {
    CHECK(talk.was_ordered(fmt::format("close {}", number)));
    CHECK_FALSE(talk.was_ordered(fmt::format("close {}", number + 1)));
    talk.exits(number, exited(0));
    CHECK_FALSE(talk.exit_status());
  }
  CHECK(talk.was_ordered(fmt::format("close {}", proxies)));
  talk.exits(proxies, exited(3));
  CHECK(talk.exit_status() == 3);
  CHECK_FALSE(talk.chain().next_deadline());
  talk.take_orders();
  talk.client(first);
  CHECK(talk.take_orders().empty());
}

TEST_CASE("the client goes: what is open may still be answered", "[chain]") {
  ChainTalk talk(plan_for(1));
  talk.open();
  talk.client_settled(request_line("7", "session/prompt", R"({"sessionId":"s1","prompt":[]})"));
  talk.end_client();
  CHECK_FALSE(talk.was_ordered("close 0"));
  talk.agent_settled(result_line(talk.last_id()));
  CHECK(talk.take_client() == Lines{result_line("7")});
  CHECK(talk.was_ordered("close 0"));
  talk.exits(0, exited(0));
  talk.exits(1, exited(0));
  CHECK(talk.exit_status() == 0);
}

TEST_CASE("the conductor goes: the proxies are closed, and there is nothing else to end", "[chain]") {
  const std::size_t proxies = GENERATE(0U, 1U, 2U);
  ChainTalk talk(plan_for(proxies, true));
  talk.client_settled(as_role("proxy/initialize"));
  talk.client_settled(result_line(sim::member(talk.take_client()[0], "id"), R"({"protocolVersion":2})"));
  const LinkEnd how = GENERATE(LinkEnd::eof, LinkEnd::write_failed, LinkEnd::read_failed);
  talk.happen(LinkEnded{client_link, how, how == LinkEnd::eof ? 0 : EPIPE});
  for (std::size_t number = 0; number < proxies; ++number) {
    CHECK_FALSE(talk.exit_status());
    talk.exits(number, exited(0));
  }
  CHECK(talk.exit_status() == 0);
}

TEST_CASE("a frame that comes in pieces, two in one read, and a last one without an end", "[chain]") {
  ChainTalk talk(plan_for(1));
  talk.client(first);
  talk.take(0);
  const std::string asked =
      R"({"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"initialize"}})";
  for (const char byte : asked + "\n") talk.read(talk.link(0), std::string(1, byte));
  CHECK(talk.take_agent() == Lines{R"({"jsonrpc":"2.0","id":0,"method":"initialize"})"});
  const std::string note = R"({"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"x"}})";
  talk.component(0, note + "\n" + note_line("y"));
  CHECK(talk.take_agent() == Lines{R"({"jsonrpc":"2.0","method":"x"})"});
  CHECK(talk.take_client() == Lines{note_line("y")});
  talk.read(talk.link(0), note_line("z"));
  CHECK(talk.take_client().empty());
  talk.happen(LinkEnded{talk.link(0), LinkEnd::read_failed, EIO});
  CHECK(talk.take_client() == Lines{note_line("z")});
}

TEST_CASE("a frame over the limit ends a request, not the chain", "[chain]") {
  ChainPlan plan = plan_for(1);
  for (ChainEdge& edge : plan.edges) edge.settings.frame_bytes_max = limits::frame_bytes_min;
  ChainTalk talk(plan);
  talk.open();
  const std::string much(limits::frame_bytes_min, 'x');
  talk.client(request_line("7", "session/prompt", R"({"sessionId":"s1","prompt":[]})"));
  const std::string id(sim::member(talk.take(0)[0], "id"));
  talk.component(0, result_line(id, "{\"x\":\"" + much + "\"}"));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 malformed_answer unknown"});
  talk.component(
      0, R"({"jsonrpc":"2.0","id":50,"method":"proxy/successor","params":{"method":"x","params":{"x":")" +
             much + "\"}}}");
  CHECK(in_short(talk.take(0)) == Lines{"50 -32600 frame_too_large"});
  CHECK_FALSE(talk.was_ordered("end 0 1000"));
}

}  // namespace
}  // namespace acp::test
