// What watches over the histories of chains finds what it is there to find.
#include <catch2/catch.hpp>
#include <optional>
#include <string_view>

#include "tests/sim/chain_peers.h"
#include "tests/sim/chain_plan.h"
#include "tests/sim/chain_wire.h"
#include "tests/sim/dialogue.h"

namespace acp::sim {
namespace {

void check_found(const std::optional<ChainFinding>& finding, Invariant invariant) {
  REQUIRE(finding.has_value());
  CHECK(finding->invariant == invariant);
}

TEST_CASE("a wire finds ids, answers and cancels that are wrong", "[chain]") {
  ChainWire wire;
  CHECK_FALSE(wire.wrote(request_line("1", "session/prompt")).has_value());
  check_found(wire.wrote(request_line("1", "session/prompt")), Invariant::ids);
  check_found(wire.wrote(cancel_line("2")), Invariant::cancelled);
  CHECK_FALSE(wire.wrote(cancel_line("1")).has_value());
  check_found(wire.wrote(cancel_line("1")), Invariant::cancelled);
  wire.read(result_line("1"));
  check_found(wire.wrote(cancel_line("1")), Invariant::cancelled);
  CHECK_FALSE(wire.wrote(request_line("1", "session/prompt")).has_value());

  check_found(wire.wrote(result_line("7")), Invariant::one_answer);
  wire.read(request_line("7", "session/request_permission"));
  CHECK(wire.owes() == 1);
  CHECK_FALSE(wire.wrote(result_line("7")).has_value());
  CHECK(wire.owes() == 0);
  check_found(wire.wrote(result_line("7")), Invariant::one_answer);
  check_found(wire.wrote("{\"jsonrpc\""), Invariant::valid);
}

TEST_CASE("the disk of a chain's agent knows a second effect", "[chain]") {
  ChainDisk disk;
  disk.insert({.session = "s0", .id = {}, .text = "a", .key = "k0", .tag = 1});
  disk.insert({.session = "s0", .id = {}, .text = "b", .key = {}, .tag = 2});
  disk.insert({.session = "s1", .id = {}, .text = "a", .key = "k0", .tag = 3});
  CHECK(disk.failure.empty());
  SECTION("by its key") { disk.insert({.session = "s0", .id = {}, .text = "a", .key = "k0", .tag = 4}); }
  SECTION("by its request") { disk.insert({.session = "s0", .id = {}, .text = "b", .key = {}, .tag = 2}); }
  CHECK_FALSE(disk.failure.empty());
}

TEST_CASE("an agent of a chain knows an answer that is not its question's", "[chain]") {
  Prng random(1);
  ChainDisk disk;
  AgentPerson person;
  ChainAgent agent(person, disk, 1, random);
  disk.questions.push_back({"0", 1, -1, {}, false});
  SECTION("the right one, and once more") {
    agent.take(result_line("0", R"({"_meta":{"q":0}})"));
    CHECK(disk.misanswer.empty());
    agent.take(result_line("0", R"({"_meta":{"q":0}})"));
  }
  SECTION("another one's") { agent.take(result_line("0", R"({"_meta":{"q":1}})")); }
  SECTION("of another process") { agent.take(result_line("5", R"({"_meta":{"q":0}})")); }
  CHECK_FALSE(disk.misanswer.empty());
}

TEST_CASE("every kind of a chain's plan is drawn, and can be switched off", "[chain]") {
  Kinds drawn;
  Kinds all;
  all.set();
  for (std::uint64_t seed = 1; seed < 400; ++seed) {
    Prng random(seed);
    ChainsPlan plan(random);
    drawn |= plan.kinds();
    Prng again(seed);
    CHECK(ChainsPlan(again, all).kinds().none());
  }
  CHECK(drawn.count() == ChainsPlan::kind_names().size());
}

}  // namespace
}  // namespace acp::sim
