#include "tests/sim/shrink.h"

#include <algorithm>
#include <utility>

namespace acp::sim {
namespace {

class Shrinker {
 public:
  Shrinker(Invariant broken, const std::function<Outcome(Script&)>& run, std::size_t runs_max)
      : broken_(broken), run_(run), runs_max_(runs_max) {}

  Shrunk work(Script script, std::size_t steps, Kinds kinds) {
    script.tape.records = false;
    best_.script = script;
    script.skipped.assign(steps, false);
    // If not even the whole of it fails again there is nothing to take away from.
    for (bool shorter = keep_if_it_fails(std::move(script)); shorter;) {
      shorter = leave_out_events();
      shorter |= leave_out_kinds(kinds);
      shorter |= leave_out_names();
    }
    best_.runs = runs_;
    best_.events =
        static_cast<std::size_t>(std::count(best_.script.skipped.begin(), best_.script.skipped.end(), false));
    return std::move(best_);
  }

 private:
  bool keep_if_it_fails(Script script) {
    if (runs_ >= runs_max_) return false;
    ++runs_;
    const Outcome outcome = run_(script);
    if (outcome.broken != broken_) return false;
    // What comes after the failure is not part of it.
    for (std::size_t i = outcome.steps; i < script.skipped.size(); ++i) script.skipped[i] = true;
    best_.script = std::move(script);
    best_.outcome = outcome;
    return true;
  }

  bool leave_out_events() {
    bool any = false;
    std::vector<std::size_t> left = events_left();
    for (std::size_t size = std::max<std::size_t>(left.size() / 2, 1); size > 0; size /= 2) {
      // From the end, where most can go.
      for (std::size_t end = left.size(); end > 0;) {
        const std::size_t begin = end - std::min(end, size);
        Script script = best_.script;
        for (std::size_t i = begin; i < end; ++i) script.skipped[left[i]] = true;
        any |= keep_if_it_fails(std::move(script));
        end = begin;
      }
      left = events_left();
    }
    return any;
  }

  std::vector<std::size_t> events_left() const {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < best_.script.skipped.size(); ++i) {
      if (!best_.script.skipped[i]) left.push_back(i);
    }
    return left;
  }

  bool leave_out_kinds(Kinds kinds) {
    bool any = false;
    for (std::size_t kind = 0; kind < kinds_max; ++kind) {
      if (!kinds[kind] || best_.script.off[kind]) continue;
      Script script = best_.script;
      script.off.set(kind);
      any |= keep_if_it_fails(std::move(script));
    }
    return any;
  }

  bool leave_out_names() {
    bool any = false;
    for (std::size_t Script::*const most : {&Script::sessions_max, &Script::keys_max}) {
      for (std::size_t number = 1; number < 4 && number < best_.script.*most; ++number) {
        Script script = best_.script;
        script.*most = number;
        any |= keep_if_it_fails(std::move(script));
      }
    }
    return any;
  }

  Invariant broken_;
  const std::function<Outcome(Script&)>& run_;
  std::size_t runs_max_;
  std::size_t runs_ = 0;
  Shrunk best_;
};

}  // namespace

Shrunk shrink(Script script, Invariant broken, std::size_t steps, Kinds kinds,
              const std::function<Outcome(Script&)>& run, std::size_t runs_max) {
  return Shrinker(broken, run, runs_max).work(std::move(script), steps, kinds);
}

}  // namespace acp::sim
