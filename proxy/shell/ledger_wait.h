// How long somebody else's lock on the ledger is waited for.
//
// Invariant: a wait is a row of short sleeps, so that hurry() is noticed soon. Lifetime: outlives whoever
// waits; all calls but hurry() from the ledger's thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <limits>

#include "proxy/core/types.h"

namespace acp::shell {

class LedgerWait {
 public:
  explicit LedgerWait(Duration longest) noexcept : longest_(longest) {}
  LedgerWait(const LedgerWait&) = delete;
  LedgerWait& operator=(const LedgerWait&) = delete;

  // A new wait begins.
  void begin() noexcept {
    next_ = first_sleep;
    until_ = now() + longest_;
  }
  // Sleeps a moment; false if it was long enough.
  bool again() noexcept {
    const Instant present = now();
    const Instant end = std::min(until_, Instant(Duration(hurry_until_.load(std::memory_order_relaxed))));
    if (present >= end) return false;
    const Duration pause = std::min(next_, end - present);
    next_ = std::min(next_ * 2, longest_sleep);
    const timespec time{0, static_cast<long>(pause.count())};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    return true;
  }
  // From now on no wait goes on for longer than that. From any thread.
  void hurry(Duration left) noexcept {
    hurry_until_.store((now() + left).time_since_epoch().count(), std::memory_order_relaxed);
  }

 private:
  static constexpr Duration first_sleep = std::chrono::milliseconds(1);
  static constexpr Duration longest_sleep = std::chrono::milliseconds(50);

  static Instant now() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return Instant(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }

  Duration longest_;
  Duration next_ = first_sleep;
  Instant until_{};
  std::atomic<std::int64_t> hurry_until_{std::numeric_limits<std::int64_t>::max()};
};

}  // namespace acp::shell
