// Restores in the middle of something else: repeated initialize, ids of keyhop's own, cancels, resumes that
// wait.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;
constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};
const std::string session_cancel =
    R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";

// A repeated initialize, id 7, is the first thing that a new process got.
void repeat_initialize(Dialogue& talk) {
  const std::string repeat = request_line("7", "initialize", R"({"protocolVersion":2,"n":2})");
  talk.client(repeat);
  talk.agent_restarts();
  REQUIRE(talk.take_agent() == Lines{repeat, repeat});
  talk.take_orders();
}

TEST_CASE("a repeated initialize has its time, re-armed by stderr; then the epoch is given up",
          "[recovery][late]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  repeat_initialize(talk);
  talk.pass(seconds(119));
  talk.happen(StderrRead{talk.epoch(), "still loading\n"});
  talk.pass(seconds(119));
  talk.happen(DeadlineReached{});  // not its own
  CHECK(talk.take_orders() == none);
  talk.pass(seconds(1));
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  talk.agent_dies(killed);
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown"});
}

TEST_CASE("a repeated initialize answered by an agent that is going starts no restore", "[recovery][late]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  repeat_initialize(talk);
  talk.happen(AgentExited{talk.epoch(), killed});
  const bool sound = GENERATE(true, false);
  talk.agent(sound ? result_line("7", v2) : std::string(R"({"jsonrpc":"2.0","id":7})"));
  CHECK(in_short(talk.take_client()) ==
        Lines{sound ? result_line("7", v2) : "7 -32603 malformed_answer unknown"});
  CHECK(talk.take_agent() == none);
  talk.agent_dies(killed);
  talk.pass(seconds(1));
  talk.agent_starts();
  talk.agent_initializes(v2);
  CHECK(method_of(only_line(talk)) == "session/resume");
}

TEST_CASE("a repeated initialize renames no agent: its rows stay its rows", "[recovery][late]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(request_line("7", "initialize", R"({"protocolVersion":2})"));
  talk.agent(result_line("7", R"({"protocolVersion":2,"info":{"name":"B","version":"1"}})"));
  talk.client(keyed("8", "k", "hi"));
  talk.run_ledger();
  CHECK(ledger.read("A", "s1").rows.size() == 1);
  CHECK(ledger.read("B", "s1").rows.empty());
}

TEST_CASE("a request that bears an id of keyhop's own is sent again under it", "[recovery][late]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.client(request_line("7", "session/list", R"({"n":1})"));
  talk.client(request_line("7", "session/list", R"({"n":2})"));
  const Lines first = talk.take_agent();
  REQUIRE(first.size() == 2);
  REQUIRE(id_of(first[1]) != "7");
  talk.agent_restarts();
  talk.agent_initializes(v2);
  Lines again = talk.take_agent();
  REQUIRE(again.size() == 3);
  again.erase(again.begin());  // session/resume
  CHECK(again == first);
  talk.agent(result_line(id_of(first[1]), R"({"n":2})"));
  CHECK(talk.take_client() == Lines{result_line("7", R"({"n":2})")});
}

TEST_CASE("an id of keyhop's own is nobody's else", "[recovery][late]") {
  Dialogue talk;
  talk.open();
  talk.agent(request_line("\"keyhop-1\"", "fs/read_text_file"));
  talk.client(request_line("7", "session/list"));
  talk.client(request_line("7", "session/list"));
  CHECK(id_of(talk.take_agent().at(1)) == "\"keyhop-2\"");
}

TEST_CASE("protocol version 0 is version 1", "[recovery][late]") {
  Dialogue talk;
  talk.open(0);
  talk.client(request_line("1.5", "session/list"));  // v2 has no such ids
  CHECK(talk.take_agent() == Lines{request_line("1.5", "session/list")});
}

TEST_CASE("a chain's notification crosses, whatever session it carries", "[recovery][late]") {
  Dialogue talk;
  talk.open();
  const std::string carried =
      R"({"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"x","sessionId":"s1"}})";
  talk.client(carried);
  CHECK(talk.take_agent() == Lines{carried});
}

TEST_CASE("an option's value that is a flag is set again as one", "[recovery][late]") {
  const bool v1 = GENERATE(true, false);
  const std::string_view initialized = v1 ? v1_resume : v2;
  const auto [value, type] = GENERATE(table<std::string, std::string>({
      {"true", R"("boolean")"},
      {"false", R"("boolean")"},
      {R"("fast")", ""},
  }));
  Dialogue talk(restarting());
  open_with(talk, initialized);
  talk.client(request_line("7", "session/set_config_option",
                           R"({"sessionId":"s1","configId":"c","value":)" + value + "}"));
  talk.agent(result_line("7"));
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(initialized);
  talk.agent(result_line(id_of(only_line(talk)), "{}"));
  const std::string set = only_line(talk);
  CHECK(method_of(set) == "session/set_config_option");
  CHECK(member(member(set, "params"), "value") == value);
  const std::string expected = type.empty() && !v1 ? R"("id")" : type;
  CHECK(member(member(set, "params"), "type") == expected);
}

TEST_CASE("a mode that was not named is not set again", "[recovery][late]") {
  Dialogue talk(restarting());
  open_with(talk, v1_resume);
  talk.client(request_line("7", "session/set_mode", R"({"sessionId":"s1"})"));
  talk.agent(result_line("7"));
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v1_resume);
  talk.agent(result_line(id_of(only_line(talk)), "{}"));
  CHECK(talk.take_agent() == none);
  CHECK(talk.relay().phase() == Phase::serving);
}

TEST_CASE("session/cancel while a session is tried again: all that the agent has of it, told once",
          "[recovery][late]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.agent_restarts();
  talk.agent_initializes(v2);
  talk.agent(error_line(id_of(only_line(talk)), -32603));
  talk.client(prompt_line("7", ""));
  talk.client(prompt_line("8", ""));
  CHECK(talk.take_agent().size() == 2);
  talk.pass(seconds(10));
  talk.client(prompt_line("9", ""));
  REQUIRE(method_of(only_line(talk)) == "session/resume");
  talk.client(session_cancel);
  CHECK(talk.take_agent() == Lines{session_cancel});
  CHECK(in_short(talk.take_client()) == Lines{"9 -32800 cancelled not_sent"});
}

TEST_CASE("a history that does not come in time does not keep the client's own resume", "[recovery][late]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run_after_loss(talk, ledger);
  talk.client(resume_line("1"));
  talk.run_ledger();
  const std::string own = only_line(talk);
  REQUIRE(method_of(own) == "session/resume");
  talk.pass(seconds(120));
  CHECK(talk.take_agent() == Lines{resume_line("1")});
  talk.agent(result_line("1"));
  CHECK(talk.take_client() == Lines{result_line("1")});
  talk.client(keyed("2", "k", "hi"));
  CHECK(in_short(talk.take_client()) == Lines{"2 -32603 outcome_unknown unknown"});
}

TEST_CASE("what stops waiting for the ledger in the moment in which a new agent is given up goes nowhere",
          "[recovery][late]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.agent_restarts();
  REQUIRE(method_of(only_line(talk)) == "initialize");  // and it says nothing for 120 s
  talk.take_orders();
  talk.pass(seconds(120) - limits::commit_patience);
  talk.client(
      request_line("6", "session/resume", R"({"sessionId":"s2","cwd":"/w"})"));  // its rows are being read
  talk.client(request_line("7", "session/list"));
  talk.pass(limits::commit_patience);
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
  CHECK(talk.take_agent() == none);
  talk.agent_dies(killed);
  const Lines told = in_short(talk.take_client());
  CHECK(told == Lines{"7 -32603 agent_lost not_sent", "6 -32603 agent_lost not_sent"});
}

TEST_CASE("a resume of which only an update of no kind was shown is sent again", "[recovery][late]") {
  const bool history = GENERATE(true, false);
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string resume = resume_line("7");
  talk.client(resume);
  talk.take_agent();
  talk.agent(history
                 ? update_line("s1", "agent_message")
                 : R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{}}})");
  talk.agent_restarts();
  talk.agent_initializes(v2);
  talk.agent(result_line(id_of(only_line(talk)), "{}"));
  CHECK(talk.take_agent() == (history ? none : Lines{resume}));
}

TEST_CASE("after a login only what is still open and nobody asks for is restored", "[recovery][late]") {
  const std::string what = GENERATE("open", "closed", "asked for");
  CAPTURE(what);
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  talk.agent_restarts();
  talk.agent_initializes(named);
  talk.agent(error_line(id_of(only_line(talk)), -32000));  // until the client has logged in
  if (what == "closed") {
    talk.client(request_line("6", "session/close", R"({"sessionId":"s1"})"));
    talk.agent(result_line("6"));
  }
  if (what == "asked for") talk.client(resume_line("7", R"(,"replayFrom":{"type":"start"})"));
  talk.client(request_line("8", "auth/login", R"({"methodId":"m"})"));
  talk.take_agent();
  talk.agent(result_line("8"));
  const Lines own = talk.take_agent();
  REQUIRE(own.size() == (what == "open" ? 1 : 0));
  if (what == "open") CHECK(method_of(own.front()) == "session/resume");
  if (what != "asked for") return;
  talk.take_client();
  const Lines replay{user_message("m1", "hi"), update_line("s1", "state_update", R"(,"state":"idle")"),
                     result_line("7")};
  for (const std::string& line : replay) talk.agent(line);
  CHECK(talk.take_client() == replay);  // the client's own: nothing of it is hidden
}

TEST_CASE("what waits for the ledger waits on when a new agent cannot take over", "[recovery][late]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  talk.client(
      request_line("6", "session/resume", R"({"sessionId":"s2","cwd":"/w"})"));  // its rows are being read
  talk.client(request_line("7", "session/list"));
  CHECK(talk.take_agent() == none);
  const std::string repeat = request_line("8", "initialize", R"({"protocolVersion":2})");
  talk.pass(limits::commit_patience);
  talk.client(repeat);
  CHECK(talk.take_agent() == Lines{request_line("7", "session/list"), repeat});
  talk.agent_restarts();
  CHECK(talk.take_agent() == Lines{repeat});
  talk.agent(error_line("8"));
  CHECK(talk.take_client() == Lines{error_line("8")});
  talk.run_ledger();
  talk.agent_dies(killed);
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 agent_lost unknown", "6 -32603 agent_lost not_sent"});
}

}  // namespace
}  // namespace acp::sim
