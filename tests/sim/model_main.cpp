// keyhop-model: every interleaving of a small world around the relay's core, to a depth.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/sim/model_search.h"

namespace acp::sim {
namespace {

constexpr int usage_error = 64;
constexpr std::string_view help =
    "keyhop-model: every interleaving of a small world around the relay's core, each state once.\n"
    "  --depth N            choices from the beginning (8)\n"
    "  --depth-long N       that instead where KEYHOP_TESTS_LONG is set\n"
    "  --detours            the depth is a number of detours: what leads straight on to rest is free\n"
    "  --clients N          each with a keyhop and an agent's process of its own, side by side over one\n"
    "                       ledger and one history (2; 1: one after the other only)\n"
    "  --keys N             of each session (2)\n"
    "  --sessions N         (2)\n"
    "  --deaths N           of agents and of keyhops, together (3)\n"
    "  --failures N         commits that fail (1)\n"
    "  --cancels N          (1)\n"
    "  --timers N           that fire before they must (2)\n"
    "  --prompts N          asked for, retries included (4)\n"
    "  --asks N             open requests of one client (3)\n"
    "  --same-text          the prompts of a session all say the same; with one client only: two programs\n"
    "                       that write one text at the same time are beyond what can be told apart\n"
    "  --jobs J             threads (all)\n"
    "  --json               the closing line as JSON\n"
    "A violation is told with the shortest interleaving that leads to it.\n"
    "Exit status: 0 all held, 1 an invariant broke, 64 usage.\n";

struct Options {
  ModelScope scope;
  std::size_t depth = 8;
  std::size_t depth_long = 0;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool detours = false;
  bool json = false;
  bool help = false;
};

bool read_number(std::string_view text, std::size_t least, std::size_t most, std::size_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= least && number <= most;
}

// False: the complaint has been printed.
bool read_options(int count, char** words, Options& options) {
  struct Number {
    std::string_view name;
    std::size_t* number;
    std::size_t least, most;
  };
  const Number numbers[] = {
      {"--depth", &options.depth, 0, 100},           {"--depth-long", &options.depth_long, 1, 100},
      {"--clients", &options.scope.clients, 1, 4},   {"--keys", &options.scope.keys, 1, 9},
      {"--sessions", &options.scope.sessions, 1, 9}, {"--deaths", &options.scope.deaths, 0, 9},
      {"--failures", &options.scope.failures, 0, 9}, {"--asks", &options.scope.asks_max, 1, 9},
      {"--cancels", &options.scope.cancels, 0, 9},   {"--timers", &options.scope.timers, 0, 99},
      {"--prompts", &options.scope.prompts, 1, 99},  {"--jobs", &options.jobs, 1, 256}};
  const std::pair<std::string_view, bool*> flags[] = {{"--json", &options.json},
                                                      {"--detours", &options.detours},
                                                      {"--help", &options.help},
                                                      {"--same-text", &options.scope.same_text}};
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto* flag = std::ranges::find(flags, word, &std::pair<std::string_view, bool*>::first);
    if (flag != std::end(flags)) {
      *flag->second = true;
      continue;
    }
    const auto* number = std::ranges::find(numbers, word, &Number::name);
    if (number == std::end(numbers)) {
      fmt::print(stderr, "keyhop-model: unknown option {}\n", word);
      return false;
    }
    const std::string_view value = i + 1 < count ? words[++i] : "";
    if (!read_number(value, number->least, number->most, *number->number)) {
      fmt::print(stderr, "keyhop-model: {} does not take \"{}\" ({} to {})\n", word, value, number->least,
                 number->most);
      return false;
    }
  }
  if (options.scope.same_text && options.scope.clients > 1) {
    fmt::print(stderr, "keyhop-model: --same-text goes with --clients 1 only\n");
    return false;
  }
  return true;
}

int run(const Options& options) {
  ModelSearch search(options.scope, options.depth, options.detours, static_cast<unsigned>(options.jobs),
                     stderr);
  const ModelReport report = search.run();
  if (!report.failure.empty()) ModelSearch::tell(options.scope, report, stderr);
  const ModelScope& scope = options.scope;
  const std::string_view what = options.detours ? "detours" : "depth";
  if (options.json) {
    fmt::print(R"({{"clients":{},"keys":{},"sessions":{},"deaths":{},"{}":{},"visited":{},"distinct":{},)"
               R"("transitions":{},"last_runs":{},"violations":{},"hash":"{:016x}","seconds":{:.1f}}})"
               "\n",
               scope.clients, scope.keys, scope.sessions, scope.deaths, what, report.depth, report.visited,
               report.distinct, report.transitions, report.last_runs, report.violations, report.hash,
               report.seconds);
  } else {
    fmt::print(
        "{} clients, {} keys, {} sessions, {} deaths: {} {}, {} states visited, {} distinct, {} "
        "transitions, {} last runs, {} violations, states {:016x}, {:.1f} s\n",
        scope.clients, scope.keys, scope.sessions, scope.deaths, what, report.depth, report.visited,
        report.distinct, report.transitions, report.last_runs, report.violations, report.hash,
        report.seconds);
  }
  return report.violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace acp::sim

int main(int count, char** words) {
  acp::sim::Options options;
  if (!acp::sim::read_options(count, words, options)) return acp::sim::usage_error;
  if (options.help) {
    fmt::print("{}", acp::sim::help);
    return 0;
  }
  if (options.depth_long != 0 && std::getenv("KEYHOP_TESTS_LONG") != nullptr)
    options.depth = options.depth_long;
  return acp::sim::run(options);
}
