// Starting an agent so that its end is certain: keyhop forks a watchdog, the watchdog forks the agent.
//
// Invariant: the agent leads its own POSIX session, is the watchdog's child and is known to keyhop before it
// executes. The watchdog has a session of its own, no stdio and no descriptor of keyhop's but its control
// socket (and, sent over that, the ledger's locks); it adopts every orphan of the agent's (it is a subreaper)
// and ends the epoch when told, or when the control socket closes because keyhop died. Lifetime: a launched
// watchdog lives until it reported `ended`; keyhop reaps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "proxy/core/types.h"
#include "proxy/shell/handle.h"

namespace acp::shell {

// What the watchdog calls itself in /proc (at most 15 bytes).
inline constexpr char watchdog_name[] = "keyhop-watch";

// Watchdog to keyhop, one datagram each, in this order; `forked` once, `started` or `start_failed` once.
struct WatchdogReport {
  enum class Kind : std::int32_t { forked, started, start_failed, exited, left_alone, ended };
  Kind kind{};
  std::int32_t pid = 0;       // forked, left_alone
  std::int32_t value = 0;     // start_failed: errno; exited: as wait(2) gives it
  char name[16] = {};         // left_alone
  std::uint64_t started = 0;  // forked: the agent's start time, in ticks since boot
};

// Keyhop to watchdog. end: end everything, KILL after that time; the nearest of several holds. hold: comes
// with a descriptor that is to stay open until the epoch has ended.
struct WatchdogOrder {
  enum class Kind : std::int32_t { end, hold };
  Kind kind = Kind::end;
  std::int64_t grace_ns = 0;
};

// keyhop's side of a running watchdog.
struct Watchdog {
  pid_t pid = 0;
  Descriptor control;  // non-blocking SOCK_SEQPACKET
};

struct Launch {
  std::vector<std::string> command;  // not empty; found as execvp(3) does, no shell
  std::vector<std::string> environment;
  Duration orphan_grace{};  // TERM to KILL where keyhop died without having ordered an end
  int held = -1;            // held by the watchdog until the epoch has ended, before the agent executes
};

// keyhop's ends of the agent's stdio: non-blocking. The agent's own ends block.
struct AgentEnds {
  Descriptor input;
  Descriptor output;
  Descriptor errors;
};

// Makes pipes and a watchdog that starts the command. 0 or an errno value; what became of the command itself
// is reported over the control socket.
int launch(const Launch& order, Watchdog& watchdog, AgentEnds& ends);

// After a watchdog was killed: its children have come to the calling process, which must be a subreaper.
// Makes a watchdog that guards and ends them; it reports left_alone and ended only, the caller reaps. 0 or an
// errno value.
struct Adoption {
  pid_t agent = 0;
  pid_t killed_watchdog = 0;
  std::uint64_t agent_started = 0;
  Duration orphan_grace{};
  int held = -1;  // as for a launch
};
int launch_adopting(const Adoption& order, Watchdog& watchdog);

// Where that failed: KILL at once for all that belongs to the agent, as far as it can be seen.
void kill_adopted(const Adoption& order);

// Lets a watchdog hold that descriptor's open file, too. From the moment this returns it is open for as long
// as the watchdog lives, also if keyhop is killed at once. 0 or an errno value.
int send_held(const Watchdog& watchdog, int descriptor) noexcept;

// One datagram, or the few bytes of a word, over a socket that has room for it. Interruptions and a kernel
// that is short of memory for a moment are not taken for an answer. 0 or an errno value.
int send_record(int socket, const void* record, std::size_t size) noexcept;

// The environment as the agent gets it: without keyhop's own variables.
std::vector<std::string> agent_environment(const char* const* environment);

// fork(2) without the atfork handlers: libuv's closes descriptors by numbers that mean something else in a
// watchdog. For single-threaded processes: another thread's locks (malloc's, too) would stay locked.
pid_t fork_plainly() noexcept;

// In a child between fork and exec: default dispositions and an empty mask, whatever keyhop ignored or
// blocked.
void reset_signals() noexcept;

}  // namespace acp::shell
