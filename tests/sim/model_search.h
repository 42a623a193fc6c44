// All interleavings of the exhaustive model to a depth, breadth first, each state once.
//
// The depth is a number of choices, or of detours: then what brings the world straight on to rest is free,
// and a detour is anything else, a prompt, a fault, another order. So a few of them are tried at every moment
// of histories of any length. A level holds the states that so many choices lead to and fewer do not. A state
// is kept as its hash and the choices that lead to it; it is made again by making those. At each new state
// faults stop once, and all must come to rest. Invariant: the report's numbers depend on the scope and the
// depth alone, not on the threads; so does the interleaving that is told, but for detours, where it is one of
// those with as few. Lifetime: one search.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/sim/model_world.h"

namespace acp::sim {

// How a state was reached: from which state of the level before, after how many free choices, by which
// choice.
struct ModelStep {
  std::uint32_t from = 0;
  std::uint32_t after = 0;
  std::optional<Choice> choice;  // none: the path ends there
  auto operator<=>(const ModelStep&) const = default;
};

struct ModelReport {
  std::size_t depth = 0;          // of the last level that is complete
  std::uint64_t visited = 0;      // states reached, each time that one was
  std::uint64_t distinct = 0;     // with the first
  std::uint64_t transitions = 0;  // choices made
  std::uint64_t last_runs = 0;    // distinct beginnings of a last run
  std::uint64_t violations = 0;   // of the level where the search ended
  std::uint64_t hash = 0;         // over all states
  double seconds = 0;
  std::string failure;          // the first one in words
  std::vector<ModelStep> path;  // and what leads to it
  bool at_rest = false;         // it shows only once faults have stopped
};

class ModelSearch {
 public:
  // `progress`: told there every other second; null: not.
  // `counts_detours`: the depth is a number of those.
  ModelSearch(const ModelScope& scope, std::size_t depth, bool counts_detours, unsigned jobs,
              std::FILE* progress);
  // Ends at the depth, or behind the first level with a violation.
  ModelReport run();
  // The same path again, told line by line.
  static void tell(const ModelScope& scope, const ModelReport& report, std::FILE* out);

 private:
  struct PrintHash {
    std::size_t operator()(const Fingerprint& print) const noexcept;
  };
  using Step = ModelStep;
  struct Shard {
    std::mutex mutex;
    std::unordered_set<Fingerprint, PrintHash> seen;  // of all levels
    std::map<Fingerprint, Step> fresh;                // of the level at hand
  };
  struct Violation {
    Step step;
    std::string failure;
    bool at_rest;
  };
  static constexpr std::size_t shards = 64;

  void expand_level();
  void expand(std::size_t place);
  void go_straight_on(std::size_t place);
  void branch(const ModelWorld& world, const Step& here);
  // True: this is its first visit.
  bool note(const Fingerprint& state, const Step& step);
  // The same of a state that costs no detour: it belongs to the level at hand.
  bool note_on_the_way(const Fingerprint& state);
  void check_rest(ModelWorld world, const Step& step);
  void note_violation(const ModelWorld& world, const Step& step, bool at_rest);
  void close_level();
  std::vector<Step> path_to(std::size_t place) const;
  ModelWorld world_at(std::size_t place) const;
  void tell_progress();

  ModelScope scope_;
  std::size_t depth_;
  bool counts_detours_;
  bool branches_ = true;  // false: only straight on from the last level
  unsigned jobs_;
  std::FILE* progress_;
  ModelWorld root_;
  std::vector<std::vector<Step>> levels_;  // sorted by state
  std::vector<Shard> shards_{shards};
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> transitions_{0};
  std::atomic<std::uint64_t> distinct_{0};
  std::atomic<std::uint64_t> hash_{0};
  std::mutex mutex_;  // of what follows
  std::unordered_set<Fingerprint, PrintHash> ended_well_;
  std::vector<Violation> violations_;
  std::chrono::steady_clock::time_point begun_, told_;
  ModelReport report_;
};

}  // namespace acp::sim
