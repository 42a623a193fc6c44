// The watchdog process: starts one agent, adopts its orphans, ends them all.
//
// Invariant: it only waits (no timers while nothing is being ended; an adopting one looks around), reads no
// agent output, and exits as soon as nothing of its epoch lives and either keyhop ordered the end or the
// agent could not be started. What it was sent to hold it closes by its exit alone. It does not end because
// of a signal (KILL excepted). Lifetime: run_watchdog() is called in a fresh child of fork(3) with all
// signals blocked; it takes no lock but malloc's, since keyhop's other thread may have held any.
#pragma once

#include <cstdint>
#include <sys/types.h>

#include "proxy/core/types.h"
#include "proxy/shell/process_tree.h"

namespace acp::shell {

struct WatchdogPlan {
  int control = -1;
  // A new agent: its ends of stdin, stdout, stderr, and null-terminated words.
  int agent_stdio[3] = {-1, -1, -1};
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  // Or one that came to keyhop when its watchdog was killed.
  pid_t adopted_agent = 0;
  // What belonged to it when this was planned: keyhop may be killed before the new watchdog can look.
  const ProcessTree* adopted_tree = nullptr;
  Duration orphan_grace{};
};

[[noreturn]] void run_watchdog(const WatchdogPlan& plan) noexcept;

}  // namespace acp::shell
