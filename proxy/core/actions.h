// The ordered list of what one step wants done.
//
// Invariant: order is the order of carrying out; neighbouring Sends to one link whose bytes lie side by side
// in memory are one Send (so what one read gave leaves in one write). Lifetime: cleared by the shell after it
// carried them out; views in it then end. Memory is reused from step to step.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/core/arena.h"
#include "proxy/core/event.h"

namespace acp {

class Actions {
 public:
  // Bytes that outlive the step's actions: in the event, in a buffer of the core, or in this arena. Empty
  // views are dropped.
  void send(LinkId link, std::string_view bytes) {
    if (bytes.empty()) return;
    if (list_.size() > sealed_) {
      auto* last = std::get_if<Send>(&list_.back());
      if (last != nullptr && last->link == link && last->bytes.data() + last->bytes.size() == bytes.data()) {
        last->bytes = {last->bytes.data(), last->bytes.size() + bytes.size()};
        return;
      }
    }
    list_.emplace_back(Send{link, bytes});
  }
  // The same for bytes that would not outlive it: copied first.
  void send_copy(LinkId link, std::string_view bytes) { send(link, arena_.add(bytes)); }

  // A log line; the text is copied. Callers keep secrets out of it.
  void log(LogLevel level, std::string_view text) { list_.emplace_back(Log{level, arena_.add(text)}); }

  void commit(LedgerBatch batch) {
    batches_.push_back(std::move(batch));
    list_.emplace_back(CommitLedger{&batches_.back()});
  }
  void read_ledger(std::uint64_t ticket, std::string_view agent, std::string_view session) {
    list_.emplace_back(ReadLedger{ticket, arena_.add(agent), arena_.add(session)});
  }

  template <class A>
  void add(A action) {
    list_.emplace_back(std::move(action));
  }

  // What was ordered so far has been dealt with: what follows is an order of its own.
  void seal() noexcept { sealed_ = list_.size(); }

  Arena& arena() noexcept { return arena_; }
  const std::vector<Action>& list() const noexcept { return list_; }
  bool empty() const noexcept { return list_.empty(); }

  void clear() noexcept {
    list_.clear();
    sealed_ = 0;
    batches_.clear();
    arena_.reset();
  }

 private:
  std::vector<Action> list_;
  std::size_t sealed_ = 0;
  std::deque<LedgerBatch> batches_;  // addresses stay
  Arena arena_;
};

}  // namespace acp
