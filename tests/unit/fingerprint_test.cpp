// Equal values, equal prints; anything else, other prints.
#include "proxy/core/fingerprint.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"
#include "tests/unit/random_json.h"

namespace acp {
namespace {

constexpr Salt salt{1, 2, 3};

Fingerprint print_of(std::string_view text) {
  static Fingerprinter fingerprinter(salt);
  const test::Padded padded(text);
  return fingerprinter.of(padded.view());
}

Fingerprint content_of(std::string_view text) {
  static Fingerprinter fingerprinter(salt);
  const test::Padded padded(text);
  return fingerprinter.of_content(padded.view());
}

// The same value in another dress: members in another order, other white space, escaped characters.
std::string dress(const nlohmann::ordered_json& value, test::Random& random) {
  const auto space = [&] { return random.one_in(3) ? std::string(1 + random.below(3), ' ') : std::string(); };
  if (value.is_object()) {
    std::vector<std::string> members;
    for (const auto& [name, member] : value.items()) {
      members.push_back(space() + dress(nlohmann::ordered_json(name), random) + space() + ":" + space() +
                        dress(member, random) + space());
    }
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random.below(i)]);
    std::string text = "{" + space();
    for (std::size_t i = 0; i < members.size(); ++i) text += (i > 0 ? "," : "") + members[i];
    return text + "}";
  }
  if (value.is_array()) {
    std::string text = "[" + space();
    for (std::size_t i = 0; i < value.size(); ++i)
      text += (i > 0 ? "," : "") + dress(value[i], random) + space();
    return text + "]";
  }
  if (!value.is_string()) return value.dump();
  std::string text = value.dump(-1, ' ', random.one_in(2));
  if (random.one_in(2)) return text;
  // Escape a plain letter.
  for (std::size_t at = 1; at + 1 < text.size(); ++at) {
    if (text[at] == '\\') break;
    if (text[at] == 'a') return text.replace(at, 1, "\\u0061");
  }
  return text;
}

}  // namespace

TEST_CASE("spellings of one value", "[fingerprint]") {
  const auto [a, b] = GENERATE(table<std::string_view, std::string_view>({
      {R"({"a":1,"b":2})", R"({"b":2,"a":1})"},
      {R"({"a":1})", " {\t\"a\" :\r\n1 } "},
      {R"({"a":"A/é😀"})", R"({"\u0061":"\u0041\/\u00e9\uD83D\uDE00"})"},
      {R"({"a":[1,100,0,5e-1]})", R"({"a":[1.0,1e2,-0,0.50]})"},
      {R"({"a":{"x":[],"y":{}},"b":[{"c":1,"d":2}]})", R"({"b":[{"d":2,"c":1}],"a":{"y":{},"x":[]}})"},
      {R"({"a":1,"_meta":{"x":1}})", R"({"a":1})"},
      {R"({"a":1,"idempotencyKey":"k","_meta":[]})", R"({"_meta":"t","a":1,"idempotencyKey":"other"})"},
      {R"({"a":1,"\u005fmeta":{"x":[{"y":1}]},"idempotency\u004bey":{}})", R"({"a":1})"},
      {R"({"_meta":{"_meta":{"a":1}},"idempotencyKey":null})", "{}"},
      {R"({"a":1,"b":2,"a":3})", R"({"a":1,"a":3,"b":2})"},
      {R"({"a":1,"_meta":1,"a":3,"_meta":2})", R"({"a":1,"a":3})"},
      {"", ""},
      {"[1,[2]]", "[ 1.0 , [ 2 ] ]"},
      {"null", " null "},
  }));
  CAPTURE(a, b);
  CHECK(print_of(a) == print_of(b));
}

TEST_CASE("different values", "[fingerprint]") {
  const std::vector<std::string> texts{
      "",
      "{}",
      "[]",
      "null",
      "0",
      "\"\"",
      "false",
      "true",
      "\"null\"",
      "\"0\"",
      "[0]",
      "[null]",
      "[[]]",
      "[{}]",
      "[[],[]]",
      "[[[]]]",
      R"([""])",
      R"({"a":1})",
      R"({"a":2})",
      R"({"b":1})",
      R"({"a":"1"})",
      R"({"a":null})",
      R"({"a":{}})",
      R"({"a":[]})",
      R"({"a":[1]})",
      R"({"a":[1,2]})",
      R"({"a":[2,1]})",
      R"({"a":[[1],2]})",
      R"({"a":[1,[2]]})",
      R"({"a":[[1,2]]})",
      R"({"a":true})",
      R"({"a":"true"})",
      R"({"A":1})",
      R"({"a ":1})",
      R"({"a":"x"})",
      R"({"a":"X"})",
      R"({"a":"x "})",
      R"({"a":"\uD800"})",
      R"({"a":"\uD801"})",
      "{\"a\":\"\xEF\xBF\xBD\"}",
      R"({"a":"\\u0078"})",
      R"({"a":1.5})",
      R"({"a":-1})",
      R"({"a":1e400})",
      R"({"a":12345678901234567890})",
      R"({"a":12345678901234567891})",
      R"({"a":1,"b":1})",
      R"({"a":1,"a":1})",
      R"({"a":1,"a":1,"a":1})",
      R"({"a":1,"a":2})",
      R"({"a":2,"a":1})",
      R"({"a":1,"b":2})",
      R"({"a":2,"b":1})",
      R"({"ab":1,"":2})",
      R"({"a":1,"b2":2})",
      R"({"a":{"b":1},"c":2})",
      R"({"a":{"b":1,"c":2}})",
      R"({"a":{"b":2},"c":1})",
      // further down they count
      R"({"a":{"_meta":1}})",
      R"({"a":{"_meta":2}})",
      R"({"a":{"idempotencyKey":"k"}})",
      R"({"a":[{"_meta":1}]})",
      R"([{"_meta":1}])",
      R"([{"_meta":2}])",
      R"({"_Meta":1})",
      R"({"idempotencykey":"k"})",
      R"({"_meta2":1})",
      R"({"idempotencyKey ":1})",
      R"({"a":"_meta"})",
      R"({"a":["idempotencyKey","k"]})",
  };
  std::set<std::array<std::uint8_t, 16>> prints;
  for (const auto& text : texts) {
    CAPTURE(text);
    CHECK(prints.insert(print_of(text).bytes).second);
  }
  CHECK(prints.size() == texts.size());
}

TEST_CASE("the salt matters", "[fingerprint]") {
  Salt another = salt;
  another[31] ^= 1;
  Fingerprinter first(salt);
  Fingerprinter second(another);
  const test::Padded text(R"({"prompt":[{"type":"text","text":"hello"}]})");
  CHECK_FALSE(first.of(text.view()) == second.of(text.view()));
  CHECK(first.of(text.view()) == Fingerprinter(salt).of(text.view()));
}

TEST_CASE("a salt that is known later", "[fingerprint]") {
  Salt another = salt;
  another[0] ^= 0x80;
  Fingerprinter fingerprinter(another);
  const test::Padded text(R"({"prompt":[{"type":"text","text":"hello"}]})");
  const Fingerprint before = fingerprinter.of(text.view());
  const Fingerprint content_before = fingerprinter.of_content(text.view());
  fingerprinter.set_salt(salt);
  CHECK(fingerprinter.salt() == salt);
  CHECK(fingerprinter.of(text.view()) == print_of(text.view()));
  CHECK(fingerprinter.of_content(text.view()) == content_of(text.view()));
  CHECK_FALSE(fingerprinter.of(text.view()) == before);
  CHECK_FALSE(fingerprinter.of_content(text.view()) == content_before);
  fingerprinter.set_salt(another);
  CHECK(fingerprinter.of(text.view()) == before);
}

TEST_CASE("of content: what an agent may leave out does not count", "[fingerprint]") {
  const auto [a, b] = GENERATE(table<std::string_view, std::string_view>({
      {R"({"a":1})", R"({"_meta":{"x":[{"y":{"_meta":1}}]},"a":1,"b":null})"},
      {R"({"a":{"b":1}})", R"({"a":{"_meta":[],"b":1,"c":null},"d":null})"},
      {R"({"a":[{"b":1}]})", R"({"a":[{"\u005fmeta":"x","b":1.0,"c":null,"_meta":2}]})"},
      {R"({"a":[[{}]]})", R"({"a":[[{"_meta":{},"b":null}]]})"},
      {"{}", R"({"a":null,"a":null,"_meta":null})"},
      {R"({"a":1})", R"({"a":null,"a":1})"},
      {R"([{"a":1}])", R"([{"a":1,"_meta":{}}])"},
      {"null", " null "},
      {"", ""},
  }));
  CAPTURE(a, b);
  CHECK(content_of(a) == content_of(b));
}

TEST_CASE("of content: everything else counts", "[fingerprint]") {
  const std::vector<std::string> texts{
      "",
      "{}",
      "[]",
      "[null]",
      "[null,null]",
      "null",
      R"("_meta")",
      R"("null")",
      R"(["_meta"])",
      R"({"a":1})",
      R"({"a":"null"})",
      R"({"a":"_meta"})",
      R"({"a":[null]})",
      R"({"a":[]})",
      R"({"a":{}})",
      R"({"a":false})",
      R"({"a":0})",
      R"({"_Meta":1})",
      R"({"meta":1})",
      R"({"idempotencyKey":"k"})",
      R"({"idempotencyKey":"l"})",
      R"({"a":{"idempotencyKey":"k"}})",
      R"({"a":1,"a":1})",
      R"({"a":1,"b":{"c":1}})",
      R"({"a":1,"b":{"c":2}})",
  };
  std::set<std::array<std::uint8_t, 16>> seen;
  for (const auto& text : texts) {
    CAPTURE(text);
    CHECK(seen.insert(content_of(text).bytes).second);
  }
}

TEST_CASE("large strings, wide objects and deep values have prints", "[fingerprint]") {
  std::string large(limits::mib, 'x');
  const auto with = [&](std::string_view head) {
    return print_of("{\"a\":\"" + std::string(head) + large + "\"}");
  };
  const Fingerprint plain = with("ab");
  CHECK(with("\\u0061b") == plain);
  CHECK_FALSE(with("ac") == plain);
  large.back() = 'y';
  CHECK_FALSE(with("ab") == plain);

  std::string forward = "{";
  std::string backward = "{";
  constexpr int members = 20'000;
  for (int i = 0; i < members; ++i) {
    forward += "\"" + std::to_string(i) + "\":" + std::to_string(i) + ",";
    backward += "\"" + std::to_string(members - 1 - i) + "\":" + std::to_string(members - 1 - i) + ",";
  }
  CHECK(print_of(forward + "\"x\":0}") ==
        print_of("{\"x\":0," + backward.substr(1, backward.size() - 2) + "}"));

  const std::string open(limits::nesting_max, '[');
  const std::string close(limits::nesting_max, ']');
  CHECK(print_of(open + close) == print_of(open + " " + close));
  CHECK_FALSE(print_of(open + close) == print_of(open + "1" + close));
}

TEST_CASE("members beyond the limit still count", "[fingerprint]") {
  std::string text = "{";
  for (std::size_t i = 0; i < limits::fingerprint_members_max + 10; ++i)
    text += "\"m" + std::to_string(i) + "\":0,";
  const Fingerprint print = print_of(text + "\"x\":1}");
  CHECK(print_of(text + "\"x\":1}") == print);
  CHECK_FALSE(print_of(text + "\"x\":2}") == print);
  CHECK_FALSE(print_of(text + "\"y\":1}") == print);
  CHECK_FALSE(print_of(text.substr(0, text.size() - 1) + "}") == print);
}

TEST_CASE("a value in another dress has the same print, a changed one has not", "[fingerprint]") {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    test::RandomJson json(seed);
    // Duplicates and number spellings do not survive the other parser: both dresses come out of it.
    const auto value = nlohmann::ordered_json::parse("{\"a\":" + json.text() + ",\"b\":" + json.text() + "}");
    const std::string first = dress(value, json.random());
    const std::string second = dress(value, json.random());
    if (!(print_of(first) == print_of(second))) FAIL("seed " << seed << ": " << first << " and " << second);

    auto changed = value;
    changed["b"] = nlohmann::ordered_json::array({value["b"]});
    if (print_of(dress(changed, json.random())) == print_of(first)) FAIL("seed " << seed << ": " << first);
    changed = value;
    std::swap(changed["a"], changed["b"]);
    if (changed != value && print_of(dress(changed, json.random())) == print_of(first)) {
      FAIL("seed " << seed << ", swapped: " << first);
    }
  }
  SUCCEED();
}

}  // namespace acp
