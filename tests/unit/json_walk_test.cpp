// The JSON grammar: every text at many alignments, so that the borders of 64-byte blocks are crossed.
#include "proxy/core/json_walk.h"

#include <catch2/catch.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "proxy/core/structural_index.h"
#include "tests/unit/padded.h"

namespace acp {
namespace {

enum class Verdict { valid, invalid, not_utf8, too_deep };

std::ostream& operator<<(std::ostream& out, Verdict verdict) {
  switch (verdict) {
    case Verdict::valid: return out << "valid";
    case Verdict::invalid: return out << "invalid";
    case Verdict::not_utf8: return out << "not UTF-8";
    case Verdict::too_deep: return out << "too deep";
  }
  return out;
}

// Writes down what it is shown, and that it is shown soundly.
struct Scribe {
  std::string text;
  void open(std::size_t /*at*/, bool object, std::size_t depth) {
    text += (object ? "{" : "[") + std::to_string(depth) + " ";
  }
  void close(std::size_t /*end*/, std::size_t depth) { text += "." + std::to_string(depth) + " "; }
  void key(std::string_view token, bool escaped, std::size_t depth) { add('k', token, escaped, depth); }
  void value(std::string_view token, bool escaped, std::size_t depth) { add('v', token, escaped, depth); }

 private:
  void add(char kind, std::string_view token, bool escaped, std::size_t depth) {
    text += kind;
    text += token;
    text += (escaped ? "\\" : "@") + std::to_string(depth) + " ";
  }
};

struct Silent {
  void open(std::size_t, bool, std::size_t) noexcept {}
  void close(std::size_t, std::size_t) noexcept {}
  void key(std::string_view, bool, std::size_t) noexcept {}
  void value(std::string_view, bool, std::size_t) noexcept {}
};

Verdict judge(StructuralIndex& index, std::string_view text) {
  const test::Padded padded(text);
  switch (index.index(padded.view())) {
    case IndexFault::none: break;
    case IndexFault::not_utf8: return Verdict::not_utf8;
    case IndexFault::empty:
    case IndexFault::broken_string:
    case IndexFault::no_memory: return Verdict::invalid;
  }
  Silent visitor;
  switch (walk_json(padded.view(), index, visitor)) {
    case WalkFault::none: return Verdict::valid;
    case WalkFault::grammar: return Verdict::invalid;
    case WalkFault::too_deep: return Verdict::too_deep;
  }
  return Verdict::invalid;
}

std::string repeat(std::string_view piece, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += piece;
  return out;
}

std::string nested(std::string_view open, std::string_view inside, std::string_view close,
                   std::size_t depth) {
  return repeat(open, depth).append(inside).append(repeat(close, depth));
}

const std::vector<std::string>& valid_texts() {
  static const std::vector<std::string> all{"0",
                                            "-0",
                                            "1",
                                            "-1.5e+10",
                                            "1E400",
                                            "-1e-400",
                                            "0.0000000000000000000000001",
                                            "\"\"",
                                            "\"a\"",
                                            "true",
                                            "false",
                                            "null",
                                            "{}",
                                            "[]",
                                            "[[]]",
                                            "[{}]",
                                            "{\"a\":[]}",
                                            "{\"\":0}",
                                            "{\"a\":1,\"a\":2}",
                                            "[1,2,3]",
                                            "[ 1 , 2 ]",
                                            " { \"a\" : 1 , \"b\" : [ true , null ] } ",
                                            "\t[\r\n1\n]\t",
                                            "[1,\"a\",true,false,null,{},[],-0.5]",
                                            "[\"\\\"\"]",
                                            "[\"\\\\\"]",
                                            "[\"\\\\\\\"\"]",
                                            "[\"\\u0000\\uD800\\uDC00\"]",
                                            "[\"\\uD800\"]",
                                            "[\"\\uDFFF\\uD800x\"]",
                                            "[\"\\/\\b\\f\\n\\r\\t\"]",
                                            "[\"{}[],:\"]",
                                            "{\"{\":\"}\",\"[\":\"]\"}",
                                            "[\"\x7F\"]",
                                            "[\"é漢😀\xEF\xBF\xBF\xF4\x8F\xBF\xBF\"]",
                                            "[\"\xEF\xBB\xBF\"]",
                                            "[\"\xE2\x80\xA8\"]",
                                            "[123456789012345678901234567890.123456789]",
                                            "{\"a\":{\"b\":{\"c\":{\"d\":{}}}}}",
                                            "[\"" + std::string(200, 'x') + "\"]",
                                            "[" + repeat("1,", 100) + "1]",
                                            "[" + repeat("\"\\\\\",", 60) + "0]",
                                            "[\"" + repeat("\\\\", 64) + "\"]",
                                            "[" + repeat("{\"a\":[],\"b\":{}},", 20) + "{}]",
                                            std::string(150, ' ') + "1" + std::string(150, ' ')};
  return all;
}

const std::vector<std::string>& invalid_texts() {
  static const std::vector<std::string> all{
      // literals and numbers
      "tru", "truee", "True", "nul", "nulll", "fals", "trufalse", "truenull", "01", "-01", "1.", ".1", "-",
      "+1", "1e", "1e+", "1.e1", "0x1", "1a", "--1", "NaN", "Infinity", "-Infinity", "1_0", "[01]", "[1.]",
      "[tru]", "{\"a\":tru}", "{\"a\":01}", "[-]", "[1e]", "[.5]", "a", "'a'", "[a]", "[1a]", "[1\"a\"]",
      "[\"a\"1]", "[true\"a\"]", "{\"a\":1\"b\":2}", "[1.2.3]", "[\xEF\xBC\x91]",
      // strings
      "\"", "\"a", "a\"", "[\"]", "[\"a]", "\"\\q\"", "\"\\\"", "[\"\\\"]", "\"\\u12\"", "\"\\u12g4\"",
      "\"\\uD800\\u\"", "\"\\x41\"", "\"\\'\"", "[\"\t\"]", "[\"\n\"]", "[\"\x01\"]",
      std::string("[\"\0\"]", 5), "[\"\x1F\"]", "['a']", "[\"a\" \"b\"]", "\"a\"b", "{\"\\q\":1}",
      "{\"a\t\":1}",
      // separators
      "[1 2]", "[1,]", "[,]", "[,1]", "[1,,2]", "[1:2]", "[1;2]", ",", ":", "[:]", "{,}", "{:}", "{\"a\"}",
      "{\"a\":}", "{\"a\" 1}", "{\"a\":1,}", "{,\"a\":1}", "{\"a\":1,,\"b\":2}", "{\"a\"::1}", "{\"a\":1:2}",
      "{\"a\":1 \"b\":2}", "{\"a\",\"b\"}", "{\"a\":1,\"b\"}", "{a:1}", "{1:1}", "{null:1}", "{[]:1}",
      "{{}:1}", "{\"a\":1,2}", "{\"a\":1,{}}", "[\"a\":1]", "[\"a\",:1]",
      // brackets
      "[", "]", "{", "}", "[]]", "{}}", "[[]", "{{}", "[}", "{]", "[{]}", "{\"a\":[}]", "{\"a\":1]", "[1}",
      "][", "}{", "[1", "[1,", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "[{}", "[[1],[2]", "{{}}",
      "{[]}",
      // more than one value
      "1 2", "{}{}", "[][]", "{} {}", "{}[]", "1{}", "{}1", "\"a\"\"b\"", "true false", "null,", "{},",
      "{}:", "{} x", "[] \"", "1]", "1}", "0 0",
      // bytes that are neither white space nor a token
      "[1\f]", "[\v1]", "\f", "\x1A",
      "[1\x1A"
      "2]",
      "{\"a\"\x1A"
      "1}",
      "[1\f2]", "[1\x0C,2]", std::string("\0", 1), std::string("[\0]", 3), std::string("[1]\0", 4),
      std::string("1\0", 2), "[1]\x7F",
      "\xEF\xBB\xBF"
      "1",
      "[\xC2\xA0]", "[1\xC2\xA0]", "\xE2\x80\xA8[]", "//", "/**/1", "[1]//", "#", "[1/**/]", "\x1B[0m{}", "*",
      "[*]", "[\\n]", "\\", "[\\u0031]",
      // nothing
      "", " ", "\t\r\n"};
  return all;
}

const std::vector<std::string>& broken_utf8() {
  static const std::vector<std::string> all{"\xFF",
                                            "\xFE",
                                            "\x80",
                                            "\xBF",
                                            "\xC3",
                                            "\xC3(",
                                            "\xC0\x80",
                                            "\xC1\xBF",
                                            "\xE0\x80\x80",
                                            "\xE0\x9F\xBF",
                                            "\xE2\x82",
                                            "\xE2\x28\xA1",
                                            "\xED\xA0\x80",
                                            "\xED\xBF\xBF",
                                            "\xF0\x80\x80\x80",
                                            "\xF0\x8F\xBF\xBF",
                                            "\xF0\x9F\x98",
                                            "\xF0\x9F",
                                            "\xF4\x90\x80\x80",
                                            "\xF5\x80\x80\x80",
                                            "\xF8\x88\x80\x80\x80",
                                            "\xEF\xBF",
                                            "a\x80",
                                            "é\xA9"};
  return all;
}

// The text behind 0..70 spaces, and with as many behind it.
void check_everywhere(StructuralIndex& index, const std::string& text, Verdict expected) {
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
  for (std::size_t before = 0; before <= 70; ++before) {
    const std::string moved = std::string(before, ' ') + text;
    if (judge(index, moved) != expected || judge(index, moved + std::string(before, ' ')) != expected) {
      INFO(before << " spaces before: " << text.substr(0, 200) << (blank ? " (blank)" : ""));
      CHECK(judge(index, moved) == expected);
      CHECK(judge(index, moved + std::string(before, ' ')) == expected);
      return;
    }
  }
  CHECK(judge(index, text) == expected);
}

}  // namespace

TEST_CASE("valid JSON is taken, invalid JSON is not, at every alignment", "[json_walk]") {
  StructuralIndex index;
  for (const auto& text : valid_texts()) check_everywhere(index, text, Verdict::valid);
  for (const auto& text : invalid_texts()) check_everywhere(index, text, Verdict::invalid);
}

TEST_CASE("a text that stands in another is judged alike", "[json_walk]") {
  StructuralIndex index;
  for (const auto& text : valid_texts()) {
    check_everywhere(index, "[" + text + "]", Verdict::valid);
    check_everywhere(index, "{\"a\":" + text + ",\"b\":" + text + "}", Verdict::valid);
  }
}

TEST_CASE("no valid text is valid without its last byte, unless it is a number or ends in space",
          "[json_walk]") {
  StructuralIndex index;
  for (const auto& text : valid_texts()) {
    const char last = text.back();
    if (last != '}' && last != ']' && last != '"' && last != 'e' && last != 'l') continue;
    check_everywhere(index, text.substr(0, text.size() - 1), Verdict::invalid);
  }
}

TEST_CASE("bytes that are no UTF-8 are told apart", "[json_walk]") {
  StructuralIndex index;
  for (const auto& bytes : broken_utf8()) {
    check_everywhere(index, "[\"" + bytes + "\"]", Verdict::not_utf8);
    check_everywhere(index, "{\"" + bytes + "\":1}", Verdict::not_utf8);
  }
}

TEST_CASE("nesting has a limit", "[json_walk]") {
  StructuralIndex index;
  constexpr std::size_t most = limits::nesting_max;
  const auto [open, inside, close, step] =
      GENERATE(table<std::string, std::string, std::string, std::size_t>({
          {"[", "", "]", 1},
          {"[", "1", "]", 1},
          {"{\"a\":", "1", "}", 1},
          {"[{\"a\":", "1", "}]", 2},
          {"{\"a\":[", "", "]}", 2},
          {" [ ", " \"x\" ", " ] ", 1},
      }));
  CAPTURE(open);
  CHECK(judge(index, nested(open, inside, close, most / step)) == Verdict::valid);
  CHECK(judge(index, nested(open, inside, close, most / step + 1)) == Verdict::too_deep);
  CHECK(judge(index, nested(open, inside, close, 20 * most)) == Verdict::too_deep);
  CHECK(judge(index, repeat(open, most / step)) == Verdict::invalid);
  // A wide text is not a deep one.
  CHECK(judge(index, "[" + repeat(open + "1" + close + ",", 5000) + "1]") == Verdict::valid);
}

TEST_CASE("each bracket has its own partner at every depth", "[json_walk]") {
  StructuralIndex index;
  for (std::size_t depth = 1; depth <= 200; ++depth) {
    std::string text = nested("[", "1", "]", depth);
    REQUIRE(judge(index, text) == Verdict::valid);
    text[text.size() - 1 - depth / 2] = '}';
    REQUIRE(judge(index, text) == Verdict::invalid);
  }
}

TEST_CASE("every token is shown once, in order", "[json_walk]") {
  const auto [text, seen] = GENERATE(table<std::string_view, std::string>({
      {"1", "v1@0 "},
      {"  \"a\\n\"  ", "v\"a\\n\"\\0 "},
      {"{}", "{1 .1 "},
      {"[]", "[1 .1 "},
      {"{\"a\":1, \"b\\u0063\" : [true , {}] }", "{1 k\"a\"@1 v1@1 k\"b\\u0063\"\\1 [2 vtrue@2 {3 .3 .2 .1 "},
      {"[[[null]],-1.5e3]", "[1 [2 [3 vnull@3 .3 .2 v-1.5e3@1 .1 "},
  }));
  StructuralIndex index;
  const test::Padded padded(text);
  REQUIRE(index.index(padded.view()) == IndexFault::none);
  Scribe scribe;
  CHECK(walk_json(padded.view(), index, scribe) == WalkFault::none);
  CHECK(scribe.text == seen);
}

TEST_CASE("an index serves small texts and giants in turn", "[json_walk]") {
  StructuralIndex index;
  for (const std::size_t size : {10U, 4000000U, 20U, 200000U, 131072U, 131073U, 3U}) {
    const std::string text = "[\"" + std::string(size, 'x') + "\",1]";
    REQUIRE(judge(index, text) == Verdict::valid);
    REQUIRE(judge(index, text.substr(0, text.size() - 2) + "01]") == Verdict::invalid);
    CHECK(index.count() == 5);
    REQUIRE(judge(index, "[" + repeat("[],", size / 3) + "0]") == Verdict::valid);
  }
}

}  // namespace acp
