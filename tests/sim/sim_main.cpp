// keyhop-sim: histories of a relay between simulated peers, by seed.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sim/campaign.h"
#include "tests/sim/every_byte.h"
#include "tests/sim/messages.h"
#include "tests/sim/worlds.h"

namespace acp::sim {
namespace {

constexpr int usage_error = 64;
constexpr std::string_view help =
    "keyhop-sim: the relay's core between simulated peers, by seed.\n"
    "  --seed S                      replay one history, told line by line; one that fails also made short\n"
    "  --count N [--from S] [--jobs J]   N histories from seed S (1), on J threads (all)\n"
    "  --seeds FILE                  run these first, one a line, # begins a comment\n"
    "  --world WORLD                 relay: one agent process; lives: many of them; guard: keyed prompts "
    "over\n"
    "                                runs of keyhop with one ledger; phases: any event in any phase; all: "
    "one\n"
    "                                of the four for each seed (this, if none is named); both: the first\n"
    "                                two for each; each: all four; chains: keyhop as the conductor of\n"
    "                                proxies, or as a component itself\n"
    "  --coverage                    also which events were reached in which phase; a missed pair fails\n"
    "  --invariants                  list what is checked\n"
    "  --every-byte                  recorded dialogues, the agent killed at each byte\n"
    "  --record                      write the agent's half of those anew\n"
    "  --messages N                  N generated messages across a relay, both ways\n"
    "  --json                        the closing line as JSON\n"
    "Exit status: 0 all held, 1 an invariant broke or a history had no fault, 64 usage.\n";

struct Options {
  CampaignOptions campaign;
  std::uint64_t seed = 0;
  bool replay = false;
  std::uint64_t messages = 0;
  std::string seeds_file;
  bool help = false;
  bool every_byte = false;
  bool record = false;
  bool invariants = false;
};

bool read_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_worlds(std::string_view word, Worlds& worlds) {
  const std::optional<Worlds> named = worlds_named(word);
  if (named) worlds = *named;
  return named.has_value();
}

// A word that stands alone. False: it is not one of them.
bool read_flag(std::string_view word, Options& options) {
  const std::pair<std::string_view, bool*> flags[] = {
      {"--json", &options.campaign.json},    {"--coverage", &options.campaign.coverage},
      {"--every-byte", &options.every_byte}, {"--record", &options.record},
      {"--invariants", &options.invariants}, {"--help", &options.help},
  };
  for (const auto& [name, flag] : flags) {
    if (word == name) return *flag = true;
  }
  return false;
}

// False: the complaint has been printed.
bool read_options(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    std::uint64_t jobs = 0;
    if (read_flag(word, options)) continue;
    const std::string_view value = i + 1 < count ? words[++i] : "";
    bool right = true;
    if (word == "--seed") {
      options.replay = right = read_number(value, options.seed);
    } else if (word == "--count") {
      right = read_number(value, options.campaign.count);
    } else if (word == "--from") {
      right = read_number(value, options.campaign.from);
    } else if (word == "--messages") {
      right = read_number(value, options.messages);
    } else if (word == "--jobs") {
      right = read_number(value, jobs) && jobs > 0;
      options.campaign.jobs = static_cast<unsigned>(jobs);
    } else if (word == "--world") {
      right = read_worlds(value, options.campaign.worlds);
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

int replay(Which which, std::uint64_t seed) {
  const Outcome told = play(which, seed, stdout);
  const Outcome again = play(which, seed, nullptr);
  fmt::print("{} seed {}: {} events, {} messages, {} faults, trace {:016x}\n", name_of(which), seed,
             told.events, told.messages, told.faults, told.trace_hash);
  if (told.trace_hash != again.trace_hash) fmt::print("one seed gave two histories\n");
  if (told.broken) {
    fmt::print("FAILED {}\n", told.failure);
    tell_shrunk(which, seed, told, stdout);
  }
  return !told.broken && told.trace_hash == again.trace_hash ? 0 : 1;
}

int replay(const Options& options) {
  int status = 0;
  for (const Which which : worlds_of(options.campaign.worlds, options.seed))
    status |= replay(which, options.seed);
  return status;
}

bool read_seeds(const std::string& name, std::vector<std::uint64_t>& seeds) {
  std::ifstream file(name);
  if (!file) {
    fmt::print(stderr, "keyhop-sim: cannot read {}\n", name);
    return false;
  }
  for (std::string line; std::getline(file, line);) {
    const std::string_view word = std::string_view(line).substr(0, line.find_first_of(" \t#"));
    std::uint64_t seed = 0;
    if (!word.empty() && read_number(word, seed)) seeds.push_back(seed);
  }
  return true;
}

int list_invariants() {
  for (const InvariantFacts& row : invariants)
    fmt::print("{:<14} {:<9} {}\n", row.name, name_of(row.promise), row.sentence);
  return 0;
}

int run_messages(const Options& options) {
  const MessageReport report = cross_messages(options.messages, options.campaign.from);
  if (options.campaign.json) {
    fmt::print(R"({{"messages":{},"bytes":{},"failed":{}}})"
               "\n",
               report.messages, report.bytes, report.failure.empty() ? 0 : 1);
  } else {
    fmt::print("{} messages, {} bytes crossed\n", report.messages, report.bytes);
  }
  if (report.failure.empty()) return 0;
  fmt::print(stderr, "FAILED {}\n  replay: keyhop-sim --messages {} --from {}\n", report.failure,
             options.messages, options.campaign.from);
  return 1;
}

int run_every_byte(const Options& options) {
  const ByteReport report = kill_at_every_byte(KEYHOP_DIALOGUES, options.campaign.jobs);
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
  options.campaign.jobs = std::max(1U, std::thread::hardware_concurrency());
  if (!read_options(count, words, options)) return usage_error;
  if (options.invariants) return list_invariants();
  if (options.record) return record_dialogues(KEYHOP_DIALOGUES) ? 0 : 1;
  if (options.every_byte) return run_every_byte(options);
  if (options.help || (!options.replay && options.campaign.count == 0 && options.messages == 0 &&
                       options.seeds_file.empty())) {
    fmt::print("{}", help);
    return options.help ? 0 : usage_error;
  }
  if (options.replay) return replay(options);
  if (options.messages != 0) return run_messages(options);
  if (!options.seeds_file.empty() && !read_seeds(options.seeds_file, options.campaign.first))
    return usage_error;
  return Campaign(options.campaign).run();
}
