#include "proxy/core/keys.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

// The name counts only where it is no method that the table knows one by one.
std::string_view name_in_scope(const KeyTable::Scope& scope) noexcept {
  return scope.facts->id == rules::MethodId::session_prompt ? std::string_view{} : scope.method_name;
}

}  // namespace

bool KeyTable::full() const noexcept { return count_ >= limits::key_rows_max; }

std::uint64_t KeyTable::hash_of(const Scope& scope) noexcept {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;
  std::uint64_t hash = 0;
  std::memcpy(&hash, scope.key_hash.bytes.data(), sizeof hash);
  hash = (hash ^ scope.session) * odd;
  return (hash ^ std::hash<std::string_view>{}(name_in_scope(scope))) * odd;
}

KeyRow* KeyTable::find(const Scope& scope) noexcept {
  const std::uint32_t row = index_.find(hash_of(scope), [&](std::uint32_t candidate) {
    const KeyRow& found = rows_[candidate];
    return found.session == scope.session && found.method == scope.facts->id &&
           found.method_name == name_in_scope(scope) && found.key_hash == scope.key_hash;
  });
  return row == IdIndex::none ? nullptr : &rows_[row];
}

KeyRow& KeyTable::add(const Scope& scope, const Fingerprint& print) {
  INVARIANT(!full());
  std::uint32_t number;
  if (free_.empty()) {
    number = static_cast<std::uint32_t>(rows_.size());
    rows_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  KeyRow& row = rows_[number];
  row.row = number;
  row.session = scope.session;
  row.method = scope.facts->id;
  row.method_name.assign(name_in_scope(scope));
  row.key_hash = scope.key_hash;
  row.key.assign(scope.key);
  row.print = print;
  row.hash = hash_of(scope);
  index_.add(row.hash, number);
  if (newest_of_session_.size() <= scope.session)
    newest_of_session_.resize(scope.session + 1, Pending::no_row);
  std::uint32_t& newest = newest_of_session_[scope.session];
  row.older_of_session = newest;
  if (newest != Pending::no_row) rows_[newest].newer_of_session = number;
  newest = number;
  ++count_;
  return row;
}

void KeyTable::remove(KeyRow& row) noexcept {
  const std::uint32_t number = row.row;
  INVARIANT(number != Pending::no_row);
  index_.remove(row.hash, number);
  std::uint32_t& newest = newest_of_session_[row.session];
  (row.newer_of_session == Pending::no_row ? newest : rows_[row.newer_of_session].older_of_session) =
      row.older_of_session;
  if (row.older_of_session != Pending::no_row)
    rows_[row.older_of_session].newer_of_session = row.newer_of_session;
  // A fresh row, but for the memory of its strings.
  std::string key = std::move(row.key);
  key.clear();
  row = KeyRow{};
  row.key = std::move(key);
  free_.push_back(number);
  --count_;
}

void KeyTable::remove_settled_of(std::uint32_t session) noexcept {
  for_each_of(session, [this](KeyRow& row) {
    if (row.state != KeyState::pending) remove(row);
  });
}

void KeyTable::mask_keys(std::string& text) const {
  constexpr std::string_view mask = "[key]";
  // All places first, in the text as it came: a key may be part of another, or of the mask.
  std::vector<bool> secret(text.size());
  bool any = false;
  for (const KeyRow& row : rows_) {
    if (row.row == Pending::no_row || row.key.empty()) continue;
    for (std::size_t at = text.find(row.key); at != std::string::npos; at = text.find(row.key, at + 1)) {
      std::fill_n(secret.begin() + static_cast<std::ptrdiff_t>(at), row.key.size(), true);
      any = true;
    }
  }
  if (!any) return;
  std::string masked;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!secret[at]) masked.push_back(text[at]);
    if (secret[at] && (at == 0 || !secret[at - 1])) masked += mask;
  }
  text = std::move(masked);
}

}  // namespace acp
