// Lives and ends: the agent's process, the client's stream, signals, back-pressure, exit statuses.
#include "proxy/core/relay.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code}; }
constexpr ExitStatus killed(int signal) { return {ExitStatus::Kind::signalled, signal}; }
const std::string update = R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1"}})";

std::string data_of(std::string_view line, std::string_view name) {
  return std::string(member(member(line, "error"), "data", name));
}

void end_client(Dialogue& talk) { talk.happen(LinkEnded{client_link, LinkEnd::eof, 0}); }

TEST_CASE("the client is read once the agent runs", "[relay]") {
  Dialogue talk(one_epoch(), false);
  CHECK(talk.take_orders() == Lines{"pause client", "start"});
  CHECK(talk.relay().phase() == Phase::starting);
  talk.happen(AgentStarted{agent_epoch, 42});
  CHECK(talk.take_orders() == Lines{"resume client"});
  CHECK(talk.relay().phase() == Phase::serving);
}

TEST_CASE("agent exits in the middle of a turn: the update, then one error with the facts", "[relay][loss]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.agent(update);
  talk.happen(StderrRead{agent_epoch, "one\ntwo\n\x1B[31mred\x1B[0m\n"});
  talk.take_agent();
  talk.agent_dies(exited(143));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 2);
  CHECK(got[0] == update);
  CHECK(in_short(got[1]) == "7 -32603 agent_lost unknown");
  CHECK(data_of(got[1], "progress") == "true");
  CHECK(data_of(got[1], "agent") == R"({"exitCode":143,"stderrTail":"one\ntwo\nred"})");
  CHECK(talk.exit_status() == 143);
  CHECK(talk.take_agent().empty());
  CHECK(talk.relay().phase() == Phase::over);
}

TEST_CASE("loss: what each open request is told", "[relay][loss]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.client(prompt_line("8", "\"k\""));
  talk.client(prompt_line("9", "\"k\""));
  talk.client(request_line("10", "session/list"));
  talk.client(prompt_line("11", ""));
  talk.client(cancel_line("11"));
  talk.client(prompt_line("12", "\"q\""));
  talk.client(cancel_line("12"));
  talk.take_agent();
  talk.happen(AgentExited{agent_epoch, killed(9)});
  talk.client(prompt_line("13", ""));  // held: it never leaves
  talk.client(prompt_line("14", "\"h\""));
  talk.client(prompt_line("15", "\"h\""));
  talk.client(request_line("16", "session/list"));
  talk.client(cancel_line("16"));
  CHECK(in_short(talk.take_client()) == Lines{"16 -32800 cancelled not_sent"});
  CHECK(talk.take_agent().empty());
  talk.happen(AgentEnded{agent_epoch});
  CHECK(talk.take_client().empty());
  talk.happen(LinkEnded{agent_link, LinkEnd::eof, 0});
  const Lines got = talk.take_client();
  CHECK(in_short(got) == Lines{"7 -32603 agent_lost unknown", "8 -32603 agent_lost unknown",
                               "9 -32603 agent_lost unknown", "10 -32603 agent_lost unknown",
                               "11 -32800 cancelled unknown", "12 -32800 cancelled unknown",
                               "13 -32603 agent_lost not_sent", "14 -32603 agent_lost not_sent",
                               "15 -32603 agent_lost not_sent"});
  CHECK(data_of(got[0], "agent") == R"({"signal":9,"stderrTail":""})");
  CHECK(data_of(got[0], "progress") == "false");
  CHECK(talk.exit_status() == 137);
}

TEST_CASE("what a dead agent said before it died counts, in any order of the news", "[relay][loss]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.client(prompt_line("8", ""));
  talk.take_agent();
  const int order = GENERATE(0, 1, 2);
  if (order == 0) talk.happen(AgentExited{agent_epoch, exited(3)});
  if (order == 1) talk.happen(LinkEnded{agent_link, LinkEnd::write_failed, EPIPE});
  if (order == 2) {
    talk.happen(AgentExited{agent_epoch, exited(3)});
    talk.happen(AgentEnded{agent_epoch});
    CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000", "finish agent"});
  }
  talk.agent(update);
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{update, result_line("7")});
  talk.agent_dies(exited(3));
  CHECK(in_short(talk.take_client()) == Lines{"8 -32603 agent_lost unknown"});
  CHECK(talk.exit_status() == 3);
}

TEST_CASE("requests of a dead agent's: one cancel each, late answers go nowhere", "[relay][loss]") {
  Dialogue talk;
  talk.open();
  talk.agent(request_line("5", "session/request_permission"));
  talk.agent(request_line("5", "session/request_permission"));
  talk.agent(request_line("6", "session/request_permission"));
  talk.agent(cancel_line("6"));
  talk.agent(request_line("8", "session/request_permission"));
  const std::string own(member(talk.take_client()[1], "id"));
  talk.happen(AgentExited{agent_epoch, exited(0)});
  talk.client(result_line("8"));  // answered while it ends: nothing to cancel, nobody to tell
  talk.agent_dies(exited(0));
  CHECK(talk.take_client() == Lines{cancel_line("5"), cancel_line(own)});
  talk.client(result_line("5"));
  CHECK(talk.take_agent().empty());
}

TEST_CASE("stdout ends without an exit: a moment, then the epoch is ended", "[relay][loss]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.happen(LinkEnded{agent_link, LinkEnd::eof, 0});
  CHECK(talk.take_orders() == Lines{"close agent"});
  CHECK(talk.relay().phase() == Phase::leaving);
  talk.pass(milliseconds(250));
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  talk.happen(AgentExited{agent_epoch, killed(15)});
  talk.happen(AgentEnded{agent_epoch});
  CHECK(in_short(talk.take_client()).back() == "7 -32603 agent_lost unknown");
  CHECK(talk.exit_status() == 143);
}

TEST_CASE("an agent that cannot be started tells the first request why", "[relay][stranded]") {
  Dialogue talk(one_epoch(), false);
  talk.happen(AgentStartFailed{agent_epoch, ENOENT});
  CHECK(talk.relay().phase() == Phase::stranded);
  CHECK(talk.take_orders() == Lines{"pause client", "start", "resume client"});
  SECTION("a request") {
    talk.client("junk");
    talk.client(update);
    CHECK(in_short(talk.take_client()) == Lines{"null -32700 not_json"});
    talk.client(request_line("0", "initialize"));
    const Lines got = talk.take_client();
    REQUIRE(got.size() == 1);
    CHECK(in_short(got[0]) == "0 -32603 agent_lost not_sent");
    CHECK(member(member(member(got[0], "error"), "data"), "agent", "startError") ==
          "\"No such file or directory\"");
  }
  SECTION("the client's end") { end_client(talk); }
  CHECK(talk.exit_status() == 69);
}

TEST_CASE("an agent that dies before it was asked anything waits for the first request",
          "[relay][stranded]") {
  Dialogue talk;
  talk.happen(StderrRead{agent_epoch, "Cannot find module x\n"});
  talk.agent_dies(exited(1));
  CHECK(talk.relay().phase() == Phase::stranded);
  CHECK_FALSE(talk.exit_status().has_value());
  talk.client(request_line("0", "initialize"));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(in_short(got[0]) == "0 -32603 agent_lost not_sent");
  CHECK(data_of(got[0], "agent") == R"({"exitCode":1,"stderrTail":"Cannot find module x"})");
  CHECK(talk.exit_status() == 1);
}

TEST_CASE("an agent that crashes on initialize: the cause comes with the error", "[relay][loss]") {
  Dialogue talk;
  talk.client(request_line("0", "initialize"));
  talk.happen(StderrRead{agent_epoch, "Cannot find module x"});
  talk.agent_dies(exited(1));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(in_short(got[0]) == "0 -32603 agent_lost unknown");
  CHECK(data_of(got[0], "agent") == R"({"exitCode":1,"stderrTail":"Cannot find module x"})");
  CHECK(talk.exit_status() == 1);
}

TEST_CASE("client's end with nothing open: stdin closed, grace, TERM, status 0", "[relay][end]") {
  Dialogue talk;
  talk.open();
  end_client(talk);
  CHECK(talk.take_orders() == Lines{"close agent"});
  CHECK(talk.relay().phase() == Phase::closing);
  SECTION("it goes by itself: its own status") {
    talk.agent_dies(exited(7));
    CHECK(talk.exit_status() == 7);
  }
  SECTION("it does not go") {
    talk.pass(milliseconds(3999));
    CHECK(talk.take_orders().empty());
    talk.pass(milliseconds(1));
    CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
    talk.agent_dies(killed(15));
    CHECK(talk.exit_status() == 0);
  }
  SECTION("it closes its stdout and still has the grace for its state") {
    talk.happen(LinkEnded{agent_link, LinkEnd::eof, 0});
    talk.pass(seconds(2));
    CHECK(talk.take_orders().empty());
    talk.happen(AgentExited{agent_epoch, exited(0)});
    talk.happen(AgentEnded{agent_epoch});
    CHECK(talk.exit_status() == 0);
  }
  SECTION("it writes what it must") {
    talk.agent(update);
    CHECK(talk.take_client() == Lines{update});
    talk.agent(R"({"jsonrpc":"2.0","id":5,"method":7})");  // nothing is sent behind the end of its stdin
    CHECK(talk.take_agent().empty());
    talk.agent_dies(exited(0));
    CHECK(talk.exit_status() == 0);
  }
}

TEST_CASE("client's end with requests open: they may be answered", "[relay][end]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  end_client(talk);
  CHECK(talk.take_orders().empty());
  CHECK(talk.relay().phase() == Phase::draining);
  SECTION("answered") {
    talk.pass(milliseconds(4999));
    talk.agent(result_line("7"));
    CHECK(talk.take_client() == Lines{result_line("7")});
    CHECK(talk.take_orders() == Lines{"close agent"});
    talk.agent_dies(exited(0));
  }
  SECTION("not in time, but in the grace") {
    talk.pass(seconds(5));
    CHECK(talk.take_orders() == Lines{"close agent"});
    talk.agent(result_line("7"));
    CHECK(talk.take_client() == Lines{result_line("7")});
    talk.agent_dies(exited(0));
  }
  SECTION("never") {
    talk.pass(seconds(9));
    talk.take_orders();
    talk.agent_dies(killed(15));
    CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  }
  CHECK(talk.exit_status() == 0);
}

TEST_CASE("a client that reads no more ends it without a drain", "[relay][end]") {
  Dialogue talk;
  talk.open();
  talk.client(prompt_line("7", ""));
  talk.take_agent();
  talk.happen(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
  CHECK(talk.take_orders() == Lines{"close agent"});
  talk.client(prompt_line("8", ""));  // still read, sent to nobody
  talk.agent(result_line("7"));
  CHECK(talk.take_client().empty());
  CHECK(talk.take_agent().empty());
  talk.pass(seconds(4));
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  talk.agent_dies(killed(15));
  CHECK(talk.take_client().empty());
  CHECK(talk.exit_status() == 0);
}

TEST_CASE("signals: TERM at once with the grace, status 128+n", "[relay][signal]") {
  const auto [signal, number] =
      GENERATE(table<Signal, int>({{Signal::interrupt, 2}, {Signal::terminate, 15}, {Signal::hangup, 1}}));
  const int when = GENERATE(0, 1, 2, 3);
  Dialogue talk(one_epoch(), when != 0);
  if (when > 0) talk.open();
  if (when > 1) talk.client(prompt_line("7", ""));
  if (when == 3) end_client(talk);  // in the middle of a drain
  talk.take_orders();
  talk.happen(SignalReceived{signal, number});
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 4000"});
  talk.happen(SignalReceived{Signal::terminate, 15});
  CHECK(talk.take_orders() == Lines{"end agent 0"});
  talk.agent_dies(exited(0));
  if (when > 1) CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
  CHECK(talk.exit_status() == 128 + number);
}

TEST_CASE("a signal while stranded ends it", "[relay][signal]") {
  Dialogue talk(one_epoch(), false);
  talk.happen(AgentStartFailed{agent_epoch, ENOENT});
  talk.happen(SignalReceived{Signal::terminate, 15});
  CHECK(talk.exit_status() == 143);
}

TEST_CASE("counters are told, a restart is declined, and life goes on", "[relay][signal]") {
  Dialogue talk;
  talk.open();
  talk.happen(SignalReceived{Signal::report, 10});
  CHECK(talk.stderr_text().find("from client 2 frames") != std::string::npos);
  talk.happen(SignalReceived{Signal::restart, 12});
  CHECK(talk.take_orders().empty());
  CHECK(talk.relay().phase() == Phase::serving);
}

TEST_CASE("whoever fills a queue is not read until it drained", "[relay][pressure]") {
  const bool client_slow = GENERATE(true, false);
  const LinkId slow = client_slow ? client_link : agent_link;
  const std::string other = client_slow ? "agent" : "client";
  Dialogue talk;
  const auto backlog = [&](std::size_t bytes) { talk.happen(LinkBacklog{slow, bytes}); };
  backlog(limits::backlog_bytes_high);
  CHECK(talk.take_orders().empty());
  backlog(limits::backlog_bytes_high + 1);
  CHECK(talk.take_orders() == Lines{"pause " + other});
  backlog(limits::backlog_bytes_low + 1);
  CHECK(talk.take_orders().empty());
  backlog(limits::backlog_bytes_low);
  CHECK(talk.take_orders() == Lines{"resume " + other});
}

TEST_CASE("a peer that reads none of keyhop's answers to it is not read either", "[relay][pressure]") {
  const std::size_t most = limits::backlog_bytes_hard + limits::frame_bytes_default;
  Dialogue talk;
  talk.happen(LinkBacklog{client_link, most});  // a giant frame of the agent's: the client is still read
  CHECK(talk.take_orders() == Lines{"pause agent"});
  talk.happen(LinkBacklog{client_link, most + 1});
  CHECK(talk.take_orders() == Lines{"pause client"});
  talk.happen(LinkBacklog{client_link, most});
  CHECK(talk.take_orders() == Lines{"resume client"});
  talk.happen(LinkBacklog{client_link, 0});
  CHECK(talk.take_orders() == Lines{"resume agent"});
}

TEST_CASE("both full is no deadlock: each drains for itself", "[relay][pressure]") {
  Dialogue talk;
  talk.happen(LinkBacklog{client_link, 2 * limits::backlog_bytes_high});
  talk.happen(LinkBacklog{agent_link, 2 * limits::backlog_bytes_high});
  CHECK(talk.take_orders() == Lines{"pause agent", "pause client"});
  talk.happen(LinkBacklog{client_link, 0});
  CHECK(talk.take_orders() == Lines{"resume agent"});
  talk.happen(LinkBacklog{agent_link, 0});
  CHECK(talk.take_orders() == Lines{"resume client"});
}

TEST_CASE("a lost client's queue holds nobody back", "[relay][pressure]") {
  Dialogue talk;
  talk.happen(LinkBacklog{client_link, 2 * limits::backlog_bytes_high});
  talk.take_orders();
  talk.happen(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
  CHECK(talk.take_orders() == Lines{"close agent", "resume agent"});
}

TEST_CASE("a dead agent's queue does not keep the first request from being read", "[relay][pressure]") {
  Dialogue talk;
  talk.happen(LinkBacklog{agent_link, 2 * limits::backlog_bytes_high});
  CHECK(talk.take_orders() == Lines{"pause client"});
  talk.agent_dies(exited(1));
  CHECK(talk.relay().phase() == Phase::stranded);
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000", "resume client", "finish agent"});
}

TEST_CASE("an agent that reads nothing is still heard to its end", "[relay][pressure]") {
  const std::size_t more = limits::backlog_bytes_hard + limits::frame_bytes_default + 1;
  Dialogue talk;
  talk.happen(LinkBacklog{agent_link, more});
  CHECK(talk.take_orders() == Lines{"pause client", "pause agent"});
  SECTION("its pipe broke") {
    talk.happen(LinkEnded{agent_link, LinkEnd::write_failed, EPIPE});
    CHECK(talk.take_orders() == Lines{"resume client", "resume agent", "close agent"});
  }
  SECTION("it was ended") {
    talk.happen(AgentExited{agent_epoch, killed(9)});
    talk.take_orders();
    talk.happen(AgentEnded{agent_epoch});
    CHECK(talk.take_orders() == Lines{"resume client", "resume agent", "finish agent"});
  }
}

TEST_CASE("after the exit nothing is done any more", "[relay][end]") {
  Dialogue talk;
  talk.open();
  end_client(talk);
  talk.agent_dies(exited(0));
  talk.take_orders();
  talk.client(prompt_line("7", ""));
  talk.agent(update);
  talk.happen(SignalReceived{Signal::terminate, 15});
  talk.happen(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
  CHECK(talk.take_client().empty());
  CHECK(talk.take_orders().empty());
  CHECK_FALSE(talk.relay().next_deadline().has_value());
}

TEST_CASE("end of everything at once, in every order of the last three events", "[relay][end]") {
  std::vector<int> order{0, 1, 2};
  do {
    Dialogue talk;
    talk.open();
    talk.client(prompt_line("7", ""));
    for (const int which : order) {
      if (which == 0) talk.happen(AgentExited{agent_epoch, exited(3)});
      if (which == 1) talk.happen(LinkEnded{agent_link, LinkEnd::eof, 0});
      if (which == 2) end_client(talk);
    }
    talk.happen(AgentEnded{agent_epoch});
    CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
    CHECK(talk.exit_status() == 3);
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace acp::sim
