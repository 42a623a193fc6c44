// Many histories on several threads, and what they come to in all.
//
// A failing one is named with the command that replays it; the first one is made short and told. A campaign
// fails if an invariant broke, if a history had no fault, or (where it is asked for) if a pair of phase and
// event was missed. Invariant: the same seeds give the same hash over all traces, on any number of threads.
// Lifetime: one campaign.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/coverage.h"
#include "tests/sim/outcome.h"
#include "tests/sim/worlds.h"

namespace acp::sim {

struct CampaignOptions {
  Worlds worlds = Worlds::all;
  std::uint64_t count = 0;
  std::uint64_t from = 1;
  unsigned jobs = 1;
  std::vector<std::uint64_t> first;  // seeds that run before all others, twice each
  bool json = false;
  bool coverage = false;
};

class Campaign {
 public:
  explicit Campaign(CampaignOptions options) : options_(std::move(options)) {}
  // 0 if all held, else 1.
  int run();

 private:
  struct Sums {
    std::array<std::uint64_t, worlds_count> histories{};
    std::uint64_t events = 0, messages = 0, faults = 0, faultless = 0, hash = 0;
    Coverage coverage;
  };
  struct Failed {
    Which which;
    std::uint64_t seed;
    Outcome outcome;
  };
  void work();
  void run_seed(std::uint64_t seed, bool twice, Sums& sums);
  void run_one(Which which, std::uint64_t seed, bool twice, Sums& sums);
  void add(const Sums& sums);
  void tell_progress();
  double seconds() const;
  int close();

  const CampaignOptions options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> next_{0}, done_{0}, failed_{0};
  std::mutex mutex_;
  std::uint64_t told_second_ = 0;
  Sums sums_;
  std::optional<Failed> first_failed_;  // of the lowest seed
};

}  // namespace acp::sim
