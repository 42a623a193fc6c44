#include "tests/sim/json_scan.h"

#include <array>
#include <cstdint>

namespace acp::sim {
namespace {

constexpr std::size_t npos = std::string_view::npos;

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_hex(char c) noexcept { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Bytes that stand for themselves in a string: ASCII without quote, backslash and control characters.
constexpr std::array<bool, 256> is_plain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t byte = 0x20; byte < 0x80; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}();

constexpr std::array<bool, 256> is_mark = [] {
  std::array<bool, 256> mark{};
  for (const char c : std::string_view("\"{}[], \t\n\r")) mark[static_cast<unsigned char>(c)] = true;
  return mark;
}();

// Reads one value; every function returns the place behind what it read, or npos.
class Reader {
 public:
  Reader(std::string_view text, std::size_t depth_max) noexcept : text_(text), depth_max_(depth_max) {}

  std::size_t value(std::size_t at, std::size_t depth = 0) const noexcept {
    at = blanks(at);
    switch (peek(at)) {
      case '{': return container(at, '}', depth + 1);
      case '[': return container(at, ']', depth + 1);
      case '"': return string(at);
      case 't': return word(at, "true");
      case 'f': return word(at, "false");
      case 'n': return word(at, "null");
      default: return number(at);
    }
  }
  std::size_t blanks(std::size_t at) const noexcept {
    while (at < text_.size() && is_blank(text_[at])) ++at;
    return at;
  }
  // The same for a value that is known to be valid: only its end is looked for.
  std::size_t skip(std::size_t at) const noexcept {
    if (peek(at) == '"') return skip_string(at);
    if (peek(at) != '{' && peek(at) != '[') return to_mark(at);
    for (std::size_t open = 0; at < text_.size();) {
      const char c = text_[at];
      at = c == '"' ? skip_string(at) : at + 1;
      if (at == npos) return npos;
      if (c == '{' || c == '[') ++open;
      if ((c == '}' || c == ']') && --open == 0) return at;
      at = to_mark(at);
    }
    return npos;
  }
  // One behind the closing quote, likewise.
  std::size_t skip_string(std::size_t at) const noexcept {
    for (;;) {
      at = text_.find('"', at + 1);
      if (at == npos) return npos;
      std::size_t escapes = 0;
      while (text_[at - escapes - 1] == '\\') ++escapes;
      if (escapes % 2 == 0) return at + 1;
    }
  }
  char peek(std::size_t at) const noexcept { return at < text_.size() ? text_[at] : '\0'; }

  std::size_t string(std::size_t at) const noexcept {
    if (peek(at) != '"') return npos;
    for (++at; at < text_.size();) {
      if (is_plain[static_cast<unsigned char>(text_[at])]) {  // most are
        ++at;
        continue;
      }
      const auto byte = static_cast<unsigned char>(text_[at]);
      if (byte == '"') return at + 1;
      if (byte < 0x20) return npos;
      at = byte == '\\' ? escape(at + 1) : code_point(at);
      if (at == npos) return npos;
    }
    return npos;
  }

 private:
  // The next byte that opens, closes or separates something, or the end: behind a number or word, the next.
  std::size_t to_mark(std::size_t at) const noexcept {
    while (at < text_.size() && !is_mark[static_cast<unsigned char>(text_[at])]) ++at;
    return at;
  }
  std::size_t word(std::size_t at, std::string_view word) const noexcept {
    return text_.substr(at, word.size()) == word ? at + word.size() : npos;
  }
  std::size_t digits(std::size_t at) const noexcept {
    if (!is_digit(peek(at))) return npos;
    while (is_digit(peek(at))) ++at;
    return at;
  }
  std::size_t number(std::size_t at) const noexcept {
    if (peek(at) == '-') ++at;
    at = peek(at) == '0' ? at + 1 : digits(at);
    if (at != npos && peek(at) == '.') at = digits(at + 1);
    if (at != npos && (peek(at) == 'e' || peek(at) == 'E')) {
      ++at;
      if (peek(at) == '+' || peek(at) == '-') ++at;
      at = digits(at);
    }
    return at;
  }
  std::size_t escape(std::size_t at) const noexcept {
    const char c = peek(at);
    if (c == 'u') {
      for (std::size_t i = 1; i <= 4; ++i) {
        if (!is_hex(peek(at + i))) return npos;
      }
      return at + 5;
    }
    return c != '\0' && std::string_view("\"\\/bfnrt").find(c) != npos ? at + 1 : npos;
  }
  // A UTF-8 sequence of more than one byte (RFC 3629: shortest form, no surrogates, up to U+10FFFF).
  std::size_t code_point(std::size_t at) const noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(peek(at + i)); };
    const unsigned first = byte(0);
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || at + length > text_.size()) return npos;
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xC0U) != 0x80) return npos;
    }
    const unsigned second = byte(1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return npos;
    if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return npos;
    return at + length;
  }
  std::size_t container(std::size_t at, char close, std::size_t depth) const noexcept {
    if (depth > depth_max_) return npos;
    at = blanks(at + 1);
    if (peek(at) == close) return at + 1;
    for (;;) {
      if (close == '}') {
        at = string(at);
        if (at == npos) return npos;
        at = blanks(at);
        if (peek(at) != ':') return npos;
        ++at;
      }
      at = value(at, depth);
      if (at == npos) return npos;
      at = blanks(at);
      if (peek(at) == close) return at + 1;
      if (peek(at) != ',') return npos;
      at = blanks(at + 1);
    }
  }

  std::string_view text_;
  std::size_t depth_max_;
};

}  // namespace

bool is_json(std::string_view text, std::size_t depth_max) noexcept {
  const Reader reader(text, depth_max);
  const std::size_t end = reader.value(0);
  return end != npos && reader.blanks(end) == text.size();
}

namespace {

enum class Trust : std::uint8_t { nothing, is_valid };

// Visits the members of an object; one behind its end, or npos.
template <Trust trust, class Visit>
std::size_t visit_members(std::string_view object, Visit visit) noexcept {
  const Reader reader(object, object.size());
  std::size_t at = reader.blanks(0);
  if (reader.peek(at) != '{') return npos;
  at = reader.blanks(at + 1);
  if (reader.peek(at) == '}') return at + 1;
  for (;;) {
    const std::size_t name_end = reader.string(at);
    if (name_end == npos) return npos;
    const std::size_t colon = reader.blanks(name_end);
    if (reader.peek(colon) != ':') return npos;
    const std::size_t begin = reader.blanks(colon + 1);
    const std::size_t end = trust == Trust::is_valid ? reader.skip(begin) : reader.value(begin);
    if (end == npos) return npos;
    visit(object.substr(at + 1, name_end - at - 2), object.substr(begin, end - begin));
    at = reader.blanks(end);
    if (reader.peek(at) == '}') return at + 1;
    if (reader.peek(at) != ',') return npos;
    at = reader.blanks(at + 1);
  }
}

}  // namespace

bool read_top_level(std::string_view text, TopLevel& top) noexcept {
  const std::size_t end =
      visit_members<Trust::nothing>(text, [&](std::string_view name, std::string_view value) {
        if (name == "jsonrpc") top.jsonrpc = value;
        if (name == "id") top.id = value;
        if (name == "method") top.method = unquoted(value);
        if (name == "params") top.params = value;
        if (name == "error") top.error = value;
      });
  return end != npos && Reader(text, 0).blanks(end) == text.size();
}

std::string_view member(std::string_view object, std::string_view name) noexcept {
  std::string_view found;
  const std::size_t end =
      visit_members<Trust::is_valid>(object, [&](std::string_view here, std::string_view value) {
        if (here == name) found = value;
      });
  return end == npos ? std::string_view{} : found;
}

std::string_view member(std::string_view object, std::string_view name, std::string_view inner) noexcept {
  return member(member(object, name), inner);
}

std::string_view unquoted(std::string_view token) noexcept {
  return token.size() >= 2 && token.front() == '"' ? token.substr(1, token.size() - 2) : std::string_view{};
}

}  // namespace acp::sim
