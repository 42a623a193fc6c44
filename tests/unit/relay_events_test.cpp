// Events that come late, twice, or of an epoch that is over; ends in the middle of other ends.
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "tests/unit/guard.h"
#include "tests/unit/padded.h"

namespace acp::sim {
namespace {

const Lines none;
constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};

TEST_CASE("news of another epoch's process are none of this one's", "[relay][events]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.agent_dies(killed);
  const Epoch former{talk.epoch().value - 1};
  talk.take_orders();
  talk.happen(AgentStarted{former, 1});
  talk.happen(AgentStartFailed{former, 2});
  talk.happen(StderrRead{former, "late words\n"});
  CHECK(talk.take_orders() == none);
  CHECK(talk.relay().phase() == Phase::starting);
  CHECK(talk.take_agent() == none);
  talk.agent_starts();
  CHECK(method_of(only_line(talk)) == "initialize");
  CHECK(talk.stderr_text() == "late words\n");  // shown, but not this agent's last words
  talk.client(request_line("7", "x"));
  talk.agent(result_line("\"keyhop-1\"", v2));
  talk.take_agent();
  talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  talk.agent_dies(killed);
  const Lines told = talk.take_client();
  REQUIRE(told.size() == 1);
  CHECK(member(member(member(member(told[0], "error"), "data"), "agent"), "stderrTail") == R"("")");
}

TEST_CASE("what a closed epoch still says goes nowhere", "[relay][events]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const LinkId former = talk.link();
  const std::string line = update_line("s1", "state_update", R"(,"state":"idle")");
  const test::Padded late(line + "\n");
  talk.happen(BytesRead{former, late.view()});
  REQUIRE(talk.take_client() == Lines{line});
  talk.agent_restarts();
  talk.agent_initializes(v2);
  talk.take_client();
  talk.happen(BytesRead{former, late.view()});
  CHECK(talk.take_client() == none);
  talk.agent(line);
  CHECK(talk.take_client() == Lines{line});
}

TEST_CASE("a start that fails after everybody has gone ends it", "[relay][events]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.client(request_line("7", "x"));
  talk.agent_dies(killed);
  REQUIRE(talk.relay().phase() == Phase::starting);
  talk.take_orders();
  const int who = GENERATE(0, 1, 2);
  if (who == 0) talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  if (who == 1) talk.happen(SignalReceived{Signal::terminate, 15});
  if (who == 2) talk.happen(AgentExited{talk.epoch(), killed});
  talk.happen(AgentStartFailed{talk.epoch(), 2});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  CHECK(talk.exit_status() == (who == 1 ? 143 : 69));
}

TEST_CASE("a first start that fails after everybody has gone ends it", "[relay][events]") {
  Dialogue talk(one_epoch(), false);
  const bool signal = GENERATE(true, false);
  if (signal) {
    talk.happen(SignalReceived{Signal::terminate, 15});
  } else {
    talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  }
  talk.happen(AgentStartFailed{talk.epoch(), 2});
  CHECK(talk.exit_status() == (signal ? 143 : 69));
}

TEST_CASE("a stream ends once", "[relay][events]") {
  Dialogue talk;
  talk.open();
  talk.client(request_line("7", "x"));
  talk.agent_bytes(result_line("7"));  // without its LF
  talk.happen(LinkEnded{talk.link(), LinkEnd::eof, 0});
  CHECK(talk.take_client() == Lines{result_line("7")});
  talk.take_orders();
  talk.happen(LinkEnded{talk.link(), LinkEnd::eof, 0});
  CHECK(talk.take_orders() == none);
  CHECK(talk.take_client() == none);
  CHECK(talk.relay().phase() == Phase::leaving);
}

TEST_CASE("draining: an agent that reads no more, or a client", "[relay][events]") {
  Dialogue talk;
  talk.open();
  talk.client(request_line("7", "x"));
  talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  REQUIRE(talk.relay().phase() == Phase::draining);
  talk.take_orders();
  SECTION("the agent") {
    talk.happen(LinkEnded{talk.link(), LinkEnd::write_failed, 32});
    CHECK(talk.relay().phase() == Phase::leaving);
    talk.agent(result_line("7"));  // what it still says counts
    CHECK(talk.take_client() == Lines{result_line("7")});
  }
  SECTION("the client") {
    talk.happen(LinkEnded{client_link, LinkEnd::write_failed, 32});
    CHECK(talk.relay().phase() == Phase::closing);
    CHECK(talk.take_orders() == Lines{"close agent"});
  }
}

TEST_CASE("stranded: a client that reads no more is told nothing", "[relay][events]") {
  Dialogue talk(one_epoch(), false);
  talk.happen(AgentStartFailed{talk.epoch(), 2});
  REQUIRE(talk.relay().phase() == Phase::stranded);
  talk.happen(LinkEnded{client_link, LinkEnd::write_failed, 32});
  CHECK(talk.take_client() == none);
  CHECK(talk.exit_status() == 69);
}

TEST_CASE("draining: a prompt that cannot be recorded is the last thing to wait for", "[relay][events]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("7", "k", "hi"));
  talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  REQUIRE(talk.relay().phase() == Phase::draining);
  talk.take_orders();
  ledger.fails = LedgerError::full;
  talk.run_ledger();
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 ledger_full not_sent"});
  CHECK(talk.take_orders() == Lines{"close agent"});
  CHECK(talk.relay().phase() == Phase::closing);
}

TEST_CASE("news of what was written to an agent come too late after its end", "[relay][events]") {
  const bool fails = GENERATE(true, false);  // or somebody who was left alone takes more of it
  const auto tell_late = [fails](Dialogue& talk) {
    talk.take_orders();
    if (fails) {
      talk.happen(LinkEnded{talk.link(), LinkEnd::write_failed, EPIPE});
    } else {
      talk.happen(LinkBacklog{talk.link(), limits::backlog_bytes_hard});
    }
    CHECK(talk.take_orders() == none);  // nobody waits for its queue
    talk.client(request_line("7", "session/list"));
    CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost not_sent"});
  };
  SECTION("restarted too often") {
    Settings settings = restarting();
    settings.restart_limit.restarts_max = 1;
    Dialogue talk(settings);
    open_with(talk, v2);
    talk.agent_restarts();
    talk.agent_dies(killed);
    CHECK(talk.relay().phase() == Phase::spent);
    tell_late(talk);
  }
  SECTION("before anything was asked") {
    Dialogue talk(restarting());
    talk.agent_dies(killed);
    CHECK(talk.relay().phase() == Phase::stranded);
    tell_late(talk);
    CHECK(talk.exit_status() == 137);
  }
}

}  // namespace
}  // namespace acp::sim
