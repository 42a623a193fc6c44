// Keyhops that share a ledger and would remember the same prompts: each has rows of its own.
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "proxy/shell/ledger.h"
#include "proxy/shell/ledger_thread.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/ledger_parts.h"

namespace acp::shell {
namespace {

std::unique_ptr<Ledger> open_at(const std::string& path, std::optional<std::int64_t> siblings_of) {
  auto ledger = std::make_unique<Ledger>(LedgerSettings{
      .path = path, .patience = std::chrono::seconds(5), .place = " (proxy)", .siblings_of = siblings_of});
  REQUIRE(ledger->open() == LedgerError::none);
  return ledger;
}

}  // namespace

TEST_CASE("children of one process number themselves by the order of their starts", "[ledger]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  auto first = open_at(path, 77);
  CHECK(first->place() == " (proxy)");
  const auto second = open_at(path, 77);
  CHECK(second->place() == " (proxy) 2");
  const auto third = open_at(path, 77);
  CHECK(third->place() == " (proxy) 3");
  CHECK(open_at(path, 78)->place() == " (proxy)");  // another's children
  CHECK(open_at(path, std::nullopt)->place() == " (proxy)");
  CHECK(open_at(directory.file("other.db"), 77)->place() == " (proxy)");
  first.reset();
  CHECK(open_at(path, 77)->place() == " (proxy)");  // it is free again
}

TEST_CASE("of too many siblings the last ones share the first one's place", "[ledger]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger.db");
  LedgerOwners others;
  REQUIRE(open_at(path, 5)->place() == " (proxy)");  // makes the files
  REQUIRE(others.open(path) == LedgerError::none);
  for (std::uint64_t number = 0; number < 64; ++number)
    REQUIRE(others.hold((1ULL << 56U) + 5 * 64 + number) == LedgerError::none);
  CHECK(open_at(path, 5)->place() == " (proxy)");
  CHECK(open_at(path, 6)->place() == " (proxy)");
}

}  // namespace acp::shell
