// The last lines of an agent's stderr.
#include "proxy/core/stderr_tail.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <tuple>

#include "proxy/core/limits.h"

namespace acp {

TEST_CASE("the last lines are held, at every split point", "[stderr_tail]") {
  const auto [lines, input, text] = GENERATE(table<std::size_t, std::string, std::string>({
      {3, "", ""},
      {3, "a\n", "a"},
      {3, "a", "a"},
      {3, "a\nb\nc\n", "a\nb\nc"},
      {3, "a\nb\nc\nd\n", "b\nc\nd"},
      {3, "a\nb\nc\nd", "b\nc\nd"},
      {3, "a\n\n \n\r\n\t\nb\n", "a\nb"},
      {3, "a\nb\nc\n   ", "a\nb\nc"},
      {1, "a\nb\nc", "c"},
      {1, "a\nb\n", "b"},
      {0, "a\nb\nc", ""},
      {3, "\x1B[31mred\x1B[0m\n", "red"},
      {3, "\x1B[1;38;5;200mx\x1B[K\x1B(y\x07\x08\r\n", "xy"},
      {3, "\x1B[1\x7F\xC3\xA9mx\n", "x"},
      {3, "tab\tstays\n", "tab\tstays"},
      {3, "cut \x1B[", "cut "},
      {3, "cut \x1B", "cut "},
      {3, "é漢😀\n", "é漢😀"},
      {3, std::string("a\0b\n", 4), "ab"},
  }));
  CAPTURE(lines, input);
  for (std::size_t split = 0; split <= input.size(); ++split) {
    StderrTail tail(lines);
    tail.add(std::string_view(input).substr(0, split));
    tail.add(std::string_view(input).substr(split));
    REQUIRE(tail.text() == text);
  }
  StderrTail bytewise(lines);
  for (const char& c : input) bytewise.add({&c, 1});
  CHECK(bytewise.text() == text);
  bytewise.clear();
  CHECK(bytewise.text().empty());
}

TEST_CASE("long lines are cut, many are forgotten, whatever is asked for", "[stderr_tail]") {
  StderrTail tail(100 * limits::stderr_tail_lines_max);
  const std::string line(10 * limits::stderr_tail_line_bytes_max, 'x');
  for (std::size_t i = 0; i < 3 * limits::stderr_tail_lines_max; ++i) tail.add(line + "\n");
  tail.add(line);
  const std::string kept(limits::stderr_tail_line_bytes_max, 'x');
  std::string expected = kept;
  for (std::size_t i = 1; i < limits::stderr_tail_lines_max; ++i) expected += "\n" + kept;
  CHECK((tail.text() == expected));
}

TEST_CASE("a line in many pieces is one line", "[stderr_tail]") {
  StderrTail tail(2);
  for (int i = 0; i < 100; ++i) tail.add("ab");
  tail.add("\nlast\n");
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "ab";
  CHECK(tail.text() == expected + "\nlast");
}

}  // namespace acp
