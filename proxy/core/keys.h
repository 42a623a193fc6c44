// Which prompt each idempotency key names, and what became of it (RFD "How the Agent handles a
// keyed prompt").
//
// Scope is (session, method, hash of the decoded key). Invariant: at most one request of a row is with the
// agent; a row is `inserted` only if the agent said so, in an answer or in its history. Rows end with their
// session, never by age; bounded by limits::key_rows_max. Lifetime: rows live in memory for this run (the
// guarded ones also in the ledger); a KeyRow& is valid until it is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/fingerprint.h"
#include "proxy/core/id_index.h"
#include "proxy/core/pending.h"

namespace acp {

enum class KeyState : std::uint8_t {
  pending,   // `first` is with the agent
  inserted,  // the agent answered success; message_id is its raw token, empty if it gave none
  unknown,   // the answer was lost: a retry is told so until a replay decides it
};

struct KeyRow {
  KeyState state = KeyState::pending;
  std::uint32_t session = Pending::no_row;  // row of SessionTable
  rules::MethodId method = rules::MethodId::other;
  std::string method_name;  // of a method that --rule made keyed; else empty
  Fingerprint key_hash;
  std::string key;  // decoded; a secret of the client's, and empty in a row of an earlier run
  Fingerprint print;
  std::uint32_t first = Pending::no_row;  // row of the pending table while state is pending
  std::string message_id;  // also in state unknown: what an answer said before a replay put it in doubt

  // Of guarded rows (edge_guard.cpp).
  Fingerprint content;
  bool is_command = false;
  std::uint64_t sent_at = 0;       // its place in the session's order; 0: never sent
  bool in_ledger = false;          // it was written there, or is being written
  bool on_disk = false;            // the file has a row of this key, maybe one that was to be removed
  std::uint64_t protected_by = 0;  // the commit that its frame waits for: until then others need not tell it
  Saved saved;
  std::uint64_t run = 0;  // of another keyhop that wrote it, as the ledger said when it was read; else 0

  std::uint32_t row = Pending::no_row;  // for KeyTable only
  std::uint64_t hash = 0;
  std::uint32_t older_of_session = Pending::no_row;
  std::uint32_t newer_of_session = Pending::no_row;
};

class KeyTable {
 public:
  struct Scope {
    std::uint32_t session;
    const rules::MethodFacts* facts;
    std::string_view method_name;  // decoded, as sent
    Fingerprint key_hash;
    std::string_view key;  // decoded; empty in a row of an earlier run
  };

  bool full() const noexcept;
  std::size_t size() const noexcept { return count_; }
  KeyRow* find(const Scope& scope) noexcept;
  // A new row in state pending. Not to be called when full().
  KeyRow& add(const Scope& scope, const Fingerprint& print);
  KeyRow& at(std::uint32_t row) noexcept { return rows_[row]; }
  void remove(KeyRow& row) noexcept;
  // Calls `visit(KeyRow&)` for every row of a session, the newest first. The visitor may remove its row.
  template <class Visit>
  void for_each_of(std::uint32_t session, Visit visit) {
    if (session >= newest_of_session_.size()) return;
    for (std::uint32_t at = newest_of_session_[session]; at != Pending::no_row;) {
      KeyRow& row = rows_[at];
      at = row.older_of_session;
      visit(row);
    }
  }
  bool has_rows_of(std::uint32_t session) const noexcept {
    return session < newest_of_session_.size() && newest_of_session_[session] != Pending::no_row;
  }
  // Forgets what a session's keys named; rows whose request is with the agent stay until it answers.
  void remove_settled_of(std::uint32_t session) noexcept;
  // Replaces every known key that stands in `text` by a mark, so that a dead agent's last words give none
  // away.
  void mask_keys(std::string& text) const;

 private:
  static std::uint64_t hash_of(const Scope& scope) noexcept;

  std::deque<KeyRow> rows_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> newest_of_session_;  // by row of SessionTable
  IdIndex index_;
  std::size_t count_ = 0;
};

}  // namespace acp
