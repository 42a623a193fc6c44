// The requests of one direction that were passed on (or wait beside one that was) and are not answered.
//
// Two id spaces: the id as the *sender* wrote it (echoed in the answer, byte for byte) and the id on the
// *wire* to the receiver. They differ only where they must. Invariant: a row leaves the table
// exactly once, together with its one answer (or with the reason why none is owed); wire ids are unique among
// rows that have one; rows stand in the order of arrival. Bounded by limits::pending_max. Lifetime: a
// Pending& is valid until it is removed; rows are reused, so that the steady state allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/id_index.h"
#include "proxy/core/limits.h"
#include "proxy/core/replay_decision.h"
#include "proxy/core/request_id.h"
#include "proxy/core/types.h"
#include "rules/methods.h"

namespace acp {

enum class PendingState : std::uint8_t {
  sent,             // the receiver has it
  cancelling,       // it has, and was asked to cancel it
  waiting,          // never sent: a duplicate that gets the answer of `first`
  held,             // not sent yet: there is nobody to send it to
  lost,             // the receiver had it and is no more; to be settled by its verdict
  lost_cancelling,  // the same, and it had been asked to cancel it (or is asked now)
  abandoned,        // the sender got its error; a late answer is dropped
};

struct Pending {
  static constexpr std::uint32_t no_row = UINT32_MAX;

  PendingState state = PendingState::sent;
  const rules::MethodFacts* facts = nullptr;
  std::string sender_id;               // raw token; empty once nobody waits for it
  std::string wire_id;                 // raw token; empty while waiting or held
  std::uint32_t session = no_row;      // row of SessionTable, if the session is tracked
  std::uint64_t session_updates = 0;   // how many updates that session had seen when this was sent
  std::uint32_t key = no_row;          // row of KeyTable that this is the first request of
  std::uint32_t first = no_row;        // waiting: the request that was sent
  std::uint32_t next_waiter = no_row;  // list of waiters, in order of arrival
  std::uint32_t last_waiter = no_row;

  // How many bytes its receiver had been sent before it; waits_in_outbox: it has not left yet.
  static constexpr std::uint64_t waits_in_outbox = UINT64_MAX;
  std::uint64_t sent_at = 0;
  bool turn_cancelled = false;         // a session/cancel of its session was passed on behind it
  bool newer_change_answered = false;  // a later request that changes the same thing was answered
  bool replay_shown = false;           // the client saw part of the replay that this one asked for
  bool was_taken = false;              // an epoch that is over had taken bytes of it
  bool had_progress = false;           // its session told news while it was with an epoch that is over

  // Of prompts that the guard looks after (edge_guard.cpp).
  Fingerprint content;
  std::uint64_t place = 0;  // in the session's order, when it was sent last; 0: never
  bool is_unkeyed = false;
  bool is_command = false;
  bool in_ledger = false;  // as a prompt without a key: written there, or being written
  Saved saved;
  bool reads_history = false;  // a resume of the client's that asks for the history: it is read along
  PromptFate fate = PromptFate::unknown;
  // Held, and a retry of a prompt that is remembered: answered once the session's history was read.
  bool is_retry = false;
  Fingerprint key_hash;
  Fingerprint print;
  std::string found_id;  // fate inserted: the message's id, raw
  // The frame as the sender wrote it, limits::padding_bytes behind it, for another try; empty if there is no
  // room to keep it.
  std::string stored;
  // The frame alone; only where it was kept.
  std::string_view stored_text() const noexcept {
    return std::string_view(stored).substr(0, stored.size() - limits::padding_bytes);
  }

  // Where it stands in its table; for PendingTable only.
  std::uint32_t row = no_row;
  std::uint32_t older = no_row;
  std::uint32_t newer = no_row;
  std::uint64_t sender_hash = 0;
  std::uint64_t wire_hash = 0;
};

// Its receiver is no more, and its verdict is not carried out yet.
inline bool is_lost(const Pending& pending) noexcept {
  return pending.state == PendingState::lost || pending.state == PendingState::lost_cancelling;
}

// Nobody waits for it and nobody will: its client is gone (Edge::replace_client), and no key names it.
inline bool is_orphan(const Pending& pending) noexcept {
  return pending.sender_id.empty() && pending.key == Pending::no_row;
}

class PendingTable {
 public:
  bool full() const noexcept;
  bool empty() const noexcept { return count_ == 0; }
  std::size_t size() const noexcept { return count_; }

  // A new row, last in order. `sender` is the decoded form of the raw token. Not to be called when full().
  Pending& add(std::string_view sender_token, const IdView& sender);
  // Gives the row its id on the wire.
  void set_wire_id(Pending& pending, std::string_view wire_token, const IdView& wire);
  void remove(Pending& pending) noexcept;
  // The sender waits no more (it has its answer, or is gone), the receiver still owes one: the row stays for
  // that, its sender id is free again.
  void forget_sender(Pending& pending) noexcept;
  // Another one asks for the same, and gets the answer. The row has no sender.
  void set_sender(Pending& pending, std::string_view sender_token, const IdView& sender);

  Pending& at(std::uint32_t row) noexcept { return rows_[row]; }
  // The oldest row whose sender wrote this id, or null.
  Pending* by_sender_id(const IdView& id) noexcept;
  // The row that has this id on the wire, or null.
  Pending* by_wire_id(const IdView& id) noexcept;

  // In order of arrival: the oldest row, and the one after `pending`; null at the end.
  Pending* oldest() noexcept { return oldest_ == Pending::no_row ? nullptr : &rows_[oldest_]; }
  Pending* after(const Pending& pending) noexcept {
    return pending.newer == Pending::no_row ? nullptr : &rows_[pending.newer];
  }

 private:
  std::deque<Pending> rows_;  // addresses stay
  std::vector<std::uint32_t> free_;
  IdIndex by_sender_;
  IdIndex by_wire_;
  std::uint32_t oldest_ = Pending::no_row;
  std::uint32_t newest_ = Pending::no_row;
  std::size_t count_ = 0;
  std::string scratch_;
};

}  // namespace acp
