// What is written to the ledger comes back as it was, also by another run; batches are all or nothing.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/shell/ledger.h"
#include "proxy/shell/ledger_list.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/ledger_parts.h"

namespace acp::shell {
namespace {

using test::batch_of;
using test::OtherProgram;
using test::print_of;
using test::row_of;
using test::TemporaryDirectory;

bool same(const LedgerRow& one, const LedgerRow& other) {
  return one.key == other.key && one.print == other.print && one.content == other.content &&
         one.state == other.state && one.is_command == other.is_command && one.sent_at == other.sent_at &&
         one.message_id == other.message_id;
}

class Fixture {
 public:
  Fixture() { reopen(); }
  // Another run: the one before has ended.
  void reopen() {
    ledger.reset();
    ledger = std::make_unique<Ledger>(LedgerSettings{.path = path, .patience = std::chrono::seconds(5)});
    REQUIRE(ledger->open() == LedgerError::none);
  }
  LedgerError commit(std::string session, std::vector<LedgerChange> changes) {
    const std::vector<LedgerBatch> batches{batch_of(std::move(session), std::move(changes))};
    return ledger->commit(batches).front();
  }
  LedgerSession read(const std::string& session, const std::string& agent = "agent") {
    LedgerSession found;
    CHECK(ledger->read(agent, session, found) == LedgerError::none);
    return found;
  }

  TemporaryDirectory directory;
  std::string path = directory.file("state/ledger.db");
  std::unique_ptr<Ledger> ledger;
};

}  // namespace

TEST_CASE("every change comes back, in this run and in the next", "[ledger]") {
  Fixture at;
  LedgerRow command = row_of(20, LedgerState::inserted, R"("m \u0000 1")");
  command.is_command = true;
  LedgerMessage told{print_of(5), print_of(6), true, true, 3};
  CHECK(at.commit("s",
                  {AddLedgerRow{row_of(30)}, AddLedgerRow{command}, AddLedgerPrompt{{print_of(9), true, 8}},
                   AddLedgerPrompt{{print_of(10), false, 7}}, SetLedgerComplete{true}, PutLedgerMessage{told},
                   PutLedgerMessage{{print_of(4), {}, false, false, 1}}}) == LedgerError::none);
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    const LedgerSession found = at.read("s");
    CHECK(found.is_known);
    CHECK(found.is_complete);
    CHECK_FALSE(found.has_living_owner);
    REQUIRE(found.rows.size() == 2);
    CHECK(same(found.rows[0], command));
    CHECK(same(found.rows[1], row_of(30)));
    CHECK((found.rows[1].run == 0) == (run == 0));
    REQUIRE(found.prompts.size() == 2);
    CHECK(found.prompts[0].content == print_of(10));
    CHECK_FALSE(found.prompts[0].is_command);
    CHECK(found.prompts[1].sent_at == 8);
    CHECK(found.prompts[1].is_command);
    REQUIRE(found.messages.size() == 2);
    CHECK(found.messages[0].id == print_of(4));
    CHECK_FALSE(found.messages[0].is_content_known);
    CHECK(found.messages[1].content == told.content);
    CHECK_FALSE(found.messages[0].is_given);
    CHECK(found.messages[1].is_given);
    CHECK(found.messages[1].seen_at == 3);
    at.reopen();
  }
}

TEST_CASE("each change does what it says, and nothing where nothing is", "[ledger]") {
  Fixture at;
  REQUIRE(at.commit("s", {AddLedgerRow{row_of(1)}, AddLedgerRow{row_of(2)}, SetLedgerComplete{true},
                          AddLedgerPrompt{{print_of(9), true, 8}},
                          PutLedgerMessage{{print_of(4), {}, false, false, 4}},
                          PutLedgerMessage{{print_of(5), {}, false, false, 5}}}) == LedgerError::none);
  REQUIRE(
      at.commit("s", {UpdateLedgerRow{row_of(1, LedgerState::inserted, "\"m\"")}, UpdateLedgerRow{row_of(77)},
                      RemoveLedgerRow{print_of(2)}, RemoveLedgerRow{print_of(78)}, RemoveLedgerPrompt{8},
                      RemoveLedgerPrompt{9}, PutLedgerMessage{{print_of(5), print_of(50), true, true, 5}},
                      TrimLedgerMessages{5}, SetLedgerComplete{false}}) == LedgerError::none);
  const LedgerSession found = at.read("s");
  REQUIRE(found.rows.size() == 1);
  CHECK(same(found.rows[0], row_of(1, LedgerState::inserted, "\"m\"")));
  CHECK(found.prompts.empty());
  REQUIRE(found.messages.size() == 1);
  CHECK(found.messages[0].content == print_of(50));
  CHECK(found.messages[0].is_given);
  CHECK_FALSE(found.is_complete);

  CHECK(at.commit("other", {UpdateLedgerRow{row_of(1)}, RemoveLedgerRow{print_of(1)}, RemoveLedgerPrompt{1},
                            TrimLedgerMessages{5}, ForgetLedgerSession{}}) == LedgerError::none);
  CHECK_FALSE(at.read("other").is_known);
}

TEST_CASE("agents of different names share nothing, and a forgotten session leaves nothing", "[ledger]") {
  Fixture at;
  const std::string session("s\0\"s", 4);
  for (const char* const agent : {"one", "two"}) {
    const std::vector<LedgerBatch> batches{
        {0, agent, session, {AddLedgerRow{row_of(1)}, AddLedgerPrompt{{}}, PutLedgerMessage{}}}};
    CHECK(at.ledger->commit(batches).front() == LedgerError::none);
  }
  CHECK_FALSE(at.read("s", "one").is_known);
  const std::vector<LedgerBatch> batches{
      {0, "one", session, {ForgetLedgerSession{}, SetLedgerComplete{true}}}};
  CHECK(at.ledger->commit(batches).front() == LedgerError::none);
  const LedgerSession fresh = at.read(session, "one");
  CHECK(fresh.is_complete);
  CHECK(fresh.rows.size() + fresh.prompts.size() + fresh.messages.size() == 0);
  CHECK(at.read(session, "two").rows.size() == 1);
  OtherProgram other(at.path);
  CHECK(other.text("SELECT count(*) FROM keyed_prompts") == "1");
  CHECK(other.text("SELECT count(*) FROM prompts") == "1");
  CHECK(other.text("SELECT count(*) FROM messages") == "1");
}

TEST_CASE("a conflict takes back its own batch and no other", "[ledger]") {
  Fixture at;
  REQUIRE(at.commit("s", {AddLedgerRow{row_of(1)}}) == LedgerError::none);
  const std::vector<LedgerBatch> batches{
      batch_of("s", {AddLedgerRow{row_of(2)}}),
      batch_of("s", {AddLedgerRow{row_of(3)}, SetLedgerComplete{true}, AddLedgerRow{row_of(1)},
                     AddLedgerRow{row_of(4)}}),
      batch_of("s", {AddLedgerRow{row_of(5)}}),
      batch_of("fresh", {AddLedgerRow{row_of(5)}, AddLedgerRow{row_of(5)}}),
  };
  CHECK(at.ledger->commit(batches) ==
        std::vector{LedgerError::none, LedgerError::conflict, LedgerError::none, LedgerError::conflict});
  CHECK(at.ledger->transactions() == 2);
  const LedgerSession found = at.read("s");
  REQUIRE(found.rows.size() == 3);
  CHECK(found.rows[1].key == print_of(2));
  CHECK(found.rows[2].key == print_of(5));
  CHECK_FALSE(found.is_complete);
  CHECK_FALSE(at.read("fresh").is_known);
}

TEST_CASE("two runs at one file see each other's rows and cannot write the same key", "[ledger]") {
  Fixture at;
  Ledger second({.path = at.path, .patience = std::chrono::seconds(5)});
  REQUIRE(second.open() == LedgerError::none);
  CHECK(second.run() != at.ledger->run());
  CHECK(second.salt() == at.ledger->salt());
  REQUIRE(at.commit("s", {AddLedgerRow{row_of(1)}, AddLedgerRow{row_of(2, LedgerState::inserted)}}) ==
          LedgerError::none);
  const std::vector<LedgerBatch> batches{batch_of("s", {AddLedgerRow{row_of(1)}})};
  CHECK(second.commit(batches).front() == LedgerError::conflict);
  LedgerSession found;
  CHECK(second.read("agent", "s", found) == LedgerError::none);
  REQUIRE(found.rows.size() == 2);
  CHECK(found.rows[0].run == at.ledger->run());
  CHECK(found.has_living_owner);
  // A removal takes back what its own run wrote, or the run that it names: never what somebody else did
  // since.
  const std::vector<LedgerBatch> removed{batch_of("s", {RemoveLedgerRow{print_of(1)}}),
                                         batch_of("s", {RemoveLedgerRow{print_of(2), at.ledger->run()}})};
  CHECK(second.commit(removed).front() == LedgerError::none);
  CHECK(second.read("agent", "s", found) == LedgerError::none);
  REQUIRE(found.rows.size() == 1);
  CHECK(found.rows[0].key == print_of(1));
  // What a run has written is its own from then on.
  const std::vector<LedgerBatch> taken{batch_of("s", {UpdateLedgerRow{row_of(1)}})};
  CHECK(second.commit(taken).front() == LedgerError::none);
  CHECK(second.read("agent", "s", found) == LedgerError::none);
  CHECK(found.rows[0].run == 0);
  CHECK_FALSE(found.has_living_owner);
}

TEST_CASE("an ended run's number is forgotten once nothing open is its, and never used again", "[ledger]") {
  Fixture at;
  REQUIRE(at.commit("s", {AddLedgerRow{row_of(1)}}) == LedgerError::none);
  const std::uint64_t first = at.ledger->run();
  at.reopen();
  at.reopen();
  const std::uint64_t third = at.ledger->run();
  CHECK(third == first + 2);
  OtherProgram other(at.path);
  CHECK(other.text("SELECT group_concat(number) FROM runs") ==
        std::to_string(first) + "," + std::to_string(third));
  REQUIRE(at.commit("s", {UpdateLedgerRow{row_of(1, LedgerState::unknown)}}) == LedgerError::none);
  at.reopen();
  CHECK(at.ledger->run() == third + 1);
  CHECK(other.text("SELECT group_concat(number) FROM runs") == std::to_string(third + 1));
}

TEST_CASE("the list shows every keyed prompt, and forgetting erases a session of every agent", "[ledger]") {
  Fixture at;
  REQUIRE(at.commit("a", {AddLedgerRow{row_of(1)},
                          AddLedgerRow{row_of(2, LedgerState::inserted, "\"m\"")}}) == LedgerError::none);
  const std::vector<LedgerBatch> batches{{0, "second", "a", {AddLedgerRow{row_of(3)}}},
                                         batch_of("b", {AddLedgerRow{row_of(4, LedgerState::unknown)}})};
  REQUIRE(at.ledger->commit(batches) == std::vector(2, LedgerError::none));
  const bool is_open = GENERATE(true, false);
  CAPTURE(is_open);
  if (!is_open) at.ledger.reset();
  bool is_there = false;
  std::vector<LedgerEntry> entries;
  REQUIRE(list_ledger(at.path, is_there, entries) == LedgerError::none);
  CHECK(is_there);
  REQUIRE(entries.size() == 4);
  CHECK(entries[1].message_id == "\"m\"");
  CHECK(entries[1].state == LedgerState::inserted);
  CHECK(entries[2].agent == "second");
  CHECK(entries[3].session == "b");
  CHECK(entries[0].added > 1'600'000'000'000);

  Forgotten forgotten;
  CHECK(forget_in_ledger(at.path, "a", forgotten) == LedgerError::none);
  CHECK(forgotten.is_known);
  CHECK(forgotten.rows == 3);
  CHECK(forgotten.is_known_to_run == is_open);
  CHECK(forget_in_ledger(at.path, "a", forgotten) == LedgerError::none);
  CHECK_FALSE(forgotten.is_known);
  CHECK(list_ledger(at.path, is_there, entries) == LedgerError::none);
  CHECK(entries.size() == 1);
}

TEST_CASE("a session is found at once among a million prompts", "[ledger]") {
  Fixture at;
  REQUIRE(at.commit("s", {AddLedgerRow{row_of(1)}}) == LedgerError::none);
  OtherProgram other(at.path);
  for (const char* const query :
       {"EXPLAIN QUERY PLAN SELECT number FROM sessions WHERE agent = 'a' AND session = 's'",
        "EXPLAIN QUERY PLAN SELECT number FROM sessions WHERE session = 's'",
        "EXPLAIN QUERY PLAN SELECT key FROM keyed_prompts WHERE session = 1",
        "EXPLAIN QUERY PLAN SELECT 1 FROM keyed_prompts WHERE run = 1 AND state = 1",
        "EXPLAIN QUERY PLAN SELECT content FROM prompts WHERE session = 1 ORDER BY sent_at",
        "EXPLAIN QUERY PLAN SELECT content FROM messages WHERE session = 1 ORDER BY seen_at"}) {
    CAPTURE(query);
    CHECK(other.text(query, 3).starts_with("SEARCH "));
  }
}

}  // namespace acp::shell
