// What waits is counted: the client is not read while too much of it waits, and is read again once it was
// withdrawn.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "proxy/core/limits.h"
#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

enum class Waits { for_restore, for_rows, for_commit };

// A client whose keyed prompts of the session "s1" wait.
void begin_waiting(Waits what, Dialogue& talk, MemoryLedger& ledger) {
  if (what == Waits::for_rows) return begin_run(talk, ledger);
  open_guarded(talk, ledger);
  if (what == Waits::for_restore) talk.agent_restarts();
}

std::size_t count(const Lines& orders, std::string_view order) {
  return static_cast<std::size_t>(std::count(orders.begin(), orders.end(), order));
}

TEST_CASE("what was withdrawn while it waited keeps nobody from being read", "[edge][bounds]") {
  const Waits what = GENERATE(Waits::for_restore, Waits::for_rows, Waits::for_commit);
  CAPTURE(static_cast<int>(what));
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_waiting(what, talk, ledger);
  talk.take_orders();
  const std::string text(limits::mib, 'x');
  constexpr std::size_t fit = limits::held_bytes_max / limits::mib;  // not all: a line is more than its text
  for (std::size_t i = 1; i <= fit; ++i) {
    talk.client(keyed(std::to_string(10 + i), std::to_string(i), text));
  }
  REQUIRE(count(talk.take_orders(), "pause client") == 1);
  talk.pass(std::chrono::seconds(1));  // a commit that takes its time is not waited for by a cancel
  talk.take_client();
  talk.client(cancel_line("11"));
  CHECK(in_short(talk.take_client()) == Lines{"11 -32800 cancelled not_sent"});
  CHECK(count(talk.take_orders(), "resume client") == 1);
}

TEST_CASE("a prompt whose row was not on the disk when its agent went, never to return, was not sent",
          "[edge][guard]") {
  const auto [committed, told] = GENERATE(table<bool, std::string>({
      {false, "3 -32603 agent_lost not_sent"},
      {true, "3 -32603 agent_lost unknown"},
  }));
  CAPTURE(committed);
  Settings settings = guarded();
  settings.restarts = false;
  MemoryLedger ledger;
  Dialogue talk(settings);
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  if (committed) talk.run_ledger();
  CHECK(talk.take_agent().size() == (committed ? 1 : 0));
  talk.agent_dies({ExitStatus::Kind::signalled, 9});
  CHECK(in_short(talk.take_client()) == Lines{told});
}

}  // namespace
}  // namespace acp::sim
