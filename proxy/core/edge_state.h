// What an Edge is in, and what it has counted.
//
// Invariant: each state is one closed enum, changed by the Edge alone. Lifetime: plain values.
#pragma once

#include <cstdint>

namespace acp {

// Can a request be written to the agent now?
enum class AgentReach : std::uint8_t {
  open,       // yes
  lost,       // its epoch is being ended and another follows: frames wait
  restoring,  // that one runs: frames wait until what they need is rebuilt
  ending,     // its epoch is being ended for good: requests wait for the end's facts
  gone,       // it has ended and none follows now: requests are answered at once
};

// How far the present epoch is rebuilt.
enum class EpochState : std::uint8_t {
  initializing,  // keyhop's own initialize is on its way
  restoring,     // its answer came, sessions are being rebuilt
  ready,
  failed,  // it cannot take over: its initialize was refused, or it speaks another version
};

// What stands between keyed prompts and the ledger's file.
enum class LedgerUse : std::uint8_t {
  none,     // --ledger off, --keys=forward: memory is all there is
  opening,  // not known yet: keyed requests wait
  ready,
  failed,  // it cannot be used in this run: keyed prompts are refused
};

// What happened, in numbers (SIGUSR1 prints them).
struct Counters {
  std::uint64_t frames_from_client = 0;
  std::uint64_t frames_from_agent = 0;
  std::uint64_t bytes_from_client = 0;
  std::uint64_t bytes_from_agent = 0;
  std::uint64_t refused = 0;     // bad frames of the client's
  std::uint64_t noise = 0;       // lines of the agent's that are no message
  std::uint64_t dropped = 0;     // answers nobody asked for, cancels of nothing
  std::uint64_t joined = 0;      // duplicates that got the answer of a pending request
  std::uint64_t remembered = 0;  // duplicates answered from memory
  std::uint64_t sent_again = 0;  // requests that a restart cost one try
};

}  // namespace acp
