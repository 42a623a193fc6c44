// What the command line decides about the core. Plain values, set once before the first step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/core/limits.h"
#include "proxy/core/restart_budget.h"
#include "proxy/core/types.h"
#include "rules/methods.h"
#include "rules/retry.h"

namespace acp {

// --keys: `guard` answers known keys itself and refuses malformed ones; `forward` leaves both to the agent.
enum class KeyMode : std::uint8_t { guard, forward };

// --rule METHOD=CLASS: the class of a client->agent request, over the table's.
struct RuleOverride {
  std::string method;
  rules::RetryClass retry_class;
};

struct Settings {
  KeyMode keys = KeyMode::guard;
  std::vector<RuleOverride> rules;
  std::size_t frame_bytes_max = limits::frame_bytes_default;
  Duration drain = std::chrono::seconds(5);
  Duration kill_grace = std::chrono::seconds(4);
  std::optional<Duration> silence_timeout;
  bool restarts = true;  // --restart on-loss
  RestartLimit restart_limit;
  Duration restore_timeout = std::chrono::seconds(120);
  std::size_t stderr_tail_lines = 5;
  bool recover_prompts = false;  // --recover-prompts proven

  std::string component = "agent";  // who stands at the end of the edge, in messages: "proxy NAME"

  // Between two components of a chain: the agent of this edge is a proxy, its link carries the next edge too,
  // and keys are the last edge's business.
  bool is_inner = false;
  // Once the component cannot go on (never could, was restarted too often, cannot take over), the edge is
  // joined with the next one in its place.
  bool is_bypassed = false;

  // --ledger: keyed prompts are written to a file before they leave; the shell tells when it can be used.
  bool ledger = false;
  std::string agent_command;  // names the agent in the ledger where the agent does not

  // Random in each run, drawn by the shell, so that the core stays deterministic.
  std::array<std::uint8_t, 32> salt{};  // keys the fingerprints
  std::uint64_t seed = 0;               // of the back-off's jitter
  std::string id_prefix = "keyhop";     // of keyhop's own request ids; a random part follows
};

}  // namespace acp
