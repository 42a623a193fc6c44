// What the agent's history decides: after its own death, and after keyhop's.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;

TEST_CASE("agent killed: a prompt that its history has is answered with its messageId", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  restart_showing(talk, {{"m1", "hi"}});
  CHECK(talk.take_client() == Lines{update_line("s1", "state_update", R"(,"state":"idle")"),
                                    result_line("3", message_result("m1"))});
  CHECK(talk.take_agent() == none);
  talk.client(keyed("4", "k", "hi"));
  CHECK(talk.take_client() == Lines{result_line("4", message_result("m1"))});
  CHECK(ledger.read("A", "s1").rows.front().state == LedgerState::inserted);
}

TEST_CASE("agent killed: its history may be spelled in any way", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  talk.agent_restarts();
  talk.agent_initializes(named);
  const std::string own = only_line(talk);
  talk.agent(
      R"({"jsonrpc":"2.0","method":"session/update","params":{"update":{"content":[{"text":"\u0068i","type":"te\u0078t","annotations":null}],"messageI\u0064":"\u006d1","sessionUpdate":"user\u005fmessage"},"sessionId":"s\u0031"}})");
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(own), "{}"));
  CHECK(talk.take_client().back() == result_line("3", R"({"messageId":"\u006d1"})"));
}

TEST_CASE("agent killed: a prompt that its history proves absent is sent again, the same bytes", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  restart_showing(talk, {});
  CHECK(talk.take_client() == Lines{update_line("s1", "state_update", R"(,"state":"idle")")});
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
  talk.agent(result_line("3", message_result("m1")));
  CHECK(talk.take_client() == Lines{result_line("3", message_result("m1"))});
}

TEST_CASE("agent killed: what the history cannot tell stays unknown until one can", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  const bool foreign = GENERATE(true, false);
  restart_showing(talk, foreign ? History{{"m1", "rewritten"}} : History{}, foreign);
  talk.take_agent();
  Lines told = talk.take_client();
  REQUIRE_FALSE(told.empty());
  CHECK(in_short(told.back()).starts_with("3 -32603 outcome_unknown unknown"));
  CHECK(told.back().find("--keys=forward") != std::string::npos);
  talk.client(keyed("4", "k", "hi"));
  CHECK(in_short(talk.take_client().back()) == "4 -32603 outcome_unknown unknown");
  CHECK(talk.take_agent() == none);
  restart_showing(talk, {{"m1", "rewritten"}, {"m2", "hi"}});
  talk.take_client();
  talk.client(keyed("5", "k", "hi"));
  CHECK(talk.take_client() == Lines{result_line("5", message_result("m2"))});
}

TEST_CASE("an agent that refuses to replay is resumed without", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("2", "k0", "first"));
  talk.run_ledger();
  talk.agent(result_line("2", message_result("m0")));
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_client();
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(named);
  talk.agent(error_line(id_of(only_line(talk)), -32602, "no replay"));
  const std::string plain = only_line(talk);
  CHECK(method_of(plain) == "session/resume");
  CHECK(member(member(plain, "params"), "replayFrom").empty());
  talk.agent(result_line(id_of(plain)));
  CHECK(in_short(talk.take_client().back()).starts_with("3 -32603 outcome_unknown unknown"));
  talk.client(keyed("4", "k0", "first"));
  CHECK(talk.take_client() == Lines{result_line("4", message_result("m0"))});  // the agent said so
}

TEST_CASE("a prompt being cancelled when the agent died", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  talk.client(cancel_line("3"));
  talk.take_agent();
  const bool inserted = GENERATE(true, false);
  restart_showing(talk, inserted ? History{{"m1", "hi"}} : History{});
  const Lines told = talk.take_client();
  CHECK(talk.take_agent() == none);
  REQUIRE(told.size() == 2);
  CHECK(in_short(told[1]) ==
        (inserted ? result_line("3", message_result("m1")) : "3 -32800 cancelled not_sent"));
}

TEST_CASE("a remembered message that the history has no more is forgotten", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  for (const auto& [id, key, message] : {std::tuple{"2", "k0", "m0"}, std::tuple{"3", "k", "m1"}}) {
    talk.client(keyed(id, key, key));
    talk.run_ledger();
    talk.agent(result_line(id, message_result(message)));
  }
  talk.take_client();
  talk.take_agent();
  SECTION("it is a new submission") {
    restart_showing(talk, {{"m0", "k0"}});
    talk.take_client();
    talk.client(keyed("4", "k", "k"));
    talk.run_ledger();
    CHECK(talk.take_agent() == Lines{keyed("4", "k", "k")});
  }
  SECTION("unless a message that nobody knows says the same") {
    restart_showing(talk, {{"m0", "k0"}, {"m9", "k"}});
    talk.take_client();
    talk.client(keyed("4", "k", "k"));
    talk.run_ledger();
    CHECK(talk.take_agent() == none);
    CHECK(in_short(talk.take_client()) == Lines{"4 -32603 outcome_unknown unknown"});
  }
}

TEST_CASE("a command is never proven absent", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "/status"));
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {});
  CHECK(talk.take_agent() == none);
  CHECK(in_short(talk.take_client().back()).starts_with("3 -32603 outcome_unknown unknown"));
}

TEST_CASE("keyhop restarted: nothing is answered or sent before the session is resumed", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run_after_loss(talk, ledger);
  talk.client(keyed("1", "k", "hi"));
  talk.run_ledger();
  CHECK(in_short(talk.take_client()) == Lines{"1 -32002 session_not_active"});
  CHECK(talk.take_agent() == none);
}

TEST_CASE("keyhop restarted: the first resume waits for the history", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run_after_loss(talk, ledger);
  talk.client(resume_line("1"));
  CHECK(talk.take_agent() == none);
  talk.run_ledger();
  const bool inserted = GENERATE(true, false);
  show_history(talk, inserted ? History{{"m1", "hi"}} : History{});
  CHECK(talk.take_client() == Lines{update_line("s1", "state_update", R"(,"state":"idle")")});
  CHECK(talk.take_agent() == Lines{resume_line("1")});
  talk.agent(result_line("1"));
  CHECK(talk.take_client() == Lines{result_line("1")});
  talk.client(keyed("2", "k", "hi"));
  talk.run_ledger();
  CHECK(talk.take_agent() == (inserted ? none : Lines{keyed("2", "k", "hi")}));
  CHECK(talk.take_client() == (inserted ? Lines{result_line("2", message_result("m1"))} : none));
  talk.client(keyed("3", "k", "other"));
  CHECK(in_short(talk.take_client()) == Lines{"3 -32602 key_reused"});
}

TEST_CASE("keyhop restarted: a resume that asks for the history is read along", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run_after_loss(talk, ledger);
  const std::string resume = resume_line("1", R"(,"replayFrom": {"type" : "start"})");
  talk.client(resume);
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{resume});
  talk.agent(user_message("m1", "hi"));
  talk.agent(update_line("s1", "state_update"));
  talk.agent(result_line("1"));
  CHECK(talk.take_client() ==
        Lines{user_message("m1", "hi"), update_line("s1", "state_update"), result_line("1")});
  talk.client(keyed("2", "k", "hi"));
  CHECK(talk.take_client() == Lines{result_line("2", message_result("m1"))});
}

TEST_CASE("keyhop restarted: the old agent may still insert, so its end is waited for", "[guard]") {
  MemoryLedger ledger;
  Dialogue before(guarded());
  lose_one(before, ledger);
  ledger.owner_lives = true;
  Dialogue talk(guarded());
  begin_run(talk, ledger);
  talk.client(resume_line("1"));
  talk.run_ledger();
  CHECK(talk.take_agent() == none);
  SECTION("until it is gone") {
    for (int i = 0; i < 10; ++i) {
      talk.pass(limits::owner_pause);
      talk.run_ledger();
    }
    CHECK(talk.take_agent() == none);
    ledger.owner_lives = false;
    talk.pass(limits::owner_pause);
    talk.run_ledger();
    show_history(talk, {{"m1", "hi"}});
    CHECK(talk.take_agent() == Lines{resume_line("1")});
  }
  SECTION("but not for ever: then nothing is decided") {
    for (int i = 0; i < 300; ++i) {
      talk.pass(limits::owner_pause);
      talk.run_ledger();
    }
    show_history(talk, {});
    CHECK(talk.take_agent() == Lines{resume_line("1")});
    talk.agent(result_line("1"));
    talk.take_client();
    talk.client(keyed("2", "k", "hi"));
    talk.run_ledger();
    CHECK(talk.take_agent() == none);
    CHECK(in_short(talk.take_client()) == Lines{"2 -32603 outcome_unknown unknown"});
  }
}

TEST_CASE("agents of different names share nothing; a command counts only where there is no name",
          "[guard]") {
  MemoryLedger ledger;
  Dialogue before(guarded());
  lose_one(before, ledger);
  Dialogue talk(guarded());
  begin_run(talk, ledger,
            GENERATE(as<std::string_view>{}, R"({"protocolVersion":2,"info":{"name":"B"}})", v2));
  talk.client(resume_line("1"));
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{resume_line("1")});
}

TEST_CASE("equal texts, one of them without a key: the first one sent has the first message", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  const bool keyed_first = GENERATE(true, false);
  for (const bool first : {true, false}) {
    const bool has_key = first == keyed_first;
    talk.client(has_key ? keyed(first ? "3" : "4", "k", "hi") : unkeyed(first ? "3" : "4", "hi"));
  }
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {{"m1", "hi"}});
  const Lines told = talk.take_client();
  if (keyed_first) {
    CHECK(std::count(told.begin(), told.end(), result_line("3", message_result("m1"))) == 1);
  } else {
    CHECK(talk.take_agent() == Lines{keyed("4", "k", "hi")});
  }
}

TEST_CASE("late history is hidden until news of the state, or the client's next frame", "[guard]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  restart_showing(talk, {}, false);
  talk.take_client();
  talk.agent(user_message("m1", "hi"));
  CHECK(talk.take_client() == none);
  if (GENERATE(true, false)) {
    talk.agent(update_line("s1", "state_update"));
    CHECK(talk.take_client().size() == 1);
  } else {
    talk.client(unkeyed("9", "more"));
  }
  talk.agent(user_message("m2", "new"));
  CHECK(talk.take_client() == Lines{user_message("m2", "new")});
}

TEST_CASE("recover-prompts=proven: without a key, sent again only if proven absent", "[guard]") {
  Settings settings = guarded();
  settings.recover_prompts = true;
  MemoryLedger ledger;
  Dialogue talk(settings);
  open_guarded(talk, ledger);
  talk.client(unkeyed("3", "hi"));
  talk.take_agent();
  SECTION("absent") {
    restart_showing(talk, {});
    CHECK(talk.take_agent() == Lines{unkeyed("3", "hi")});
  }
  SECTION("inserted") {
    restart_showing(talk, {{"m1", "hi"}});
    CHECK(talk.take_agent() == none);
    CHECK(talk.take_client().back() == result_line("3", message_result("m1")));
  }
  SECTION("a message was seen meanwhile") {
    talk.agent(user_message("m1", "hi"));
    restart_showing(talk, {});
    CHECK(talk.take_agent() == none);
    CHECK(in_short(talk.take_client().back()).starts_with("3 -32603 outcome_unknown unknown"));
  }
}

}  // namespace
}  // namespace acp::sim
