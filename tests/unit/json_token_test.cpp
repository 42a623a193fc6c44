// Single tokens: what is well formed, and what it stands for.
#include "proxy/core/json_token.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <tuple>

#include "tests/unit/padded.h"

namespace acp {
namespace {

std::string canonical(std::string_view token) {
  std::string scratch;
  return std::string(canonical_number(token, scratch));
}

std::string decode(std::string_view token) {
  std::string scratch;
  const test::Padded padded(token);
  return std::string(decode_string(padded.view(), scratch));
}

bool escapes_valid(std::string_view inside) {
  const test::Padded padded(inside);
  const std::size_t first = find_backslash(padded.view(), 0);
  return first == std::string_view::npos || are_escapes_valid(padded.view(), first);
}

}  // namespace

TEST_CASE("numbers by the JSON grammar", "[json_token]") {
  const auto [token, valid] = GENERATE(table<std::string_view, bool>({
      {"0", true},
      {"-0", true},
      {"1", true},
      {"-1", true},
      {"10", true},
      {"0.0", true},
      {"1.5", true},
      {"1e5", true},
      {"1E+5", true},
      {"1e-5", true},
      {"0e0", true},
      {"1E400", true},
      {"-1.25e+99999", true},
      {"123456789012345678901234567890123456789012345678901234567890", true},
      {"", false},
      {"-", false},
      {"+1", false},
      {"01", false},
      {"00", false},
      {"-01", false},
      {"1.", false},
      {".5", false},
      {"-.5", false},
      {"1.e5", false},
      {"1e", false},
      {"1e+", false},
      {"1.5.5", false},
      {"1e5.5", false},
      {"0x10", false},
      {"1 ", false},
      {" 1", false},
      {"1a", false},
      {"--1", false},
      {"Infinity", false},
      {"-Infinity", false},
      {"NaN", false},
      {"1_000", false},
      {"1,5", false},
      {"0e", false},
      {"\xEF\xBC\x91", false},
  }));
  CAPTURE(token);
  CHECK(is_json_number(token) == valid);
}

TEST_CASE("literals", "[json_token]") {
  const auto [token, valid] = GENERATE(table<std::string_view, bool>({
      {"true", true},
      {"false", true},
      {"null", true},
      {"tru", false},
      {"truee", false},
      {"True", false},
      {"nul", false},
      {"nulll", false},
      {"", false},
      {"t", false},
      {"undefined", false},
      {"fals", false},
  }));
  CAPTURE(token);
  CHECK(is_json_literal(token) == valid);
}

TEST_CASE("escapes that JSON knows", "[json_token]") {
  const auto [inside, valid] = GENERATE(table<std::string_view, bool>({
      {R"()", true},
      {R"(plain)", true},
      {R"(\"\\\/\b\f\n\r\t)", true},
      {R"(\u0041)", true},
      {R"(\uabCD)", true},
      {R"(\uD800)", true},
      {R"(\uDC00\uD800)", true},
      {R"(\\u)", true},
      {R"(\\\\)", true},
      {R"(\)", false},
      {R"(\\\)", false},
      {R"(\q)", false},
      {R"(\u)", false},
      {R"(\u12)", false},
      {R"(\u123)", false},
      {R"(\u12g4)", false},
      {R"(\U0041)", false},
      {R"(\x41)", false},
      {R"(\')", false},
      {R"(\ )", false},
      {R"(ok \n then \a)", false},
      {R"(\u 041)", false},
      {R"(\u+041)", false},
  }));
  CAPTURE(inside);
  CHECK(escapes_valid(inside) == valid);
  for (const std::size_t before : {1U, 7U, 8U, 63U, 95U, 96U, 97U, 200U}) {
    CAPTURE(before);
    CHECK(escapes_valid(std::string(before, 'x') + std::string(inside)) == valid);
  }
}

TEST_CASE("a backslash is found wherever it stands, and none behind the end", "[json_token]") {
  for (std::size_t size = 0; size < 130; ++size) {
    const test::Padded none(std::string(size, 'x'));
    for (std::size_t from = 0; from <= size; ++from) {
      REQUIRE(find_backslash(none.view(), from) == std::string_view::npos);
    }
    for (std::size_t at = 0; at < size; ++at) {
      std::string text(size, '\xDC');  // a backslash but for its high bit
      text[at] = '\\';
      const test::Padded one(text);
      REQUIRE(find_backslash(one.view(), 0) == at);
      REQUIRE(find_backslash(one.view(), at) == at);
      REQUIRE(find_backslash(one.view(), at + 1) == std::string_view::npos);
    }
  }
}

TEST_CASE("strings stand for their characters", "[json_token]") {
  const auto [token, text] = GENERATE(table<std::string_view, std::string>({
      {R"("")", ""},
      {R"("abc")", "abc"},
      {R"("é漢😀")", "é漢😀"},
      {R"("\"\\\/\b\f\n\r\t")", "\"\\/\b\f\n\r\t"},
      {R"("\u0041\u00e9\u6f22")", "Aé漢"},
      {R"("\uD83D\uDE00")", "😀"},
      {R"("\ud83d\ude00")", "😀"},
      {R"("\uDBFF\uDFFF")", "\xF4\x8F\xBF\xBF"},
      {R"("\uD800")", "\xED\xA0\x80"},
      {R"("\uDFFF")", "\xED\xBF\xBF"},
      {R"("\uDE00\uD83D")", "\xED\xB8\x80\xED\xA0\xBD"},
      {R"("\uD83D\uD83D\uDE00")", "\xED\xA0\xBD😀"},
      {R"("\uD83Dx")", "\xED\xA0\xBDx"},
      {R"("\uD83D\n")", "\xED\xA0\xBD\n"},
      {R"("\uD83D\uE000")", "\xED\xA0\xBD\xEE\x80\x80"},
      {R"("\u0000a")", std::string("\0a", 2)},
      {R"("\\u0041")", "\\u0041"},
      {R"("a\tb\u0063d")", "a\tbcd"},
  }));
  CAPTURE(token);
  CHECK(decode(token) == text);
}

TEST_CASE("characters are code points", "[json_token]") {
  const auto [token, count] = GENERATE(table<std::string_view, std::size_t>({
      {R"("")", 0},
      {R"("abc")", 3},
      {R"("é漢😀")", 3},
      {R"("\uD83D\uDE00")", 1},
      {R"("\uD83D")", 1},
      {R"("\uDE00\uD83D")", 2},
      {R"("e\u0301")", 2},
      {R"("\u0000")", 1},
  }));
  CAPTURE(token);
  CHECK(count_code_points(decode(token)) == count);
}

TEST_CASE("one spelling for each numeric value", "[json_token]") {
  const auto [token, spelling] = GENERATE(table<std::string, std::string>({
      {"0", "0"},
      {"-0", "0"},
      {"0.0", "0"},
      {"-0.000", "0"},
      {"0e99", "0"},
      {"-0E-5", "0"},
      {"0e99999999999999999999", "0"},
      {"1", "1"},
      {"1.0", "1"},
      {"10e-1", "1"},
      {"0.1e1", "1"},
      {"1e0", "1"},
      {"-1.0", "-1"},
      {"100", "100"},
      {"1e2", "100"},
      {"1E+2", "100"},
      {"1.00e002", "100"},
      {"0.5", "5e-1"},
      {"5e-1", "5e-1"},
      {"0.050e1", "5e-1"},
      {"1.50", "15e-1"},
      {"-12.5", "-125e-1"},
      {"123.456e3", "123456"},
      {"9007199254740993", "9007199254740993"},
      {"9007199254740993.0", "9007199254740993"},
      {"1e39", "1000000000000000000000000000000000000000"},
      {"1e40", "1e40"},
      {"1E400", "1e400"},
      {"12345678901234567890123456789012345678901234567890",
       "12345678901234567890123456789012345678901234567890"},
  }));
  CAPTURE(token);
  CHECK(canonical(token) == spelling);
}

TEST_CASE("different values have different spellings, however large the exponent", "[json_token]") {
  const auto [a, b] = GENERATE(table<std::string_view, std::string_view>({
      {"1", "-1"},
      {"1", "10"},
      {"1.5", "15"},
      {"9007199254740993", "9007199254740992"},
      {"1e400", "1e401"},
      {"1e400", "1e-400"},
      {"0.1", "0.10000000000000001"},
      {"1e10000000000000", "1e100000000000000"},
      {"1e10000000000000", "1e10000000000001"},
      {"1e100000000000000000000", "1e100000000000000000001"},
      {"1e-100000000000000000000", "1e100000000000000000000"},
      {"2e99999999999999999999", "3e99999999999999999999"},
  }));
  CAPTURE(a, b);
  CHECK(canonical(a) != canonical(b));
}

TEST_CASE("text becomes a JSON string", "[json_token]") {
  const auto [text, token] = GENERATE(table<std::string, std::string>({
      {"", R"("")"},
      {"abc", R"("abc")"},
      {"a\"b\\c/", R"("a\"b\\c/")"},
      {"\n\r\t", R"("\n\r\t")"},
      {std::string("\0\x01\x1F\x7F", 4), R"("\u0000\u0001\u001f\u007f")"},
      {"é漢😀", R"("é漢😀")"},
      {"\xFF", "\"\xEF\xBF\xBD\""},
      {"\xC3", "\"\xEF\xBF\xBD\""},
      {"\xC3(", "\"\xEF\xBF\xBD(\""},
      {"\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xE0\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xF0\x8F\xBF\xBF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80",
       "\"\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\""},  // the first, the last before
      {"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF",
       "\"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\""},  // and behind the surrogates
      {"\xE4(", "\"\xEF\xBF\xBD(\""},
      {"\xE4\xB8(", "\"\xEF\xBF\xBD\xEF\xBF\xBD(\""},
      {"\xF0(", "\"\xEF\xBF\xBD(\""},
      {"\xF0\x9F(", "\"\xEF\xBF\xBD\xEF\xBF\xBD(\""},
      {"\xF0\x9F\x98(", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD(\""},
  }));
  std::string out = "x";
  append_json_string(out, text);
  CHECK(out == "x" + token);
}

TEST_CASE("a sound string token is legal as it stands", "[json_token]") {
  const auto [token, sound] = GENERATE(table<std::string, bool>({
      {R"("")", true},
      {R"("\"")", true},
      {R"("\\")", true},
      {R"("\u0041\"b")", true},
      {R"("a")", true},
      {R"("é漢😀\n\uD800")", true},
      {R"("a)", false},
      {R"(a")", false},
      {R"(")", false},
      {"", false},
      {R"("\q")", false},
      {R"("\")", false},
      {R"("a"b")", false},
      {"\"a\tb\"", false},
      {std::string("\"\0\"", 3), false},
      {"\"\x7F\"", true},
      {"\"\xFF\"", false},
      {"\"\xC3\"", false},
      {"\"\xC0\x80\"", false},
      {"\"\xED\xA0\x80\"", false},
  }));
  CAPTURE(token);
  const test::Padded padded(token);
  CHECK(is_json_string(padded.view()) == sound);
}

}  // namespace acp
