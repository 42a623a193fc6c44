// Nothing keyed leaves before the ledger has it, nothing overtakes it, and nothing that comes back waits.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

const Lines none;

TEST_CASE("a keyed prompt leaves after its commit, what follows keeps its place", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(request_line("2", "session/list"));
  CHECK(talk.take_agent() == Lines{request_line("2", "session/list")});
  talk.client(keyed("3", "k", "hi"));
  talk.client(request_line("4", "session/list"));
  talk.client(R"({"jsonrpc":"2.0","method":"_note"})");
  CHECK(talk.take_agent() == none);
  talk.agent(update_line("s1", "state_update"));
  CHECK(talk.take_client() == Lines{update_line("s1", "state_update")});
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi"), request_line("4", "session/list"),
                                   R"({"jsonrpc":"2.0","method":"_note"})"});
  talk.agent(result_line("3", message_result("m1")));
  CHECK(talk.take_client() == Lines{result_line("3", message_result("m1"))});
}

TEST_CASE("keyed prompts that come together are committed together", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  Lines sent;
  for (int i = 0; i < 100; ++i) sent.push_back(keyed(std::to_string(10 + i), "k" + std::to_string(i), "hi"));
  for (const std::string& line : sent) talk.client(line);
  CHECK(talk.take_agent() == none);
  const std::size_t before = ledger.commits;
  talk.run_ledger();  // all of them were ordered before the first was done
  CHECK(ledger.commits == before + 100);
  CHECK(talk.take_agent() == sent);
}

TEST_CASE("a commit that takes long holds up its own session only", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  const std::string other = request_line("4", "session/status", R"({"sessionId":"s2"})");
  talk.client(other);
  talk.client(unkeyed("5", "again"));
  CHECK(talk.take_agent() == none);
  talk.pass(limits::commit_patience);
  CHECK(talk.take_agent() == Lines{other});
  talk.client(request_line("6", "session/list"));
  CHECK(talk.take_agent() == Lines{request_line("6", "session/list")});
  CHECK_FALSE(talk.relay().next_deadline().has_value());  // nothing to wake up for
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi"), unkeyed("5", "again")});
}

TEST_CASE("a ledger that cannot be written refuses the prompt, and says what to do", "[guard]") {
  const auto [error, reason] = GENERATE(table<LedgerError, std::string>({
      {LedgerError::full, "ledger_full"},
      {LedgerError::not_writable, "ledger_not_writable"},
      {LedgerError::busy, "ledger_busy"},
      {LedgerError::broken, "ledger_broken"},
      {LedgerError::failed, "ledger_failed"},
  }));
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  ledger.fails = error;
  talk.client(keyed("3", "k", "hi"));
  talk.client(keyed("4", "k", "hi"));
  talk.client(request_line("5", "session/list"));
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{request_line("5", "session/list")});
  const Lines told = talk.take_client();
  REQUIRE(told.size() == 2);
  CHECK(told.front().find("--ledger") != std::string::npos);
  CHECK(in_short(told) == Lines{"3 -32603 " + reason + " not_sent", "4 -32603 " + reason + " not_sent"});
  // The key is unused.
  ledger.fails = LedgerError::none;
  talk.client(keyed("6", "k", "hi"));
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("6", "k", "hi")});
}

TEST_CASE("a ledger that cannot be opened refuses keyed prompts only", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  talk.use_ledger(ledger, false);
  talk.open();
  talk.client(keyed("3", "k", "hi"));
  CHECK(talk.take_client() == none);
  talk.happen(LedgerOpened{LedgerError::newer, nullptr});
  CHECK(in_short(talk.take_client()) == Lines{"3 -32603 ledger_newer not_sent"});
  talk.client(keyed("4", "k", "hi"));
  CHECK(in_short(talk.take_client()) == Lines{"4 -32603 ledger_newer not_sent"});
  talk.client(unkeyed("5", "hi"));
  CHECK(talk.take_agent() == Lines{unkeyed("5", "hi")});
}

TEST_CASE("frames wait for the ledger to open, in order; others pass after a while", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  talk.use_ledger(ledger, false);
  talk.open();
  talk.client(keyed("3", "k", "hi"));
  talk.client(request_line("4", "session/list"));
  CHECK(talk.take_agent() == none);
  talk.pass(limits::commit_patience);
  CHECK(talk.take_agent() == Lines{request_line("4", "session/list")});
  talk.use_ledger(ledger);
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
}

TEST_CASE("a cancel keeps its place behind the prompt that waits for its commit", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  const bool by_session = GENERATE(false, true);
  const std::string cancel =
      by_session ? R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})"
                 : cancel_line("3");
  talk.client(keyed("3", "k", "hi"));
  talk.client(cancel);
  CHECK(talk.take_client() == none);
  SECTION("to the agent") {
    talk.run_ledger();
    CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi"), cancel});
  }
  SECTION("or ends it, if the agent dies before") {
    talk.agent_restarts();
    CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent"});
    talk.agent_initializes(named);
    talk.run_ledger();
    for (const std::string& line : talk.take_agent()) CHECK(method_of(line) != "session/prompt");
  }
}

TEST_CASE("nothing wakes up for an outbox whose agent is gone", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.happen(AgentExited{talk.epoch(), {ExitStatus::Kind::signalled, 9}});
  CHECK_FALSE(talk.relay().next_deadline().has_value());
}

TEST_CASE("a prompt cancelled while the ledger takes its time never left", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.client(keyed("4", "k", "hi"));
  talk.pass(limits::commit_patience);
  const bool by_session = GENERATE(false, true);
  const std::string session_cancel =
      R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";
  talk.client(by_session ? session_cancel : cancel_line("4"));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent", "4 -32800 cancelled not_sent"});
  talk.run_ledger();
  CHECK(talk.take_agent() == (by_session ? Lines{session_cancel} : none));
  CHECK(ledger.read("A", "s1").rows.empty());
}

TEST_CASE("the client's end waits for what was read to be written", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.client(R"({"jsonrpc":"2.0","method":"_note"})");
  talk.take_orders();
  talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  CHECK(talk.take_orders() == none);
  talk.run_ledger();
  CHECK(talk.take_agent().size() == 2);
  talk.agent(result_line("3", message_result("m1")));
  CHECK(talk.take_client().size() == 1);
  CHECK(talk.take_orders() == Lines{"close agent"});
}

TEST_CASE("an agent that dies before the commit was never sent the prompt", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.agent_restarts();
  talk.agent_initializes(named);
  talk.run_ledger();
  const std::string own = only_line(talk);
  CHECK(method_of(own) == "session/resume");
  talk.agent(update_line("s1", "state_update"));
  talk.agent(result_line(id_of(own)));
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
  CHECK(ledger.read("A", "s1").rows.size() == 1);
}

TEST_CASE("rows: open, then as the agent answers; an error of the agent's leaves none", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  REQUIRE(ledger.read("A", "s1").rows.size() == 1);
  CHECK(ledger.read("A", "s1").rows.front().state == LedgerState::open);
  CHECK(ledger.read("A", "s1").is_complete);
  talk.agent(result_line("3", message_result("m1")));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").rows.front().state == LedgerState::inserted);
  CHECK(ledger.read("A", "s1").rows.front().message_id == "\"m1\"");
  REQUIRE(ledger.read("A", "s1").messages.size() == 1);
  CHECK(ledger.read("A", "s1").messages.front().is_given);
  talk.client(keyed("4", "k2", "ho"));
  talk.run_ledger();
  talk.agent(error_line("4"));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").rows.size() == 1);
}

TEST_CASE("prompts without a key are in the ledger while a keyed one is open", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(unkeyed("2", "before"));
  CHECK(talk.take_agent() == Lines{unkeyed("2", "before")});  // nothing keyed is open: at once
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").prompts.size() == 1);
  talk.take_agent();
  talk.client(unkeyed("4", "after"));
  CHECK(talk.take_agent() == none);
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{unkeyed("4", "after")});
  CHECK(ledger.read("A", "s1").prompts.size() == 2);
  talk.agent(result_line("2", message_result("m1")));
  talk.agent(result_line("4", message_result("m2")));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").prompts.empty());
  CHECK(ledger.read("A", "s1").messages.size() == 2);
}

TEST_CASE("rows end with their session, never otherwise", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.agent(result_line("3", message_result("m1")));
  talk.client(request_line("4", "session/close", R"({"sessionId":"s1"})"));
  talk.agent(result_line("4"));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").rows.size() == 1);
  if (GENERATE(false, true)) {
    talk.client(request_line("5", "session/delete", R"({"sessionId":"s1"})"));
    talk.agent(result_line("5"));
  } else {
    talk.client(request_line("5", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
    talk.agent(result_line("5", R"({"sessionId":"s1"})"));
  }
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").rows.empty());
}

TEST_CASE("another keyhop with the same key: not sent twice", "[guard]") {
  MemoryLedger ledger;
  Dialogue one(guarded());
  open_guarded(one, ledger);
  one.client(keyed("3", "k", "hi"));
  Dialogue two(guarded());
  begin_run(two, ledger);
  two.client(resume_line("1"));
  two.run_ledger();  // no row yet
  CHECK(two.take_agent() == Lines{resume_line("1")});
  two.agent(result_line("1"));
  one.run_ledger();
  two.take_client();
  two.client(keyed("3", "k", "hi"));
  two.run_ledger();
  CHECK(two.take_agent() == none);
  CHECK(in_short(two.take_client()) == Lines{"3 -32603 outcome_unknown unknown"});
}

}  // namespace
}  // namespace acp::sim
