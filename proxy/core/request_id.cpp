#include "proxy/core/request_id.h"

#include <functional>

#include "proxy/core/json_token.h"
#include "proxy/core/limits.h"

namespace acp {

IdView read_id(std::string_view token, std::string& scratch) {
  if (token.empty()) return {};
  if (token.size() > limits::id_bytes_max) return {IdType::unusable, {}};
  switch (token.front()) {
    case '"': return {IdType::string, decode_string(token, scratch)};
    case 'n': return {IdType::null, {}};
    case '{':
    case '[':
    case 't':
    case 'f': return {IdType::unusable, {}};
    default: return {IdType::number, canonical_number(token, scratch)};
  }
}

bool is_integer_id(const IdView& id) noexcept {
  if (id.type != IdType::number) return false;
  const std::size_t mark = id.value.find('e');
  return mark == std::string_view::npos || id.value[mark + 1] != '-';
}

std::uint64_t hash_id(const IdView& id) noexcept {
  const std::uint64_t text = std::hash<std::string_view>{}(id.value);
  return (text ^ static_cast<std::uint64_t>(id.type)) * 0x9E3779B97F4A7C15U;
}

}  // namespace acp
