// What is said of a ledger that does not do its work.
#include "proxy/core/ledger_problem.h"

#include <catch2/catch.hpp>
#include <string>

namespace acp {

TEST_CASE("every trouble with the ledger has its word; what has none is a failure", "[ledger]") {
  const auto [error, reason] = GENERATE(table<LedgerError, std::string>({
      {LedgerError::conflict, "outcome_unknown"},
      {LedgerError::full, "ledger_full"},
      {LedgerError::not_writable, "ledger_not_writable"},
      {LedgerError::busy, "ledger_busy"},
      {LedgerError::newer, "ledger_newer"},
      {LedgerError::broken, "ledger_broken"},
      {LedgerError::failed, "ledger_failed"},
      {LedgerError::none, "ledger_failed"},
  }));
  CHECK(problem_of(error).reason == reason);
  CHECK_FALSE(problem_of(error).words.empty());
}

}  // namespace acp
