// When an agent is started again, and what its client is told while it is not.
#include "proxy/core/restart_budget.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Lines = std::vector<std::string>;
using Answer = RestartBudget::Answer;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};
constexpr std::string_view v2 = R"({"protocolVersion":2})";

Settings restarting(std::uint32_t restarts_max = 5) {
  Settings settings;
  settings.restarts = true;
  settings.restart_limit.restarts_max = restarts_max;
  return settings;
}

void end_client(Dialogue& talk) { talk.happen(LinkEnded{client_link, LinkEnd::eof, 0}); }

std::ptrdiff_t count(const Lines& orders, std::string_view order) {
  return std::count(orders.begin(), orders.end(), order);
}

// The session's restore, too.
void restore(Dialogue& talk) {
  talk.agent_initializes(v2);
  for (const std::string& line : talk.take_agent()) {
    if (unquoted(member(line, "method")) == "session/resume")
      talk.agent(result_line(member(line, "id"), "null"));
  }
}

// A restart limit of one, used up: the budget is spent.
void spend(Dialogue& talk) {
  talk.agent_restarts();
  restore(talk);
  talk.agent_dies(killed);
  REQUIRE(talk.relay().phase() == Phase::spent);
}

TEST_CASE("budget: at once after service, doubled waits with jitter otherwise", "[budget]") {
  const std::uint64_t seed = GENERATE(0U, 1U, 42U, 0xFFFF'FFFF'FFFF'FFFFU);
  RestartBudget budget({1000, seconds(60)}, seed);
  Instant now{std::chrono::hours(1)};
  CHECK(budget.on_loss(true, now).answer == Answer::now);
  Duration full = milliseconds(100);
  for (int failure = 0; failure < 40; ++failure) {
    const auto ruling = budget.on_loss(false, now);
    REQUIRE(ruling.answer == Answer::wait);
    CHECK(ruling.at - now <= full);
    CHECK(ruling.at - now >= full / 2);
    full = std::min<Duration>(full * 2, seconds(30));
    now = ruling.at;
    budget.on_restart(now);
  }
  CHECK(budget.on_loss(true, now).answer == Answer::now);
  const auto again = budget.on_loss(false, now);  // service began the row anew
  CHECK(again.at - now <= milliseconds(100));
}

TEST_CASE("budget: the jitter differs between seeds and not between runs", "[budget]") {
  const auto waits = [](std::uint64_t seed) {
    RestartBudget budget({1000, seconds(60)}, seed);
    std::vector<Duration> out;
    for (int i = 0; i < 8; ++i) out.push_back(budget.on_loss(false, Instant{}).at - Instant{});
    return out;
  };
  CHECK(waits(1) == waits(1));
  CHECK(waits(1) != waits(2));
}

TEST_CASE("budget: spent after N in the window, until the oldest leaves it or 30 s", "[budget]") {
  const Instant start{std::chrono::hours(1)};
  RestartBudget budget({5, seconds(60)}, 1);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(budget.on_loss(true, start + seconds(i)).answer == Answer::now);
    budget.on_restart(start + seconds(i));
  }
  CHECK(budget.restarts_in_window(start + seconds(5)) == 5);
  const auto soon = budget.on_loss(true, start + seconds(5));
  CHECK(soon.answer == Answer::spent);
  CHECK(soon.at == start + seconds(35));
  const auto late = budget.on_loss(true, start + seconds(50));
  CHECK(late.answer == Answer::spent);
  CHECK(late.at == start + seconds(60));
  CHECK(budget.on_loss(true, start + seconds(60)).answer == Answer::now);
  CHECK(budget.restarts_in_window(start + seconds(64)) == 0);
  RestartBudget never({0, seconds(60)}, 1);
  CHECK(never.on_loss(true, start).answer == Answer::spent);
}

TEST_CASE("an agent that dies before its first initialize is not restarted", "[budget][recovery]") {
  Dialogue talk(restarting());
  talk.client(request_line("0", "initialize", v2));
  talk.happen(StderrRead{agent_epoch, "no such model\n"});
  talk.agent_dies({ExitStatus::Kind::exited, 3});
  const Lines got = talk.take_client();
  CHECK(in_short(got) == Lines{"0 -32603 agent_lost unknown"});
  CHECK(member(member(got.at(0), "error"), "data", "agent") ==
        R"({"exitCode":3,"stderrTail":"no such model"})");
  CHECK(talk.exit_status() == 3);
  CHECK(count(talk.take_orders(), "start") == 0);
}

TEST_CASE("an agent that served is started again at once, one that cannot take over after a wait",
          "[budget][recovery]") {
  Dialogue talk(restarting());
  talk.open();
  talk.client(request_line("7", "session/list"));
  talk.agent_dies(killed);
  CHECK(count(talk.take_orders(), "start") == 1);
  CHECK(talk.relay().phase() == Phase::starting);
  talk.happen(AgentStartFailed{talk.epoch(), 2});
  CHECK(talk.relay().phase() == Phase::waiting);
  talk.pass(milliseconds(49));
  CHECK(count(talk.take_orders(), "start") == 0);
  talk.pass(milliseconds(51));
  CHECK(count(talk.take_orders(), "start") == 1);
  talk.agent_starts();
  talk.take_agent();
  talk.agent_dies(killed);  // in the middle of its restore
  CHECK(talk.relay().phase() == Phase::waiting);
  talk.pass(milliseconds(99));
  CHECK(count(talk.take_orders(), "start") == 0);
  talk.pass(milliseconds(101));
  talk.agent_starts();
  CHECK(talk.take_client().empty());
  talk.take_orders();
  restore(talk);
  CHECK(talk.take_client().empty());
  CHECK(talk.relay().phase() == Phase::serving);
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{result_line("7")});
  CHECK(talk.take_orders().empty());
}

TEST_CASE("budget spent: definite errors at once, then the first request starts the agent again",
          "[budget][recovery]") {
  Dialogue talk(restarting());
  talk.open();
  for (int i = 0; i < 5; ++i) {
    talk.agent_restarts();
    restore(talk);
    REQUIRE(talk.relay().phase() == Phase::serving);
  }
  talk.client(request_line("7", "session/list"));
  talk.client(prompt_line("8", ""));
  talk.take_client();
  talk.take_agent();
  talk.agent_dies(killed);
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown", "8 -32603 agent_lost unknown"});
  CHECK(talk.relay().phase() == Phase::spent);
  talk.client(request_line("9", "session/list"));
  CHECK(in_short(talk.take_client()) == Lines{"9 -32603 agent_lost not_sent"});
  talk.take_orders();
  talk.pass(seconds(30));
  CHECK(talk.relay().phase() == Phase::parked);
  talk.client(R"({"jsonrpc":"2.0","method":"_note"})");
  CHECK(talk.take_orders().empty());  // a notification needs no agent
  talk.client(request_line("10", "session/list"));
  CHECK(count(talk.take_orders(), "start") == 1);
  talk.agent_starts();
  talk.agent_initializes(v2);
  Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 3);
  CHECK(unquoted(member(sent[0], "method")) == "session/resume");
  CHECK(sent[2] == request_line("10", "session/list"));
  talk.agent(result_line("10"));
  CHECK(talk.take_client() == Lines{result_line("10")});
}

TEST_CASE("parked: a flood of notifications is held within bounds and starts the agent",
          "[budget][recovery]") {
  Dialogue talk(restarting(1));
  talk.open();
  spend(talk);
  talk.pass(seconds(30));
  REQUIRE(talk.relay().phase() == Phase::parked);
  talk.take_orders();
  const std::string note =
      R"({"jsonrpc":"2.0","method":"_note","params":")" + std::string(limits::mib, 'x') + "\"}";
  for (int i = 0; i < 9; ++i) talk.client(note);
  const Lines orders = talk.take_orders();
  CHECK(count(orders, "start") == 1);
  CHECK(count(orders, "pause client") == 1);
  talk.agent_starts();
  talk.agent_initializes(v2);
  CHECK(talk.take_agent().size() == 10);
  CHECK(count(talk.take_orders(), "resume client") == 1);  // nothing is held any more
}

TEST_CASE("SIGUSR2 restarts an agent that hangs, and one that is not there", "[budget][recovery]") {
  Dialogue talk(restarting(1));
  talk.open();
  talk.client(request_line("7", "session/list"));
  talk.take_agent();
  talk.take_orders();
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.take_orders().empty());
  talk.agent_dies(killed);
  CHECK(count(talk.take_orders(), "start") == 1);
  talk.agent_starts();
  talk.agent_initializes(v2);
  CHECK(talk.take_agent().back() == request_line("7", "session/list"));
  talk.agent(result_line("7"));
  talk.take_client();
  talk.agent_dies(killed);  // its session was not rebuilt yet, and the budget is spent
  CHECK(talk.relay().phase() == Phase::spent);
  talk.take_orders();
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(count(talk.take_orders(), "start") == 1);
  talk.agent_starts();
  restore(talk);
  CHECK(talk.relay().phase() == Phase::serving);
  CHECK_FALSE(talk.exit_status());
}

TEST_CASE("SIGUSR2 without restarts does nothing", "[budget][recovery]") {
  Dialogue talk;
  talk.open();
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.take_orders().empty());
  CHECK(talk.relay().phase() == Phase::serving);
}

// Brings a talk with an open request 7 (lost) and, where it can wait, 8 (held) into a phase.
void enter(Dialogue& talk, Phase phase) {
  talk.open();
  const auto ask = [&](std::string_view id) { talk.client(request_line(id, "session/list")); };
  if (phase == Phase::spent || phase == Phase::parked) {
    spend(talk);
    if (phase == Phase::parked) talk.pass(seconds(30));
    return;
  }
  ask("7");
  if (phase == Phase::leaving) talk.happen(LinkEnded{talk.link(), LinkEnd::eof, 0});
  if (phase == Phase::lost) talk.happen(AgentExited{talk.epoch(), killed});
  if (phase == Phase::starting || phase == Phase::waiting) talk.agent_dies(killed);
  if (phase == Phase::waiting) talk.happen(AgentStartFailed{talk.epoch(), 2});
  if (phase == Phase::restoring) talk.agent_restarts();
  ask("8");
}

// Whatever runs is ended as the orders say, until keyhop exits.
void let_it_end(Dialogue& talk) {
  const Phase phase = talk.relay().phase();
  if (phase == Phase::starting) talk.agent_starts();
  talk.pass(seconds(20));
  if (talk.relay().phase() == Phase::over) return;
  talk.agent_dies(killed);
}

TEST_CASE("client gone or a signal in every phase: one exit, every request one answer",
          "[budget][recovery]") {
  const Phase phase = GENERATE(Phase::starting, Phase::leaving, Phase::lost, Phase::waiting, Phase::spent,
                               Phase::parked, Phase::restoring);
  const int way = GENERATE(0, 1, 2, 3);
  Dialogue talk(restarting(phase == Phase::spent || phase == Phase::parked ? 1 : 5));
  enter(talk, phase);
  REQUIRE(talk.relay().phase() == phase);
  talk.take_client();
  talk.take_orders();
  if (way == 0) end_client(talk);
  if (way == 1) talk.happen(LinkEnded{client_link, LinkEnd::write_failed, 32});
  if (way == 2) talk.happen(SignalReceived{Signal::terminate, 15});
  if (way == 3) {
    talk.happen(SignalReceived{Signal::terminate, 15});
    talk.happen(SignalReceived{Signal::terminate, 15});
  }
  let_it_end(talk);
  CAPTURE(static_cast<int>(phase), way);
  REQUIRE(talk.exit_status().has_value());
  const bool was_spent = phase == Phase::spent || phase == Phase::parked;
  if (way >= 2) CHECK(talk.exit_status() == 143);
  if (way < 2 && was_spent) CHECK(talk.exit_status() == 75);
  const Lines orders = talk.take_orders();
  CHECK(std::count_if(orders.begin(), orders.end(),
                      [](const std::string& order) { return order.rfind("exit", 0) == 0; }) == 1);
  CHECK(count(orders, "misdirected") == 0);
  CHECK(count(orders, "start") == 0);
  const Lines got = in_short(talk.take_client());
  if (way == 1 || was_spent) {
    CHECK(got.empty());
  } else {
    CHECK(got == Lines{"7 -32603 agent_lost unknown", "8 -32603 agent_lost not_sent"});
  }
}

}  // namespace
}  // namespace acp::sim
