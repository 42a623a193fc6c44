// Frames for the agent that must not leave before the ledger has what they need.
//
// A keyed prompt waits for its commit; what came after it waits behind it, so that the order is kept. Once a
// commit takes long (limits::commit_patience), only frames of the same session wait behind it. Invariant: a
// frame leaves once, after every earlier one of its session; nothing leaves whose commit has not succeeded.
// Bounded by limits::held_bytes_max (then the client is not read). Lifetime: of one epoch's link; cleared
// when it is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/pending.h"
#include "proxy/core/types.h"

namespace acp {

class Outbox {
 public:
  struct Frame {
    std::uint64_t ticket = 0;                 // of the commit that it waits for; 0: none
    std::uint32_t session = Pending::no_row;  // no_row: of none
    std::uint32_t pending = Pending::no_row;  // the request in it, if it is one of the client's
    Instant since{};
    std::string bytes = {};
  };

  bool empty() const noexcept { return frames_.empty(); }
  std::size_t bytes() const noexcept { return bytes_; }

  // A frame begins; its bytes follow by append().
  void begin(Frame frame) { frames_.push_back(std::move(frame)); }
  void append(std::string_view bytes) {
    frames_.back().bytes += bytes;
    bytes_ += bytes.size();
  }

  // A commit has succeeded: its frames wait for it no longer.
  void confirm(std::uint64_t ticket) noexcept;
  bool waits_for(std::uint64_t ticket) const noexcept;
  // Takes the next frame that may leave, if there is one.
  std::optional<Frame> take_free(Instant now);
  // Takes out the frame of a request: it will not be sent.
  void drop(std::uint32_t pending) noexcept;
  // When the oldest frame will have waited so long that other sessions pass it; null if none waits, or if
  // they pass already.
  std::optional<Instant> patience_ends() const noexcept;
  // Frames of other sessions pass those that wait.
  bool is_slow() const noexcept { return !frames_.empty() && passed_ == frames_.front().since; }
  // The requests of a session that still wait, in order.
  std::vector<std::uint32_t> requests_of(std::uint32_t session) const;
  void clear() noexcept;

 private:
  std::deque<Frame> frames_;
  std::size_t bytes_ = 0;
  std::optional<Instant> passed_;  // the oldest frame's beginning, once others pass it
};

}  // namespace acp
