// Where the guard could be led to believe too much: each of these once gave a second insertion, a wrong
// message, a second answer, or none.
#include <catch2/catch.hpp>
#include <string>
#include <tuple>

#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;

// Whether the agent was sent a prompt with that key since its lines were taken last.
bool was_sent(Dialogue& talk, std::string_view key) {
  talk.run_ledger();
  bool sent = false;
  for (const std::string& line : talk.take_agent())
    sent = sent || line.find(fmt::format(R"("idempotencyKey":"{}")", key)) != std::string::npos;
  return sent;
}

// The agent is killed, another one is resumed without the history being asked for.
void restart_plainly(Dialogue& talk) {
  talk.agent_restarts();
  talk.agent_initializes(named);
  talk.agent(result_line(id_of(only_line(talk)), "{}"));
  talk.run_ledger();
}

TEST_CASE("an equal prompt without a key, lost before, may have been left out", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(unkeyed("2", "hi"));
  talk.take_agent();
  restart_plainly(talk);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {{"m2", "hi"}});
  CHECK_FALSE(was_sent(talk, "k"));
}

TEST_CASE("a replay with a hole proves nothing", "[guard]") {
  MemoryLedger ledger;
  Settings settings = guarded();
  settings.frame_bytes_max = 2048;
  Dialogue talk(settings);
  lose_one(talk, ledger);
  talk.agent_restarts();
  talk.agent_initializes(named);
  const std::string own = only_line(talk);
  talk.agent(GENERATE(
      update_line("s1", "user_message_chunk", R"(,"content":{"type":"text","text":"hi"})"),
      update_line("s1", "user_message",
                  R"(,"messageId":"m1","content":[],"x":")" + std::string(3000, 'x') + '"'),
      std::string(R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"a)")));
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(own), "{}"));
  CHECK_FALSE(was_sent(talk, "k"));
}

TEST_CASE("what is sent along with initialize waits for the agent's name", "[guard]") {
  MemoryLedger ledger;
  {
    Dialogue before(guarded());
    open_guarded(before, ledger);
    before.client(keyed("3", "k", "hi"));
    before.run_ledger();
    before.agent(result_line("3", message_result("m1")));
    before.run_ledger();
  }
  Dialogue talk(guarded());
  talk.use_ledger(ledger);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.client(resume_line("1"));
  talk.client(keyed("2", "k", "hi"));
  CHECK_FALSE(was_sent(talk, "k"));
  talk.agent(result_line("0", named));
  talk.run_ledger();
  show_history(talk, {{"m1", "hi"}});
  CHECK(talk.take_agent() == Lines{resume_line("1")});
  talk.agent(result_line("1"));
  talk.client(keyed("3", "k", "hi"));
  CHECK(talk.take_client().back() == result_line("3", message_result("m1")));
}

TEST_CASE("an agent that never answers initialize is not waited for", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  talk.use_ledger(ledger);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.client(keyed("2", "k", "hi"));
  talk.client(keyed("3", "k", "hi"));
  CHECK_FALSE(was_sent(talk, "k"));
  talk.pass(limits::initialize_patience);
  CHECK(talk.take_agent() == Lines{keyed("2", "k", "hi")});
  CHECK_FALSE(talk.relay().next_deadline().has_value());
}

TEST_CASE("a refused initialize lets go what waited for it", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  talk.use_ledger(ledger);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.client(keyed("2", "k", "hi"));
  talk.agent(error_line("0"));
  CHECK(was_sent(talk, "k"));
}

TEST_CASE("a cancel reaches a request that was not looked at yet", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.pass(limits::commit_patience);
  talk.client(cancel_line("3"));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32800 cancelled not_sent"});
  CHECK_FALSE(was_sent(talk, "k"));
}

TEST_CASE("no batch tells of a settled prompt", "[guard]") {
  Settings settings = guarded();
  settings.recover_prompts = true;
  MemoryLedger ledger;
  Dialogue talk(settings);
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "one"));
  talk.client(unkeyed("4", "hi"));
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {});
  CHECK(talk.take_agent().size() == 2);
  talk.agent(result_line("3", message_result("m1")));
  talk.agent(result_line("4", message_result("m2")));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").prompts.empty());
}

TEST_CASE("a prompt without a key that is sent later has its later place in the ledger", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "one"));
  talk.client(unkeyed("4", "hi"));  // behind it, and never sent to this agent
  talk.agent_restarts();
  talk.agent_initializes(named);
  talk.run_ledger();
  const std::uint64_t before = ledger.read("A", "s1").prompts.front().sent_at;
  show_history(talk, {});
  CHECK(talk.take_agent().size() == 2);
  REQUIRE(ledger.read("A", "s1").prompts.size() == 1);
  CHECK(ledger.read("A", "s1").prompts.front().sent_at > before);
}

TEST_CASE("after a conflict the other keyhop's row is what counts", "[guard]") {
  MemoryLedger ledger;
  Dialogue one(guarded());
  open_guarded(one, ledger);
  Dialogue two(guarded());
  begin_run(two, ledger);
  two.client(keyed("3", "k", "hi"));
  two.run_ledger();
  two.run_ledger();
  two.agent(result_line("3", message_result("m1")));
  two.run_ledger();
  one.client(keyed("3", "k", "hi"));
  one.run_ledger();
  CHECK(in_short(one.take_client()) == Lines{"3 -32603 outcome_unknown unknown"});
  one.client(keyed("4", "k", "hi"));
  one.run_ledger();
  CHECK(one.take_client() == Lines{result_line("4", message_result("m1"))});
  CHECK(one.take_agent() == none);
}

TEST_CASE("an id that the agent changes when it stores a message", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.agent(result_line("3", message_result("live")));
  talk.take_agent();
  for (int i = 0; i < 3; ++i) {
    restart_showing(talk, {{"stored", "hi"}});
    talk.client(keyed(std::to_string(4 + i), "k", "hi"));
    CHECK_FALSE(was_sent(talk, "k"));
  }
}

TEST_CASE("a prompt given up while it waits for its commit has had its answer", "[guard]") {
  Settings settings = guarded();
  settings.silence_timeout = std::chrono::seconds(1);
  MemoryLedger ledger;
  Dialogue talk(settings);
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.pass(std::chrono::seconds(2));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32603 silence_timeout unknown"});
  ledger.fails = LedgerError::busy;
  talk.run_ledger();
  CHECK(talk.take_client() == none);
  CHECK(talk.relay().edge().open_requests() == 0);
}

TEST_CASE("an earlier run's prompts come before whatever this one saw first", "[guard]") {
  MemoryLedger ledger;
  History history;
  {
    Dialogue before(guarded());
    open_guarded(before, ledger);
    for (int i = 0; i < 5; ++i) {
      const std::string message = "u" + std::to_string(i);
      before.client(unkeyed(std::to_string(20 + i), "u"));
      before.agent(result_line(std::to_string(20 + i), message_result(message)));
      history.emplace_back(message, "u");
    }
    before.client(keyed("3", "k", "hi"));
    before.run_ledger();
  }
  history.emplace_back("m1", "hi");
  history.emplace_back("x1", "x");
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  talk.agent(user_message("x1", "x"));  // nobody asked
  talk.client(unkeyed("5", "x"));
  talk.run_ledger();
  talk.agent(result_line("5", message_result("x1")));
  talk.client(resume_line("7"));
  talk.run_ledger();
  talk.take_agent();
  talk.agent(result_line("7"));
  restart_showing(talk, history);
  talk.take_client();
  talk.client(keyed("8", "k", "hi"));
  CHECK_FALSE(was_sent(talk, "k"));
}

TEST_CASE("a whole history read later is not whole for a prompt sent before", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  talk.client(resume_line("1"));
  talk.run_ledger();
  talk.agent(result_line("1"));
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_agent();
  for (int i = 0; i < 2; ++i) {
    restart_showing(talk, {{"old", "hi"}});
    talk.take_agent();
    talk.take_client();
  }
  talk.client(keyed("4", "k", "hi"));
  CHECK(in_short(talk.take_client()) == Lines{"4 -32603 outcome_unknown unknown"});
}

TEST_CASE("a success without a message id still has its message", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(unkeyed("2", "hi"));
  talk.agent(result_line("2"));
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_agent();
  talk.take_client();
  restart_showing(talk, {{"m1", "hi"}});
  for (const std::string& line : talk.take_client()) CHECK(line.find("m1") == std::string::npos);
}

TEST_CASE("what was hashed before the ledger was open decides nothing", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  talk.use_ledger(ledger, false);
  talk.open();
  talk.agent(user_message("m1", "hi"));
  talk.use_ledger(ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {{"m1", "hi"}});
  CHECK_FALSE(was_sent(talk, "k"));
  for (const std::string& line : talk.take_client())
    CHECK(line.find(R"("id":3,"result")") == std::string::npos);
}

TEST_CASE("recover-prompts=proven in v1: the history is loaded and counted", "[guard]") {
  Settings settings = guarded();
  settings.recover_prompts = true;
  MemoryLedger ledger;
  Dialogue talk(settings);
  talk.use_ledger(ledger);
  open_with(talk, v1_load);
  const auto show = [&](const std::vector<std::string>& texts) {
    talk.agent_restarts();
    talk.agent_initializes(v1_load);
    const std::string own = only_line(talk);
    CHECK(method_of(own) == "session/load");
    for (const std::string& text : texts) {
      talk.agent(update_line("s1", "user_message_chunk",
                             fmt::format(R"(,"content":{{"type":"text","text":"{}"}})", text)));
      talk.agent(update_line("s1", "agent_message_chunk", R"(,"content":{"type":"text","text":"ok"})"));
    }
    talk.agent(result_line(id_of(own), "null"));
  };
  talk.client(unkeyed("2", "one"));
  talk.agent(result_line("2", R"({"stopReason":"end_turn"})"));
  talk.client(unkeyed("3", "two"));
  talk.take_agent();
  talk.take_client();
  SECTION("absent: sent again") {
    show({"one"});
    CHECK(talk.take_agent() == Lines{unkeyed("3", "two")});
  }
  SECTION("inserted: said, and not sent") {
    show({"one", "two"});
    CHECK(talk.take_agent() == none);
    CHECK(in_short(talk.take_client()).back().starts_with("3 -32603 turn_interrupted inserted"));
  }
  SECTION("not as it was known") {
    show({"two"});
    CHECK(talk.take_agent() == none);
    CHECK(in_short(talk.take_client()).back().starts_with("3 -32603"));
  }
  SECTION("work had begun") {
    talk.agent(update_line("s1", "agent_message_chunk", R"(,"content":{"type":"text","text":"..."})"));
    show({"one"});
    CHECK(talk.take_agent() == none);
  }
}

TEST_CASE("the late end of a replay that was given up is not the end of the one that is read now",
          "[guard]") {
  MemoryLedger ledger;
  Settings settings = guarded();
  settings.restore_timeout = std::chrono::seconds(5);
  Dialogue talk(settings);
  begin_run_after_loss(talk, ledger);
  talk.client(resume_line("1"));
  talk.run_ledger();
  const std::string own = only_line(talk);
  talk.pass(settings.restore_timeout);
  CHECK(talk.take_agent() == Lines{resume_line("1")});
  const std::string reading = resume_line("2", R"(,"replayFrom":{"type":"start"})");
  talk.client(reading);
  CHECK(talk.take_agent() == Lines{reading});
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(own), "{}"));  // nothing of the second one's has come
  talk.agent(user_message("m1", "hi"));
  talk.agent(result_line("2"));
  talk.take_client();
  talk.client(keyed("3", "k", "hi"));
  CHECK_FALSE(was_sent(talk, "k"));
  CHECK(talk.take_client() == Lines{result_line("3", message_result("m1"))});
}

TEST_CASE("an earlier run's messages are older than a replay that began before they were read", "[guard]") {
  MemoryLedger ledger;
  {
    Dialogue before(guarded());
    open_guarded(before, ledger);
    for (const auto& [id, key, message] : {std::tuple{"2", "k0", "m0"}, std::tuple{"3", "k", "m1"}}) {
      before.client(keyed(id, key, key));
      before.run_ledger();
      before.agent(result_line(id, message_result(message)));
      before.run_ledger();
    }
  }
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  const std::string reading = resume_line("1", R"(,"replayFrom":{"type":"start"})");
  talk.client(reading);
  for (std::uint64_t ticket = 1; ticket < 9; ++ticket)
    talk.happen(LedgerRead{ticket, LedgerError::broken, nullptr});
  CHECK(talk.take_agent() == Lines{reading});
  talk.client(keyed("2", "k", "k"));
  CHECK(in_short(talk.take_client()) == Lines{"2 -32603 ledger_broken unknown"});
  talk.client(keyed("3", "k", "k"));  // has the ledger read again
  talk.run_ledger();
  CHECK(in_short(talk.take_client()) == Lines{"3 -32002 session_not_active"});
  talk.agent(user_message("m1", "k"));  // m0 was taken back
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line("1"));
  talk.take_client();
  talk.client(keyed("4", "k", "k"));
  CHECK(talk.take_client() == Lines{result_line("4", message_result("m1"))});
  talk.client(keyed("5", "k0", "k0"));
  CHECK(was_sent(talk, "k0"));
}

}  // namespace
}  // namespace acp::sim
