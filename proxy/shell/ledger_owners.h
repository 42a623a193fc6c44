// Who still has processes: one lock a run, on the byte of its number in PATH-owners.
//
// Invariant: the locks belong to the open file (F_OFD_SETLK), so whoever inherits or is sent the descriptor
// holds them too, and they end when the last one closes it: keyhop's end and that of every watchdog which got
// it. Byte 0 is the openers' lock. Lifetime: outlives every use of the ledger's file.
#pragma once

#include <cstdint>
#include <string>

#include "proxy/core/ledger.h"
#include "proxy/shell/handle.h"
#include "proxy/shell/ledger_wait.h"

namespace acp::shell {

class LedgerOwners {
 public:
  // `path`: the ledger's. Makes the file, 0600.
  LedgerError open(const std::string& path);
  // Whether a keyhop had its ledger at that path: its locks' file stays there.
  static bool were_at(const std::string& path);
  // Only to ask; nothing is made. none, too, if there is no such file: nobody owns anything then.
  LedgerError open_to_ask(const std::string& path);

  // One opener at a time. busy if it took too long.
  LedgerError enter(LedgerWait& wait) noexcept;
  void leave() noexcept;

  // Takes the lock of that run for good. busy if somebody holds it.
  LedgerError hold(std::uint64_t run) noexcept;
  // Whether another holds it. What cannot be asked counts as held.
  bool is_held_elsewhere(std::uint64_t run) const noexcept;

  // The same open file once more, close-on-exec: for the watchdogs.
  Descriptor copy() const noexcept;

 private:
  int lock(std::uint64_t byte, short type) noexcept;

  Descriptor file_;
};

}  // namespace acp::shell
