// What watches over the histories of chains finds what it is there to find.
#include <catch2/catch.hpp>
#include <optional>
#include <string_view>
#include <vector>

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

TEST_CASE("an agent of a chain is initialized once, before all else", "[chain]") {
  Prng random(1);
  ChainDisk disk;
  AgentPerson person;
  ChainAgent agent(person, disk, 1, random);
  agent.take(request_line("1", "initialize", "{}"));
  agent.take(request_line("2", "initialize", "{}"));
  CHECK(disk.misanswer.empty());
  agent.take(request_line("3", "session/new", "{}"));
  CHECK(disk.misanswer.empty());
  agent.take(request_line("4", "initialize", "{}"));
  CHECK_FALSE(disk.misanswer.empty());
}

TEST_CASE("an agent of a chain holds a prompt until it is cancelled", "[chain]") {
  Prng random(1);
  ChainDisk disk;
  AgentPerson person;
  ChainAgent agent(person, disk, 1, random);
  agent.take(request_line("1", "session/new", "{}"));
  agent.take(
      request_line("2", "session/prompt",
                   R"({"sessionId":"s0","prompt":[{"type":"text","text":"hold 0"}],"_meta":{"tag":7}})"));
  agent.words().clear();
  CHECK_FALSE(agent.work());
  CHECK(agent.held() == std::vector<int>{7});
  SECTION("by its id") { agent.take(cancel_line("2")); }
  SECTION("by its session") {
    agent.take(R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s0"}})");
  }
  SECTION("or given up") {
    CHECK_FALSE(agent.release([](int tag) { return tag == 7; }));
    CHECK(agent.release([](int tag) { return tag != 7; }));
  }
  CHECK(agent.held().empty());
  CHECK(agent.words().size() == 1);
  CHECK(disk.log.empty());
}

TEST_CASE("an agent of a chain gives up on a question that nobody answers, once", "[chain]") {
  Prng random(1);
  ChainDisk disk;
  AgentPerson person;
  ChainAgent agent(person, disk, 1, random);
  disk.questions.push_back(
      {.id = "0", .life = 1, .about = -1, .params = {}, .answered = false, .holds = true});
  CHECK(agent.work());
  REQUIRE(agent.words().size() == 1);
  CHECK(agent.words().front() == cancel_line("0"));
  CHECK_FALSE(agent.work());
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
