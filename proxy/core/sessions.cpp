#include "proxy/core/sessions.h"

#include <functional>

#include "proxy/core/limits.h"

namespace acp {

std::uint32_t SessionTable::find(std::string_view id) const noexcept {
  if (last_found_ != none && rows_[last_found_].id == id) return last_found_;
  const std::uint32_t row = index_.find(std::hash<std::string_view>{}(id),
                                        [&](std::uint32_t candidate) { return rows_[candidate].id == id; });
  if (row != IdIndex::none) last_found_ = row;
  return row;
}

std::uint32_t SessionTable::intern(std::string_view id) {
  const std::uint32_t known = find(id);
  if (known != none) return known;
  if (rows_.size() >= limits::sessions_max || id.size() > limits::session_id_bytes_max) return none;
  const auto row = static_cast<std::uint32_t>(rows_.size());
  rows_.emplace_back().id.assign(id);
  index_.add(std::hash<std::string_view>{}(id), row);
  return row;
}

}  // namespace acp
