// A link of two edges: what goes over it, what comes back, and whose it is. Both ends, both spellings.
#include "proxy/core/hop.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"
#include "tests/unit/hop_parts.h"

namespace acp::test {
namespace {

using sim::cancel_line;
using sim::error_line;
using sim::request_line;
using sim::result_line;

// An answer of keyhop's own in a few words: "answered 7 -32600 not_a_conductor".
std::string in_short(const std::string& taken) {
  constexpr std::string_view answered = "answered ";
  if (!taken.starts_with(answered)) return taken;
  const std::string line = taken.substr(answered.size());
  CHECK(sim::is_json(line));
  const auto error = sim::member(line, "error");
  return fmt::format("answered {} {} {}", sim::member(line, "id"), sim::member(error, "code"),
                     sim::unquoted(sim::member(error, "data", "reason")));
}

TEST_CASE("what belongs to the predecessor goes as it is", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  const auto line = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"s"}})",
      R"({ "params" : [1.50, 1E400] , "method":"_vendor\/x", "id" : "a","jsonrpc":"2.0" ,"x":{}})",
      R"({"jsonrpc":"2.0","method":"session/update","params":{"a":"\ud800"}})",
      R"({"jsonrpc":"2.0","id":null,"method":"x"})",
  }));
  HopLink at(end);
  CHECK(at.give_plain(line) == line);
  CHECK(at.take(line) == "plain " + line);
}

TEST_CASE("what belongs to the successor is wrapped: method and params byte for byte", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  const auto spelling = GENERATE(Spelling::current, Spelling::prefixed);
  const std::string method = spelling == Spelling::current ? "proxy/successor" : "_proxy/successor";
  const auto [id, rest] = GENERATE(table<std::string, std::string>({
      {"5", R"("method":"session/prompt","params":{"sessionId":"s","_meta":{"a": 1.50e1}})"},
      {"\"a\\u0062\"", R"("method":"x","params":[1E400 , -0, 123456789012345678901234567890])"},
      {"null", R"("method":"x","params":{"a":1,"a":2,"t":"\ud800\u0000"})"},
      {"5", R"("method":"_vendor\/\u0078")"},
      {"", R"("method":"session/update","params":{ })"},
      {"", R"("method":"session/cancel")"},
  }));
  HopLink at(end, spelling);
  const std::string ids = id.empty() ? "" : ",\"id\":" + id;
  const std::string inner = R"({"jsonrpc":"2.0")" + ids + "," + rest + "}";
  // SDKs of the older spelling want the member in any case.
  const bool lacks_params = rest.find("\"params\"") == std::string::npos;
  const std::string null = lacks_params && spelling == Spelling::prefixed ? ",\"params\":null" : "";
  const std::string outer = successor_line(id, rest + null, method);
  CHECK(at.give_wrapped(inner) == outer);
  CHECK(at.take(outer) == "wrapped " + inner);
  CHECK(at.hop.asked().size() == (id.empty() ? 0 : 1));
  CHECK(at.hop.heard().size() == (id.empty() ? 0 : 1));
}

TEST_CASE("params that are null are none to the successor's messages", "[hop]") {
  HopLink at(HopEnd::conductor);
  const std::string line = successor_line("5", R"("method":"x","params":null)");
  CHECK(at.give_wrapped(R"({"jsonrpc":"2.0","id":5,"method":"x","params":null})") == line);
  CHECK(at.take(line) == R"(wrapped {"jsonrpc":"2.0","id":5,"method":"x"})");
}

TEST_CASE("an envelope in any order and spelling; what else it holds is for this hop only", "[hop]") {
  const auto outer = GENERATE(values<std::string>({
      R"({"jsonrpc":"2.0","id":5,"method":"proxy/successor","params":{"method":"x","params":{"a":[ ]}}})",
      R"({"params":{"params":{"a":[ ]},"_meta":{"b":1},"meta":{},"method":"x"},"id":5,"method":"_proxy/successor","jsonrpc":"2.0"})",
      R"({"x":1,"jsonrpc":"2.0","id":5,"method":"\u0070roxy\/successor","params":{"\u006dethod":"x","z":{"method":"y"},"params":{"a":[ ]}}})",
  }));
  HopLink at(HopEnd::conductor);
  CHECK(at.take(outer) == R"(wrapped {"jsonrpc":"2.0","id":5,"method":"x","params":{"a":[ ]}})");
}

TEST_CASE("an answer goes to the edge that asked, results and errors untouched", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  const auto rest =
      GENERATE(values<std::string>({R"("result":{"a": 1.0 })", R"("result":null)",
                                    R"("error":{"code":-32000,"message":"no","data":{"x":[1]}},"y":2)"}));
  HopLink at(end);
  at.give_plain(request_line("1", "x"));
  at.give_wrapped(request_line("2", "x"));
  const std::string first = R"({"jsonrpc":"2.0","id":1,)" + rest + "}";
  const std::string second = R"({"id":2.0,)" + rest + R"(,"jsonrpc":"2.0"})";
  CHECK(at.take(second) == "wrapped " + second);
  CHECK(at.take(first) == "plain " + first);
  CHECK(at.take(first) == "plain " + first);  // nobody's: for that edge to judge
  CHECK(at.hop.asked().size() == 0);
}

TEST_CASE("answers to the peer's requests leave as they are", "[hop]") {
  HopLink at(HopEnd::conductor);
  at.take(request_line("1", "session/request_permission"));
  at.take(successor_line("2", R"("method":"session/new")"));
  CHECK(at.hop.heard().size() == 2);
  CHECK(at.give_wrapped(result_line("2")) == result_line("2"));
  CHECK(at.give_plain(error_line("1")) == error_line("1"));
  CHECK(at.hop.heard().size() == 0);
  CHECK(at.give_plain(error_line("null")) == error_line("null"));
}

TEST_CASE("equal ids of both edges: the later one gets an id of its own, and the answer its old one",
          "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  HopLink at(end);
  at.give_wrapped(request_line("\"own-1\"", "x"));
  CHECK(at.give_plain(request_line("1", "x")) == request_line("1", "x"));
  CHECK(at.give_wrapped(request_line("1", "y")) ==
        successor_line("\"own-2\"", R"("method":"y","params":{})"));
  CHECK(at.give_wrapped(request_line("2", "y")) == successor_line("2", R"("method":"y","params":{})"));
  CHECK(at.give_plain(R"({"params":[],"method":"z","id": 2 ,"jsonrpc":"2.0"})") ==
        R"({"params":[],"method":"z","id": "own-3" ,"jsonrpc":"2.0"})");
  CHECK(at.take(result_line("\"own-2\"", "[1]")) == "wrapped " + result_line("1", "[1]"));
  CHECK(at.take(result_line("2")) == "wrapped " + result_line("2"));
  CHECK(at.take(error_line("\"own-3\"")) == "plain " + error_line("2"));
  CHECK(at.take(result_line("1")) == "plain " + result_line("1"));
  CHECK(at.take(result_line("\"own-1\"")) == "wrapped " + result_line("\"own-1\""));
  CHECK(at.hop.asked().size() == 0);
}

TEST_CASE("a cancel of an edge's names its request by the id on the link, and is never wrapped", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  HopLink at(end);
  at.give_plain(request_line("1", "x"));
  at.give_wrapped(request_line("1", "x"));
  at.give_wrapped(request_line("2", "x"));
  CHECK(at.give_plain(cancel_line("1")) == cancel_line("1"));
  CHECK(at.give_wrapped(cancel_line("1")) == cancel_line("\"own-1\""));
  CHECK(at.give_wrapped(cancel_line("2")) == cancel_line("2"));
  const auto odd = GENERATE_COPY(values<std::string>({
      cancel_line("3"),
      cancel_line("\"2\""),
      cancel_line("{}"),
      R"({"jsonrpc":"2.0","method":"$/cancel_request"})",
  }));
  CHECK(at.give_wrapped(odd).empty());
  CHECK(at.give_plain(odd).empty());
  CHECK(at.give_plain(cancel_line("2")).empty());  // the other edge's
}

TEST_CASE("a cancel of the peer's goes where its request went; older SDKs wrap it", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  const bool wraps = GENERATE(false, true);
  const auto cancel = [&](std::string_view id) {
    if (!wraps) return cancel_line(id);
    return successor_line("", fmt::format(R"("method":"$/cancel_request","params":{{"requestId":{}}})", id),
                          "_proxy/successor");
  };
  HopLink at(end);
  at.take(request_line("1", "x"));
  at.take(successor_line("2", R"("method":"x")"));
  CHECK(at.take(cancel("1")) == "plain " + cancel_line("1"));
  CHECK(at.take(cancel("2")) == "wrapped " + cancel_line("2"));
  CHECK(at.take(cancel("3")) == "dropped");
  CHECK(at.take(cancel("[]")) == "dropped");
  at.give_wrapped(result_line("2"));
  CHECK(at.take(cancel("2")) == "dropped");
  CHECK(at.take(successor_line("", R"("method":"$/cancel_request")", "_proxy/successor")) == "dropped");
  // Whoever speaks the present spelling knows that it is not to be wrapped.
  CHECK(at.take(successor_line("", R"("method":"$/cancel_request","params":{"requestId":1})")) == "dropped");
}

TEST_CASE("a request-scoped elicitation names keyhop's request as its edge knows it", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  HopLink at(end);
  at.give_plain(request_line("1", "x"));
  at.give_wrapped(request_line("1", "x"));
  const auto params = [](std::string_view id) {
    return fmt::format(R"({{"message":"m","requestId":{} ,"z":1}})", id);
  };
  const auto plain = [&](std::string_view id) { return request_line("7", "elicitation/create", params(id)); };
  const auto wrapped = [&](std::string_view id) {
    return successor_line("8", R"("method":"elicitation/create","params":)" + params(id));
  };
  const auto inner = [&](std::string_view id) { return request_line("8", "elicitation/create", params(id)); };
  CHECK(at.take(wrapped("\"own-1\"")) == "wrapped " + inner("1"));
  CHECK(at.take(wrapped(R"("\u006fwn-1")")) == "wrapped " + inner("1"));
  CHECK(at.take(plain("\"own-1\"")) == "plain " + plain("1"));
  CHECK(at.take(wrapped("1")) == "wrapped " + inner("1"));
  CHECK(at.take(plain("1")) == "plain " + plain("1"));
  CHECK(at.take(plain("\"gone\"")) == "plain " + plain("\"gone\""));
  CHECK(at.take(plain("{}")) == "plain " + plain("{}"));
  CHECK(at.hop.heard().size() == 2);
  const std::string of_session = request_line("9", "elicitation/create", R"({"sessionId":"s"})");
  CHECK(at.take(of_session) == "plain " + of_session);
  const std::string note =
      R"({"jsonrpc":"2.0","method":"elicitation/create","params":{"requestId":"own-1"}})";
  CHECK(at.take(note) == R"(plain {"jsonrpc":"2.0","method":"elicitation/create","params":{"requestId":1}})");
  CHECK(at.hop.heard().size() == 3);
  // Longer than what it stands for.
  at.give_wrapped(request_line("\"a-rather-long-id-of-an-edge\"", "x"));
  at.give_plain(request_line("\"a-rather-long-id-of-an-edge\"", "x"));
  CHECK(at.take(wrapped("\"own-2\"")) == "wrapped " + inner("\"a-rather-long-id-of-an-edge\""));
}

TEST_CASE("an envelope that cannot be opened: a request is answered, the rest dropped", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  const auto [line, fate] = GENERATE(table<std::string, std::string>({
      {successor_line("7", ""), "answered 7 -32602 malformed_successor"},
      {successor_line("7", R"("method":5)"), "answered 7 -32602 malformed_successor"},
      {successor_line("7", R"("method":"x","method":"y")"), "answered 7 -32602 malformed_successor"},
      {successor_line("7", R"("method":"x","params":{},"params":{})"),
       "answered 7 -32602 malformed_successor"},
      {successor_line("7", R"("method":"x","params":1)"), "answered 7 -32602 malformed_successor"},
      {successor_line("7", R"("method":"x","params":"{}")"), "answered 7 -32602 malformed_successor"},
      {successor_line("[]", R"("method":null)"), "answered null -32602 malformed_successor"},
      {successor_line("", R"("method":5)"), "dropped"},
      {R"({"jsonrpc":"2.0","id":7,"method":"proxy/successor"})", "answered 7 -32602 malformed_successor"},
      {R"({"jsonrpc":"2.0","id":7,"method":"proxy/successor","params":[]})",
       "answered 7 -32602 malformed_successor"},
      {successor_line("7", R"("method":"proxy/initialize")"), "answered 7 -32600 not_a_conductor"},
      {successor_line("7", R"("method":"_proxy/initialize")"), "answered 7 -32600 not_a_conductor"},
      {successor_line("", R"("method":"proxy/initialize")"), "dropped"},
      {successor_line("7", R"("method":"proxy/successor","params":{"method":"x"})"),
       "answered 7 -32600 not_a_conductor"},
      {successor_line("", R"("method":"_proxy/successor","params":{"method":"x"})"), "dropped"},
  }));
  CAPTURE(line);
  HopLink at(end);
  CHECK(in_short(at.take(line)) == fate);
  CHECK(at.hop.heard().size() == 0);
}

TEST_CASE("an envelope that peers would read in two ways, or that is no JSON-RPC, is not opened", "[hop]") {
  const auto [line, id] = GENERATE(table<std::string, std::string>({
      {R"({"id":7,"method":"proxy/successor","params":{"method":"x"}})", "7"},
      {R"({"jsonrpc":"1.0","id":7,"method":"proxy/successor","params":{"method":"x"}})", "7"},
      {R"({"jsonrpc":"2.0","id":7,"id":7,"method":"proxy/successor","params":{"method":"x"}})", "null"},
      {R"({"jsonrpc":"2.0","id":7,"method":"proxy/successor","params":{},"params":{"method":"x"}})", "7"},
  }));
  CAPTURE(line);
  HopLink at(HopEnd::conductor);
  CHECK(in_short(at.take(line)) == "answered " + id + " -32602 malformed_successor");
  CHECK(at.hop.heard().size() == 0);
}

TEST_CASE("a component is initialized by its role, in the spelling that it will be answered in", "[hop]") {
  const bool prefixed = GENERATE(false, true);
  const std::string method = prefixed ? "_proxy/initialize" : "proxy/initialize";
  HopLink at(HopEnd::component);
  const std::string params = R"({"protocolVersion":2,"clientCapabilities":{ }})";
  CHECK(at.take(request_line("0", method, params)) == "plain " + request_line("0", "initialize", params));
  CHECK(at.hop.spelling() == (prefixed ? Spelling::prefixed : Spelling::current));
  CHECK(at.hop.heard().size() == 1);
  CHECK(at.give_wrapped(request_line("0", "initialize", params)) ==
        successor_line("0", R"("method":"initialize","params":)" + params,
                       prefixed ? "_proxy/successor" : "proxy/successor"));
  CHECK(at.give_plain(result_line("0")) == result_line("0"));
  CHECK(at.give_plain(request_line("1", "initialize")) == request_line("1", "initialize"));
  CHECK(at.hop.heard().size() == 0);
}

TEST_CASE("without an agent keyhop is no agent, and says so", "[hop]") {
  HopLink at(HopEnd::component);
  CHECK(in_short(at.take(request_line("0", "initialize"))) == "answered 0 -32600 no_agent");
  CHECK(at.take(R"({"jsonrpc":"2.0","method":"initialize"})") == "dropped");
  CHECK(at.take(R"({"jsonrpc":"2.0","method":"proxy/initialize"})") ==
        R"(plain {"jsonrpc":"2.0","method":"initialize"})");
  CHECK(at.hop.heard().size() == 0);
}

TEST_CASE("a component does not initialize its conductor", "[hop]") {
  HopLink at(HopEnd::conductor);
  CHECK(in_short(at.take(request_line("0", "proxy/initialize"))) == "answered 0 -32600 not_a_component");
  CHECK(in_short(at.take(request_line("{}", "_proxy/initialize"))) == "answered null -32600 not_a_component");
  CHECK(at.take(R"({"jsonrpc":"2.0","method":"proxy/initialize"})") == "dropped");
  CHECK(at.take(request_line("0", "initialize")) == "plain " + request_line("0", "initialize"));
  CHECK(at.take(R"({"jsonrpc":"2.0","method":"initialize"})") ==
        R"(plain {"jsonrpc":"2.0","method":"initialize"})");
}

TEST_CASE("a frame over the limit goes to the edge whose it is", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  HopLink at(end);
  at.give_plain(request_line("1", "x"));
  at.give_wrapped(request_line("1", "x"));
  const auto oversize = [&](const std::string& line) { return at.take(line, FrameKind::oversize); };
  const std::string request = R"({"jsonrpc":"2.0","id":4,"method":"x","params":{"a":")";
  CHECK(oversize(request) == "plain oversize " + request);
  const std::string wrapped = R"({"jsonrpc":"2.0","id":4,"method":"_proxy\/successor","params":{"a":")";
  CHECK(oversize(wrapped) == "wrapped oversize " + wrapped);
  CHECK(oversize(R"({"jsonrpc":"2.0","id":"own-1","result":{"a":")") ==
        R"(wrapped oversize {"jsonrpc":"2.0","id":1,"result":null)");
  CHECK(oversize(R"({"id":1,"error":{"a":")") == R"(plain oversize {"jsonrpc":"2.0","id":1,"result":null)");
  CHECK(at.hop.asked().size() == 0);
  for (const std::string line :
       {R"({"id":1,"result":{"a":")", R"({"id":{},"result":{"a":")", R"({"id":true,"result":{"a":")", "[[[[",
        "xx", R"({"jsonrpc":"2.0","id":1,"method":5,"params":{"a":")"})
    CHECK(oversize(line) == "plain oversize " + line);
}

TEST_CASE("what is no message passes for its edge to judge", "[hop]") {
  const auto end = GENERATE(HopEnd::conductor, HopEnd::component);
  const auto line = GENERATE(values<std::string>(
      {"log text", "[]", R"([{"jsonrpc":"2.0","id":1,"method":"x"}])", "5", "{", "\xff", "{}",
       R"({"jsonrpc":"2.0"})", R"({"jsonrpc":"2.0","id":{},"result":1})", R"({"id":7})",
       R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}})"}));
  HopLink at(end);
  at.give_wrapped(request_line("1", "x"));
  CHECK(at.take(line) == "plain " + line);
}

TEST_CASE("the last line of a stream has no end yet", "[hop]") {
  HopLink at(HopEnd::conductor);
  at.give_wrapped(request_line("1", "x"));
  at.give_plain(request_line("1", "x"));
  CHECK(at.take(result_line("\"own-1\""), FrameKind::whole) == "plain " + result_line("1"));
  const std::string line = result_line("1");
  std::string bytes = line;
  bytes.append(limits::padding_bytes, ' ');
  const Hop::Taken taken =
      at.hop.take({FrameKind::unterminated, std::string_view(bytes).substr(0, line.size()), {}});
  CHECK(taken.course == Course::wrapped);
  CHECK(taken.frame.text == line);
  bytes = request_line("5", "x");
  const std::size_t size = bytes.size();
  bytes.append(limits::padding_bytes, ' ');
  CHECK(at.hop.give(Course::plain, {FrameKind::whole, std::string_view(bytes).substr(0, size), {}}) ==
        request_line("5", "x") + "\n");
}

}  // namespace
}  // namespace acp::test
