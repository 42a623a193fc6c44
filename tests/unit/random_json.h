// Seeded random JSON texts for the core's tests.
//
// Own generator (SplitMix64) and own distributions, so that a seed means the same text with every standard
// library. Invariant: text() is always one valid JSON value. Lifetime: plain objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace acp::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // 0..bound-1; the bias is of no matter here.
  std::size_t below(std::size_t bound) noexcept { return static_cast<std::size_t>(next() % bound); }
  bool one_in(std::size_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

class RandomJson {
 public:
  explicit RandomJson(std::uint64_t seed) noexcept : random_(seed) {}

  std::string text() {
    std::string out;
    append_space(out);
    append_value(out, 0);
    append_space(out);
    return out;
  }
  Random& random() noexcept { return random_; }

 private:
  static constexpr std::size_t usual_depth = 5;

  void append_space(std::string& out) {
    if (!random_.one_in(4)) return;
    constexpr std::string_view spaces = " \t\r\n";
    for (std::size_t n = random_.below(random_.one_in(8) ? 70 : 3); n > 0; --n) {
      out.push_back(spaces[random_.below(spaces.size())]);
    }
  }
  void append_value(std::string& out, std::size_t depth) {
    switch (random_.below(depth < usual_depth ? 7 : 4)) {
      case 0: append_string(out); break;
      case 1:
      case 2: append_number(out); break;
      case 3: out += std::array<std::string_view, 3>{"true", "false", "null"}[random_.below(3)]; break;
      case 4: append_array(out, depth); break;
      case 5: append_object(out, depth); break;
      default: append_nest(out, depth); break;
    }
  }
  void append_array(std::string& out, std::size_t depth) {
    out.push_back('[');
    for (std::size_t i = 0, n = random_.below(5); i < n; ++i) {
      if (i > 0) out.push_back(',');
      append_space(out);
      append_value(out, depth + 1);
      append_space(out);
    }
    out.push_back(']');
  }
  void append_object(std::string& out, std::size_t depth) {
    out.push_back('{');
    append_space(out);
    for (std::size_t i = 0, n = random_.below(5); i < n; ++i) {
      if (i > 0) out.push_back(',');
      append_space(out);
      append_string(out);
      append_space(out);
      out.push_back(':');
      append_space(out);
      append_value(out, depth + 1);
      append_space(out);
    }
    out.push_back('}');
  }
  // Brackets in brackets, so that depth is no rare thing.
  void append_nest(std::string& out, std::size_t depth) {
    const std::size_t levels = random_.below(20);
    out.append(levels, '[');
    append_value(out, depth + usual_depth);
    out.append(levels, ']');
  }
  void append_string(std::string& out) {
    constexpr std::array<std::string_view, 24> pieces{"a",    "session", "Id",      " ",
                                                      "{",    "]",       ":",       ",",
                                                      "é",    "漢",      "😀",       "\\n",
                                                      "\\\\", "\\\"",    "\\/",     "\\u0041",
                                                      "\\b",  "\\u00e9", "\\t",     "\\uD83D\\uDE00",
                                                      "\x7F", "\\r\\f",  "\\u0000", "0123456789abcdef"};
    out.push_back('"');
    for (std::size_t n = random_.below(random_.one_in(10) ? 40 : 4); n > 0; --n) {
      out += pieces[random_.below(pieces.size())];
    }
    out.push_back('"');
  }
  void append_digits(std::string& out, std::size_t most) {
    for (std::size_t n = 1 + random_.below(most); n > 0; --n) {
      out.push_back(static_cast<char>('0' + random_.below(10)));
    }
  }
  void append_number(std::string& out) {
    if (random_.one_in(3)) out.push_back('-');
    if (random_.one_in(4)) {
      out.push_back('0');
    } else {
      out.push_back(static_cast<char>('1' + random_.below(9)));
      if (random_.one_in(2)) append_digits(out, random_.one_in(10) ? 60 : 6);
    }
    if (random_.one_in(3)) {
      out.push_back('.');
      append_digits(out, 6);
    }
    if (random_.one_in(4)) {
      out.push_back(random_.one_in(2) ? 'e' : 'E');
      if (random_.one_in(2)) out.push_back(random_.one_in(2) ? '+' : '-');
      append_digits(out, 2);
    }
  }

  Random random_;
};

}  // namespace acp::test
