// What passes and how it ends: bytes unchanged, cancels, the agent's requests, answers, silence.
#include "proxy/core/edge.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("messages pass unchanged, whatever they hold", "[edge]") {
  const auto line = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","id":5,"method":"session/list","params":{}})",
      R"({ "params" : null , "method":"session/list", "id" : 5,"jsonrpc":"2.0" })",
      R"({"jsonrpc":"2.0","id":5,"method":"session/list"})",
      R"({"jsonrpc":"2.0","id":5,"method":"future/method","params":[1,2.50e1,1E400,-0,0.0]})",
      R"({"jsonrpc":"2.0","id":5,"method":"_vendor/x","x":{"x":[{}]},"params":{"n":123456789012345678901234567890}})",
      R"({"jsonrpc":"2.0","id":5,"method":"session\/list","params":{"a":"\ud800 \u0000 \/"},"x":null})",
      R"({"jsonrpc":"2.0","id":5,"method":"x","params":{"a":1,"a":2}})",
      R"({"\u0069d":5,"jsonrpc":"\u0032.0","method":"x"})",
      "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"x\",\"params\":{\"t\":\"\xE4\xB8\xAD\xF0\x9F\x98\x80\"}}",
  }));
  Dialogue talk;
  talk.open();
  talk.client(line);
  CHECK(talk.take_agent() == Lines{line});
  CHECK(talk.take_client().empty());
  talk.agent(line);
  CHECK(talk.take_client() == Lines{line});
  CHECK(talk.take_agent().empty());
}

TEST_CASE("notifications and answers pass unchanged", "[edge]") {
  Dialogue talk;
  talk.open();
  const std::string cancel = R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";
  talk.client(cancel);
  CHECK(talk.take_agent() == Lines{cancel});
  const auto update = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"usage_update_v9","n":1.0}}})",
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"unheard-of","update":null}})",
      R"({"jsonrpc":"2.0","method":"_vendor/note"})",
      R"({"jsonrpc":"2.0","method":"future/note","params":[]})",
  }));
  talk.agent(update);
  CHECK(talk.take_client() == Lines{update});
}

TEST_CASE("the agent's error crosses with all its details", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  const std::string error =
      R"({"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid params","data":{"path":["cwd"]},"x":1},"y":2})";
  talk.agent(error);
  CHECK(talk.take_client() == Lines{error});
}

TEST_CASE("keyhop answers for nobody: -32601 is the peer's", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.agent(request_line("6", "_vendor/ask"));
  CHECK(talk.take_client() == Lines{request_line("6", "_vendor/ask")});
  talk.client(error_line("6", -32601, "Method not found"));
  CHECK(talk.take_agent() == Lines{error_line("6", -32601, "Method not found")});
}

TEST_CASE("a null result is a success, a null error beside a result is none", "[edge]") {
  const auto rest = GENERATE(values<std::string>({R"("result":null)", R"("result":{},"error":null)",
                                                  R"("error":{"code":1,"message":""},"result":null)"}));
  Dialogue talk;
  talk.open();
  talk.client(request_line("7", "session/close", R"({"sessionId":"s1"})"));
  const std::string answer = R"({"jsonrpc":"2.0","id":7,)" + rest + "}";
  talk.agent(answer);
  CHECK(talk.take_client() == Lines{answer});
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("an answer that nobody waits for is dropped", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.agent(result_line("7"));
  talk.take_agent();
  talk.take_client();
  const auto answer = GENERATE(values<std::string>({result_line("7"), result_line("99"), result_line("\"7\""),
                                                    result_line("null"), error_line("7"), result_line("{}"),
                                                    R"({"jsonrpc":"2.0","id":null,"error":{},"result":7})"}));
  talk.agent(answer);
  CHECK(talk.take_client().empty());
  talk.client(answer);
  CHECK(talk.take_agent().empty());
  CHECK(talk.take_client().empty());
  CHECK(talk.relay().edge().counters().dropped == 2);
}

TEST_CASE("an error with id null belongs to no request and goes on", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.agent(error_line("null", -32700));
  CHECK(talk.take_client() == Lines{error_line("null", -32700)});
}

TEST_CASE("cancels of two sessions and of one request pass at once, none merged", "[edge]") {
  Dialogue talk;
  talk.open();
  for (int id = 100; id < 300; ++id)
    talk.client(prompt_line(std::to_string(id), "", "T", id % 2 == 0 ? "s1" : "s2"));
  talk.take_agent();
  const Lines cancels{R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})",
                      R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s2"}})",
                      cancel_line("107")};
  talk.client_bytes(cancels[0] + "\n" + cancels[1] + "\n" + cancels[2] + "\n");
  CHECK(talk.take_agent() == cancels);
}

TEST_CASE("a cancel whose request is open nowhere goes nowhere, one without a usable id is passed on",
          "[edge]") {
  Dialogue talk;
  talk.open();
  talk.client(cancel_line("99"));
  talk.client(cancel_line("\"0\""));
  CHECK(talk.take_agent().empty());
  talk.agent(cancel_line("99"));
  CHECK(talk.take_client().empty());
  const auto odd = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","method":"$/cancel_request"})",
      R"({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}})",
      R"({"jsonrpc":"2.0","method":"$/cancel_request","params":[]})",
  }));
  talk.client(odd);
  CHECK(talk.take_agent() == Lines{odd});
  talk.agent(odd);
  CHECK(talk.take_client() == Lines{odd});
}

TEST_CASE("the agent cancels its own request; the answer still reaches it", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.agent(request_line("5", "session/request_permission", R"({"sessionId":"s1"})"));
  talk.agent(cancel_line("5"));
  talk.take_client();
  const std::string answer = result_line("5", R"({"outcome":{"outcome":"cancelled"}})");
  talk.client(answer);
  CHECK(talk.take_agent() == Lines{answer});
  talk.client(answer);  // a second one
  CHECK(talk.take_agent().empty());
}

TEST_CASE("permission open while the session is cancelled: both lines in order", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.agent(request_line("5", "session/request_permission", R"({"sessionId":"s1"})"));
  talk.take_agent();
  talk.take_client();
  const std::string cancel = R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";
  const std::string answer = result_line("5", R"({"outcome":{"outcome":"cancelled"}})");
  talk.client_bytes(cancel + "\n" + answer + "\n");
  CHECK(talk.take_agent() == Lines{cancel, answer});
  talk.agent(result_line("7", R"({"stopReason":"cancelled"})"));
  CHECK(talk.take_client() == Lines{result_line("7", R"({"stopReason":"cancelled"})")});
}

TEST_CASE("no time-out by default: an answer after a day still counts", "[edge]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  CHECK_FALSE(talk.relay().next_deadline().has_value());
  talk.pass(std::chrono::hours(24));
  CHECK(talk.take_client().empty());
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{result_line("7")});
}

Settings with_silence() {
  Settings settings = one_epoch();
  settings.silence_timeout = std::chrono::seconds(2);
  return settings;
}

constexpr Duration second = std::chrono::seconds(1);
const std::string session_cancel_s1 =
    R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";

TEST_CASE("silence: one session/cancel, one error for each prompt, late answers dropped", "[edge][silence]") {
  Dialogue talk(with_silence());
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.client(prompt_line("8", "\"k\""));
  talk.client(prompt_line("9", "\"k\""));
  talk.client(request_line("10", "session/set_title", R"({"sessionId":"s1"})"));
  talk.client(prompt_line("11", "", "T", "s2"));
  talk.take_agent();
  talk.pass(second);
  talk.client(R"({"jsonrpc":"2.0","method":"_x","params":{"sessionId":"s2"}})");  // re-arms s2 only
  talk.take_agent();
  talk.pass(second);
  CHECK(talk.take_agent() == Lines{session_cancel_s1});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 silence_timeout unknown",
                                              "8 -32603 silence_timeout unknown",
                                              "9 -32603 silence_timeout unknown"});
  CHECK(talk.relay().edge().open_requests() == 2);
  talk.client(prompt_line("7", ""));  // the id is free again for the client, not for the wire
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 1);
  const std::string wire(member(sent[0], "id"));
  CHECK(wire != "7");
  talk.agent(result_line("7", R"({"late":true})"));
  talk.agent(result_line("8", R"({"messageId":"m1"})"));
  CHECK(talk.take_client().empty());
  talk.agent(result_line(wire, R"({"fresh":true})"));
  CHECK(talk.take_client() == Lines{result_line("7", R"({"fresh":true})")});
}

TEST_CASE("silence: any traffic of the session re-arms it", "[edge][silence]") {
  const auto traffic = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{}}})",
      R"({"jsonrpc":"2.0","id":50,"method":"session/request_permission","params":{"sessionId":"s1"}})",
  }));
  Dialogue talk(with_silence());
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.pass(second);
  talk.agent(traffic);
  talk.take_client();
  talk.pass(second);
  CHECK(talk.take_client().empty());
  talk.pass(second);
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 silence_timeout unknown"});
}

TEST_CASE("silence: a keyed prompt's retry is told that the outcome is unknown", "[edge][silence]") {
  Dialogue talk(with_silence());
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.pass(3 * second);
  talk.take_client();
  talk.take_agent();
  talk.client(prompt_line("8", "\"k\""));
  CHECK(in_short(talk.take_client()) == Lines{"8 -32603 outcome_unknown unknown"});
  CHECK(talk.take_agent().empty());
}

TEST_CASE("silence: sessions with nothing open are left alone", "[edge][silence]") {
  Dialogue talk(with_silence());
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.agent(result_line("7"));
  talk.take_client();
  talk.take_agent();
  talk.pass(60 * second);
  CHECK(talk.take_client().empty());
  CHECK(talk.take_agent().empty());
  CHECK_FALSE(talk.relay().next_deadline().has_value());
}

TEST_CASE("keyhop before an agent is no proxy", "[edge]") {
  const auto method =
      GENERATE(values<std::string>({"proxy/initialize", "_proxy/initialize", "proxy/successor"}));
  Dialogue talk;
  talk.client(request_line("1", method));
  CHECK(in_short(talk.take_client()) == Lines{"1 -32600 wrong_role"});
  CHECK(talk.take_agent().empty());
}

TEST_CASE("a full table answers the request that did not fit", "[edge]") {
  Dialogue talk;
  talk.open();
  std::string many;
  for (std::size_t id = 0; id < limits::pending_max; ++id)
    many += request_line(std::to_string(id), "session/list") + "\n";
  talk.client_bytes(many);
  CHECK(talk.take_agent().size() == limits::pending_max);
  talk.client(request_line("\"more\"", "session/list"));
  CHECK(talk.take_agent().empty());
  CHECK(in_short(talk.take_client()) == Lines{"\"more\" -32603 too_many_requests not_sent"});
  talk.agent(result_line("5"));
  talk.client(request_line("\"more\"", "session/list"));
  CHECK(talk.take_agent().size() == 1);
}

TEST_CASE("one read of many frames leaves as one write", "[edge]") {
  Settings settings = one_epoch();
  Relay relay(settings);
  Actions actions;
  relay.start({}, actions);
  relay.step(AgentStarted{agent_epoch, 1}, {}, actions);
  actions.clear();
  std::string bytes;
  for (int id = 0; id < 50; ++id) bytes += request_line(std::to_string(id), "session/list") + "\n";
  const std::size_t size = bytes.size();
  bytes.append(limits::padding_bytes, ' ');
  relay.step(BytesRead{client_link, std::string_view(bytes).substr(0, size)}, {}, actions);
  REQUIRE(actions.list().size() == 1);
  CHECK(std::get<Send>(actions.list()[0]).bytes == std::string_view(bytes).substr(0, size));
}

}  // namespace
}  // namespace acp::sim
