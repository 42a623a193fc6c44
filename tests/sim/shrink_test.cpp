// A failing history is made as short as it can be, and still breaks the same invariant.
#include "tests/sim/shrink.h"

#include <catch2/catch.hpp>

#include "tests/sim/prng.h"

namespace acp::sim {
namespace {

constexpr std::size_t steps = 100;
constexpr std::size_t needed_kind = 3;

// Breaks `once` where events 17 and 60 happen with that kind of fault; where event 5 happens alone, another.
Outcome toy(Script& script) {
  Outcome outcome;
  const auto happens = [&](std::size_t event) { return !script.skips(event); };
  outcome.steps = steps;
  if (happens(17) && happens(60) && !script.off[needed_kind] && script.sessions_max >= 2) {
    outcome.broken = Invariant::once;
    outcome.steps = 70;
  } else if (happens(5)) {
    outcome.broken = Invariant::rest;
  }
  return outcome;
}

Kinds all_kinds() { return Kinds(0b111111); }

}  // namespace

TEST_CASE("What a failure does not need is left out", "[shrink]") {
  const Shrunk shrunk = shrink(Script{}, Invariant::once, steps, all_kinds(), toy);
  REQUIRE(shrunk.outcome.broken == Invariant::once);
  CHECK(shrunk.events == 2);
  CHECK_FALSE(shrunk.script.skips(17));
  CHECK_FALSE(shrunk.script.skips(60));
  CHECK(shrunk.script.off == (all_kinds() & ~Kinds(1U << needed_kind)));
  CHECK(shrunk.script.sessions_max == 2);
  CHECK(shrunk.script.keys_max == 1);
}

TEST_CASE("Another failure is not taken for the one at hand", "[shrink]") {
  const Shrunk shrunk = shrink(Script{}, Invariant::rest, steps, all_kinds(), [](Script& script) {
    Outcome outcome = toy(script);
    return outcome;
  });
  // The whole history breaks `once`: there is nothing to start from.
  CHECK_FALSE(shrunk.outcome.broken.has_value());
  CHECK(shrunk.runs == 1);
}

TEST_CASE("Shrinking is bounded", "[shrink]") {
  CHECK(shrink(Script{}, Invariant::once, steps, all_kinds(), toy, 7).runs == 7);
}

TEST_CASE("An event that is left out does not change what the others draw", "[shrink]") {
  Tape tape;
  std::vector<std::uint64_t> recorded;
  {
    Prng random(42, &tape);
    for (std::size_t event = 0; event < 4; ++event) {
      if (event > 0) random.begin_event(event);
      recorded.push_back(random.next());
      for (std::size_t i = 0; i < event; ++i) random.next();
    }
  }
  tape.records = false;
  Prng random(42, &tape);
  CHECK(random.next() == recorded[0]);
  random.begin_event(3);  // 1 and 2 are left out
  CHECK(random.next() == recorded[3]);
  for (std::size_t i = 0; i < 3; ++i) random.next();
  const std::uint64_t beyond = random.next();  // off the tape: by seed and event
  Prng again(42, &tape);
  again.begin_event(3);
  for (std::size_t i = 0; i < 4; ++i) again.next();
  CHECK(again.next() == beyond);
}

}  // namespace acp::sim
