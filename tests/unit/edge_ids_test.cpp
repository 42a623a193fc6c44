// Ids: compared by type and value, kept where they can be, translated everywhere where they cannot.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/edge.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Lines = std::vector<std::string>;

const std::string permission = "session/request_permission";

std::string elicitation_line(std::string_view id, std::string_view request_id) {
  return request_line(id, "elicitation/create",
                      R"({"mode":"form","requestId":)" + std::string(request_id) + "}");
}

TEST_CASE("every usable id passes and comes back with its type and spelling", "[edge][ids]") {
  const auto id = GENERATE(
      values<std::string>({"0", "-1", "\"0\"", "\"\"", "null", "7.0", "1e2", "123456789012345678901234567890",
                           R"("a\u0041\"\/")", "\"\xE4\xB8\xAD\"", "\"keyhop-1\""}));
  Dialogue talk;
  talk.open();
  talk.client(request_line(id, "session/list"));
  CHECK(talk.take_agent() == Lines{request_line(id, "session/list")});
  talk.agent(result_line(id));
  CHECK(talk.take_client() == Lines{result_line(id)});
  talk.agent(request_line(id, permission));
  CHECK(talk.take_client() == Lines{request_line(id, permission)});
  talk.client(result_line(id));
  CHECK(talk.take_agent() == Lines{result_line(id)});
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("0 and \"0\" are two requests, answered in any order", "[edge][ids]") {
  Dialogue talk;
  talk.client(request_line("0", "initialize", R"({"protocolVersion":1})"));
  talk.client(request_line("\"0\"", "session/list"));
  talk.client(request_line("\"\"", "session/list"));
  talk.client(request_line("null", "session/list"));
  CHECK(talk.take_agent().size() == 4);
  for (const char* id : {"null", "\"0\"", "\"\"", "0"}) {
    talk.agent(result_line(id));
    CHECK(talk.take_client() == Lines{result_line(id)});
  }
}

TEST_CASE("an answer finds its request whatever its spelling", "[edge][ids]") {
  const auto [asked, answered] = GENERATE(table<std::string, std::string>({
      {"\"1\"", R"("\u0031")"},
      {R"("\u0031")", "\"1\""},
      {"1", "1.0"},
      {"100", "1e2"},
      {"1.50", "15e-1"},
  }));
  Dialogue talk;  // before initialize is answered: v2 has no fractions
  talk.client(request_line(asked, "session/list"));
  talk.agent(result_line(answered));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK((got[0] == result_line(answered) || got[0] == result_line(asked)));
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("an id that is open already is another one on the wire", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "", "first"));
  talk.client(prompt_line("7", "", "second"));
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0] == prompt_line("7", "", "first"));
  const std::string wire(member(sent[1], "id"));
  CHECK(wire != "7");
  CHECK(sent[1] == prompt_line(wire, "", "second"));
  talk.agent(result_line(wire, "2"));
  CHECK(talk.take_client() == Lines{result_line("7", "2")});
  talk.agent(result_line("7", "1"));
  CHECK(talk.take_client() == Lines{result_line("7", "1")});
}

TEST_CASE("1 and 1.0 are one id: the second is another one on the wire", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(request_line("1", "session/list"));
  talk.client(request_line("1.0", "session/list"));
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 2);
  const std::string wire(member(sent[1], "id"));
  talk.agent(result_line(wire));
  CHECK(talk.take_client() == Lines{result_line("1.0")});
}

TEST_CASE("an id like one of keyhop's own is no clash", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(request_line("\"keyhop-1\"", "session/list"));
  talk.client(request_line("7", "session/list"));
  talk.client(request_line("7", "session/list"));
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 3);
  CHECK(member(sent[2], "id") != "\"keyhop-1\"");
  talk.agent(result_line("\"keyhop-1\""));
  CHECK(talk.take_client() == Lines{result_line("\"keyhop-1\"")});
}

TEST_CASE("cancels are translated, the client's", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "", "first"));
  talk.client(prompt_line("8", "", "other"));
  talk.client(prompt_line("8", "", "same id"));
  const std::string wire(member(talk.take_agent()[2], "id"));
  talk.client(cancel_line("7"));
  CHECK(talk.take_agent() == Lines{cancel_line("7")});
  talk.agent(result_line("8"));
  talk.take_client();
  talk.client(cancel_line("8"));  // the only one left of that id
  CHECK(talk.take_agent() == Lines{cancel_line(wire)});
  talk.agent(error_line(wire, -32800));
  CHECK(talk.take_client() == Lines{error_line("8", -32800)});
}

TEST_CASE("cancels are translated, the agent's; its requests of one id too", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.agent(request_line("5", permission, R"({"n":1})"));
  talk.agent(request_line("5", permission, R"({"n":2})"));
  const Lines shown = talk.take_client();
  REQUIRE(shown.size() == 2);
  const std::string wire(member(shown[1], "id"));
  CHECK(shown[1] == request_line(wire, permission, R"({"n":2})"));
  talk.client(result_line("5"));
  CHECK(talk.take_agent() == Lines{result_line("5")});
  talk.agent(cancel_line("5"));
  CHECK(talk.take_client() == Lines{cancel_line(wire)});
  talk.client(result_line(wire, R"({"outcome":{"outcome":"cancelled"}})"));
  CHECK(talk.take_agent() == Lines{result_line("5", R"({"outcome":{"outcome":"cancelled"}})")});
}

TEST_CASE("equal ids in both directions are two requests", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("5", ""));
  talk.agent(request_line("5", permission));
  CHECK(talk.take_client() == Lines{request_line("5", permission)});
  talk.client(cancel_line("5"));
  CHECK(talk.take_agent() == Lines{prompt_line("5", ""), cancel_line("5")});
  talk.client(result_line("5", "\"card\""));
  CHECK(talk.take_agent() == Lines{result_line("5", "\"card\"")});
  talk.agent(result_line("5", "\"turn\""));
  CHECK(talk.take_client() == Lines{result_line("5", "\"turn\"")});
}

TEST_CASE("a request-scoped elicitation names the client's own id", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "", "first"));
  talk.client(prompt_line("7", "", "second"));
  const std::string wire(member(talk.take_agent()[1], "id"));
  SECTION("translated") {
    talk.agent(elicitation_line("1", wire));
    CHECK(talk.take_client() == Lines{elicitation_line("1", "7")});
  }
  SECTION("both spans of one frame, in either order") {
    talk.agent(request_line("1", permission));
    talk.take_client();
    talk.agent(elicitation_line("1", wire));
    Lines shown = talk.take_client();
    REQUIRE(shown.size() == 1);
    const std::string own(member(shown[0], "id"));
    CHECK(shown[0] == elicitation_line(own, "7"));
    talk.agent(R"({"params":{"requestId":)" + wire +
               R"(,"mode":"form"},"method":"elicitation/create","id":1,"jsonrpc":"2.0"})");
    shown = talk.take_client();
    REQUIRE(shown.size() == 1);
    const std::string other(member(shown[0], "id"));
    CHECK(other != own);
    CHECK(shown[0] == R"({"params":{"requestId":7,"mode":"form"},"method":"elicitation/create","id":)" +
                          other + R"(,"jsonrpc":"2.0"})");
  }
  SECTION("unchanged where the ids agree or nothing is known of them") {
    for (const char* named : {"7", "99", "{}"}) {
      talk.agent(elicitation_line("1", named));
      CHECK(talk.take_client() == Lines{elicitation_line("1", named)});
      talk.client(result_line("1"));
    }
  }
  SECTION("a session's elicitation stays as it is") {
    const std::string line = request_line("1", "elicitation/create", R"({"sessionId":"s1","mode":"form"})");
    talk.agent(line);
    CHECK(talk.take_client() == Lines{line});
  }
}

TEST_CASE("mcp/message carries a requestId that is no JSON-RPC id", "[edge][ids]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "", "first"));
  talk.client(prompt_line("7", "", "second"));
  const std::string wire(member(talk.take_agent()[1], "id"));
  const std::string line = request_line(
      "1", "mcp/message", R"({"serverId":"m","requestId":)" + wire + R"(,"method":"tools/list"})");
  talk.agent(line);
  CHECK(talk.take_client() == Lines{line});
}

TEST_CASE("v2: an id that is no integer is refused, since the agent could not answer it", "[edge][ids]") {
  Dialogue talk;
  talk.open(2);
  talk.client(request_line("1.5", "session/list"));
  CHECK(in_short(talk.take_client()) == Lines{"null -32600 bad_id"});
  CHECK(talk.take_agent().empty());
  talk.client(request_line("1.0", "session/list"));
  CHECK(talk.take_agent().size() == 1);
}

TEST_CASE("v1: fractions are ids", "[edge][ids]") {
  Dialogue talk;
  talk.open(1);
  talk.client(request_line("1.5", "session/list"));
  CHECK(talk.take_agent().size() == 1);
  talk.agent(result_line("15e-1"));
  CHECK(talk.take_client().size() == 1);
}

}  // namespace
}  // namespace acp::sim
