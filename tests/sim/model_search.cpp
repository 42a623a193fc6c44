#include "tests/sim/model_search.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <thread>

namespace acp::sim {
namespace {

constexpr std::size_t chunk = 16;
constexpr std::uint32_t straight_max = 1000;  // far more than it takes
constexpr std::chrono::seconds progress_pause{2};

std::uint64_t word_of(const Fingerprint& print) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, print.bytes.data(), sizeof word);
  return word;
}

}  // namespace

std::size_t ModelSearch::PrintHash::operator()(const Fingerprint& print) const noexcept {
  return word_of(print);
}

ModelSearch::ModelSearch(const ModelScope& scope, std::size_t depth, bool counts_detours, unsigned jobs,
                         std::FILE* progress)
    : scope_(scope),
      depth_(depth),
      counts_detours_(counts_detours),
      jobs_(jobs),
      progress_(progress),
      root_(scope) {}

ModelReport ModelSearch::run() {
  begun_ = told_ = std::chrono::steady_clock::now();
  levels_.push_back({Step{}});
  note_on_the_way(root_.state());
  if (root_.is_broken()) {
    note_violation(root_, {}, false);
  } else {
    check_rest(root_, {});
  }
  while (violations_.empty() && report_.depth < depth_ && !levels_.back().empty()) {
    expand_level();
    close_level();
  }
  if (counts_detours_ && violations_.empty()) {
    branches_ = false;
    expand_level();
    levels_.emplace_back();
  }
  report_.distinct = distinct_;
  report_.hash = hash_;
  report_.transitions = transitions_;
  report_.visited = report_.transitions + 1;
  report_.last_runs = ended_well_.size();
  report_.violations = violations_.size();
  if (!violations_.empty()) {
    const Violation& first = *std::ranges::min_element(violations_, {}, [](const Violation& violation) {
      return std::pair(violation.step, violation.at_rest);
    });
    report_.failure = first.failure;
    report_.at_rest = first.at_rest;
    if (levels_.size() > 1 || report_.depth > 0) {
      // The level of the violation is the last one, that of its beginning the one before.
      levels_.pop_back();
      report_.path = path_to(first.step.from);
      report_.path.push_back(first.step);
    }
  }
  report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  return report_;
}

void ModelSearch::expand_level() {
  next_ = 0;
  std::vector<std::thread> threads;
  const auto work = [this] {
    for (std::size_t at = next_.fetch_add(chunk); at < levels_.back().size(); at = next_.fetch_add(chunk)) {
      for (std::size_t i = at; i < std::min(at + chunk, levels_.back().size()); ++i) expand(i);
      tell_progress();
    }
  };
  for (unsigned i = 1; i < jobs_; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

void ModelSearch::expand(std::size_t place) {
  if (counts_detours_) return go_straight_on(place);
  branch(world_at(place), {static_cast<std::uint32_t>(place), 0, {}});
}

void ModelSearch::branch(const ModelWorld& world, const Step& here) {
  // The way to rest that was checked from here goes there first, and then on as it would from there.
  const std::optional<Choice> straight = world.straight_on();
  for (const Choice& choice : world.choices()) {
    if (counts_detours_ && choice == straight) continue;
    ++transitions_;
    const Step step{here.from, here.after, choice};
    ModelWorld next = world;
    next.make(choice);
    if (next.is_broken()) {
      note_violation(next, step, false);
    } else if (note(next.state(), step) && !counts_detours_ && choice != straight) {
      check_rest(std::move(next), step);
    }
  }
}

// All detours from here and from each state on the way to rest, as far as nobody else has gone it.
void ModelSearch::go_straight_on(std::size_t place) {
  ModelWorld world = world_at(place);
  Step here{static_cast<std::uint32_t>(place), 0, {}};
  for (; here.after < straight_max; ++here.after) {
    if (branches_) branch(world, here);
    const std::optional<Choice> straight = world.straight_on();
    if (!straight) break;
    ++transitions_;
    here.choice = *straight;
    world.make(*straight);
    if (world.is_broken()) return note_violation(world, here, false);
    if (!note_on_the_way(world.state())) return;
  }
  here.choice.reset();
  check_rest(std::move(world), here);
}

bool ModelSearch::note(const Fingerprint& state, const Step& step) {
  Shard& shard = shards_[state.bytes[15] % shards];
  const std::lock_guard lock(shard.mutex);
  if (shard.seen.contains(state)) return false;
  const auto [found, is_new] = shard.fresh.emplace(state, step);
  // Whoever comes first: of the ways there the same one is kept.
  found->second = std::min(found->second, step);
  return is_new;
}

bool ModelSearch::note_on_the_way(const Fingerprint& state) {
  Shard& shard = shards_[state.bytes[15] % shards];
  const std::lock_guard lock(shard.mutex);
  if (!shard.seen.insert(state).second) return false;
  ++distinct_;
  hash_ += word_of(state);
  return true;
}

void ModelSearch::check_rest(ModelWorld world, const Step& step) {
  Fingerprint last;
  bool runs = false;
  world.rest([&](const Fingerprint& state) {
    last = state;
    const std::lock_guard lock(mutex_);
    runs = !ended_well_.contains(state);
    return !runs;
  });
  if (world.is_broken()) return note_violation(world, step, true);
  if (!runs) return;
  const std::lock_guard lock(mutex_);
  ended_well_.insert(last);
}

void ModelSearch::note_violation(const ModelWorld& world, const Step& step, bool at_rest) {
  const std::lock_guard lock(mutex_);
  violations_.push_back({step, world.failure(), at_rest});
}

// What is fresh is the next level.
void ModelSearch::close_level() {
  std::vector<std::pair<Fingerprint, Step>> fresh;
  for (Shard& shard : shards_) {
    for (const auto& [state, step] : shard.fresh) {
      if (!shard.seen.insert(state).second) continue;  // it costs less than it seemed
      fresh.emplace_back(state, step);
      hash_ += word_of(state);
    }
    shard.fresh.clear();
  }
  std::ranges::sort(fresh);
  std::vector<Step>& level = levels_.emplace_back();
  level.reserve(fresh.size());
  for (const auto& [state, step] : fresh) level.push_back(step);
  distinct_ += level.size();
  ++report_.depth;
}

std::vector<ModelStep> ModelSearch::path_to(std::size_t place) const {
  std::vector<Step> path;
  for (std::size_t level = levels_.size() - 1; level > 0; --level) {
    path.push_back(levels_[level][place]);
    place = levels_[level][place].from;
  }
  std::ranges::reverse(path);
  return path;
}

ModelWorld ModelSearch::world_at(std::size_t place) const {
  ModelWorld world = root_;
  for (const Step& step : path_to(place)) {
    for (std::uint32_t i = 0; i < step.after; ++i) world.make(*world.straight_on());
    world.make(*step.choice);
  }
  return world;
}

void ModelSearch::tell_progress() {
  if (progress_ == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (now - told_ < progress_pause) return;
  told_ = now;
  fmt::print(progress_, "depth {}: {} of {} states gone on from, {} distinct states before it, {:.0f} s\n",
             report_.depth + 1, std::min(next_.load(), levels_.back().size()), levels_.back().size(),
             distinct_.load(), std::chrono::duration<double>(now - begun_).count());
}

void ModelSearch::tell(const ModelScope& scope, const ModelReport& report, std::FILE* out) {
  ModelWorld world(scope);
  world.trace(out);
  std::size_t number = 0;
  const auto make = [&](const Choice& choice) {
    fmt::print(out, "{:2}. {}\n", ++number, world.in_words(choice));
    world.make(choice);
  };
  for (const ModelStep& step : report.path) {
    for (std::uint32_t i = 0; i < step.after; ++i) make(*world.straight_on());
    if (step.choice) make(*step.choice);
  }
  if (report.at_rest) world.rest([](const Fingerprint&) { return false; });
  fmt::print(out, "FAILED {}\n", world.failure());
}

}  // namespace acp::sim
