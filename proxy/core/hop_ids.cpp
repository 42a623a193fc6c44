#include "proxy/core/hop_ids.h"

#include <utility>

#include "proxy/core/limits.h"

namespace acp {

std::uint64_t HopIds::edge_hash(Course course, const IdView& id) noexcept {
  return hash_id(id) + static_cast<std::uint64_t>(course);
}

void HopIds::add(Course course, std::string_view edge_token, std::string_view link_token) {
  if (rows_.size() - free_.size() >= limits::pending_max) remove(oldest_);
  std::uint32_t row = static_cast<std::uint32_t>(rows_.size());
  if (free_.empty()) {
    rows_.emplace_back();
  } else {
    row = free_.back();
    free_.pop_back();
  }
  Row& added = rows_[row];
  added.course = course;
  added.edge_id.assign(edge_token);
  added.link_id.assign(link_token);
  added.older = newest_;
  added.newer = none;
  (newest_ == none ? oldest_ : rows_[newest_].newer) = row;
  newest_ = row;
  by_edge_.add(edge_hash(course, read_id(added.edge_id, scratch_)), row);
  by_link_.add(hash_id(read_id(added.link_id, scratch_)), row);
}

std::uint32_t HopIds::find_link(const IdView& id) {
  return by_link_.find(hash_id(id),
                       [&](std::uint32_t row) { return read_id(rows_[row].link_id, scratch_) == id; });
}

const HopIds::Row* HopIds::by_link_id(const IdView& id) {
  const std::uint32_t row = find_link(id);
  return row == IdIndex::none ? nullptr : &rows_[row];
}

const HopIds::Row* HopIds::by_edge_id(Course course, const IdView& id) {
  const std::uint32_t row = by_edge_.find(edge_hash(course, id), [&](std::uint32_t candidate) {
    return rows_[candidate].course == course && read_id(rows_[candidate].edge_id, scratch_) == id;
  });
  return row == IdIndex::none ? nullptr : &rows_[row];
}

bool HopIds::take(const IdView& link_id, Row& taken) {
  const std::uint32_t row = find_link(link_id);
  if (row == IdIndex::none) return false;
  taken.course = rows_[row].course;
  taken.edge_id.assign(rows_[row].edge_id);
  taken.link_id.assign(rows_[row].link_id);
  remove(row);
  return true;
}

void HopIds::describe(std::string& out) const {
  constexpr std::size_t shown_max = 8;
  constexpr std::size_t id_bytes_max = 60;
  out += std::to_string(size());
  std::size_t shown = 0;
  for (std::uint32_t row = oldest_; row != none && shown < shown_max; row = rows_[row].newer, ++shown) {
    const Row& open = rows_[row];
    out.append(shown == 0 ? " (" : ", ").append(open.edge_id, 0, id_bytes_max);
    if (open.link_id != open.edge_id) out.append(" as ").append(open.link_id, 0, id_bytes_max);
    if (open.course == Course::wrapped) out += " in an envelope";
  }
  if (shown > 0) out += shown < size() ? ", ...)" : ")";
}

void HopIds::remove(std::uint32_t row) {
  Row& leaving = rows_[row];
  by_edge_.remove(edge_hash(leaving.course, read_id(leaving.edge_id, scratch_)), row);
  by_link_.remove(hash_id(read_id(leaving.link_id, scratch_)), row);
  (leaving.older == none ? oldest_ : rows_[leaving.older].newer) = leaving.newer;
  (leaving.newer == none ? newest_ : rows_[leaving.newer].older) = leaving.older;
  free_.push_back(row);
}

}  // namespace acp
