// One key, one answer (RFD "v2 Idempotency Keys").
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/edge.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Lines = std::vector<std::string>;

Settings forwarding() {
  Settings settings = one_epoch();
  settings.keys = KeyMode::forward;
  return settings;
}

std::string session_line(std::string_view id, std::string_view method) {
  return request_line(id, method, R"({"sessionId":"s1"})");
}

// A dialogue in which the prompt 7 with key "k" was answered with success.
void answer_first(Dialogue& talk, std::string_view result = R"({"messageId":"m1"})") {
  talk.client(prompt_line("7", "\"k\""));
  talk.agent(result_line("7", result));
  talk.take_agent();
  talk.take_client();
}

constexpr int many = 1000;

// `many` prompts of one key, ids 100…; one of them reaches the agent.
void send_many(Dialogue& talk) {
  for (int i = 0; i < many; ++i) talk.client(prompt_line(std::to_string(100 + i), "\"k\""));
  CHECK(talk.take_agent() == Lines{prompt_line("100", "\"k\"")});
  CHECK(talk.take_client().empty());
  CHECK(talk.relay().edge().open_requests() == many);
}

TEST_CASE("1,000 duplicates: one reaches the agent, 1,000 answers stand side by side", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  send_many(talk);
  const bool success = GENERATE(true, false);
  const std::string update = R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1"}})";
  const auto answer = [&](std::string_view id) {
    return success ? result_line(id, R"({"messageId":"m1","x":1.0})") : error_line(id, -32603, "broken");
  };
  talk.agent_bytes(update + "\n" + answer("100") + "\n" + update + "\n");
  const Lines got = talk.take_client();
  REQUIRE(got.size() == many + 2);
  CHECK(got.front() == update);
  CHECK(got.back() == update);
  for (int i = 0; i < many; ++i) REQUIRE(got[1 + i] == answer(std::to_string(100 + i)));
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("1,000 duplicates, one cancelled: one cancel at the agent, 1,000 times -32800", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  send_many(talk);
  const std::string any = GENERATE("100", "101", "600", "1099");
  talk.client(cancel_line(any));
  CHECK(talk.take_agent() == Lines{cancel_line("100")});
  talk.client(cancel_line("102"));
  talk.client(cancel_line(any));
  CHECK(talk.take_agent().empty());
  talk.agent(error_line("100", -32800, "cancelled"));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == many);
  for (int i = 0; i < many; ++i) REQUIRE(got[i] == error_line(std::to_string(100 + i), -32800, "cancelled"));
}

TEST_CASE("a cancel of a joined request names the id on the wire", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  talk.client(request_line("7", "session/list"));
  talk.client(prompt_line("7", "\"k\""));
  talk.client(prompt_line("8", "\"k\""));
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 2);
  talk.client(cancel_line("8"));
  CHECK(talk.take_agent() == Lines{cancel_line(member(sent[1], "id"))});
}

TEST_CASE("a success after the cancel goes to all as well", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.client(prompt_line("8", "\"k\""));
  talk.client(cancel_line("8"));
  talk.client(prompt_line("9", "\"k\""));
  talk.agent(result_line("7", R"({"messageId":"m1"})"));
  CHECK(talk.take_client() == Lines{result_line("7", R"({"messageId":"m1"})"),
                                    result_line("8", R"({"messageId":"m1"})"),
                                    result_line("9", R"({"messageId":"m1"})")});
}

TEST_CASE("equal is compared as JSON values", "[edge][keys]") {
  const auto same = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"idempotencyKey":"k","prompt":[{"text":"T","type":"text"}],"sessionId":"s1"}})",
      R"({"jsonrpc":"2.0","id":8,"method":"session\/prompt","params":{"sessionId":"\u0073\u0031","idempotencyKey":"\u006b","prompt":[ {"type":"text","text":"\u0054"} ]}})",
      R"({"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"T"}],"idempotencyKey":"k","_meta":{"traceparent":"00-1"}}})",
      R"({"params":{"sessionId":"s1","prompt":[{"type":"text","text":"T"}],"idempotencyKey":"k"},"x":1,"method":"session/prompt","id":8,"jsonrpc":"2.0"})",
  }));
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.client(same);
  CHECK(talk.take_agent().size() == 1);
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{result_line("7"), result_line("8")});
}

TEST_CASE("another prompt under a pending key is refused, the first goes on", "[edge][keys]") {
  const auto other = GENERATE(values<std::string>({
      prompt_line("8", "\"k\"", "U"),
      R"({"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"T","_meta":{}}],"idempotencyKey":"k"}})",
      R"({"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"T"}],"idempotencyKey":"k","x":null}})",
  }));
  Settings settings = GENERATE(Settings{}, forwarding());
  Dialogue talk(settings);
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.client(other);
  CHECK(talk.take_agent().size() == 1);
  CHECK(in_short(talk.take_client()) == Lines{"8 -32602 key_reused"});
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{result_line("7")});
}

TEST_CASE("a key belongs to its session, and is compared to the letter", "[edge][keys]") {
  const auto [first, other] = GENERATE(table<std::string, std::string>({
      {prompt_line("7", "\"k\""), prompt_line("8", "\"k\"", "T", "s2")},
      {prompt_line("7", "\"k\""), prompt_line("8", "\"K\"")},
      {prompt_line("7", "\"k\""), prompt_line("8", "\"k \"")},
      {prompt_line("7", ""), prompt_line("8", "")},
      {prompt_line("7", "null"), prompt_line("8", "null")},
      {prompt_line("7", "\"null\""), prompt_line("8", "null")},
  }));
  Dialogue talk;
  talk.open();
  talk.client(first);
  talk.client(other);
  CHECK(talk.take_agent() == Lines{first, other});
  CHECK(talk.take_client().empty());
}

TEST_CASE("schema of a key: what is sound passes, what is not is -32602 and goes nowhere", "[edge][keys]") {
  std::string code_points;
  for (int i = 0; i < 255; ++i) code_points += "\xF0\x9F\x98\x80";
  const auto sound = GENERATE_COPY(values<std::string>(
      {"\"k\"", "\"" + std::string(255, 'x') + "\"", "\"" + code_points + "\"", "\" \"", "null"}));
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", sound));
  CHECK(talk.take_agent() == Lines{prompt_line("7", sound)});
  CHECK(talk.take_client().empty());
}

TEST_CASE("a malformed key is never taken for none", "[edge][keys]") {
  std::string code_points;
  for (int i = 0; i < 256; ++i) code_points += "\xE4\xB8\xAD";
  const auto key =
      GENERATE_COPY(values<std::string>({"\"\"", "\"" + std::string(256, 'x') + "\"",
                                         "\"" + code_points + "\"", "7", "true", "{}", "[\"k\"]"}));
  SECTION("guard: refused") {
    Dialogue talk;
    talk.open();
    talk.client(prompt_line("7", key));
    CHECK(in_short(talk.take_client()) == Lines{"7 -32602 malformed_key"});
    CHECK(talk.take_agent().empty());
    CHECK(talk.relay().edge().open_requests() == 0);
  }
  SECTION("forward: for the agent to refuse") {
    Dialogue talk(forwarding());
    talk.open();
    talk.client(prompt_line("7", key));
    talk.client(prompt_line("8", key));
    CHECK(talk.take_agent() == Lines{prompt_line("7", key), prompt_line("8", key)});
  }
  SECTION("v1 knows no keys") {
    Dialogue talk;
    talk.open(1);
    talk.client(prompt_line("7", key));
    CHECK(talk.take_agent() == Lines{prompt_line("7", key)});
  }
}

TEST_CASE("guard: a success is remembered, a retry gets its messageId and nothing else", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  answer_first(talk, R"({"messageId":"m\u0031","more":1})");
  talk.client(prompt_line("\"x\"", "\"k\""));
  CHECK(talk.take_client() == Lines{result_line("\"x\"", R"({"messageId":"m\u0031"})")});
  talk.client(prompt_line("9", "\"k\"", "U"));
  CHECK(in_short(talk.take_client()) == Lines{"9 -32602 key_reused"});
  talk.client(prompt_line("10", "\"k\"", "T", "s2"));
  CHECK(talk.take_agent() == Lines{prompt_line("10", "\"k\"", "T", "s2")});
}

TEST_CASE("guard: a success without messageId is not inserted again", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  answer_first(talk, R"({"messageId":7})");
  talk.client(prompt_line("8", "\"k\""));
  CHECK(in_short(talk.take_client()) == Lines{"8 -32603 no_message_id inserted"});
  CHECK(talk.take_agent().empty());
}

TEST_CASE("forward: a success is the agent's to remember", "[edge][keys]") {
  Dialogue talk(forwarding());
  talk.open();
  answer_first(talk);
  talk.client(prompt_line("8", "\"k\""));
  CHECK(talk.take_agent() == Lines{prompt_line("8", "\"k\"")});
  CHECK(talk.relay().edge().remembered_keys() == 1);
}

TEST_CASE("the agent's own error leaves the key unused", "[edge][keys]") {
  const auto error = GENERATE(values<std::string>({
      R"({"code":-32800,"message":"cancelled"})",
      R"({"code":-32603,"message":"broken"})",
      R"({"code":-32603,"message":"x","data":{"source":"other","outcome":"unknown"}})",
      R"({"code":-32603,"message":"x","data":{"source":"keyhop","outcome":"not_sent"}})",
      R"({"code":-32602,"message":"x","data":"keyhop unknown"})",
  }));
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.agent(R"({"jsonrpc":"2.0","id":7,"error":)" + error + "}");
  talk.take_agent();
  talk.take_client();
  CHECK(talk.relay().edge().remembered_keys() == 0);
  talk.client(prompt_line("8", "\"k\"", "another text"));
  CHECK(talk.take_agent() == Lines{prompt_line("8", "\"k\"", "another text")});
}

TEST_CASE("another keyhop's error of unknown outcome keeps the row", "[edge][keys]") {
  const auto outcome = GENERATE(values<std::string>({"unknown", "inserted"}));
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.agent(
      R"({"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x","data":{"source":"keyhop","outcome":")" +
      outcome + R"("}}})");
  talk.take_agent();
  talk.take_client();
  talk.client(prompt_line("8", "\"k\""));
  CHECK(talk.take_agent().empty());
  CHECK(in_short(talk.take_client()) == Lines{"8 -32603 outcome_unknown unknown"});
  talk.client(prompt_line("9", "\"k\"", "U"));
  CHECK(in_short(talk.take_client()) == Lines{"9 -32602 key_reused"});
}

TEST_CASE("another keyhop's error without an outcome, or of what was not sent, leaves the key unused",
          "[edge][keys]") {
  const auto more = GENERATE(values<std::string>({"", R"(,"outcome":"not_sent")"}));
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.agent(R"({"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x","data":{"source":"keyhop")" +
             more + "}}}");
  talk.take_agent();
  talk.client(prompt_line("8", "\"k\""));
  CHECK(talk.take_agent() == Lines{prompt_line("8", "\"k\"")});
}

TEST_CASE("a malformed answer to a keyed prompt leaves its outcome unknown for all of them", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"k\""));
  talk.client(prompt_line("8", "\"k\""));
  talk.take_agent();
  talk.agent(R"({"jsonrpc":"2.0","id":7})");
  CHECK(in_short(talk.take_client()) ==
        Lines{"7 -32603 malformed_answer unknown", "8 -32603 malformed_answer unknown"});
  talk.client(prompt_line("9", "\"k\""));
  CHECK(talk.take_agent().empty());
  CHECK(in_short(talk.take_client()) == Lines{"9 -32603 outcome_unknown unknown"});
}

TEST_CASE("v1: equal ones join while pending, and nothing else", "[edge][keys]") {
  Dialogue talk;
  talk.open(1);
  talk.client(prompt_line("7", "\"k\""));
  talk.client(prompt_line("8", "\"k\""));
  talk.client(prompt_line("9", "\"k\"", "U"));
  CHECK(talk.take_agent() == Lines{prompt_line("7", "\"k\""), prompt_line("9", "\"k\"", "U")});
  const std::string result = R"({"stopReason":"end_turn"})";
  talk.agent(result_line("7", result));
  CHECK(talk.take_client() == Lines{result_line("7", result), result_line("8", result)});
  talk.client(prompt_line("10", "\"k\""));
  CHECK(talk.take_agent() == Lines{prompt_line("10", "\"k\"")});
}

TEST_CASE("a session that was closed answers no key until it is resumed", "[edge][keys]") {
  const auto ending = GENERATE(values<std::string>({"session/close", "session/archive"}));
  Dialogue talk;
  talk.open();
  answer_first(talk);
  talk.client(session_line("8", ending));
  talk.client(prompt_line("9", "\"k\""));  // the close is not answered yet
  CHECK(talk.take_client() == Lines{result_line("9", R"({"messageId":"m1"})")});
  talk.agent(result_line("8"));
  talk.take_agent();
  talk.take_client();
  talk.client(prompt_line("10", "\"k\""));
  const Lines refused = talk.take_client();
  CHECK(in_short(refused) == Lines{"10 -32002 session_not_active"});
  CHECK(member(member(refused[0], "error"), "data", "sessionId") == "\"s1\"");
  CHECK(talk.take_agent().empty());
  talk.client(session_line("11", "session/resume"));
  talk.agent(result_line("11", "null"));
  talk.take_client();
  talk.client(prompt_line("12", "\"k\""));
  CHECK(talk.take_client() == Lines{result_line("12", R"({"messageId":"m1"})")});
}

TEST_CASE("a refused close closes nothing", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  answer_first(talk);
  talk.client(session_line("8", "session/close"));
  talk.agent(error_line("8"));
  talk.take_client();
  talk.client(prompt_line("9", "\"k\""));
  CHECK(talk.take_client() == Lines{result_line("9", R"({"messageId":"m1"})")});
}

TEST_CASE("delete, and a new session of the same name, forget", "[edge][keys]") {
  const bool deleted = GENERATE(true, false);
  Dialogue talk;
  talk.open();
  answer_first(talk);
  if (deleted) {
    talk.client(session_line("8", "session/delete"));
    talk.agent(result_line("8"));
  } else {
    talk.client(request_line("9", "session/new", R"({"cwd":"/w"})"));
    talk.agent(result_line("9", R"({"sessionId":"s1"})"));
  }
  talk.take_agent();
  talk.take_client();
  CHECK(talk.relay().edge().remembered_keys() == 0);
  talk.client(prompt_line("10", "\"k\""));
  CHECK(talk.take_agent() == Lines{prompt_line("10", "\"k\"")});
}

TEST_CASE("a fork inherits no keys and takes none away", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  answer_first(talk);
  talk.client(session_line("8", "session/fork"));
  talk.agent(result_line("8", R"({"sessionId":"s2"})"));
  talk.take_agent();
  talk.take_client();
  talk.client(prompt_line("9", "\"k\"", "T", "s2"));
  CHECK(talk.take_agent().size() == 1);
  talk.client(prompt_line("10", "\"k\""));
  CHECK(talk.take_client() == Lines{result_line("10", R"({"messageId":"m1"})")});
}

TEST_CASE("rule: a method made keyed joins, and the guard leaves it alone", "[edge][keys]") {
  Settings settings = one_epoch();
  settings.rules.push_back({"_vendor/run", rules::RetryClass::keyed});
  settings.rules.push_back({"session/prompt", rules::RetryClass::duplicating});
  const std::string params = R"({"sessionId":"s1","idempotencyKey":"k"})";
  Dialogue talk(settings);
  talk.open();
  talk.client(request_line("7", "_vendor/run", params));
  talk.client(request_line("8", "_vendor/run", params));
  talk.client(prompt_line("9", "\"k\""));  // another method, another scope; and a prompt stays a prompt
  talk.client(prompt_line("10", "\"k\""));
  CHECK(talk.take_agent() == Lines{request_line("7", "_vendor/run", params), prompt_line("9", "\"k\"")});
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{result_line("7"), result_line("8")});
  talk.client(request_line("11", "_vendor/run", params));
  talk.client(request_line("12", "_vendor/run", R"({"idempotencyKey":7})"));
  talk.client(request_line("13", "_vendor/run", R"({"idempotencyKey":"no session"})"));
  talk.client(request_line("14", "_vendor/run", R"({"idempotencyKey":"no session"})"));
  CHECK(talk.take_agent().size() == 3);
}

TEST_CASE("a keyed prompt without a session has no scope: for the agent to refuse", "[edge][keys]") {
  Dialogue talk;
  talk.open();
  const std::string line = request_line("7", "session/prompt", R"({"idempotencyKey":"k"})");
  talk.client(line);
  talk.client(line);
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0] == line);
}

TEST_CASE("no key in what keyhop says of its own", "[edge][keys]") {
  const std::string key = "top-secret-key";
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", "\"" + key + "\""));
  talk.client(prompt_line("8", "\"" + key + "\"", "U"));
  talk.agent("panic: could not insert " + key + " twice");
  talk.agent(R"({"jsonrpc":"2.0","method":"x","params":{"idempotencyKey":")" + key + R"("},)");
  talk.happen(StderrRead{agent_epoch, "lost key top-secret-key, giving up\n"});
  talk.agent_dies({ExitStatus::Kind::exited, 1});
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 2);
  for (const std::string& line : got) CHECK(line.find(key) == std::string::npos);
  CHECK(member(member(member(got[1], "error"), "data"), "agent", "stderrTail") ==
        "\"lost key [key], giving up\"");
  CHECK(talk.log_text().find(key) == std::string::npos);
  // The agent's own stderr goes on as it came, once; what it put on stdout is masked.
  const std::string& words = talk.stderr_text();
  CHECK(words.find(key) == words.rfind(key));
}

}  // namespace
}  // namespace acp::sim
