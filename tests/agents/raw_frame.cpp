#include "tests/agents/raw_frame.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace acp::test_agent {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// The position behind the string that begins at `at`, or npos.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// The position behind the value that begins at `at`, or npos. Containers are matched by depth alone.
std::size_t skip_value(std::string_view text, std::size_t at) {
  if (at >= text.size()) return std::string_view::npos;
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] != '{' && text[at] != '[') {
    const std::size_t begin = at;
    while (at < text.size() && text[at] != ',' && text[at] != '}' && text[at] != ']' && !is_space(text[at]))
      ++at;
    return at == begin ? std::string_view::npos : at;
  }
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (at == std::string_view::npos) return at;
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return at;
  }
  return std::string_view::npos;
}

// Calls `visit` for each member of an object. False: it is no object, or it breaks off.
template <typename Visit>
bool each_member(std::string_view text, Visit visit) {
  std::size_t at = skip_space(text, 0);
  if (at >= text.size() || text[at] != '{') return false;
  at = skip_space(text, at + 1);
  if (at < text.size() && text[at] == '}') return true;
  while (at < text.size() && text[at] == '"') {
    const std::size_t name_end = skip_string(text, at);
    if (name_end == std::string_view::npos) return false;
    const auto name = decode_string(text.substr(at, name_end - at));
    at = skip_space(text, name_end);
    if (at >= text.size() || text[at] != ':') return false;
    at = skip_space(text, at + 1);
    const std::size_t value_end = skip_value(text, at);
    if (value_end == std::string_view::npos) return false;
    if (name) visit(*name, text.substr(at, value_end - at));
    at = skip_space(text, value_end);
    if (at < text.size() && text[at] == '}') return true;
    if (at >= text.size() || text[at] != ',') return false;
    at = skip_space(text, at + 1);
  }
  return false;
}

void store(RawFrame& frame, std::string_view name, std::string_view value) {
  if (name == "id") frame.id = value;
  if (name == "method") frame.method = value;
  if (name == "params") frame.params = value;
  if (name == "result") frame.result = value;
  if (name == "error") frame.error = value;
}

bool is_hex4(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return false;
  for (std::size_t i = at; i < at + 4; ++i) {
    if (std::string_view("0123456789abcdefABCDEF").find(text[i]) == std::string_view::npos) return false;
  }
  return true;
}

unsigned hex4(std::string_view text, std::size_t at) {
  return static_cast<unsigned>(std::strtoul(std::string(text.substr(at, 4)).c_str(), nullptr, 16));
}

// Copies one string from `at`, its lone surrogate escapes replaced. Returns the position behind it.
std::size_t copy_string(std::string_view text, std::size_t at, std::string& out) {
  out += text[at++];
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      out += c;
      return at + 1;
    }
    if (c != '\\' || at + 1 >= text.size()) {
      out += c;
      ++at;
      continue;
    }
    if (text[at + 1] != 'u' || !is_hex4(text, at + 2)) {
      out += text.substr(at, 2);
      at += 2;
      continue;
    }
    const unsigned unit = hex4(text, at + 2);
    const bool high = unit >= 0xD800 && unit <= 0xDBFF;
    const bool low = unit >= 0xDC00 && unit <= 0xDFFF;
    const bool paired = high && text.substr(at + 6, 2) == "\\u" && is_hex4(text, at + 8) &&
                        hex4(text, at + 8) >= 0xDC00 && hex4(text, at + 8) <= 0xDFFF;
    if (paired) {
      out += text.substr(at, 12);
      at += 12;
    } else {
      out += high || low ? std::string_view("\\ufffd") : text.substr(at, 6);
      at += 6;
    }
  }
  return at;
}

// The same text with everything replaced that only our parser refuses.
std::string soften(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = copy_string(text, at, out);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
      const std::string number(text.substr(at, end - at));
      out += std::isfinite(std::strtod(number.c_str(), nullptr)) ? number : std::string("0");
      at = end;
    } else {
      out += c;
      ++at;
    }
  }
  return out;
}

}  // namespace

std::optional<RawFrame> scan_frame(std::string_view line) {
  RawFrame frame;
  const bool whole =
      each_member(line, [&](const std::string& name, std::string_view value) { store(frame, name, value); });
  return whole ? std::optional(frame) : std::nullopt;
}

std::string_view raw_member(std::string_view object, std::string_view wanted) {
  std::string_view found;
  each_member(object, [&](const std::string& name, std::string_view value) {
    if (name == wanted) found = value;
  });
  return found;
}

std::optional<std::string> decode_string(std::string_view written) {
  if (written.size() < 2 || written.front() != '"' || written.back() != '"') return std::nullopt;
  if (written.find('\\') == std::string_view::npos) return std::string(written.substr(1, written.size() - 2));
  const Json value = parse_lenient(written);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

std::string id_name(std::string_view written) {
  if (const auto text = decode_string(written)) return "s:" + *text;
  return "n:" + std::string(written);
}

Json parse_lenient(std::string_view text) {
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) value = Json::parse(soften(text), nullptr, false);
  return value;
}

std::string to_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::string> string_member(const Json& object, const char* name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

}  // namespace acp::test_agent
