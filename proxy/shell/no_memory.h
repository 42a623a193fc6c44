// What happens where there is no memory left, or a library gives up: one line on stderr, exit status 70.
//
// Invariant: keyhop never goes on with half a step done, and never ends by a signal of its own; its watchdog
// sees the end and ends the agent, the ledger keeps its rows. Lifetime: one of these, made before everything
// else that allocates; it stays in force, also in forked children until they execute another program.
#pragma once

namespace acp::shell {

// For operator new, for libuv (which aborts) and for abort(3), whoever calls it. SQLite reports a lack of
// memory as an error of the ledger's.
class NoMemory {
 public:
  NoMemory() noexcept;
};

}  // namespace acp::shell
