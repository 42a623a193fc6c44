#include "proxy/core/beginning.h"

#include <string>

#include "proxy/core/json_token.h"

namespace acp {
namespace {

constexpr std::string_view blanks = " \t\r\n";

// One behind the closing quote of the string that opens at `from`, or npos.
std::size_t string_end(std::string_view text, std::size_t from) noexcept {
  for (std::size_t at = from + 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// The complete value that begins at `from`, or an empty view.
std::string_view value_at(std::string_view text, std::size_t from) noexcept {
  const char c = text[from];
  if (c == '{' || c == '[') {
    const std::size_t end = balanced_end(text, from);
    return end == std::string_view::npos ? std::string_view{} : text.substr(from, end - from);
  }
  if (c == '"') {
    const std::size_t end = string_end(text, from);
    return end == std::string_view::npos ? std::string_view{} : text.substr(from, end - from);
  }
  const std::size_t end = text.find_first_of(",}] \t\r", from);
  if (end == std::string_view::npos) return {};  // cut off: 12 may have been 123
  const std::string_view token = text.substr(from, end - from);
  return is_json_literal(token) || is_json_number(token) ? token : std::string_view{};
}

}  // namespace

std::size_t balanced_end(std::string_view text, std::size_t from) noexcept {
  std::size_t depth = 0;
  for (std::size_t at = from; at < text.size(); ++at) {
    switch (text[at]) {
      case '{':
      case '[': ++depth; break;
      case '}':
      case ']':
        if (--depth == 0) return at + 1;
        break;
      case '"': {
        const std::size_t end = string_end(text, at);
        if (end == std::string_view::npos) return end;
        at = end - 1;
        break;
      }
      default: break;
    }
  }
  return std::string_view::npos;
}

Beginning read_beginning(std::string_view text) {
  Beginning found;
  std::string scratch;
  bool has_id = false;
  std::size_t at = text.find_first_not_of(blanks);
  if (at == std::string_view::npos || text[at] != '{') return found;
  do {
    at = text.find_first_not_of(blanks, at + 1);
    if (at == std::string_view::npos || text[at] != '"') return found;
    const std::size_t name_end = string_end(text, at);
    if (name_end == std::string_view::npos) return found;
    const std::string_view token = text.substr(at, name_end - at);
    if (!is_json_string(token)) return found;
    const std::string name(decode_string(token, scratch));
    at = text.find_first_not_of(blanks, name_end);
    if (at == std::string_view::npos || text[at] != ':') return found;
    if (name == "result" || name == "error") found.has_result_or_error = true;
    at = text.find_first_not_of(blanks, at + 1);
    if (at == std::string_view::npos) return found;
    const std::string_view value = value_at(text, at);
    if (value.empty()) return found;
    const bool scalar = value.front() != '{' && value.front() != '[';
    const bool sound = value.front() != '"' || is_json_string(value);
    if (name == "id") {
      found.id = scalar && sound && !has_id ? value : std::string_view{};  // of two ids neither is certain
      has_id = true;
    }
    if (name == "method" && is_json_string(value)) found.method = value;
    at = text.find_first_not_of(blanks, at + value.size());
  } while (at != std::string_view::npos && text[at] == ',');
  return found;
}

}  // namespace acp
