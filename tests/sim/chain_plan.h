// What a history of a chain may hold: who stands in it, and what goes wrong.
//
// Invariant: the draws of a seed are the same whatever is switched off. Lifetime: of a history; the chain
// points into it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "proxy/core/chain.h"
#include "tests/sim/chain_peers.h"
#include "tests/sim/prng.h"
#include "tests/sim/script.h"

namespace acp::sim {

struct ChainsPlan {
  // `off`: traits that are switched off, whatever was drawn; in the order of kind_names().
  explicit ChainsPlan(Prng& random, Kinds off = {});
  ChainsPlan(const ChainsPlan&) = delete;
  ChainsPlan& operator=(const ChainsPlan&) = delete;

  std::vector<ProxyPerson> proxies;
  AgentPerson agent;
  ChainPlan chain;
  std::size_t steps = 0;
  std::size_t weak = 0;           // the edge with the small budget
  std::size_t backlog_scale = 1;  // so many bytes count each byte to the client and to proxies
  bool begins_well = false;       // initialized, and a session opened, before anything goes wrong

  bool kills_agent = false;
  bool kills_proxies = false;
  bool kills_early = false;  // while it starts
  bool start_fails = false;
  bool breaks_stdin = false;
  bool holds_stdout = false;  // a child keeps it open
  bool splits = false;        // bytes come in any pieces
  bool pressure = false;
  bool ends_client = false;
  bool loses_client = false;
  bool ends_by_signal = false;
  bool restarts_by_signal = false;
  bool retries = false;
  bool cancels = false;
  bool junk = false;
  bool old_spelling = false;
  bool small_budget = false;
  bool bypasses = false;
  bool other_ids = false;
  bool hasty = false;
  bool stalls = false;         // the agent's pipe is full for a while
  bool oversize = false;       // frames over a small --max-frame
  bool floods = false;         // the agent says very much while a proxy starts
  bool asks_as_proxy = false;  // proxies ask on their own account
  bool is_version_1 = false;
  bool is_component = false;        // keyhop is one itself
  bool prefixed_conductor = false;  // and is spoken to as `_proxy/…`

  static std::span<const std::string_view> kind_names() noexcept;
  Kinds kinds();

 private:
  bool& kind(std::size_t number) noexcept;
};

}  // namespace acp::sim
