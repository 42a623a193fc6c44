// Good objects in a line that is no JSON.
#include "proxy/core/salvage.h"

#include <catch2/catch.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"

namespace acp {
namespace {

struct Shown {
  bool message;
  std::string text;
  bool operator==(const Shown&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  return out << (shown.message ? "message " : "noise ") << shown.text;
}

std::vector<Shown> pieces_of(std::string_view line) {
  const test::Padded padded(line);
  EnvelopeScanner scanner;
  Envelope envelope;
  Salvage salvage(padded.view(), scanner);
  std::vector<Shown> pieces;
  while (const auto piece = salvage.next(envelope)) {
    pieces.push_back({piece->message, std::string(piece->text)});
    CHECK_FALSE(piece->text.empty());
    if (!piece->message) continue;
    CHECK(envelope.fault == FrameFault::none);
    CHECK(envelope.frame == piece->text);
    CHECK(envelope.has(Slot::jsonrpc));
  }
  CHECK_FALSE(salvage.next(envelope).has_value());
  return pieces;
}

std::string joined(const std::vector<Shown>& pieces) {
  std::string text;
  for (const Shown& piece : pieces) text += piece.text;
  return text;
}

const std::string good = R"({"jsonrpc":"2.0","id":1,"result":{"a":[{}]}})";
const std::string other = R"({"jsonrpc":"2.0","method":"m"})";
const std::string broken_call = R"({"jsonrpc":"2.0","method":"n","params":{"a":tru,"b":)" + other + "}}";
const std::string broken_answer = R"({"jsonrpc":"2.0","id":7,"result":{"a":01,"b":)" + other + "}}";
const std::string deep = "{\"a\":" + std::string(1100, '[') + std::string(1100, ']') + "}";

Shown message(std::string text) { return {true, std::move(text)}; }
Shown noise(std::string text) { return {false, std::move(text)}; }

}  // namespace

TEST_CASE("messages are cut out of noise", "[salvage]") {
  const auto [line, pieces] = GENERATE(table<std::string, std::vector<Shown>>({
      {"", {}},
      {"Listening …", {noise("Listening …")}},
      {"\x1B[2J\x1B[H" + good, {noise("\x1B[2J\x1B[H"), message(good)}},
      {good + other, {message(good), message(other)}},
      {good + " " + other, {message(good), noise(" "), message(other)}},
      {"a" + good + "b" + other + "c", {noise("a"), message(good), noise("b"), message(other), noise("c")}},
      {"{debug} " + good, {noise("{debug} "), message(good)}},
      {"{ open " + good, {noise("{ open "), message(good)}},
      {"\" " + good, {noise("\" "), message(good)}},
      {good + "{\"jsonrpc\":\"2.0\",\"id\":", {message(good), noise("{\"jsonrpc\":\"2.0\",\"id\":")}},
      {"{\"jsonrpc\":\"2.0\",\"id\":" + good, {noise("{\"jsonrpc\":\"2.0\",\"id\":"), message(good)}},
      {"x {\"level\":\"info\",\"m\":" + other + "}", {noise("x {\"level\":\"info\",\"m\":" + other + "}")}},
      {"x {\"id\":1,\"result\":{}}", {noise("x {\"id\":1,\"result\":{}}")}},
      {"x {\"jsonrpc\":\"2.0\"}", {noise("x {\"jsonrpc\":\"2.0\"}")}},
      {"x [" + good + "]", {noise("x ["), message(good), noise("]")}},
      {"\xFF" + good, {noise("\xFF"), message(good)}},
      {"x" + deep + good, {noise("x" + deep), message(good)}},
      // What stands whole inside a broken message is a part of it; inside other text it stands alone.
      {broken_call + good, {noise(broken_call), message(good)}},
      {broken_answer + good, {noise(broken_answer), message(good)}},
      {"{debug " + other + "}", {noise("{debug "), message(other), noise("}")}},
      {"x{\"jsonrpc\":\"2.0\",\"method\":\"\\q\"}", {noise("x{\"jsonrpc\":\"2.0\",\"method\":\"\\q\"}")}},
  }));
  CAPTURE(line);
  CHECK(pieces_of(line) == pieces);
  CHECK(joined(pieces_of(line)) == line);
}

TEST_CASE("a hostile line is tried a bounded number of times", "[salvage]") {
  const std::string bad(3 * limits::salvage_attempts_max, '{');
  CHECK(pieces_of(bad + good) == std::vector<Shown>{noise(bad + good)});
  const std::string few(limits::salvage_attempts_max - 1, '{');
  CHECK(pieces_of(few + good) == std::vector<Shown>{noise(few), message(good)});
  const std::string huge(8 * limits::mib, '{');
  CHECK(pieces_of(huge).size() == 1);
}

}  // namespace acp
