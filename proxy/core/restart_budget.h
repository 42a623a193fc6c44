// When may an agent that went away be started again?
//
// The first restart after an epoch that served is immediate; epochs in a row that did not get through their
// restore wait, twice as long each time, with jitter. At most N restarts lie in any window; beyond that the
// budget is spent until the oldest leaves the window, or a fixed time if that is sooner. Invariant: pure
// arithmetic on the instants it is told; the jitter comes from a seed, so the same history waits the same.
// Lifetime: one for each component, as long as the relay.
#pragma once

#include <cstdint>
#include <deque>

#include "proxy/core/types.h"

namespace acp {

struct RestartLimit {
  std::uint32_t restarts_max = 5;  // 0: never restart
  Duration window = std::chrono::seconds(60);
};

class RestartBudget {
 public:
  enum class Answer : std::uint8_t {
    now,    // start it
    wait,   // start it at `at`
    spent,  // no more starts until `at`; the first request after that starts it
  };
  struct Ruling {
    Answer answer;
    Instant at;
  };

  RestartBudget(const RestartLimit& limit, std::uint64_t seed) noexcept : limit_(limit), random_(seed) {}

  // An epoch was lost. `served`: it had got through its start (and restore).
  Ruling on_loss(bool served, Instant now);
  // It is started again now.
  void on_restart(Instant now);

  std::uint32_t restarts_in_window(Instant now);

 private:
  void forget_before(Instant now);
  std::uint64_t draw() noexcept;

  RestartLimit limit_;
  std::uint64_t random_;
  std::deque<Instant> restarts_;
  std::uint32_t failures_ = 0;  // epochs in a row that did not serve
};

}  // namespace acp
