// Batches are on their way one behind the other, and one may fail: what it told is not lost. And retries that
// come while a session's history is read.
#include <catch2/catch.hpp>
#include <string>
#include <tuple>

#include "proxy/core/saved.h"
#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;

// Two keyed prompts are answered; between them a commit fails.
void answer_two(Dialogue& talk, MemoryLedger& ledger) {
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "one"));
  talk.client(keyed("4", "l", "two"));
  talk.run_ledger();
  talk.take_agent();
}

void fail_next_commit(MemoryLedger& ledger, LedgerError error) {
  ledger.fails = error;
  ledger.fails_once = true;
}

TEST_CASE("a value is saved once a batch that told it is on the disk", "[guard]") {
  Saved saved;
  CHECK_FALSE(bool(saved));
  CHECK(saved.tell(5));
  CHECK(saved.tell(6));  // nobody knows yet what becomes of 5
  saved.confirm(4);      // made before it
  CHECK_FALSE(bool(saved));
  SECTION("the first one") { saved.confirm(5); }
  SECTION("a later one, which told it too") { saved.confirm(6); }
  CHECK(bool(saved));
  CHECK_FALSE(saved.tell(7));
  saved.change();
  CHECK_FALSE(bool(saved));
  saved.confirm(7);  // told nothing of the change
  CHECK_FALSE(bool(saved));
  CHECK(saved.tell(8));
  CHECK(bool(Saved::already()));
}

TEST_CASE("a batch tells what the one before it may fail to tell", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  answer_two(talk, ledger);
  talk.agent(result_line("3", message_result("m1")));
  talk.agent(result_line("4", message_result("m2")));  // ordered while the first is under way
  fail_next_commit(ledger, LedgerError::full);
  talk.run_ledger();
  const LedgerSession& stored = ledger.read("A", "s1");
  REQUIRE(stored.rows.size() == 2);
  CHECK(stored.rows[0].state == LedgerState::inserted);
  CHECK(stored.rows[1].state == LedgerState::inserted);
  CHECK(stored.messages.size() == 2);
}

TEST_CASE("what is answered in one step is one batch", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  answer_two(talk, ledger);
  const std::size_t before = ledger.commits;
  talk.happen(BytesRead{agent_link, result_line("3", message_result("m1")) + "\n" +
                                        result_line("4", message_result("m2")) + "\n"});
  talk.run_ledger();
  CHECK(ledger.commits == before + 1);
  CHECK(ledger.read("A", "s1").messages.size() == 2);
}

TEST_CASE("a row that could not be removed is removed with the next batch", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  answer_two(talk, ledger);
  ledger.fails = LedgerError::full;
  talk.agent(error_line("3", -32603, "no"));  // the key is unused again
  talk.run_ledger();
  REQUIRE(ledger.read("A", "s1").rows.size() == 2);
  SECTION("before anything that could be taken for it") {
    talk.client(unkeyed("5", "one"));
    talk.run_ledger();
    CHECK(talk.take_agent() == none);
    CHECK(in_short(talk.take_client()).back() == "5 -32603 ledger_full not_sent");
  }
  SECTION("with it, if there is room again") {
    ledger.fails = LedgerError::none;
    talk.client(unkeyed("5", "one"));
    talk.run_ledger();
    CHECK(talk.take_agent() == Lines{unkeyed("5", "one")});
    REQUIRE(ledger.read("A", "s1").rows.size() == 1);
    CHECK(ledger.read("A", "s1").prompts.size() == 1);
  }
  SECTION("and its key can be used again") {
    ledger.fails = LedgerError::none;
    talk.client(keyed("5", "k", "one"));
    talk.run_ledger();
    CHECK(talk.take_agent() == Lines{keyed("5", "k", "one")});
    talk.agent(result_line("4", message_result("m1")));
    talk.run_ledger();
    CHECK(ledger.read("A", "s1").rows.size() == 2);
  }
}

// ---- A commit that fails when its prompt is not where it was ----

TEST_CASE("a prompt that is sent again is not sent on a row that was never written", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));  // its commit takes longer than the agent lives
  talk.agent_restarts();
  talk.agent_initializes(named);
  talk.agent(update_line("s1", "state_update"));
  talk.agent(result_line(id_of(only_line(talk)), "{}"));
  CHECK(talk.take_agent() == none);
  talk.take_client();
  fail_next_commit(ledger, LedgerError::full);  // the second one, which only updates the row, succeeds
  talk.run_ledger();
  CHECK(talk.take_agent() == none);
  CHECK(in_short(talk.take_client()) == Lines{"3 -32603 ledger_full not_sent"});
  talk.client(keyed("4", "k", "hi"));  // the key is unused
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("4", "k", "hi")});
  CHECK(ledger.read("A", "s1").rows.size() == 1);
}

TEST_CASE("a prompt that was withdrawn before its commit failed has its answer already", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.pass(limits::commit_patience);
  talk.client(cancel_line("3"));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent"});
  ledger.fails = LedgerError::full;
  talk.run_ledger();
  CHECK(talk.take_client() == none);
  CHECK(talk.take_agent() == none);
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("a conflict leaves the other keyhop's row in the ledger", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  answer_two(talk, ledger);
  ledger.fails = LedgerError::full;
  talk.agent(error_line("3", -32603, "no"));  // unused again, and its row could not be removed
  talk.run_ledger();
  talk.take_client();
  talk.client(keyed("5", "k", "one"));
  fail_next_commit(ledger, LedgerError::conflict);  // what is there now is another keyhop's
  talk.run_ledger();
  CHECK(talk.take_agent() == none);
  CHECK(in_short(talk.take_client()) == Lines{"5 -32603 outcome_unknown unknown"});
  CHECK(ledger.read("A", "s1").rows.size() == 2);
  talk.client(keyed("6", "k", "one"));
  talk.run_ledger();
  CHECK(talk.take_agent() == none);
  CHECK(in_short(talk.take_client()) == Lines{"6 -32603 outcome_unknown unknown"});
}

TEST_CASE("a full disk holds up a prompt without a key only for what is undecided", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  answer_two(talk, ledger);
  talk.agent(result_line("3", message_result("m1")));  // "one" is inserted; "two" is not known to be
  talk.run_ledger();
  talk.take_client();
  const auto [text, sent] = GENERATE(table<std::string, bool>({{"one", true}, {"two", false}}));
  ledger.fails = LedgerError::full;
  talk.client(unkeyed("5", text));
  CHECK(talk.take_agent() == none);
  talk.run_ledger();
  CHECK(talk.take_agent() == (sent ? Lines{unkeyed("5", text)} : none));
  CHECK(in_short(talk.take_client()) == (sent ? none : Lines{"5 -32603 ledger_full not_sent"}));
}

TEST_CASE("what is known to be inserted holds up nothing, though the ledger never took it", "[guard]") {
  Settings settings = guarded();
  settings.silence_timeout = seconds(1);
  MemoryLedger ledger;
  Dialogue talk(settings);
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.pass(seconds(2));  // given up while it waits for its commit
  CHECK(in_short(talk.take_client()) == Lines{"3 -32603 silence_timeout unknown"});
  fail_next_commit(ledger, LedgerError::full);
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {{"m1", "hi"}});  // from elsewhere: the history has it all the same
  talk.take_client();
  talk.client(keyed("4", "k", "hi"));
  CHECK(talk.take_client() == Lines{result_line("4", message_result("m1"))});
  talk.client(unkeyed("5", "more"));
  CHECK(talk.take_agent() == Lines{unkeyed("5", "more")});
}

// ---- More to remove than is kept ----

// An earlier run's keyed prompts, and among them one without a key; no history has any of them.
void add_rows(MemoryLedger& ledger, std::size_t count, bool has_unkeyed) {
  LedgerBatch batch{.agent = "A", .session = "s1", .changes = {SetLedgerComplete{true}}};
  const auto print = [](std::uint64_t number) { return SaltedHash(Salt{}, 'x').add(number).print(); };
  if (has_unkeyed) batch.changes.emplace_back(AddLedgerPrompt{{print(0), false, 1001}});
  for (std::size_t i = 0; i < count; ++i)
    batch.changes.emplace_back(AddLedgerRow{{.key = print(3 * i + 1),
                                             .print = print(3 * i + 2),
                                             .content = print(3 * i + 3),
                                             .sent_at = 2 * i + 2}});
  REQUIRE(ledger.apply(batch) == LedgerError::none);
}

TEST_CASE("more to remove than is kept: a prompt without a key stays in the ledger, else the oldest row",
          "[guard]") {
  const bool has_unkeyed = GENERATE(true, false);
  MemoryLedger ledger;
  add_rows(ledger, limits::removals_max + (has_unkeyed ? 0 : 1), has_unkeyed);
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  talk.client(resume_line("1"));
  talk.run_ledger();
  show_history(talk, {});
  const LedgerSession& left = ledger.read("A", "s1");
  CHECK(left.prompts.size() == (has_unkeyed ? 1 : 0));
  REQUIRE(left.rows.size() == (has_unkeyed ? 0 : 1));
  if (!has_unkeyed) CHECK(left.rows.front().sent_at == 2);
}

// ---- Retries while a history is read ----

std::string restart_and_ask(Dialogue& talk, MemoryLedger& ledger) {
  open_guarded(talk, ledger);
  for (const auto& [id, key, message] : {std::tuple{"2", "k0", "m0"}, std::tuple{"3", "k", "m1"}}) {
    talk.client(keyed(id, key, key));
    talk.run_ledger();
    talk.agent(result_line(id, message_result(message)));
  }
  talk.run_ledger();
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.client(keyed("4", "k", "k"));
  talk.client(keyed("5", "k", "other"));
  talk.agent_initializes(named);
  talk.client(keyed("6", "k0", "k0"));
  talk.run_ledger();
  CHECK(talk.take_client() == none);
  const std::string own = talk.take_agent().front();
  REQUIRE(method_of(own) == "session/resume");
  return std::string(id_of(own));
}

TEST_CASE("a retry in the restore waits for the history", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  const std::string own = restart_and_ask(talk, ledger);
  talk.agent(user_message("m0", "k0"));  // m1 was never saved
  talk.agent(update_line("s1", "state_update"));
  talk.agent(result_line(own));
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("4", "k", "k")});
  const Lines told = talk.take_client();
  REQUIRE(told.size() == 3);
  CHECK(told[0] == update_line("s1", "state_update"));
  CHECK(in_short(told[1]) == "5 -32602 key_reused");
  CHECK(told[2] == result_line("6", message_result("m0")));
  CHECK(talk.relay().edge().open_requests() == 1);
}

TEST_CASE("a retry that can wait no longer is told what is remembered", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  restart_and_ask(talk, ledger);
  SECTION("its turn is cancelled") {
    talk.client(R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})");
  }
  SECTION("it is cancelled itself") {
    for (const auto& id : {"4", "5", "6"})
      talk.client(R"({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":)" + std::string(id) +
                  "}}");
  }
  const Lines told = talk.take_client();
  REQUIRE(told.size() == 3);
  CHECK(told[0] == result_line("4", message_result("m1")));
  CHECK(in_short(told[1]) == "5 -32602 key_reused");
  CHECK(told[2] == result_line("6", message_result("m0")));
  CHECK(talk.relay().edge().open_requests() == 0);
}

// The client begins the session anew, under its old name, while keyhop's restore of it is under way.
void begin_anew(Dialogue& talk) {
  const std::string begin = request_line("8", "session/new", R"({"cwd":"/w","mcpServers":[]})");
  talk.client(begin);
  CHECK(talk.take_agent() == Lines{begin});
  talk.agent(result_line("8", R"({"sessionId":"s1"})"));
  CHECK(talk.take_client() == Lines{result_line("8", R"({"sessionId":"s1"})")});
}

TEST_CASE("a retry that waits for the history of a session that is no more was not sent", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  restart_and_ask(talk, ledger);
  begin_anew(talk);
  SECTION("its key is unused") {
    talk.client(cancel_line("4"));
    CHECK(in_short(talk.take_client()) == Lines{"4 -32800 cancelled not_sent"});
  }
  SECTION("its key is another prompt's, of the new session") {
    talk.client(keyed("9", "k", "k"));
    talk.client(cancel_line("4"));
    CHECK(in_short(talk.take_client()) == Lines{"4 -32800 cancelled not_sent"});
  }
}

TEST_CASE("a retry that waits while its agent is silent and ended is told what is remembered", "[guard]") {
  Settings settings = guarded();
  settings.silence_timeout = seconds(1);
  MemoryLedger ledger;
  Dialogue talk(settings);
  restart_and_ask(talk, ledger);
  talk.happen(LinkEnded{client_link, LinkEnd::eof, 0});
  talk.pass(settings.drain);
  CHECK(talk.relay().phase() == Phase::closing);
  talk.pass(seconds(2));
  talk.agent_dies({ExitStatus::Kind::exited, 0});
  const Lines told = talk.take_client();
  REQUIRE(told.size() == 3);
  CHECK(told[0] == result_line("4", message_result("m1")));
  CHECK(in_short(told[1]) == "5 -32602 key_reused");
  CHECK(told[2] == result_line("6", message_result("m0")));
}

}  // namespace
}  // namespace acp::sim
