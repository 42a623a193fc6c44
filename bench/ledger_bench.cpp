// What the ledger costs: one keyed prompt, a hundred that come together, and the updates that flow beside
// them.
//
// Runs keyhop with a ledger on disk and with `--ledger off`, in interleaved rounds. Prints medians; the
// ratios count. Stops by itself.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peer.h"

namespace acp::bench {
namespace {

struct Sample {
  std::vector<double> trip;      // seconds of one keyed prompt
  std::vector<double> together;  // seconds of a hundred
  std::vector<double> stream;    // frames per second beside a hundred
};

void measure(const Words& words, Sample& sample) {
  Peer peer(words);
  peer.round_trips(5);
  for (const double nanoseconds : peer.round_trips(20)) sample.trip.push_back(nanoseconds * 1e-9);
  sample.together.push_back(peer.together(100));
  sample.stream.push_back(peer.stream_beside(50000, 100));
}

int run(int count, char** words) {
  if (count > 1 && std::string_view(words[1]) == "--agent") return run_agent();
  if (count < 4) {
    std::fprintf(stderr, "usage: %s ROUNDS KEYHOP DIRECTORY [--json]\n", words[0]);
    return 64;
  }
  const std::string file = fmt::format("{}/keyhop-ledger-bench.db", words[3]);
  const std::string own = own_path();
  Sample with, without;
  const int rounds = std::atoi(words[1]);
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\rround %d of %d", round + 1, rounds);
    measure({words[2], "--ledger", file, "--log-level", "error", "--", own, "--agent"}, with);
    measure({words[2], "--ledger", "off", "--log-level", "error", "--", own, "--agent"}, without);
    for (const char* end : {"", "-wal", "-shm", "-owners"}) std::filesystem::remove(file + end);
  }
  std::fprintf(stderr, "\r%40s\r", "");
  const double commit = quantile(with.trip, 0.5) - quantile(without.trip, 0.5);
  const double together = quantile(with.together, 0.5);
  const double ratio = quantile(with.stream, 0.5) / quantile(without.stream, 0.5);
  const bool json = count > 4 && std::string_view(words[4]) == "--json";
  if (json) {
    fmt::print("{{\"commit_s\":{:.6f},\"hundred_s\":{:.6f},\"stream_ratio\":{:.3f}}}\n", commit, together,
               ratio);
    return 0;
  }
  fmt::print("one commit (keyed prompt, less the same with --ledger off)   {:8.2f} ms\n", commit * 1e3);
  fmt::print("100 keyed prompts written at once, all answered              {:8.2f} ms  ({:.1f} commits)\n",
             together * 1e3, together / commit);
  fmt::print("updates of 300 B beside 100 keyed prompts, to --ledger off   {:8.2f}x\n", ratio);
  return 0;
}

}  // namespace
}  // namespace acp::bench

int main(int count, char** words) { return acp::bench::run(count, words); }
