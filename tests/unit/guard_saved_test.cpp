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
  ledger.fails = LedgerError::full;
  ledger.fails_once = true;
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

}  // namespace
}  // namespace acp::sim
