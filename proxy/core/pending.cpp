#include "proxy/core/pending.h"

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

constexpr std::size_t stored_bytes_kept = 4 * limits::kib;  // in a free row

}  // namespace

bool PendingTable::full() const noexcept { return count_ >= limits::pending_max; }

Pending& PendingTable::add(std::string_view sender_token, const IdView& sender) {
  INVARIANT(!full());
  std::uint32_t row;
  if (free_.empty()) {
    row = static_cast<std::uint32_t>(rows_.size());
    rows_.emplace_back();
  } else {
    row = free_.back();
    free_.pop_back();
  }
  Pending& pending = rows_[row];
  pending.row = row;
  pending.older = newest_;
  pending.newer = Pending::no_row;
  if (newest_ != Pending::no_row) rows_[newest_].newer = row;
  newest_ = row;
  if (oldest_ == Pending::no_row) oldest_ = row;
  set_sender(pending, sender_token, sender);
  ++count_;
  return pending;
}

void PendingTable::set_sender(Pending& pending, std::string_view sender_token, const IdView& sender) {
  INVARIANT(pending.sender_id.empty());
  pending.sender_id.assign(sender_token);
  pending.sender_hash = hash_id(sender);
  by_sender_.add(pending.sender_hash, pending.row);
}

void PendingTable::set_wire_id(Pending& pending, std::string_view wire_token, const IdView& wire) {
  INVARIANT(pending.wire_id.empty());
  pending.wire_id.assign(wire_token);
  pending.wire_hash = hash_id(wire);
  by_wire_.add(pending.wire_hash, pending.row);
}

void PendingTable::remove(Pending& pending) noexcept {
  const std::uint32_t row = pending.row;
  INVARIANT(row != Pending::no_row);
  if (!pending.sender_id.empty()) by_sender_.remove(pending.sender_hash, row);
  if (!pending.wire_id.empty()) by_wire_.remove(pending.wire_hash, row);
  (pending.older == Pending::no_row ? oldest_ : rows_[pending.older].newer) = pending.newer;
  (pending.newer == Pending::no_row ? newest_ : rows_[pending.newer].older) = pending.older;
  // A fresh row, but for the memory of its strings.
  std::string sender_id = std::move(pending.sender_id);
  std::string wire_id = std::move(pending.wire_id);
  sender_id.clear();
  wire_id.clear();
  std::string stored = std::move(pending.stored);
  stored.clear();
  pending = Pending{};
  if (stored.capacity() <= stored_bytes_kept) pending.stored = std::move(stored);
  pending.sender_id = std::move(sender_id);
  pending.wire_id = std::move(wire_id);
  free_.push_back(row);
  --count_;
}

void PendingTable::forget_sender(Pending& pending) noexcept {
  if (pending.sender_id.empty()) return;
  by_sender_.remove(pending.sender_hash, pending.row);
  pending.sender_id.clear();
}

Pending* PendingTable::by_sender_id(const IdView& id) noexcept {
  const std::uint32_t row = by_sender_.find(hash_id(id), [&](std::uint32_t candidate) {
    return read_id(rows_[candidate].sender_id, scratch_) == id;
  });
  return row == IdIndex::none ? nullptr : &rows_[row];
}

Pending* PendingTable::by_wire_id(const IdView& id) noexcept {
  const std::uint32_t row = by_wire_.find(hash_id(id), [&](std::uint32_t candidate) {
    return read_id(rows_[candidate].wire_id, scratch_) == id;
  });
  return row == IdIndex::none ? nullptr : &rows_[row];
}

}  // namespace acp
