#include "proxy/core/json_token.h"

#include <algorithm>
#include <cstring>

namespace acp {
namespace {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

constexpr int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The four hex digits at `at`, or -1.
int hex4(std::string_view text, std::size_t at) noexcept {
  if (text.size() < at + 4) return -1;
  int value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const int digit = hex_value(text[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto byte = [&out](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0 | (code_point >> 6));
    byte(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    byte(0xE0 | (code_point >> 12));
    byte(0x80 | ((code_point >> 6) & 0x3F));
    byte(0x80 | (code_point & 0x3F));
  } else {
    byte(0xF0 | (code_point >> 18));
    byte(0x80 | ((code_point >> 12) & 0x3F));
    byte(0x80 | ((code_point >> 6) & 0x3F));
    byte(0x80 | (code_point & 0x3F));
  }
}

}  // namespace

std::size_t decode_escape(std::string_view inside, std::size_t at, std::string& out) {
  const char kind = inside[at + 1];
  switch (kind) {
    case 'b': out.push_back('\b'); return at + 2;
    case 'f': out.push_back('\f'); return at + 2;
    case 'n': out.push_back('\n'); return at + 2;
    case 'r': out.push_back('\r'); return at + 2;
    case 't': out.push_back('\t'); return at + 2;
    case 'u': break;
    default: out.push_back(kind); return at + 2;
  }
  const auto first = static_cast<std::uint32_t>(hex4(inside, at + 2));
  const bool high = first >= 0xD800 && first < 0xDC00;
  if (high && inside.substr(at + 6, 2) == "\\u") {
    const int second = hex4(inside, at + 8);
    if (second >= 0xDC00 && second < 0xE000) {
      append_utf8(out, 0x10000 + ((first - 0xD800) << 10) + (static_cast<std::uint32_t>(second) - 0xDC00));
      return at + 12;
    }
  }
  append_utf8(out, first);
  return at + 6;
}

namespace {

// How many bytes of well-formed UTF-8 stand at `at`; 0 if none.
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(at + 1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(at + 1) || !tail(at + 2)) return 0;
    if (lead == 0xE0 && byte(at + 1) < 0xA0) return 0;
    if (lead == 0xED && byte(at + 1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(at + 1) || !tail(at + 2) || !tail(at + 3)) return 0;
    if (lead == 0xF0 && byte(at + 1) < 0x90) return 0;
    if (lead == 0xF4 && byte(at + 1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

bool is_json_number(std::string_view token) noexcept {
  std::size_t i = 0;
  const std::size_t size = token.size();
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < size && is_digit(token[i])) ++i;
    return i - start;
  };
  if (i < size && token[i] == '-') ++i;
  const bool leading_zero = i < size && token[i] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (i < size && token[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < size && (token[i] == 'e' || token[i] == 'E')) {
    ++i;
    if (i < size && (token[i] == '+' || token[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == size;
}

bool is_json_literal(std::string_view token) noexcept {
  return token == "true" || token == "false" || token == "null";
}

bool is_json_string(std::string_view token) noexcept {
  if (token.size() < 2 || token.front() != '"' || token.back() != '"') return false;
  const std::string_view inside = token.substr(1, token.size() - 2);
  for (std::size_t at = 0; at < inside.size();) {
    const char c = inside[at];
    const std::size_t length = utf8_length(inside, at);
    if (length == 0 || c == '"' || (static_cast<unsigned char>(c) < 0x20)) return false;
    at += c == '\\' ? 2 : length;  // what is escaped is looked at below
  }
  const std::size_t first = find_backslash(inside, 0);
  return first == std::string_view::npos || are_escapes_valid(inside, first);
}

std::size_t find_backslash(std::string_view text, std::size_t from) noexcept {
  constexpr std::size_t swar_bytes_max = 96;
  if (text.size() - from > swar_bytes_max) {
    const void* found = std::memchr(text.data() + from, '\\', text.size() - from);
    return found == nullptr ? std::string_view::npos
                            : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  }
  // Eight bytes at a time, inlined: most strings of a frame are short, and a call for each would cost more
  // than the scan.
  constexpr std::uint64_t ones = 0x0101010101010101U;
  constexpr std::uint64_t highs = 0x8080808080808080U;
  for (std::size_t i = from; i < text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof word);
    const std::uint64_t diff = word ^ (ones * '\\');
    const std::uint64_t hit = (diff - ones) & ~diff & highs;
    if (hit == 0) continue;
    const std::size_t at = i + static_cast<std::size_t>(__builtin_ctzll(hit)) / 8;
    return at < text.size() ? at : std::string_view::npos;
  }
  return std::string_view::npos;
}

bool are_escapes_valid(std::string_view inside, std::size_t first) noexcept {
  for (std::size_t at = first; at != std::string_view::npos; at = find_backslash(inside, at)) {
    if (at + 1 >= inside.size()) return false;
    switch (inside[at + 1]) {
      case '"':
      case '\\':
      case '/':
      case 'b':
      case 'f':
      case 'n':
      case 'r':
      case 't': at += 2; break;
      case 'u':
        if (hex4(inside, at + 2) < 0) return false;
        at += 6;
        break;
      default: return false;
    }
  }
  return true;
}

std::string_view decode_string(std::string_view token, std::string& scratch) {
  const std::string_view inside = token.substr(1, token.size() - 2);
  std::size_t at = inside.find('\\');
  if (at == std::string_view::npos) return inside;
  scratch.clear();
  std::size_t done = 0;
  while (at != std::string_view::npos) {
    scratch.append(inside, done, at - done);
    done = decode_escape(inside, at, scratch);
    at = inside.find('\\', done);
  }
  scratch.append(inside, done);
  return scratch;
}

std::size_t count_code_points(std::string_view decoded) noexcept {
  std::size_t count = 0;
  for (const char c : decoded) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return count;
}

std::string_view canonical_number(std::string_view token, std::string& scratch) {
  constexpr std::size_t plain_digits_max = 40;
  constexpr std::size_t exponent_digits_max = 12;
  const bool negative = token.front() == '-';
  const std::size_t mark = token.find_first_of(".eE");
  if (mark == std::string_view::npos) return token == "-0" ? std::string_view("0") : token;

  // digits * 10^exponent, digits without leading or trailing zeros.
  std::string digits(token.substr(negative ? 1 : 0, mark - (negative ? 1 : 0)));
  long long exponent = 0;
  std::size_t at = mark;
  if (token[at] == '.') {
    const std::size_t end = token.find_first_of("eE", at);
    const std::string_view fraction =
        token.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    digits += fraction;
    exponent -= static_cast<long long>(fraction.size());
    at = end;
  }
  if (at != std::string_view::npos) {
    std::string_view power = token.substr(at + 1);
    const bool minus = power.front() == '-';
    if (minus || power.front() == '+') power.remove_prefix(1);
    power.remove_prefix(std::min(power.find_first_not_of('0'), power.size()));
    // Beyond any use: such a number is compared as it is written.
    const bool zero = digits.find_first_not_of('0') == std::string::npos;
    if (power.size() > exponent_digits_max) return zero ? std::string_view("0") : token;
    long long value = 0;
    for (const char c : power) value = value * 10 + (c - '0');
    exponent += minus ? -value : value;
  }
  const std::size_t lead = digits.find_first_not_of('0');
  if (lead == std::string::npos) return "0";
  digits.erase(0, lead);
  const std::size_t last = digits.find_last_not_of('0');
  exponent += static_cast<long long>(digits.size() - 1 - last);
  digits.resize(last + 1);

  scratch.clear();
  if (negative) scratch.push_back('-');
  scratch += digits;
  if (exponent >= 0 && digits.size() + static_cast<std::size_t>(exponent) <= plain_digits_max) {
    scratch.append(static_cast<std::size_t>(exponent), '0');
  } else {
    scratch += 'e';
    scratch += std::to_string(exponent);
  }
  return scratch;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const char c = text[at];
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    if (length > 1) {
      out += text.substr(at, length);
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += "\\u00";
      out.push_back(hex[(c >> 4) & 0xF]);
      out.push_back(hex[c & 0xF]);
    } else {
      out.push_back(c);
    }
    at += length;
  }
  out.push_back('"');
}

void append_member(std::string& out, std::string_view name, std::string_view raw) {
  if (raw.empty()) return;
  out.append(",\"").append(name).append("\":").append(raw);
}

}  // namespace acp
