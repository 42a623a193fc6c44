// What waits for the ledger, what need not, and what becomes of it when the ledger does not answer as hoped.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;
const std::string list = request_line("9", "session/list");
const std::string session_cancel =
    R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";

// Whatever the core has asked the ledger to read cannot be read.
void fail_readings(Dialogue& talk) {
  for (std::uint64_t ticket = 1; ticket < 20; ++ticket)
    talk.happen(LedgerRead{ticket, LedgerError::broken, nullptr});
}

TEST_CASE("the ledger is opened once, and its salt counts only if it can be used", "[guard][waits]") {
  MemoryLedger ledger;
  SECTION("a second time changes nothing") {
    Dialogue talk(guarded());
    open_guarded(talk, ledger);
    talk.happen(LedgerOpened{LedgerError::broken, nullptr});
    talk.client(keyed("3", "k", "hi"));
    talk.run_ledger();
    CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
  }
  SECTION("a salt of a ledger that is not used") {
    Dialogue talk(guarded());
    talk.happen(LedgerOpened{LedgerError::broken, &ledger.salt()});
    talk.open();
    talk.client(keyed("3", "k", "hi"));
    CHECK(in_short(talk.take_client()) == Lines{"3 -32603 ledger_broken not_sent"});
  }
}

TEST_CASE("a ledger that is being opened holds up what needs it, and nothing else", "[guard][waits]") {
  Settings settings = guarded();
  settings.rules.push_back({"_keyed", rules::RetryClass::keyed});
  MemoryLedger ledger;
  Dialogue talk(settings);
  talk.use_ledger(ledger, false);
  SECTION("bad frames are refused at once") {
    talk.open();
    talk.client(R"({"jsonrpc":"2.0","id":4,"id":4,"method":"session/prompt","params":{"sessionId":"s1"}})");
    CHECK(in_short(talk.take_client()) == Lines{"null -32600 duplicate_member"});
    talk.client(R"({"jsonrpc":"2.0","id":4,"method":7})");
    CHECK(in_short(talk.take_client()) == Lines{"4 -32600 no_method"});
  }
  SECTION("v1 knows no keys") {
    talk.open(1);
    talk.client(keyed("3", "k", "hi"));
    CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
  }
  SECTION("another method that a rule made keyed, until it is opened") {
    talk.open();
    const std::string request = request_line("5", "_keyed", R"({"sessionId":"s1","idempotencyKey":"k"})");
    talk.client(request);
    CHECK(talk.take_agent() == none);
    talk.use_ledger(ledger);
    CHECK(talk.take_agent() == Lines{request});
    talk.run_ledger();
    talk.agent(result_line("5"));
    CHECK(talk.take_client() == Lines{result_line("5")});
  }
  SECTION("an initialize whose time is over is not waited for; the ledger is") {
    talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
    talk.client(keyed("3", "k", "hi"));
    talk.take_agent();
    talk.pass(limits::initialize_patience);
    CHECK(talk.take_agent() == none);
    CHECK_FALSE(talk.relay().next_deadline().has_value());
    talk.use_ledger(ledger);
    CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
  }
}

TEST_CASE("a session that cannot be read: keyed prompts are refused, others pass, and it is tried again",
          "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run_after_loss(talk, ledger);
  talk.client(unkeyed("2", "hi"));
  talk.client(unkeyed("7", "ho"));
  const std::string status = request_line("8", "session/status", R"({"sessionId":"s1"})");
  talk.client(status);
  talk.client(keyed("3", "new", "hi"));
  CHECK(talk.take_agent() == none);
  fail_readings(talk);
  CHECK(in_short(talk.take_client()) == Lines{"3 -32603 ledger_broken unknown"});
  CHECK(talk.take_agent() == Lines{unkeyed("2", "hi"), unkeyed("7", "ho"), status});
  fail_readings(talk);  // once is enough
  talk.agent(user_message("x", "x"));
  talk.agent(result_line("7"));  // without a message id
  CHECK(talk.take_client() == Lines{user_message("x", "x"), result_line("7")});
  talk.client(keyed("4", "new", "hi"));
  talk.run_ledger();  // the first reading, too late, and the second
  CHECK(talk.take_client() == none);
  CHECK(talk.take_agent() == Lines{keyed("4", "new", "hi")});
  talk.client(resume_line("5"));
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{resume_line("5")});
  talk.agent(result_line("5"));
  talk.take_client();
  talk.client(keyed("6", "k", "hi"));
  CHECK(in_short(talk.take_client()) == Lines{"6 -32603 outcome_unknown unknown"});
  // At most two of the three were inserted, and nothing tells that the last one was.
  restart_showing(talk, {{"m1", "hi"}, {"m2", "hi"}});
  for (const std::string& line : talk.take_client())
    CHECK(line.find(R"("id":4,"result")") == std::string::npos);
}

TEST_CASE("sent along with initialize, behind another request: the agent's name is waited for",
          "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  talk.use_ledger(ledger);
  talk.client(list);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.client(request_line("2", "session/prompt", R"({"prompt":[],"idempotencyKey":"k"})"));  // of no session
  CHECK(talk.take_agent() == Lines{list, request_line("0", "initialize", R"({"protocolVersion":2})")});
  talk.pass(limits::commit_patience);
  const std::string other = request_line("10", "session/list");
  talk.client(other);  // what has no session either does not wait behind it
  CHECK(talk.take_agent() == Lines{other});
  talk.agent(result_line("0", named));
  talk.run_ledger();
  CHECK(talk.take_agent() ==
        Lines{request_line("2", "session/prompt", R"({"prompt":[],"idempotencyKey":"k"})")});
}

TEST_CASE("a cancel finds its request among all that was not looked at yet", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  const std::string note = R"({"jsonrpc":"2.0","method":"_note","params":{"sessionId":"s1"}})";
  talk.client(keyed("2", "k", "hi"));
  talk.client(note);
  talk.client(keyed("3", "l", "ho"));
  talk.pass(limits::commit_patience);
  talk.client(cancel_line("99"));
  CHECK(talk.take_client() == none);
  talk.client(cancel_line("3"));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent"});
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("2", "k", "hi"), note});
}

TEST_CASE("a session/cancel withdraws prompts of its session only", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  const std::string status = request_line("4", "session/status", R"({"sessionId":"s1"})");
  const std::string nameless = R"({"jsonrpc":"2.0","method":"session/cancel","params":{}})";
  talk.client(keyed("3", "k", "hi"));
  talk.client(status);
  talk.pass(limits::commit_patience);
  talk.client(nameless);
  CHECK(talk.take_client() == none);
  CHECK(talk.take_agent() == Lines{nameless});
  talk.client(session_cancel);
  CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent"});
  CHECK(talk.take_agent() == Lines{status, session_cancel});
  // Its place in the table is another request's by now: a commit that fails late is not that one's.
  talk.client(list);
  CHECK(talk.take_agent() == Lines{list});
  ledger.fails = LedgerError::full;
  talk.run_ledger();
  CHECK(talk.take_client() == none);
  talk.agent(result_line("9"));
  CHECK(talk.take_client() == Lines{result_line("9")});
}

TEST_CASE("a cancel of a prompt that waits for a slow commit, its agent gone", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.pass(limits::commit_patience);
  talk.happen(AgentExited{talk.epoch(), {ExitStatus::Kind::signalled, 9}});
  talk.client(cancel_line("3"));
  talk.agent_restarts();
  CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent"});
}

TEST_CASE("a commit that nobody ordered concerns nobody", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.happen(LedgerCommitted{999, LedgerError::full});
  CHECK(talk.take_client() == none);
  CHECK(talk.take_agent() == none);
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
}

TEST_CASE("messages that are known no more leave the ledger, too", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  int number = 0;
  for (const std::string key : {"k", "l"}) {
    for (int i = 0; i < 600; ++i) talk.agent(user_message("m" + std::to_string(number++), "x"));
    talk.client(keyed("3", key, "hi"));
    talk.run_ledger();
    talk.agent(result_line("3", message_result("a" + key)));
    talk.run_ledger();
  }
  CHECK(ledger.read("A", "s1").messages.size() <= limits::seen_messages_max);
  CHECK(ledger.read("A", "s1").messages.size() > limits::seen_messages_max / 2);
  CHECK_FALSE(ledger.read("A", "s1").is_complete);
}

TEST_CASE("a session's end is waited for in its time, and it is read again later", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue before(guarded());
  lose_one(before, ledger);
  ledger.owner_lives = true;
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  talk.client(resume_line("1"));
  talk.run_ledger();
  talk.happen(DeadlineReached{});  // another one
  CHECK_FALSE(talk.has_ledger_orders());
  for (int i = 0; i < 300; ++i) {
    talk.pass(limits::owner_pause);
    talk.run_ledger();
  }
  show_history(talk, {});
  CHECK(talk.take_agent() == Lines{resume_line("1")});
  talk.agent(result_line("1"));
  ledger.owner_lives = false;
  talk.client(resume_line("2"));
  CHECK(talk.take_agent() == none);  // its rows may be decidable now
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{resume_line("2")});
  talk.agent(result_line("2"));
  restart_showing(talk, {{"m1", "hi"}});
  talk.take_client();
  talk.client(keyed("4", "k", "hi"));
  CHECK(talk.take_client() == Lines{result_line("4", message_result("m1"))});
}

TEST_CASE("a row that another keyhop wrote beside this one is never decided here", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue one(guarded());
  begin_run_after_loss(one, ledger);
  one.client(resume_line("1"));
  one.run_ledger();
  show_history(one, {{"m1", "hi"}});
  one.agent(result_line("1"));
  Dialogue two(guarded());
  begin_run(two, ledger);
  two.client(keyed("5", "l", "yo"));
  two.run_ledger();
  REQUIRE(two.take_agent() == Lines{keyed("5", "l", "yo")});
  one.take_client();
  one.take_agent();
  for (const std::string id : {"5", "6"}) {
    one.client(keyed(id, "l", "yo"));
    one.run_ledger();
    CHECK(in_short(one.take_client()) == Lines{id + " -32603 outcome_unknown unknown"});
  }
  restart_showing(one, {{"m1", "hi"}, {"m2", "yo"}});
  one.take_client();
  one.client(keyed("7", "l", "yo"));
  one.run_ledger();
  CHECK(in_short(one.take_client()) == Lines{"7 -32603 outcome_unknown unknown"});
  CHECK(one.take_agent() == none);
}

TEST_CASE("rows of this run that were there before the session was read keep their order", "[guard][waits]") {
  MemoryLedger ledger;
  Dialogue one(guarded());
  open_guarded(one, ledger);
  Dialogue two(guarded());
  begin_run(two, ledger);
  two.client(keyed("3", "other", "yo"));
  two.run_ledger();
  one.client(keyed("3", "first", "hi"));
  one.run_ledger();
  one.client(keyed("4", "other", "yo"));  // a conflict, as will turn out
  one.happen(AgentExited{one.epoch(), {ExitStatus::Kind::signalled, 9}});
  one.client(keyed("5", "held", "ha"));
  one.run_ledger();
  one.client(keyed("6", "other", "yo"));  // waits for the history
  one.run_ledger();
  CHECK(in_short(one.take_client()) == Lines{"4 -32603 outcome_unknown unknown"});
  one.take_agent();
  restart_showing(one, {{"m2", "yo"}, {"m1", "hi"}});
  one.run_ledger();
  CHECK(one.take_agent() == Lines{keyed("5", "held", "ha")});
  const Lines told = one.take_client();
  REQUIRE(told.size() == 3);
  CHECK(told[1] == result_line("3", message_result("m1")));
  CHECK(told[2] == result_line("6", message_result("m2")));
}

Settings impatient() {
  Settings settings = guarded();
  settings.silence_timeout = seconds(1);
  return settings;
}

void give_up_while_it_waits(Dialogue& talk, MemoryLedger& ledger) {
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.pass(seconds(1));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32603 silence_timeout unknown"});
}

TEST_CASE("draining: a prompt that was given up and still waits for its commit is waited for",
          "[guard][waits]") {
  MemoryLedger ledger;
  const Settings settings = impatient();
  Dialogue talk(settings);
  give_up_while_it_waits(talk, ledger);
  talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  CHECK(talk.relay().phase() == Phase::draining);
  talk.take_orders();
  talk.run_ledger();
  CHECK(talk.take_orders() == Lines{"close agent"});
}

TEST_CASE("a prompt that was given up while it waits for its commit is not answered again",
          "[guard][waits]") {
  MemoryLedger ledger;
  const Settings settings = impatient();
  Dialogue talk(settings);
  give_up_while_it_waits(talk, ledger);
  talk.client(session_cancel);
  CHECK(talk.take_client() == none);
  talk.run_ledger();
  // Neither keyhop's cancel nor the client's overtakes it.
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi"), session_cancel, session_cancel});
}

}  // namespace
}  // namespace acp::sim
