// Bad input from either peer: answered, cut off or dropped, and the next good
// line works.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/edge.h"
#include "proxy/core/limits.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Lines = std::vector<std::string>;

const std::string good = request_line("1000", "session/list");
const std::string update = R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1"}})";

void check_alive(Dialogue& talk) {
  talk.client(good);
  CHECK(talk.take_agent() == Lines{good});
  talk.agent(result_line("1000"));
  CHECK(talk.take_client() == Lines{result_line("1000")});
}

TEST_CASE("client: every kind of bad line gets its one error and reaches nobody", "[edge][bad]") {
  const std::string deep = std::string(1025, '[') + std::string(1025, ']');
  const auto [line, answer] = GENERATE_COPY(table<std::string, std::string>({
      {"{not json", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":tru})", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":01})", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":"\q"})", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":[1 2]})", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x"} x)", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x"}{"jsonrpc":"2.0","id":5,"method":"x"})",
       "null -32700 not_json"},
      {"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"x\",\"params\":\"\xA4\x40\"}", "null -32700 not_utf8"},
      {"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"x\",\"params\":\"\xED\xA0\x80\"}", "null -32700 not_utf8"},
      {"[]", "null -32600 batch"},
      {"[" + good + "," + update + "]", "null -32600 batch"},
      {"42", "null -32600 not_an_object"},
      {"\"text\"", "null -32600 not_an_object"},
      {"null", "null -32600 not_an_object"},
      {"{}", "null -32600 bad_version"},
      {R"({"jsonrpc":"2.0"})", "null -32600 no_method"},
      {R"({"jsonrpc":"2.0","id":4})", "4 -32600 no_method"},
      {R"({"jsonrpc":"2.0","id":4,"params":{}})", "4 -32600 no_method"},
      {R"({"jsonrpc":"2.0","id":3,"method":7})", "3 -32600 no_method"},
      {R"({"jsonrpc":"2.0","id":"3","method":null})", "\"3\" -32600 no_method"},
      {R"({"jsonrpc":"1.0","id":3,"method":"x"})", "3 -32600 bad_version"},
      {R"({"jsonrpc":2.0,"id":3,"method":"x"})", "3 -32600 bad_version"},
      {R"({"id":3,"method":"x"})", "3 -32600 bad_version"},
      {R"({"method":"x"})", "null -32600 bad_version"},
      {R"({"jsonrpc":"2.0","id":{"bad":"id"},"method":"session/list","params":{}})", "null -32600 bad_id"},
      {R"({"jsonrpc":"2.0","id":[],"method":"session/list"})", "null -32600 bad_id"},
      {R"({"jsonrpc":"2.0","id":true,"method":"session/list"})", "null -32600 bad_id"},
      {R"({"jsonrpc":"2.0","id":4,"params":)" + deep + "}", "null -32600 too_deep"},
      {R"({"jsonrpc":"2.0","id":{},"method":"x","params":)" + deep + "}", "null -32600 too_deep"},
      {R"({"jsonrpc":"2.0","id":99,"result":tru})", "null -32700 not_json"},
      {R"({"jsonrpc":"2.0","id":4,"id":4,"method":"x"})", "null -32600 duplicate_member"},
      {R"({"jsonrpc":"2.0","jsonrpc":"2.0","id":4,"method":"x"})", "4 -32600 duplicate_member"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","m\u0065thod":"y"})", "4 -32600 duplicate_member"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":{},"params":{}})", "4 -32600 duplicate_member"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":{"sessionId":"a","sessionId":"b"}})",
       "4 -32600 duplicate_member"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":{"idempotencyKey":"a","idempotencyKey":"a"}})",
       "4 -32600 duplicate_member"},
      {R"({"jsonrpc":"2.0","id":4,"method":"x","params":)" + deep + "}", "4 -32600 too_deep"},
      {R"({"jsonrpc":"2.0","id":")" + std::string(limits::id_bytes_max, 'x') + R"(","method":"x"})",
       "null -32600 bad_id"},
  }));
  Dialogue talk;
  talk.open();
  talk.client(line);
  CHECK(in_short(talk.take_client()) == Lines{answer});
  CHECK(talk.take_agent().empty());
  CHECK(talk.relay().edge().open_requests() == 0);
  check_alive(talk);
}

TEST_CASE("client: 1,024 levels pass", "[edge][bad]") {
  const std::string line = request_line("4", "x", std::string(1023, '[') + std::string(1023, ']'));
  Dialogue talk;
  talk.open();
  talk.client(line);
  CHECK(talk.take_agent() == Lines{line});
}

TEST_CASE("client: blank lines, CR and a BOM are no input", "[edge][bad]") {
  Dialogue talk;
  talk.open();
  talk.client_bytes("\n\r\n  \t\n\xEF\xBB\xBF" + good + "\r\n\n");
  CHECK(talk.take_agent() == Lines{good});
  CHECK(talk.take_client().empty());
}

TEST_CASE("client: what looks like an answer is never answered", "[edge][bad]") {
  const auto line = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","id":true,"result":{}})",
      R"({"jsonrpc":"1.0","id":9,"result":{}})",
      R"({"jsonrpc":"2.0","result":{}})",
      R"({"jsonrpc":"2.0","id":9,"error":7})",
      R"({"jsonrpc":"2.0","id":9,"result":{},"error":{"code":1,"message":""}})",
      R"({"id":null,"error":{"code":-32700,"message":""}})",
  }));
  Dialogue talk;
  talk.open();
  talk.client(line);
  CHECK(talk.take_client().empty());
  CHECK(talk.take_agent().empty());
  check_alive(talk);
}

TEST_CASE("client: a broken answer to an open request of the agent's still ends it", "[edge][bad]") {
  const std::string deep = std::string(1025, '[') + std::string(1025, ']');
  const auto [line, to_client] = GENERATE_COPY(table<std::string, Lines>({
      {R"({"jsonrpc":"2.0","id":5})", {}},
      {R"({"jsonrpc":"1.0","id":5,"result":{}})", {}},
      {R"({"jsonrpc":"2.0","id":5,"result":{},"error":{"code":1,"message":""}})", {}},
      {R"({"jsonrpc":"2.0","id":5,"error":"no"})", {}},
      {R"({"jsonrpc":"2.0","id":5,"result":)" + deep + "}", {}},
      {R"({"jsonrpc":"2.0","id":5,"result":{"a":tru}})", {"null -32700 not_json"}},
  }));
  Dialogue talk;
  talk.open();
  talk.agent(request_line("5", "session/request_permission"));
  talk.take_client();
  talk.client(line);
  CHECK(in_short(talk.take_agent()) == Lines{"5 -32603 malformed_answer"});
  CHECK(in_short(talk.take_client()) == to_client);
  talk.client(result_line("5"));
  CHECK(talk.take_agent().empty());
  check_alive(talk);
}

Settings small_frames() {
  Settings settings = one_epoch();
  settings.frame_bytes_max = limits::frame_bytes_min;
  return settings;
}

std::string filled(std::string_view begin, std::string_view end, std::size_t size) {
  std::string line(begin);
  line.append(size - begin.size() - end.size(), 'x');
  return line.append(end);
}

TEST_CASE("client: frames over the limit are refused, up to it they pass", "[edge][bad]") {
  const std::string begin = R"({"jsonrpc":"2.0","id":4,"method":"session/list","params":{"a":")";
  const std::size_t most = limits::frame_bytes_min;
  Dialogue talk(small_frames());
  talk.open();
  const std::string largest = filled(begin, "\"}}", most);
  talk.client(largest);
  CHECK(talk.take_agent() == Lines{largest});
  talk.client(filled(begin, "\"}}", most + 1));
  CHECK(in_short(talk.take_client()) == Lines{"4 -32600 frame_too_large"});
  talk.client(
      filled(R"({"jsonrpc":"2.0","method":"session/list","params":{"a":")", "\"},\"id\":4}", most + 1));
  CHECK(in_short(talk.take_client()) == Lines{"null -32600 frame_too_large"});
  talk.client(filled(R"({"jsonrpc":"2.0","id":{},"method":"x","params":{"a":")", "\"}}", most + 1));
  CHECK(in_short(talk.take_client()) == Lines{"null -32600 frame_too_large"});
  talk.client(filled(R"({"jsonrpc":"2.0","id":4,"params":{"a":")", "\"}}", most + 1));
  CHECK(in_short(talk.take_client()) == Lines{"4 -32600 frame_too_large"});
  talk.client(filled(R"({"jsonrpc":"2.0","result":{"a":")", "\"},\"id\":4}", most + 1));
  CHECK(talk.take_client().empty());
  CHECK(talk.take_agent().empty());
  check_alive(talk);
}

TEST_CASE("client: a frame over the limit is refused once, before its end, in any split", "[edge][bad]") {
  const std::size_t piece = GENERATE(1U, 7U, 100U, 5000U);
  Dialogue talk(small_frames());
  talk.open();
  const std::string bytes =
      filled(R"({"jsonrpc":"2.0","id":4,"method":"x","params":{"a":")", "\"}}", 5000) + "\n" + good + "\n";
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    talk.client_bytes(std::string_view(bytes).substr(at, piece));
  CHECK(in_short(talk.take_client()) == Lines{"4 -32600 frame_too_large"});
  CHECK(talk.take_agent() == Lines{good});
}

TEST_CASE("client: an answer over the limit ends the agent's request", "[edge][bad]") {
  Dialogue talk(small_frames());
  talk.open();
  talk.agent(request_line("5", "fs/read_text_file"));
  talk.take_client();
  talk.client(filled(R"({"jsonrpc":"2.0","id":5,"result":{"content":")", "\"}}", 2000));
  CHECK(in_short(talk.take_agent()) == Lines{"5 -32603 malformed_answer"});
  CHECK(talk.take_client().empty());
}

TEST_CASE("client: the last line without LF counts if it parses", "[edge][bad]") {
  Dialogue talk;
  talk.open();
  SECTION("good") {
    talk.client_bytes(good);
    CHECK(talk.take_agent().empty());
    talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
    CHECK(talk.take_agent() == Lines{good});
  }
  SECTION("good, with CR") {
    talk.client_bytes(good + "\r");
    talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
    CHECK(talk.take_agent() == Lines{good});
  }
  SECTION("cut off") {
    talk.client_bytes(good.substr(0, good.size() - 1));
    talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
    CHECK(talk.take_agent().empty());
    CHECK(talk.take_client().empty());
  }
}

TEST_CASE("agent: text that is no JSON-RPC stays off the client's stdout", "[edge][bad]") {
  const auto line = GENERATE(values<std::string>({
      "Loaded cached credentials.",
      "\xA4\x40\xA5\xCE",
      R"({"level":"info","msg":"ready"})",
      R"({"level":"info","id":77})",
      R"({"level":"info","text":"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"})",
      "42",
      "[]",
      "{",
      R"([{"jsonrpc":"2.0","method":"x"}])",
      R"([{"jsonrpc":"2.0","id":99,"result":{}}])",
      R"(["{"])",
      R"({"jsonrpc":"2.0","method":"x","params":tru})",
      R"({"jsonrpc":"2.0","method":7})",
      R"({"jsonrpc":"1.0","method":"x"})",
      R"({"method":"x"})",
  }));
  Dialogue talk;
  talk.open();
  talk.agent(line);
  CHECK(talk.take_client().empty());
  CHECK(talk.take_agent().empty());
  CHECK(talk.relay().edge().counters().noise == 1);
  check_alive(talk);
}

TEST_CASE("agent: log text is on stderr, marked", "[edge][bad]") {
  Dialogue talk;
  talk.open();
  talk.agent("Loaded cached credentials.");
  CHECK(talk.stderr_text() == "[agent stdout] Loaded cached credentials.\n");
  const std::string kept(limits::noise_line_bytes_max, 'x');
  talk.agent(kept + "y");
  CHECK(talk.stderr_text() ==
        "[agent stdout] Loaded cached credentials.\n[agent stdout] " + kept + " … (4097 bytes)\n");
}

TEST_CASE("agent: good objects in a line with other text are found", "[edge][bad]") {
  const auto line = GENERATE(values<std::string>({
      "\x1B[2K\x1B[G" + update,
      "Starting... " + update,
      update + " done",
      update + "\x1B[0m",
      "{oops} " + update,
      R"({"level":"info"})" + update,
      "\xA4\x40" + update,
  }));
  Dialogue talk;
  talk.open();
  talk.agent(line);
  CHECK(talk.take_client() == Lines{update});
  check_alive(talk);
}

TEST_CASE("agent: two objects on one line are two frames", "[edge][bad]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.agent(update + result_line("7"));
  CHECK(talk.take_client() == Lines{update, result_line("7")});
  talk.agent(update + " " + update + "," + update);
  CHECK(talk.take_client() == Lines{update, update, update});
}

TEST_CASE("agent: a malformed answer becomes -32603 for its request", "[edge][bad]") {
  const std::string deep = std::string(1025, '[') + std::string(1025, ']');
  const auto line = GENERATE_COPY(values<std::string>({
      R"({"jsonrpc":"2.0","id":7})",
      R"({"id":7,"result":{}})",
      R"({"jsonrpc":"1.0","id":7,"result":{}})",
      R"({"jsonrpc":"2.0","id":7,"id":7,"result":{}})",
      R"({"jsonrpc":"2.0","id":7,"result":{},"result":{}})",
      R"({"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}})",
      R"({"jsonrpc":"2.0","id":7,"error":"text"})",
      R"({"jsonrpc":"2.0","id":7,"error":null})",
      R"({"jsonrpc":"2.0","id":7,"result":tru})",
      R"({"jsonrpc":"2.0","id":7,"result":{"a":)",
      R"([{"jsonrpc":"2.0","id":7,"result":{}}])",
      R"([{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":7,"result":{}}])",
      R"({"jsonrpc":"2.0","method":"x"}{"jsonrpc":"2.0","id":7,"result":01})",
      R"({"jsonrpc":"2.0","id":7,"result":)" + deep + "}",
      "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xA4\x40\"}",
  }));
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.agent(update);
  talk.take_agent();
  talk.take_client();
  talk.agent(line);
  Lines got = talk.take_client();
  REQUIRE_FALSE(got.empty());
  CHECK(in_short(got.back()) == "7 -32603 malformed_answer unknown");
  CHECK(member(member(got.back(), "error"), "data", "progress") == "true");
  got.pop_back();
  for (const std::string& other : got) CHECK(other == R"({"jsonrpc":"2.0","method":"x"})");
  talk.agent(result_line("7"));  // the good one, too late
  CHECK(talk.take_client().empty());
  check_alive(talk);
}

TEST_CASE("agent: a malformed request is answered, so that the agent does not wait", "[edge][bad]") {
  const auto [line, answer] = GENERATE(table<std::string, std::string>({
      {R"({"jsonrpc":"2.0","id":5,"method":7})", "5 -32600 malformed_request"},
      {R"({"jsonrpc":"1.0","id":5,"method":"x"})", "5 -32600 malformed_request"},
      {R"({"jsonrpc":"2.0","id":{},"method":"x"})", "null -32600 malformed_request"},
      {R"({"jsonrpc":"2.0","id":5,"method":"x","params":{},"params":{}})", "5 -32600 malformed_request"},
      {R"({"jsonrpc":"2.0","id":5,"id":5,"method":"x"})", "5 -32600 malformed_request"},
      {R"({"jsonrpc":"2.0","id":5,"method":"x","method":"x"})", "5 -32600 malformed_request"},
      {R"({"jsonrpc":"2.0","jsonrpc":"2.0","id":5,"method":"x"})", "5 -32600 malformed_request"},
  }));
  Dialogue talk;
  talk.open();
  talk.agent(line);
  CHECK(talk.take_client().empty());
  CHECK(in_short(talk.take_agent()) == Lines{answer});
}

TEST_CASE("agent: over the limit, an answer ends its request and a notification is dropped", "[edge][bad]") {
  Dialogue talk(small_frames());
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.take_agent();
  talk.agent(filled(R"({"jsonrpc":"2.0","id":7,"result":{"a":")", "\"}}", 3000));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 malformed_answer unknown"});
  talk.agent(filled(R"({"jsonrpc":"2.0","method":"session/update","params":{"a":")", "\"}}", 3000));
  talk.agent(filled(R"({"jsonrpc":"2.0","id":99,"result":{"a":")", "\"}}", 3000));
  CHECK(talk.take_client().empty());
  CHECK(talk.take_orders().empty());
  CHECK(talk.relay().phase() == Phase::serving);
  check_alive(talk);
}

TEST_CASE("agent: over the limit and not to be told ends the epoch", "[edge][bad]") {
  const auto begin = GENERATE(values<std::string>({
      R"({"params":{"a":")",
      R"({"jsonrpc":"2.0","result":{"a":")",
      R"({"jsonrpc":"2.0","id":5,"method":"fs/write_text_file","params":{"a":")",
      R"({"jsonrpc":"2.0","method":"_unheard/of","params":{"a":")",
      R"(xxxx)",
  }));
  Dialogue talk(small_frames());
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.take_agent();
  talk.agent(filled(begin, "\"}}", 3000));
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  CHECK(talk.take_client().empty());
  talk.agent_dies({ExitStatus::Kind::signalled, 15});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  CHECK(talk.exit_status() == 143);
}

TEST_CASE("agent: its last line without LF counts if it parses", "[edge][bad]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.take_agent();
  SECTION("good") {
    talk.agent_bytes(result_line("7"));
    talk.agent_dies({ExitStatus::Kind::exited, 3});
    CHECK(talk.take_client() == Lines{result_line("7")});
  }
  SECTION("cut off: the end of the agent explains more than a malformed answer") {
    talk.agent_bytes(R"({"jsonrpc":"2.0","id":7,"result":{"a")");
    talk.agent_dies({ExitStatus::Kind::exited, 3});
    CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  }
}

TEST_CASE("both: large frames cross whole, in one read or byte by byte", "[edge][bad]") {
  const std::size_t size = GENERATE(65535U, 65536U, 65537U, 70000U);
  Dialogue talk;
  talk.open();
  std::string text;
  while (text.size() + 7 < size) text += "\xE4\xB8\xAD\xF0\x9F\x98\x80";
  const std::string line = prompt_line("7", "", text);
  for (const char c : line + "\n") talk.client_bytes({&c, 1});
  CHECK(talk.take_agent() == Lines{line});
  talk.agent(result_line("7", "\"" + text + "\""));
  CHECK(talk.take_client() == Lines{result_line("7", "\"" + text + "\"")});
}

}  // namespace
}  // namespace acp::sim
