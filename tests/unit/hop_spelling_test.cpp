// How a component is told its role: in which spelling it is asked, when it is started afresh, and what waits
// for it meanwhile.
#include <catch2/catch.hpp>
#include <string>

#include "tests/sim/dialogue.h"
#include "tests/unit/hop_parts.h"

namespace acp::test {
namespace {

using sim::cancel_line;
using sim::error_line;
using sim::request_line;
using sim::result_line;

const std::string asked_now = request_line("0", "proxy/initialize");
const std::string asked_before = request_line("0", "_proxy/initialize");

class Component : public HopLink {
 public:
  Component() : HopLink(HopEnd::conductor) {}
  std::string initialize() { return give_plain(request_line("0", "initialize")); }
  std::string refuse(int code = -32601) { return take(error_line("0", code)); }
  // Asked, and it ended: whether that was its way not to understand.
  bool ends() {
    initialize();
    const bool misasked = hop.end_is_misasked();
    CHECK_FALSE(hop.end_is_misasked());
    hop.begin_again();
    return misasked;
  }
  bool refuses() {
    initialize();
    const bool misasked = refuse() == "misasked";
    hop.begin_again();
    return misasked;
  }
};

TEST_CASE("a component that understands is asked the same way for ever", "[hop]") {
  Component at;
  CHECK(at.initialize() == asked_now);
  CHECK(at.take(result_line("0")) == "plain " + result_line("0"));
  CHECK_FALSE(at.hop.end_is_misasked());
  at.hop.begin_again();
  CHECK_FALSE(at.ends());
  CHECK(at.initialize() == asked_now);
  CHECK(at.refuse() == "plain " + error_line("0", -32601));
  CHECK_FALSE(at.hop.is_no_proxy());
  CHECK(at.hop.spelling() == Spelling::current);
}

TEST_CASE("a component that does not know the method is asked in the older spelling", "[hop]") {
  const int code = GENERATE(-32601, -32600);
  Component at;
  at.initialize();
  CHECK(at.refuse(code) == "misasked");
  CHECK(at.take(request_line("9", "x")) == "dropped");  // its last words
  CHECK_FALSE(at.hop.end_is_misasked());
  at.hop.begin_again();
  CHECK(at.initialize() == asked_before);
  CHECK(at.take(result_line("0")) == "plain " + result_line("0"));
  CHECK(at.give_wrapped(R"({"jsonrpc":"2.0","method":"x"})") ==
        successor_line("", R"("method":"x","params":null)", "_proxy/successor"));
  at.hop.begin_again();
  CHECK(at.initialize() == asked_before);
}

TEST_CASE("any other error is the component's answer", "[hop]") {
  const auto answer = GENERATE(values<std::string>({error_line("0", -32000), error_line("0", -32602),
                                                    R"({"jsonrpc":"2.0","id":0,"error":{"message":""}})"}));
  Component at;
  at.initialize();
  CHECK(at.take(answer) == "plain " + answer);
  CHECK_FALSE(at.hop.end_is_misasked());
  at.hop.begin_again();
  CHECK(at.initialize() == asked_now);
}

TEST_CASE("an answer to another request says nothing of the role", "[hop]") {
  Component at;
  at.initialize();
  at.give_wrapped(request_line("5", "x"));
  CHECK(at.take(error_line("5", -32601)) == "wrapped " + error_line("5", -32601));
  CHECK(at.refuse() == "misasked");
}

TEST_CASE("a component that passes its initialize on took it for any message", "[hop]") {
  const auto method = GENERATE(as<std::string>(), "proxy/initialize", "_proxy/initialize");
  Component at;
  at.initialize();
  CHECK(at.take(successor_line("5", "\"method\":\"" + method + "\"")) == "misasked");
  at.hop.begin_again();
  CHECK(at.initialize() == asked_before);
  CHECK(at.take(successor_line("5", "\"method\":\"" + method + "\"")).starts_with("answered"));
  CHECK(at.hop.is_no_proxy());
}

TEST_CASE("ends and refusals: how often each spelling is tried", "[hop]") {
  Component at;
  SECTION("both refused") {
    CHECK(at.refuses());
    CHECK_FALSE(at.hop.is_no_proxy());
    CHECK_FALSE(at.refuses());
    CHECK(at.hop.is_no_proxy());
  }
  SECTION("ended, then refused in the other: back once") {
    CHECK(at.ends());
    CHECK(at.refuses());
    CHECK(at.initialize() == asked_now);
    CHECK(at.take(result_line("0")) == "plain " + result_line("0"));
  }
  SECTION("ended, refused, ended again") {
    CHECK(at.ends());
    CHECK(at.refuses());
    CHECK(at.ends());  // once more: it knows this one alone
    CHECK_FALSE(at.ends());
    CHECK(at.initialize() == asked_now);
    CHECK_FALSE(at.hop.is_no_proxy());
  }
  SECTION("ended, refused, refused") {
    CHECK(at.ends());
    CHECK(at.refuses());
    CHECK_FALSE(at.refuses());
    CHECK(at.hop.is_no_proxy());
  }
  SECTION("ended in both") {
    CHECK(at.ends());
    CHECK_FALSE(at.ends());
    CHECK(at.initialize() == asked_before);
    CHECK_FALSE(at.hop.is_no_proxy());
  }
  SECTION("refused, then ended") {
    CHECK(at.refuses());
    CHECK(at.ends());
    CHECK(at.initialize() == asked_before);
    CHECK(at.hop.end_is_misasked() == false);
    at.hop.begin_again();
    CHECK_FALSE(at.ends());
    CHECK(at.initialize() == asked_before);
    CHECK_FALSE(at.hop.is_no_proxy());
  }
}

TEST_CASE("an end before anything was asked tells nothing", "[hop]") {
  Component at;
  CHECK_FALSE(at.hop.end_is_misasked());
  HopLink nested(HopEnd::component);
  nested.give_wrapped(request_line("0", "initialize"));
  CHECK_FALSE(nested.hop.end_is_misasked());
}

TEST_CASE("initialize under an id that is open, or without one", "[hop]") {
  Component at;
  at.give_wrapped(request_line("0", "x"));
  CHECK(at.initialize() == request_line("\"own-1\"", "proxy/initialize"));
  CHECK(at.take(error_line("0", -32601)) == "wrapped " + error_line("0", -32601));
  CHECK(at.take(error_line("\"own-1\"", -32601)) == "misasked");
  at.hop.begin_again();
  CHECK(at.give_plain(R"({"method":"initialize","jsonrpc":"2.0"})") ==
        R"({"method":"_proxy/initialize","jsonrpc":"2.0"})");
  CHECK_FALSE(at.hop.end_is_misasked());
}

TEST_CASE("an answer to initialize that is over the limit is an answer", "[hop]") {
  Component at;
  at.initialize();
  at.hop.begin_again();
  at.initialize();
  at.give_wrapped(R"({"jsonrpc":"2.0","method":"x"})");
  CHECK(at.take(R"({"id":0,"result":{"a":")", FrameKind::oversize).starts_with("plain oversize"));
  CHECK(at.hop.take_waiting() == successor_line("", R"("method":"x")") + "\n");
  CHECK_FALSE(at.hop.end_is_misasked());
}

TEST_CASE("what a successor has for a component that was started again waits", "[hop]") {
  Component at;
  at.initialize();
  at.take(result_line("0"));
  at.take(successor_line("5", R"("method":"session/new")"));
  at.give_wrapped(request_line("1", "x"));
  at.hop.begin_again();
  CHECK(at.hop.asked().size() == 0);
  CHECK(at.hop.heard().size() == 0);
  CHECK(at.give_wrapped(request_line("1", "x")).empty());
  CHECK(at.give_wrapped(R"({"jsonrpc":"2.0","method":"y"})").empty());
  CHECK(at.give_wrapped(cancel_line("1")).empty());  // behind its request
  CHECK(at.give_wrapped(cancel_line("7")).empty());
  CHECK(at.give_wrapped(result_line("5")) == result_line("5"));
  const std::string waits = successor_line("1", R"("method":"x","params":{})") + "\n" +
                            successor_line("", R"("method":"y")") + "\n" + cancel_line("1") + "\n";
  CHECK(at.hop.waiting_bytes() == waits.size());
  CHECK(at.hop.take_waiting().empty());
  CHECK(at.initialize() == asked_now);
  CHECK(at.take(request_line("3", "z")) == "plain " + request_line("3", "z"));
  CHECK(at.hop.take_waiting().empty());
  const auto answer = GENERATE_COPY(values<std::string>({result_line("0"), error_line("0", -32601)}));
  CHECK(at.take(answer) == "plain " + answer);
  CHECK(at.hop.take_waiting() == waits);
  CHECK(at.hop.waiting_bytes() == 0);
  CHECK(at.hop.take_waiting().empty());
  CHECK(at.give_wrapped(R"({"jsonrpc":"2.0","method":"y"})") == successor_line("", R"("method":"y")"));
}

TEST_CASE("a component that dies again: of what waited for it only news waits on", "[hop]") {
  const bool prefixed = GENERATE(false, true);
  const std::string method = prefixed ? "_proxy/successor" : "proxy/successor";
  HopLink at(HopEnd::conductor, prefixed ? Spelling::prefixed : Spelling::current);
  at.hop.begin_again();
  at.give_wrapped(R"({"jsonrpc":"2.0","method":"x","params":{"n":1}})");
  at.give_wrapped(request_line("1", "y"));
  at.give_wrapped(cancel_line("1"));
  at.give_wrapped(R"({"jsonrpc":"2.0","method":"x","params":{"n":2}})");
  at.hop.begin_again();
  at.give_plain(request_line("0", "initialize"));
  at.take(result_line("0"));
  CHECK(at.hop.take_waiting() == successor_line("", R"("method":"x","params":{"n":1})", method) + "\n" +
                                     successor_line("", R"("method":"x","params":{"n":2})", method) + "\n");
}

TEST_CASE("what waited is dropped where nothing runs for a while", "[hop]") {
  Component at;
  at.hop.begin_again();
  at.give_wrapped(request_line("1", "x"));
  CHECK(at.hop.waiting_bytes() > 0);
  at.hop.drop_waiting();
  CHECK(at.hop.waiting_bytes() == 0);
  at.initialize();
  at.take(result_line("0"));
  CHECK(at.hop.take_waiting().empty());
}

}  // namespace
}  // namespace acp::test
