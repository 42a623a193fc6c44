// A ledger's file in memory: what the real one must do with batches, in a few lines.
//
// Invariant: a batch is applied as a whole or not at all. Lifetime: may outlive many relays, as the file
// does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "proxy/core/ledger.h"

namespace acp::sim {

class MemoryLedger {
 public:
  // `run`: whose batch it is, where more than one keyhop writes.
  LedgerError apply(const LedgerBatch& batch, std::uint64_t run = 0);
  const LedgerSession& read(const std::string& agent, const std::string& session);
  const Salt& salt() const noexcept { return salt_; }

  LedgerError fails = LedgerError::none;  // what every commit ends with
  bool fails_once = false;                // the next commit only
  bool owner_lives = false;               // an earlier run still has processes
  std::size_t commits = 0;

 private:
  using Place = std::pair<std::string, std::string>;
  Salt salt_{7};
  std::map<Place, LedgerSession> sessions_;
};

}  // namespace acp::sim
