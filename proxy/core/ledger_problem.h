// What keeps the ledger from doing its work, as keyhop's errors and its log say it.
//
// Invariant: `reason` is a stable word for programs, `words` completes "the ledger cannot be used: …".
// Lifetime: static text.
#pragma once

#include <string_view>

#include "proxy/core/ledger.h"

namespace acp {

struct LedgerProblem {
  std::string_view reason;
  std::string_view words;
};

inline LedgerProblem problem_of(LedgerError error) noexcept {
  switch (error) {
    case LedgerError::none: break;
    case LedgerError::conflict: return {"outcome_unknown", "another keyhop knows this key"};
    case LedgerError::full: return {"ledger_full", "there is no space left for it"};
    case LedgerError::not_writable: return {"ledger_not_writable", "it cannot be written"};
    case LedgerError::busy: return {"ledger_busy", "another program keeps it locked"};
    case LedgerError::newer: return {"ledger_newer", "a newer keyhop wrote it"};
    case LedgerError::broken: return {"ledger_broken", "it is damaged"};
    case LedgerError::failed: break;
  }
  return {"ledger_failed", "it cannot be used"};
}

}  // namespace acp
