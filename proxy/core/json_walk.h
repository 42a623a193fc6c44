// The JSON grammar over a StructuralIndex: every token is checked, each is shown once to a visitor.
//
// Invariant: walk() returns `none` only for one complete JSON value (RFC 8259; numbers of any size and lone
// surrogate escapes included) that nests no deeper than limits::nesting_max. A visitor that got calls before
// a fault must forget them. Lifetime: one call; views shown to the visitor point into the text.
//
// A visitor has these members, all noexcept and cheap (they are inlined into the loop):
//   void open(std::size_t at, bool object, std::size_t depth);   // a container begins; depth of the root
//   container is 1 void close(std::size_t end, std::size_t depth);              // it ends before `end`;
//   depth as for its open void key(std::string_view token, bool escaped, std::size_t depth);    // a member's
//   name, quotes included void value(std::string_view token, bool escaped, std::size_t depth);  // a string,
//   number or literal in a container of that depth
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/core/json_token.h"
#include "proxy/core/limits.h"
#include "proxy/core/structural_index.h"

namespace acp {

enum class WalkFault : std::uint8_t { none, grammar, too_deep };

template <class Visitor>
class JsonWalk {
 public:
  JsonWalk(std::string_view text, const StructuralIndex& index, Visitor& visitor) noexcept
      : text_(text), positions_(index.positions()), count_(index.count()), visitor_(visitor) {}

  WalkFault run() noexcept {
    Expect expect = Expect::value;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::size_t at = positions_[i];
      const char c = text_[at];
      switch (expect) {
        case Expect::value: expect = on_value(i, at, c); break;
        case Expect::first_value: expect = c == ']' ? on_close(at, false) : on_value(i, at, c); break;
        case Expect::first_key: expect = c == '}' ? on_close(at, true) : on_key(i, at, c); break;
        case Expect::key: expect = on_key(i, at, c); break;
        case Expect::colon: expect = c == ':' ? Expect::value : Expect::fault; break;
        case Expect::separator: expect = on_separator(at, c); break;
        case Expect::nothing: expect = Expect::fault; break;
        case Expect::fault: return fault_;
      }
    }
    return expect == Expect::nothing ? WalkFault::none : fault_;
  }

 private:
  enum class Expect : std::uint8_t { value, first_value, first_key, key, colon, separator, nothing, fault };

  bool in_object() const noexcept { return (objects_[depth_ / 64] >> (depth_ % 64)) & 1U; }
  Expect after_value() const noexcept { return depth_ == 0 ? Expect::nothing : Expect::separator; }

  Expect on_value(std::uint32_t i, std::size_t at, char c) noexcept {
    if (c == '{' || c == '[') {
      if (depth_ == limits::nesting_max) {
        fault_ = WalkFault::too_deep;
        return Expect::fault;
      }
      ++depth_;
      const std::uint64_t bit = std::uint64_t{1} << (depth_ % 64);
      auto& word = objects_[depth_ / 64];
      word = c == '{' ? word | bit : word & ~bit;
      visitor_.open(at, c == '{', depth_);
      return c == '{' ? Expect::first_key : Expect::first_value;
    }
    const std::string_view token = token_at(i, at);
    bool escaped = false;
    const bool valid = c == '"' ? is_string(token, escaped) : is_json_literal(token) || is_json_number(token);
    if (!valid) return Expect::fault;
    visitor_.value(token, escaped, depth_);
    return after_value();
  }

  Expect on_key(std::uint32_t i, std::size_t at, char c) noexcept {
    if (c != '"') return Expect::fault;
    const std::string_view token = token_at(i, at);
    bool escaped = false;
    if (!is_string(token, escaped)) return Expect::fault;
    visitor_.key(token, escaped, depth_);
    return Expect::colon;
  }

  Expect on_separator(std::size_t at, char c) noexcept {
    if (c == ',') return in_object() ? Expect::key : Expect::value;
    if (c == '}') return on_close(at, true);
    if (c == ']') return on_close(at, false);
    return Expect::fault;
  }

  Expect on_close(std::size_t at, bool object) noexcept {
    if (in_object() != object) return Expect::fault;
    visitor_.close(at + 1, depth_);
    --depth_;
    return after_value();
  }

  // From the token's first byte to the next one's, white space cut off: the index shows the start of every
  // token.
  std::string_view token_at(std::uint32_t i, std::size_t at) const noexcept {
    std::size_t end = i + 1 < count_ ? positions_[i + 1] : text_.size();
    while (end > at + 1 && is_space(text_[end - 1])) --end;
    return text_.substr(at, end - at);
  }

  static bool is_string(std::string_view token, bool& escaped) noexcept {
    if (token.size() < 2 || token.back() != '"') return false;
    const std::string_view inside = token.substr(1, token.size() - 2);
    const std::size_t first = find_backslash(inside, 0);
    escaped = first != std::string_view::npos;
    return !escaped || are_escapes_valid(inside, first);
  }

  static constexpr bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

  std::string_view text_;
  const std::uint32_t* positions_;
  std::uint32_t count_;
  Visitor& visitor_;
  std::size_t depth_ = 0;
  WalkFault fault_ = WalkFault::grammar;
  std::array<std::uint64_t, limits::nesting_max / 64 + 1>
      objects_{};  // bit set: the container of that depth is an object
};

template <class Visitor>
WalkFault walk_json(std::string_view text, const StructuralIndex& index, Visitor& visitor) noexcept {
  return JsonWalk<Visitor>(text, index, visitor).run();
}

}  // namespace acp
