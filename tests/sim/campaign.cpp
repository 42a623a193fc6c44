#include "tests/sim/campaign.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <thread>

namespace acp::sim {
namespace {

constexpr std::uint64_t twice_every = 256;  // so often a seed is run twice and compared
constexpr std::uint64_t failures_max = 10;
constexpr std::uint64_t progress_every = 256;

}  // namespace

int Campaign::run() {
  Sums sums;
  for (const std::uint64_t seed : options_.first) run_seed(seed, true, sums);
  add(sums);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options_.jobs; ++i) threads.emplace_back([this] { work(); });
  for (std::thread& thread : threads) thread.join();
  return close();
}

void Campaign::work() {
  Sums sums;
  while (failed_ < failures_max) {
    const std::uint64_t nth = next_++;
    if (nth >= options_.count) break;
    run_seed(options_.from + nth, nth % twice_every == 0, sums);
    if (nth % progress_every == 0) tell_progress();
  }
  add(sums);
}

void Campaign::run_seed(std::uint64_t seed, bool twice, Sums& sums) {
  for (const Which which : worlds_of(options_.worlds, seed)) run_one(which, seed, twice, sums);
}

void Campaign::run_one(Which which, std::uint64_t seed, bool twice, Sums& sums) {
  Outcome outcome = play(which, seed, nullptr);
  if (twice && !outcome.broken && play(which, seed, nullptr).trace_hash != outcome.trace_hash) {
    outcome.broken = Invariant::one_history;
    outcome.failure = fmt::format("{}: two runs differ", name_of(Invariant::one_history));
  }
  ++done_;
  ++sums.histories[static_cast<std::size_t>(which)];
  sums.events += outcome.events;
  sums.messages += outcome.messages;
  sums.faults += outcome.faults;
  TraceHash hash;  // of the seed and its trace: a sum, so that the order of the threads does not count
  hash.mix_number(seed);
  hash.mix_number(outcome.trace_hash);
  sums.hash += hash.value();
  sums.coverage.add(outcome.reached);
  if (!outcome.broken && outcome.faults > 0) return;
  const std::lock_guard lock(mutex_);
  if (!outcome.broken) {
    ++sums.faultless;
    if (sums.faultless == 1) fmt::print(stderr, "{} seed {} had no fault\n", name_of(which), seed);
    return;
  }
  ++failed_;
  fmt::print(stderr, "{} seed {} FAILED {}\n  replay: keyhop-sim --world {} --seed {}\n", name_of(which),
             seed, outcome.failure, name_of(which), seed);
  if (!first_failed_ || seed < first_failed_->seed) first_failed_ = Failed{which, seed, outcome};
}

void Campaign::add(const Sums& sums) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < worlds_count; ++i) sums_.histories[i] += sums.histories[i];
  sums_.events += sums.events;
  sums_.messages += sums.messages;
  sums_.faults += sums.faults;
  sums_.faultless += sums.faultless;
  sums_.hash += sums.hash;
  sums_.coverage.add(sums.coverage);
}

double Campaign::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void Campaign::tell_progress() {
  if (seconds() < 2) return;
  const std::lock_guard lock(mutex_);
  const auto now = static_cast<std::uint64_t>(seconds());
  if (now == told_second_) return;
  told_second_ = now;
  fmt::print(stderr, "  {} histories of {} seeds, {:.0f}/s, {} failed\n", done_.load(), options_.count,
             static_cast<double>(done_.load()) / seconds(), failed_.load());
}

int Campaign::close() {
  const double took = std::max(seconds(), 1e-9);
  const double rate = static_cast<double>(done_.load()) / took;
  if (options_.json) {
    fmt::print(
        R"({{"histories":{},"relay":{},"lives":{},"guard":{},"phases":{},"chains":{},"failed":{},"faults":{},"withoutFault":{},)"
        R"("events":{},"messages":{},"traceHash":"{:016x}","seconds":{:.3f},"perSecond":{:.0f},"threads":{}}})"
        "\n",
        done_.load(), sums_.histories[0], sums_.histories[1], sums_.histories[2], sums_.histories[3],
        sums_.histories[4], failed_.load(), sums_.faults, sums_.faultless, sums_.events, sums_.messages,
        sums_.hash, took, rate, options_.jobs);
  } else {
    fmt::print(
        "{} histories (relay {}, lives {}, guard {}, phases {}, chains {}), {} failed; {} faults, histories "
        "without a "
        "fault: {}; "
        "{} events, {} messages\ntrace hash over all {:016x}; {:.1f} s, {:.0f}/s on {} threads\n",
        done_.load(), sums_.histories[0], sums_.histories[1], sums_.histories[2], sums_.histories[3],
        sums_.histories[4], failed_.load(), sums_.faults, sums_.faultless, sums_.events, sums_.messages,
        sums_.hash, took, rate, options_.jobs);
  }
  const std::string missed = options_.coverage ? sums_.coverage.wrong() : std::string();
  if (options_.coverage) fmt::print("{}", sums_.coverage.table());
  if (!missed.empty()) fmt::print(stderr, "FAILED coverage: {}\n", missed);
  const bool short_one = first_failed_ && first_failed_->outcome.broken != Invariant::one_history;
  if (short_one) tell_shrunk(first_failed_->which, first_failed_->seed, first_failed_->outcome, stderr);
  return failed_ == 0 && sums_.faultless == 0 && missed.empty() ? 0 : 1;
}

}  // namespace acp::sim
