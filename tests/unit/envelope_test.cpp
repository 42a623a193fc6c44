// The scanned top level: which members stand where, and what the frame is.
#include "proxy/core/envelope.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"

namespace acp {
namespace {

// A scanned text with all that it needs to stay readable.
class Scanned {
 public:
  explicit Scanned(std::string_view text) : text_(text) { scanner_.scan(text_.view(), envelope_); }
  const Envelope* operator->() const { return &envelope_; }
  std::string raw(Slot slot) const { return std::string(envelope_.raw(slot)); }

 private:
  test::Padded text_;
  EnvelopeScanner scanner_;
  Envelope envelope_;
};

}  // namespace

TEST_CASE("members are found in any order", "[envelope]") {
  std::vector<std::string> members{"\"jsonrpc\":\"2.0\"", "\"id\":7", "\"method\":\"session/prompt\"",
                                   "\"params\":{\"sessionId\":\"s\",\"idempotencyKey\":\"k\",\"id\":9}",
                                   "\"_meta\":{\"id\":1,\"method\":\"x\",\"params\":{\"sessionId\":\"t\"}}"};
  std::sort(members.begin(), members.end());
  do {
    std::string text = "{";
    for (const auto& member : members) text += (text.size() > 1 ? "," : "") + member;
    text += "}";
    const Scanned scanned(text);
    REQUIRE(scanned->fault == FrameFault::none);
    REQUIRE(scanned->shape() == Shape::request);
    REQUIRE(scanned->has_version());
    REQUIRE(scanned.raw(Slot::id) == "7");
    REQUIRE(scanned.raw(Slot::method) == "\"session/prompt\"");
    REQUIRE(scanned.raw(Slot::params) == "{\"sessionId\":\"s\",\"idempotencyKey\":\"k\",\"id\":9}");
    REQUIRE(scanned.raw(Slot::params_session_id) == "\"s\"");
    REQUIRE(scanned.raw(Slot::params_idempotency_key) == "\"k\"");
    REQUIRE_FALSE(scanned->has_duplicates());
  } while (std::next_permutation(members.begin(), members.end()));
}

TEST_CASE("each slot is found at its path and nowhere else", "[envelope]") {
  const auto [slot, text, raw] = GENERATE(table<Slot, std::string_view, std::string>({
      {Slot::id, R"({"id":1})", "1"},
      {Slot::id, R"({ "id" : "x" })", "\"x\""},
      {Slot::id, R"({"i\u0064":2})", "2"},
      {Slot::id, R"({"\u0069\u0064":{"a":[1]}})", R"({"a":[1]})"},
      {Slot::id, R"({"ID":1,"Id":2,"id ":3,"i":4,"idd":5,"":6})", ""},
      {Slot::id, R"({"params":{"id":1},"result":{"id":2},"error":{"id":3},"x":[{"id":4}]})", ""},
      {Slot::id, R"({"x":"id","y":["id",1],"z":"\"id\":5"})", ""},
      {Slot::method, R"({"meth\u006fd":"m"})", "\"m\""},
      {Slot::method, R"({"params":{"method":"no"}})", ""},
      {Slot::params, R"({"params":[1,{"a":2}],"id":1})", R"([1,{"a":2}])"},
      {Slot::params, R"({"params":null})", "null"},
      {Slot::params, R"({"params": {} })", "{}"},
      {Slot::params_session_id, R"({"params":{"session\u0049d":"s"}})", "\"s\""},
      {Slot::params_session_id, R"({"params":{"a":{"sessionId":"no"}}})", ""},
      {Slot::params_session_id, R"({"params":[{"sessionId":"no"}]})", ""},
      {Slot::params_session_id, R"({"params":[["sessionId","no"]]})", ""},
      {Slot::params_session_id, R"({"result":{"sessionId":"no"},"sessionId":"no"})", ""},
      {Slot::params_session_id, R"({"params":{"x":{"sessionId":1},"sessionId":{"y":[2]}}})", R"({"y":[2]})"},
      {Slot::params_session_id, R"({"params":{"x":[{"sessionId":1}],"sessionId":"late"}})", "\"late\""},
      {Slot::params_idempotency_key, R"({"params":{"_meta":{"idempotencyKey":"no"}}})", ""},
      {Slot::params_idempotency_key, R"({"params":{"idempotencyKey":null}})", "null"},
      {Slot::params_request_id, R"({"params":{"requestId":1.5e3}})", "1.5e3"},
      {Slot::params_protocol_version, R"({"params":{"protocolVersion":2}})", "2"},
      {Slot::update_kind, R"({"params":{"update":{"sessionUpdate":"plan"}}})", "\"plan\""},
      {Slot::update_kind, R"({"params":{"update":[{"sessionUpdate":"plan"}]}})", ""},
      {Slot::update_config_options, R"({"params":{"update":{"configOptions":[{"id":1}]}}})", R"([{"id":1}])"},
      {Slot::update_message_id, R"({"params":{"update":{"messageId":"m","x":{"messageId":"no"}}}})", "\"m\""},
      {Slot::update_content, R"({"params":{"update":{"content":{"type":"text"}}}})", R"({"type":"text"})"},
      {Slot::params_prompt, R"({"params":{"prompt":[{"prompt":1}]}})", R"([{"prompt":1}])"},
      {Slot::result_info_name, R"({"result":{"info":{"name":"a"}}})", "\"a\""},
      {Slot::result_info_name, R"({"result":{"agentInfo":{"name":"a"},"name":"no"}})", "\"a\""},
      {Slot::result, R"({"result":{}})", "{}"},
      {Slot::result, R"({"result":null})", "null"},
      {Slot::result_session_id, R"({"result":{"sessionId":"s"}})", "\"s\""},
      {Slot::result_session_id, R"({"params":{"sessionId":"no"}})", ""},
      {Slot::result_message_id, R"({"result":{"a":{"messageId":"no"},"messageId":"m"}})", "\"m\""},
      {Slot::result_protocol_version, R"({"result":{"protocolVersion":1}})", "1"},
      {Slot::error, R"({"error":{"code":-1,"message":"m"}})", R"({"code":-1,"message":"m"})"},
      {Slot::error_code, R"({"error":{"code":-32603}})", "-32603"},
      {Slot::error_data, R"({"error":{"data":[{"source":"x"}]}})", R"([{"source":"x"}])"},
      {Slot::error_data_source, R"({"error":{"data":{"source":"keyhop"}}})", "\"keyhop\""},
      {Slot::error_data_source,
       R"({"error":{"data":{"a":{"source":"no"}},"source":"no"},"data":{"source":"no"}})", ""},
      {Slot::error_data_source, R"({"error":{"data":{"source":{"source":"no"},"x":1}}})",
       R"({"source":"no"})"},
      {Slot::error_data_source, R"({"error":{"data":[{"source":"no"}]}})", ""},
      {Slot::error_data_outcome, R"({"error":{"data":{"outcome":"unknown"}}})", "\"unknown\""},
  }));
  CAPTURE(text);
  const Scanned scanned(text);
  REQUIRE(scanned->fault == FrameFault::none);
  CHECK(scanned.raw(slot) == raw);
  CHECK(scanned->has(slot) == !raw.empty());
  const Member& member = scanned->member(slot);
  CHECK(member.copies == (raw.empty() ? 0 : 1));
  if (!raw.empty()) CHECK(text.substr(member.begin, member.end - member.begin) == raw);
}

TEST_CASE("values have types", "[envelope]") {
  const auto [value, type] = GENERATE(table<std::string, ValueType>({
      {"{}", ValueType::object},
      {"[]", ValueType::array},
      {"\"s\"", ValueType::string},
      {"0", ValueType::number},
      {"-1.5", ValueType::number},
      {"true", ValueType::boolean},
      {"false", ValueType::boolean},
      {"null", ValueType::null},
      {"{\"a\":[{}]}", ValueType::object},
      {"[[1],{}]", ValueType::array},
  }));
  CAPTURE(value);
  const Scanned scanned("{\"id\":" + value + ",\"params\":{\"sessionId\":" + value + " },\"error\":" + value +
                        "}");
  REQUIRE(scanned->fault == FrameFault::none);
  for (const Slot slot : {Slot::id, Slot::params_session_id, Slot::error}) {
    CHECK((scanned->member(slot).type == type));
    CHECK(scanned.raw(slot) == value);
  }
}

TEST_CASE("what is no object has a fault and no members", "[envelope]") {
  const auto [text, fault] = GENERATE(table<std::string, FrameFault>({
      {"", FrameFault::not_json},
      {" ", FrameFault::not_json},
      {"{\"id\":1", FrameFault::not_json},
      {"{\"id\":1,\"method\":tru}", FrameFault::not_json},
      {"{\"id\":1}{\"id\":2}", FrameFault::not_json},
      {"{\"id\":1}x", FrameFault::not_json},
      {"{\"id\":1,\"a\":\"\xFF\"}", FrameFault::not_utf8},
      {"[{\"id\":1}]", FrameFault::array},
      {"[]", FrameFault::array},
      {"1", FrameFault::scalar},
      {"\"id\"", FrameFault::scalar},
      {"null", FrameFault::scalar},
      {"{\"id\":1,\"params\":" + std::string(1024, '[') + std::string(1024, ']') + "}", FrameFault::too_deep},
      {"{\"id\":1,\"params\":" + std::string(1024, '['), FrameFault::too_deep},
  }));
  CAPTURE(text);
  const Scanned scanned(text);
  CHECK((scanned->fault == fault));
  for (std::size_t i = 0; i < static_cast<std::size_t>(Slot::count_); ++i) {
    CHECK_FALSE(scanned->has(static_cast<Slot>(i)));
  }
}

TEST_CASE("what a message is by its members", "[envelope]") {
  const auto [text, shape] = GENERATE(table<std::string_view, Shape>({
      {R"({"id":1,"method":"m"})", Shape::request},
      {R"({"id":null,"method":"m"})", Shape::request},
      {R"({"id":1,"method":null})", Shape::request},
      {R"({"id":1,"method":"m","result":{}})", Shape::request},
      {R"({"method":"m"})", Shape::notification},
      {R"({"id":1,"result":{}})", Shape::response},
      {R"({"id":1,"error":{}})", Shape::response},
      {R"({"id":1})", Shape::response},
      {R"({"result":{}})", Shape::response},
      {R"({"error":null})", Shape::response},
      {R"({})", Shape::nothing},
      {R"({"jsonrpc":"2.0","params":{}})", Shape::nothing},
      {R"({"level":"info","msg":"x"})", Shape::nothing},
  }));
  CAPTURE(text);
  CHECK((Scanned(text)->shape() == shape));
}

TEST_CASE("the version is the string 2.0", "[envelope]") {
  const auto [value, sound] = GENERATE(table<std::string, bool>({
      {"\"2.0\"", true},
      {"\"2\\u002e0\"", true},
      {"\"\\u0032.0\"", true},
      {"2.0", false},
      {"2", false},
      {"\"2\"", false},
      {"\"2.0 \"", false},
      {"\"1.0\"", false},
      {"null", false},
      {"[\"2.0\"]", false},
      {"\"\"", false},
      {"{}", false},
  }));
  CAPTURE(value);
  CHECK(Scanned("{\"jsonrpc\":" + value + "}")->has_version() == sound);
  CHECK_FALSE(Scanned("{\"id\":1}")->has_version());
}

TEST_CASE("duplicates of what peers act on are seen", "[envelope]") {
  const auto [text, duplicates] = GENERATE(table<std::string, bool>({
      {R"({"id":1,"id":1})", true},
      {R"({"id":1,"i\u0064":2})", true},
      {R"({"method":"a","method":"a"})", true},
      {R"({"jsonrpc":"2.0","jsonrpc":"2.0"})", true},
      {R"({"params":{},"params":[]})", true},
      {R"({"params":{"sessionId":"a","sessionId":"a"}})", true},
      {R"({"params":{"idempotencyKey":"a","\u0069dempotencyKey":null}})", true},
      {R"({"params":{"sessionId":"a"},"params":{"sessionId":"b"}})", true},
      {R"({"params":{"x":1,"x":2,"prompt":[],"prompt":[]}})", false},
      {R"({"params":{"a":{"sessionId":"a"},"sessionId":"b"}})", false},
      {R"({"x":1,"x":2,"_meta":{},"_meta":{}})", false},
      {R"({"id":1,"params":{"id":1}})", false},
      {R"({"id":1,"id":[{"id":2}]})", true},
  }));
  CAPTURE(text);
  const Scanned scanned(text);
  REQUIRE(scanned->fault == FrameFault::none);
  CHECK(scanned->has_duplicates() == duplicates);
}

TEST_CASE("copies are counted up to a cap", "[envelope]") {
  std::string text = "{";
  for (int i = 0; i < 700; ++i) text += "\"id\":" + std::to_string(i) + ",";
  const Scanned scanned(text + "\"x\":0}");
  CHECK(scanned->member(Slot::id).copies == 255);
  CHECK(scanned->has_duplicates());
}

TEST_CASE("sound answers", "[envelope]") {
  const auto [members, sound, success] = GENERATE(table<std::string, bool, bool>({
      {R"("id":1,"result":{})", true, true},
      {R"("id":"x","result":[])", true, true},
      {R"("id":1,"result":null)", true, true},
      {R"("id":1,"result":false)", true, true},
      {R"("id":1,"result":{},"error":null)", true, true},
      {R"("id":1,"result":null,"error":null)", true, true},
      {R"("id":1,"error":{})", true, false},
      {R"("id":1,"error":{"code":1,"message":"m"})", true, false},
      {R"("id":1,"result":null,"error":{"code":1})", true, false},
      {R"("id":null,"error":{"code":1})", true, false},
      {R"("id":1,"result":{},"error":{})", false, false},
      {R"("id":1,"result":0,"error":{})", false, false},
      {R"("id":1)", false, false},
      {R"("result":{})", false, false},
      {R"("id":1,"error":null)", false, false},
      {R"("id":1,"error":"text")", false, false},
      {R"("id":1,"error":[],"result":{})", false, false},
      {R"("id":1,"error":1)", false, false},
      {R"("id":1,"id":1,"result":{})", false, false},
      {R"("id":1,"result":{},"result":{})", false, false},
      {R"("id":1,"error":{},"error":{})", false, false},
      {R"("id":1,"error":{},"error":null)", false, false},
  }));
  CAPTURE(members);
  const Scanned scanned("{\"jsonrpc\":\"2.0\"," + members + "}");
  REQUIRE(scanned->fault == FrameFault::none);
  CHECK(scanned->is_sound_response() == sound);
  if (sound) CHECK(scanned->is_success() == success);
  CHECK_FALSE(Scanned("{" + members + "}")->is_sound_response());
  CHECK_FALSE(Scanned("{\"jsonrpc\":\"1.0\"," + members + "}")->is_sound_response());
}

TEST_CASE("members behind a mebibyte of params are found", "[envelope]") {
  const std::string large(limits::mib, 'x');
  const std::string params = "{\"prompt\":[{\"text\":\"" + large + "\\\"id\\\":3\"}],\"sessionId\":\"s\"}";
  const Scanned scanned("{\"params\":" + params + ",\"method\":\"m\",\"id\":42,\"jsonrpc\":\"2.0\"}");
  REQUIRE(scanned->fault == FrameFault::none);
  CHECK(scanned.raw(Slot::id) == "42");
  CHECK(scanned.raw(Slot::method) == "\"m\"");
  CHECK((scanned.raw(Slot::params) == params));
  CHECK(scanned.raw(Slot::params_session_id) == "\"s\"");
  CHECK(scanned->has_version());
}

TEST_CASE("a scanner forgets the frame before", "[envelope]") {
  EnvelopeScanner scanner;
  Envelope envelope;
  const test::Padded request(R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"sessionId":"s"}})");
  for (const std::string_view next : {"{}", "[]", "tru", "1", "{\"x\":1}"}) {
    scanner.scan(request.view(), envelope);
    REQUIRE(envelope.has(Slot::params_session_id));
    const test::Padded padded(next);
    scanner.scan(padded.view(), envelope);
    CHECK_FALSE(envelope.has(Slot::id));
    CHECK_FALSE(envelope.has(Slot::params_session_id));
    CHECK_FALSE(envelope.has_version());
  }
}

}  // namespace acp
