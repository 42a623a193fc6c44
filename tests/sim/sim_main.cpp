// keyhop-sim: histories of a relay between simulated peers, by seed.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/sim/every_byte.h"
#include "tests/sim/guard_world.h"
#include "tests/sim/lives_world.h"
#include "tests/sim/messages.h"
#include "tests/sim/world.h"

namespace acp::sim {
namespace {

constexpr int usage_error = 64;
constexpr std::string_view help =
    "keyhop-sim: the relay's core between simulated peers, by seed.\n"
    "  --seed S                      replay one history, told line by line\n"
    "  --count N [--from S] [--jobs J]   N histories from seed S (1), on J threads (all)\n"
    "  --seeds FILE                  run these first, one a line, # begins a comment\n"
    "  --world relay|lives|both|guard    one agent process, many of them, both for each seed (both), or "
    "keyed\n"
    "                                prompts over runs of keyhop with one ledger\n"
    "  --every-byte                  recorded dialogues, the agent killed at each byte\n"
    "  --record                      write the agent's half of those anew\n"
    "  --messages N                  N generated messages across a relay, both ways\n"
    "  --json                        the closing line as JSON\n"
    "Exit status: 0 all held, 1 an invariant broke, 64 usage.\n";

enum class Worlds : std::uint8_t { relay, lives, both, guard };

struct Options {
  Worlds worlds = Worlds::both;
  std::uint64_t seed = 0;
  bool replay = false;
  std::uint64_t count = 0;
  std::uint64_t from = 1;
  std::uint64_t messages = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string seeds_file;
  bool json = false;
  bool help = false;
  bool every_byte = false;
  bool record = false;
};

bool read_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_worlds(std::string_view word, Worlds& worlds) {
  static constexpr std::string_view names[] = {"relay", "lives", "both", "guard"};
  const auto found = std::find(std::begin(names), std::end(names), word);
  if (found == std::end(names)) return false;
  worlds = static_cast<Worlds>(found - std::begin(names));
  return true;
}

// False: the complaint has been printed.
bool read_options(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    std::uint64_t jobs = 0;
    if (word == "--json") {
      options.json = true;
      continue;
    }
    if (word == "--every-byte" || word == "--record") {
      (word == "--record" ? options.record : options.every_byte) = true;
      continue;
    }
    if (word == "--help") {
      options.help = true;
      continue;
    }
    const std::string_view value = i + 1 < count ? words[++i] : "";
    bool right = true;
    if (word == "--seed") {
      options.replay = right = read_number(value, options.seed);
    } else if (word == "--count") {
      right = read_number(value, options.count);
    } else if (word == "--from") {
      right = read_number(value, options.from);
    } else if (word == "--messages") {
      right = read_number(value, options.messages);
    } else if (word == "--jobs") {
      right = read_number(value, jobs) && jobs > 0;
      options.jobs = static_cast<unsigned>(jobs);
    } else if (word == "--world") {
      right = read_worlds(value, options.worlds);
    } else if (word == "--seeds") {
      options.seeds_file = value;
    } else {
      fmt::print(stderr, "keyhop-sim: unknown option {}\n", word);
      return false;
    }
    if (!right) {
      fmt::print(stderr, "keyhop-sim: {} does not take \"{}\"\n", word, value);
      return false;
    }
  }
  return true;
}

template <class World>
int replay(std::string_view name, std::uint64_t seed) {
  const Outcome told = World(seed, stdout).run();
  const Outcome again = World(seed, nullptr).run();
  fmt::print("{} seed {}: {} events, {} messages, trace {:016x}\n", name, seed, told.events, told.messages,
             told.trace_hash);
  if (told.trace_hash != again.trace_hash) fmt::print("one seed gave two histories\n");
  if (!told.failure.empty()) fmt::print("FAILED {}\n", told.failure);
  return told.failure.empty() && told.trace_hash == again.trace_hash ? 0 : 1;
}

int replay(const Options& options) {
  if (options.worlds == Worlds::guard) return replay<GuardWorld>("guard", options.seed);
  int status = 0;
  if (options.worlds != Worlds::lives) status |= replay<World>("relay", options.seed);
  if (options.worlds != Worlds::relay) status |= replay<LivesWorld>("lives", options.seed);
  return status;
}

// Runs many histories; a failing one is named with the command that replays it.
class Campaign {
 public:
  explicit Campaign(const Options& options) : options_(options) {}

  int run() {
    std::vector<std::uint64_t> seeds;
    if (!options_.seeds_file.empty() && !read_seeds(seeds)) return usage_error;
    for (const std::uint64_t seed : seeds) run_one(seed, true);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options_.jobs; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    close();
    return failed_ == 0 ? 0 : 1;
  }

 private:
  static constexpr std::uint64_t twice_every = 64;  // so often a seed is run twice and compared
  static constexpr std::uint64_t failures_max = 10;

  bool read_seeds(std::vector<std::uint64_t>& seeds) {
    std::ifstream file(options_.seeds_file);
    if (!file) {
      fmt::print(stderr, "keyhop-sim: cannot read {}\n", options_.seeds_file);
      return false;
    }
    for (std::string line; std::getline(file, line);) {
      const std::string_view word = std::string_view(line).substr(0, line.find_first_of(" \t#"));
      std::uint64_t seed = 0;
      if (!word.empty() && read_number(word, seed)) seeds.push_back(seed);
    }
    return true;
  }

  void work() {
    while (failed_ < failures_max) {
      const std::uint64_t nth = next_++;
      if (nth >= options_.count) return;
      run_one(options_.from + nth, nth % twice_every == 0);
      if (nth % 256 == 0) tell_progress(nth);
    }
  }

  void run_one(std::uint64_t seed, bool twice) {
    if (options_.worlds == Worlds::guard) return run_in<GuardWorld>("guard", seed, twice);
    if (options_.worlds != Worlds::lives) run_in<World>("relay", seed, twice);
    if (options_.worlds != Worlds::relay) run_in<LivesWorld>("lives", seed, twice);
  }

  template <class World>
  void run_in(std::string_view name, std::uint64_t seed, bool twice) {
    const Outcome outcome = World(seed, nullptr).run();
    std::string failure = outcome.failure;
    if (twice && failure.empty() && World(seed, nullptr).run().trace_hash != outcome.trace_hash)
      failure = "one seed gave two histories";
    ++done_;
    events_ += outcome.events;
    messages_ += outcome.messages;
    if (failure.empty()) return;
    ++failed_;
    const std::lock_guard lock(mutex_);
    fmt::print(stderr, "seed {} FAILED {}\n  replay: keyhop-sim --world {} --seed {}\n", seed, failure, name,
               seed);
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  void tell_progress(std::uint64_t nth) {
    if (seconds() < 2) return;
    const std::lock_guard lock(mutex_);
    const auto now = static_cast<std::uint64_t>(seconds());
    if (now == told_second_) return;
    told_second_ = now;
    fmt::print(stderr, "  {} of {} seeds, {:.0f} histories/s\n", nth, options_.count,
               static_cast<double>(done_.load()) / seconds());
  }

  void close() {
    const double rate = static_cast<double>(done_.load()) / std::max(seconds(), 1e-9);
    if (options_.json) {
      fmt::print(
          R"({{"histories":{},"failed":{},"events":{},"messages":{},"seconds":{:.3f},"perSecond":{:.0f}}})"
          "\n",
          done_.load(), failed_.load(), events_.load(), messages_.load(), seconds(), rate);
    } else {
      fmt::print("{} histories, {} failed; {} events, {} messages; {:.1f} s, {:.0f}/s on {} threads\n",
                 done_.load(), failed_.load(), events_.load(), messages_.load(), seconds(), rate,
                 options_.jobs);
    }
  }

  const Options& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> next_{0}, done_{0}, failed_{0}, events_{0}, messages_{0};
  std::mutex mutex_;
  std::uint64_t told_second_ = 0;
};

int run_messages(const Options& options) {
  const MessageReport report = cross_messages(options.messages, options.from);
  if (options.json) {
    fmt::print(R"({{"messages":{},"bytes":{},"failed":{}}})"
               "\n",
               report.messages, report.bytes, report.failure.empty() ? 0 : 1);
  } else {
    fmt::print("{} messages, {} bytes crossed\n", report.messages, report.bytes);
  }
  if (report.failure.empty()) return 0;
  fmt::print(stderr, "FAILED {}\n  replay: keyhop-sim --messages {} --from {}\n", report.failure,
             options.messages, options.from);
  return 1;
}

int run_every_byte(const Options& options) {
  const ByteReport report = kill_at_every_byte(KEYHOP_DIALOGUES, options.jobs);
  fmt::print(
      "{} dialogues, killed after each of {} bytes written and {} bytes taken: {} duplicate effects, "
      "{} answers lost or doubled, {} requests hung\n",
      report.dialogues, report.output_bytes, report.input_bytes, report.duplicates,
      report.wrong_answers + report.hung, report.hung);
  if (!report.failure.empty()) fmt::print(stderr, "FAILED {}\n", report.failure);
  return report.failure.empty() ? 0 : 1;
}

}  // namespace
}  // namespace acp::sim

int main(int count, char** words) {
  using namespace acp::sim;
  Options options;
  if (!read_options(count, words, options)) return usage_error;
  if (options.record) return record_dialogues(KEYHOP_DIALOGUES) ? 0 : 1;
  if (options.every_byte) return run_every_byte(options);
  if (options.help ||
      (!options.replay && options.count == 0 && options.messages == 0 && options.seeds_file.empty())) {
    fmt::print("{}", help);
    return options.help ? 0 : usage_error;
  }
  if (options.replay) return replay(options);
  if (options.messages != 0) return run_messages(options);
  return Campaign(options).run();
}
