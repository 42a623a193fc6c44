// The exhaustive model itself: it tells the same twice, merges what is one state and nothing else, and looks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "tests/sim/model_search.h"

namespace acp::sim {
namespace {

using Kind = Choice::Kind;

ModelReport search(const ModelScope& scope, std::size_t depth, unsigned jobs) {
  return ModelSearch(scope, depth, false, jobs, nullptr).run();
}

ModelScope one_client() {
  ModelScope scope;
  scope.clients = 1;
  return scope;
}

bool offers(const ModelWorld& world, const Choice& choice) {
  const std::vector<Choice> choices = world.choices();
  return std::ranges::find(choices, choice) != choices.end();
}

constexpr Choice ask{Kind::prompt, 0, 0, 0};
constexpr Choice ask_other{Kind::prompt, 0, 0, 1};
constexpr Choice commit{Kind::commit};

TEST_CASE("the model tells the same twice, on any number of threads") {
  const ModelReport once = search(one_client(), 4, 1);
  const ModelReport again = search(one_client(), 4, 3);
  CHECK(once.distinct > 300);
  CHECK(once.visited > once.distinct);
  CHECK(once.distinct == again.distinct);
  CHECK(once.transitions == again.transitions);
  CHECK(once.last_runs == again.last_runs);
  CHECK(once.hash == again.hash);
  CHECK(once.violations == 0);
}

TEST_CASE("detours are counted alike on any number of threads, and go further than as many choices") {
  const ModelReport once = ModelSearch(one_client(), 2, true, 1, nullptr).run();
  const ModelReport again = ModelSearch(one_client(), 2, true, 3, nullptr).run();
  CHECK(once.distinct > search(one_client(), 2, 1).distinct);
  CHECK(once.distinct == again.distinct);
  CHECK(once.transitions == again.transitions);
  CHECK(once.last_runs == again.last_runs);
  CHECK(once.hash == again.hash);
  CHECK(once.violations == 0);
}

TEST_CASE("the model merges what commutes: clients that do not meet") {
  ModelScope scope;
  ModelWorld first(scope);
  ModelWorld second(scope);
  const Choice other{Kind::prompt, 1, 0, 1};
  first.make(ask);
  first.make(other);
  second.make(other);
  second.make(ask);
  CHECK(first.state() == second.state());
}

TEST_CASE("the model tells apart what one core was told in another order") {
  ModelWorld first(one_client());
  ModelWorld second(one_client());
  first.make(ask);
  first.make(ask_other);
  second.make(ask_other);
  second.make(ask);
  CHECK_FALSE(first.state() == second.state());
}

TEST_CASE("a copy of a world goes on as the world itself") {
  ModelWorld world(one_client());
  world.make(ask);
  ModelWorld copy = world;
  const std::vector<Choice> on = {
      commit, {Kind::insert}, {Kind::agent_dies, 0, 1}, {Kind::read}, {Kind::learn}};
  for (const Choice& choice : on) {
    REQUIRE(offers(world, choice));
    REQUIRE(offers(copy, choice));
    world.make(choice);
    copy.make(choice);
    CHECK(world.state() == copy.state());
  }
  CHECK_FALSE(world.is_broken());
}

TEST_CASE("what is on the disk when keyhop dies makes two states") {
  ModelWorld written(one_client());
  written.make(ask);
  ModelWorld lost = written;
  written.make({Kind::keyhop_dies, 0, 1});
  lost.make({Kind::keyhop_dies, 0, 0});
  CHECK_FALSE(written.state() == lost.state());
}

TEST_CASE("the budget of a world ends its faults") {
  ModelScope scope = one_client();
  scope.deaths = scope.failures = scope.cancels = scope.timers = 0;
  ModelWorld world(scope);
  world.make(ask);
  CHECK(world.choices() == std::vector<Choice>{ask, ask_other, {Kind::prompt, 0, 1, 0}, commit});
}

TEST_CASE("a world that is broken offers nothing") {
  ModelScope scope = one_client();
  ModelWorld world(scope);
  world.make(ask);
  world.make(commit);
  // An insertion that keyhop knows nothing of, and then the one that it asked for.
  ModelWorld copy = world;
  world.make({Kind::insert});
  CHECK_FALSE(world.is_broken());
  copy.insert_unasked({0, 0});
  copy.make({Kind::insert});
  CHECK(copy.broken() == Invariant::once);
  CHECK(copy.choices().empty());
}

}  // namespace
}  // namespace acp::sim
