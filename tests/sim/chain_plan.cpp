#include "tests/sim/chain_plan.h"

#include <fmt/format.h>
#include <iterator>

namespace acp::sim {
namespace {

constexpr std::string_view kinds_of_chains[] = {
    "kills the agent", "kills proxies", "kills early",    "start fails",
    "breaks stdin",    "holds stdout",  "splits",         "pressure",
    "ends client",     "loses client",  "ends by signal", "restarts by signal",
    "retries",         "cancels",       "junk",           "old spelling",
    "small budget",    "bypasses",      "other ids",      "hasty",
    "honours keys",    "asks",          "talks",          "refuses prompts",
    "stalls",          "oversize",      "proxies ask",    "version 1",
    "a component",     "floods"};

}  // namespace

ChainsPlan::ChainsPlan(Prng& random, Kinds off) {
  const auto trait = [&](unsigned percent) { return random.chance(percent); };
  kills_proxies = trait(60);
  kills_agent = trait(50);
  kills_early = trait(10);
  start_fails = trait(15);
  breaks_stdin = trait(20);
  holds_stdout = trait(15);
  splits = trait(40);
  pressure = trait(25);
  ends_client = trait(15);
  loses_client = trait(8);
  ends_by_signal = trait(8);
  restarts_by_signal = trait(10);
  retries = trait(60);
  cancels = trait(40);
  junk = trait(15);
  old_spelling = trait(40);
  small_budget = trait(15);
  bypasses = trait(20);
  other_ids = trait(60);
  hasty = trait(15);
  begins_well = trait(75);
  agent.honours_keys = trait(20);
  agent.asks = trait(45);
  agent.talks = trait(30);
  agent.refuses_prompts = trait(10);
  stalls = trait(25);
  oversize = trait(12);
  asks_as_proxy = trait(25);
  is_version_1 = trait(15);
  is_component = trait(15);
  prefixed_conductor = trait(50) && old_spelling;
  floods = trait(6);
  agent.resumes = trait(50);
  agent.first_id = static_cast<int>(random.below(10));
  for (std::size_t i = 0; i < std::size(kinds_of_chains); ++i) kind(i) = kind(i) && !off[i];
  floods = floods && !oversize && !pressure;
  splits = splits && !oversize;  // a long frame is answered before it is whole
  agent.version = is_version_1 ? 1 : 2;
  steps = 15 + random.below(trait(85) ? 55 : 200);
  backlog_scale = pressure ? 4096 : 1;
  const std::size_t count = trait(10) ? 0 : 1 + random.below(trait(75) ? 2 : 3);
  for (std::size_t i = 0; i < count; ++i) {
    const bool prefixed = trait(50) && old_spelling;
    const auto wrong = static_cast<ChainWrong>(random.below(3));
    const auto ids = static_cast<ChainIds>(random.below(3));
    const bool wraps = trait(50) && prefixed;
    const bool is_none = trait(3) && old_spelling;
    proxies.push_back({prefixed, wrong, other_ids ? ids : ChainIds::fresh, wraps, is_none});
    ChainEdge edge{{}, fmt::format("proxy {}", i + 1)};
    edge.settings.component = fmt::format("proxy {}", i + 1);
    edge.settings.is_inner = true;
    edge.settings.keys = KeyMode::forward;
    edge.settings.is_bypassed = trait(50) && bypasses;
    chain.edges.push_back(std::move(edge));
  }
  chain.is_component = is_component;
  chain.edges.push_back({{}, is_component ? "successor" : "agent"});
  if (is_component) chain.edges.back().settings.restarts = false;
  // With an agent that honours keys either of them may look after them.
  if (trait(50) && agent.honours_keys) chain.edges.back().settings.keys = KeyMode::forward;
  weak = random.below(chain.edges.size());
  for (std::size_t edge = 0; edge < chain.edges.size(); ++edge) {
    Settings& settings = chain.edges[edge].settings;
    settings.id_prefix += fmt::format("{}-", edge);
    if (oversize) settings.frame_bytes_max = 2048;
    settings.restart_limit.restarts_max = small_budget && edge == weak ? 2 : 1000;
  }
}

std::span<const std::string_view> ChainsPlan::kind_names() noexcept { return kinds_of_chains; }

bool& ChainsPlan::kind(std::size_t number) noexcept {
  bool* const each[] = {&kills_agent,  &kills_proxies,  &kills_early,
                        &start_fails,  &breaks_stdin,   &holds_stdout,
                        &splits,       &pressure,       &ends_client,
                        &loses_client, &ends_by_signal, &restarts_by_signal,
                        &retries,      &cancels,        &junk,
                        &old_spelling, &small_budget,   &bypasses,
                        &other_ids,    &hasty,          &agent.honours_keys,
                        &agent.asks,   &agent.talks,    &agent.refuses_prompts,
                        &stalls,       &oversize,       &asks_as_proxy,
                        &is_version_1, &is_component,   &floods};
  static_assert(std::size(each) == std::size(kinds_of_chains));
  return *each[number];
}

Kinds ChainsPlan::kinds() {
  Kinds on;
  for (std::size_t i = 0; i < std::size(kinds_of_chains); ++i) on[i] = kind(i);
  return on;
}

}  // namespace acp::sim
