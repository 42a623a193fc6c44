// What a hop of a chain costs: keyhop as the conductor of keyhop hops, beside the conductor and the
// pass-through proxy of the Rust SDK.
//
// One program, two roles, as relay_bench.cpp: the load starts each chain before "SELF --agent" in interleaved
// rounds, all pinned to one core, and prints medians; what a hop adds is the difference to the chain without
// it divided by the hops. Stops by itself.
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peer.h"

namespace acp::bench {
namespace {

struct Chain {
  std::string conductor;
  std::size_t hops = 0;
  Words words;
  std::vector<double> p50 = {};
  std::vector<double> requests = {};
};

constexpr std::size_t hop_counts[] = {0, 1, 2, 4};

void add_keyhop(const std::string& keyhop, const std::string& own, std::vector<Chain>& chains) {
  for (const std::size_t hops : hop_counts) {
    Words words{keyhop, "--ledger", "off", "--log-level", "error"};
    for (std::size_t hop = 0; hop < hops; ++hop) {
      words.insert(words.end(), {"--proxy", fmt::format("'{}' --ledger off --log-level error", keyhop)});
    }
    words.insert(words.end(), {"--", own, "--agent"});
    chains.push_back({"keyhop", hops, std::move(words)});
  }
}

void add_other(const std::string& conductor, const std::string& proxy, const std::string& own,
               std::vector<Chain>& chains) {
  for (const std::size_t hops : hop_counts) {
    Words words{conductor, "agent"};
    words.insert(words.end(), hops, fmt::format("'{}'", proxy));
    words.push_back(fmt::format("'{}' --agent", own));
    chains.push_back({"rust", hops, std::move(words)});
  }
}

void measure(Chain& chain) {
  Peer peer(chain.words);
  peer.round_trips(100);
  chain.p50.push_back(quantile(peer.round_trips(500), 0.5));
  chain.requests.push_back(peer.pipelined(2000, 64));
}

// `base`: the same conductor without hops.
void print(const Chain& chain, const Chain& base, const Chain& direct, bool json) {
  const double trip = quantile(chain.p50, 0.5);
  const double requests = quantile(chain.requests, 0.5);
  const double hop = chain.hops == 0 ? 0 : (trip - quantile(base.p50, 0.5)) / static_cast<double>(chain.hops);
  const double added = trip - quantile(direct.p50, 0.5);
  if (json) {
    fmt::print(
        "{{\"conductor\":\"{}\",\"hops\":{},\"p50_ns\":{:.0f},\"added_ns\":{:.0f},\"hop_ns\":{:.0f},"
        "\"requests\":{:.0f}}}\n",
        chain.conductor, chain.hops, trip, added, hop, requests);
    return;
  }
  fmt::print("{:<9} {:>5} {:>12.1f} {:>14.1f} {:>14.1f} {:>14.0f}\n", chain.conductor, chain.hops, trip / 1e3,
             added / 1e3, hop / 1e3, requests);
}

void print_all(const std::vector<Chain>& chains, bool json) {
  if (!json)
    fmt::print("{:<9} {:>5} {:>12} {:>14} {:>14} {:>14}\n", "conductor", "hops", "trip p50 us",
               "over direct us", "a hop adds us", "64 open req/s");
  const Chain* base = &chains.front();
  for (const Chain& chain : chains) {
    if (chain.hops == 0) base = &chain;
    print(chain, *base, chains.front(), json);
  }
}

}  // namespace

int run(int count, char** words) {
  if (count > 1 && std::string_view(words[1]) == "--agent") return run_agent();
  const bool json = count > 1 && std::string_view(words[count - 1]) == "--json";
  const int given = count - (json ? 1 : 0);
  if (given != 3 && given != 5) {
    std::fprintf(stderr, "usage: %s ROUNDS KEYHOP [RUST_CONDUCTOR RUST_PROXY] [--json]\n", words[0]);
    return 64;
  }
  const std::string own = own_path();
  pin_to_one_core();

  std::vector<Chain> chains;
  chains.push_back({"direct", 0, {own, "--agent"}});
  add_keyhop(words[2], own, chains);
  if (given == 5) add_other(words[3], words[4], own, chains);
  const int rounds = std::atoi(words[1]);
  for (int round = 0; round < rounds; ++round) {
    for (Chain& chain : chains) {
      std::fprintf(stderr, "\rround %d of %d: %-8s %zu hops", round + 1, rounds, chain.conductor.c_str(),
                   chain.hops);
      measure(chain);
    }
  }
  std::fprintf(stderr, "\r%60s\r", "");
  print_all(chains, json);
  return 0;
}

}  // namespace acp::bench

int main(int count, char** words) { return acp::bench::run(count, words); }
