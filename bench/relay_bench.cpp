// keyhop beside relays that do nothing: round trips and update streams through real processes and pipes.
//
// One program, two roles: the load (default) starts "RELAY… SELF --agent" for each relay, in interleaved
// rounds, all pinned to one core, and prints medians as ratios to the epoll relay of the same run. `--agent`
// is the other end: it answers each line at once, or writes a stream that a line orders. Stops by itself;
// ratios only, since machines are noisy.
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peer.h"

namespace acp::bench {
namespace {

struct Relay {
  std::string name;
  Words words;
  std::vector<double> p50, p99, requests, small, large, batched;
};

void measure(Relay& relay) {
  Peer peer(relay.words);
  peer.round_trips(200);
  const auto trips = peer.round_trips(2000);
  relay.p50.push_back(quantile(trips, 0.5));
  relay.p99.push_back(quantile(trips, 0.99));
  relay.requests.push_back(peer.pipelined(5000, 64));
  relay.small.push_back(peer.stream(20000, 300, 0));
  relay.large.push_back(peer.stream(2000, 65536, 0));
  relay.batched.push_back(peer.stream(200000, 300, 65536));
}

void print(const std::vector<Relay>& relays, const Relay& reference, bool json) {
  if (!json)
    fmt::print("{:<8} {:>18} {:>18} {:>18} {:>18} {:>18} {:>18}\n", "relay", "trip p50 us", "trip p99 us",
               "64 open req/s", "300 B fr/s", "64 KiB fr/s", "300 B batched fr/s");
  for (const Relay& relay : relays) {
    const auto cell = [&](const std::vector<double>& mine, const std::vector<double>& base, double scale) {
      return fmt::format("{:.1f} ({:.2f}x)", quantile(mine, 0.5) * scale,
                         quantile(mine, 0.5) / quantile(base, 0.5));
    };
    if (json) {
      fmt::print(
          "{{\"relay\":\"{}\",\"p50_ns\":{:.0f},\"p99_ns\":{:.0f},\"requests\":{:.0f},\"frames_300\":{:.0f},"
          "\"frames_64k\":{:.0f},\"frames_batched\":{:.0f}}}\n",
          relay.name, quantile(relay.p50, 0.5), quantile(relay.p99, 0.5), quantile(relay.requests, 0.5),
          quantile(relay.small, 0.5), quantile(relay.large, 0.5), quantile(relay.batched, 0.5));
      continue;
    }
    fmt::print("{:<8} {:>18} {:>18} {:>18} {:>18} {:>18} {:>18}\n", relay.name,
               cell(relay.p50, reference.p50, 1e-3), cell(relay.p99, reference.p99, 1e-3),
               cell(relay.requests, reference.requests, 1), cell(relay.small, reference.small, 1),
               cell(relay.large, reference.large, 1), cell(relay.batched, reference.batched, 1));
  }
}

}  // namespace

int run(int count, char** words) {
  if (count > 1 && std::string_view(words[1]) == "--agent") return run_agent();
  if (count < 5) {
    std::fprintf(stderr, "usage: %s ROUNDS EPOLL_RELAY UV_RELAY KEYHOP [--json]\n", words[0]);
    return 64;
  }
  const std::string own = own_path();
  pin_to_one_core();

  std::vector<Relay> relays;
  relays.push_back({"direct", {own, "--agent"}, {}, {}, {}, {}, {}, {}});
  relays.push_back({"epoll", {words[2], own, "--agent"}, {}, {}, {}, {}, {}, {}});
  relays.push_back({"libuv", {words[3], own, "--agent"}, {}, {}, {}, {}, {}, {}});
  relays.push_back({"keyhop",
                    {words[4], "--ledger", "off", "--log-level", "error", "--", own, "--agent"},
                    {},
                    {},
                    {},
                    {},
                    {},
                    {}});
  const int rounds = std::atoi(words[1]);
  for (int round = 0; round < rounds; ++round) {
    for (Relay& relay : relays) {
      std::fprintf(stderr, "\rround %d of %d: %-8s", round + 1, rounds, relay.name.c_str());
      measure(relay);
    }
  }
  std::fprintf(stderr, "\r%40s\r", "");
  print(relays, relays[1], count > 5 && std::string_view(words[5]) == "--json");
  return 0;
}

}  // namespace acp::bench

int main(int count, char** words) { return acp::bench::run(count, words); }
