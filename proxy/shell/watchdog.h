// The watchdog process: starts one agent, adopts its orphans, ends them all.
//
// Invariant: it only waits (no timers while nothing is being ended), reads no agent output, and exits as soon
// as nothing of its epoch lives and either keyhop ordered the end or the agent could not be started. It does
// not end because of a signal (KILL excepted). Lifetime: run_watchdog() is called in a fresh child of a
// single-threaded keyhop with all signals blocked.
#pragma once

#include <cstdint>
#include <sys/types.h>

#include "proxy/core/types.h"

namespace acp::shell {

struct WatchdogPlan {
  int control = -1;
  // A new agent: its ends of stdin, stdout, stderr, and null-terminated words.
  int agent_stdio[3] = {-1, -1, -1};
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  // Or one that came to keyhop when its watchdog was killed.
  pid_t adopted_agent = 0;
  std::uint64_t adopted_agent_started = 0;
  Duration orphan_grace{};
};

[[noreturn]] void run_watchdog(const WatchdogPlan& plan) noexcept;

}  // namespace acp::shell
