// What becomes of requests that a dead agent had, or never got: the retry table, order, ids, cancels. Counted
// at the agents' link.
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"
#include "tests/unit/recovery.h"

namespace acp::sim {
namespace {

constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};
const std::string session_cancel =
    R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}})";

Settings with_rules(KeyMode keys = KeyMode::guard) {
  Settings settings = restarting();
  settings.keys = keys;
  settings.rules = {{"_again", rules::RetryClass::idempotent}, {"_twice", rules::RetryClass::duplicating}};
  return settings;
}

// The second process initializes and takes s1 back. What it got after that.
Lines restore(Dialogue& talk, std::string_view initialized = v2) {
  talk.agent_initializes(initialized);
  Lines rest;
  for (const std::string& line : talk.take_agent()) {
    const bool resume = method_of(line) == "session/resume" && id_of(line).front() == '"';
    if (resume) talk.agent(result_line(id_of(line), "null"));
    if (!resume) rest.push_back(line);
  }
  for (const std::string& line : talk.take_agent()) rest.push_back(line);
  CHECK(talk.relay().phase() == Phase::serving);
  return rest;
}

void lose(Dialogue& talk) {
  talk.take_agent();
  talk.agent_restarts();
}

struct Row {
  std::string line;  // id 7
  bool sent_again;
  std::string answer;  // where it is not sent again
};

std::vector<Row> rows_v2(KeyMode keys) {
  const bool forward = keys == KeyMode::forward;
  const auto named = [](std::string_view method) {
    return request_line("7", method, R"({"sessionId":"s1"})");
  };
  const std::string lost = "7 -32603 agent_lost unknown";
  return {
      {named("session/list"), true, ""},
      {named("session/status"), true, ""},
      {named("session/set_config_option"), true, ""},
      {named("session/close"), true, ""},
      {named("session/resume"), true, ""},
      {named("session/fork"), true, ""},
      {request_line("7", "session/new", R"({"cwd":"/w","mcpServers":[]})"), true, ""},
      {named("_again"), true, ""},
      {named("_twice"), true, ""},
      {prompt_line("7", "\"k\""), forward, "7 -32603 outcome_unknown unknown"},
      {prompt_line("7", ""), false, lost},
      {prompt_line("7", "null"), false, lost},
      {named("_extension"), false, lost},
      {named("mcp/message"), false, lost},
      {named("session/future"), false, lost},
  };
}

TEST_CASE("verdicts: lost after it was sent", "[recovery][verdict]") {
  const KeyMode keys = GENERATE(KeyMode::guard, KeyMode::forward);
  for (const Row& row : rows_v2(keys)) {
    CAPTURE(row.line, static_cast<int>(keys));
    Dialogue talk(with_rules(keys));
    open_with(talk, v2);
    talk.client(row.line);
    lose(talk);
    const Lines again = restore(talk);
    CHECK(again == (row.sent_again ? Lines{row.line} : Lines{}));
    CHECK(in_short(talk.take_client()) == (row.sent_again ? Lines{} : Lines{row.answer}));
    talk.agent(result_line("7"));
    CHECK(talk.take_client() == (row.sent_again ? Lines{result_line("7")} : Lines{}));
    CHECK(talk.relay().edge().open_requests() == 0);
  }
}

TEST_CASE("verdicts: held requests go out once, as they are", "[recovery][verdict]") {
  const KeyMode keys = GENERATE(KeyMode::guard, KeyMode::forward);
  // Between the epochs, during the restore, or never taken by the dead one.
  const int when = GENERATE(0, 1, 2);
  for (const Row& row : rows_v2(keys)) {
    CAPTURE(row.line, when);
    Dialogue talk(with_rules(keys));
    open_with(talk, v2);
    if (when == 0) talk.agent_dies(killed);
    if (when == 1) lose(talk);
    talk.client(row.line);
    if (when == 0) talk.agent_starts();
    if (when == 2) {
      talk.happen(LinkBacklog{talk.link(), row.line.size() + 1});
      lose(talk);
    }
    CHECK(restore(talk) == Lines{row.line});
    CHECK(talk.take_client().empty());
    talk.agent(result_line("7"));
    CHECK(talk.take_client() == Lines{result_line("7")});
  }
}

TEST_CASE("verdicts: cancelling is not sent again", "[recovery][verdict]") {
  const KeyMode keys = GENERATE(KeyMode::guard, KeyMode::forward);
  const int when = GENERATE(0, 1);  // asked at the living agent, or once it was lost
  for (const Row& row : rows_v2(keys)) {
    CAPTURE(row.line, when);
    Dialogue talk(with_rules(keys));
    open_with(talk, v2);
    talk.client(row.line);
    if (when == 0) talk.client(cancel_line("7"));
    lose(talk);
    if (when == 1) talk.client(cancel_line("7"));
    CHECK(restore(talk).empty());
    const Lines got = talk.take_client();
    REQUIRE(got.size() == 1);
    CHECK(member(got[0], "id") == "7");
    CHECK(member(member(got[0], "error"), "code") == "-32800");
    CHECK(member(member(got[0], "error"), "data", "outcome") == "\"unknown\"");
  }
}

TEST_CASE("cancelled before a byte of it was taken: not sent", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string list = request_line("7", "session/list");
  talk.client(list);
  const std::size_t cut = GENERATE(0U, 1U);  // one byte of it was taken
  talk.client(cancel_line("7"));
  talk.happen(LinkBacklog{talk.link(), list.size() + 1 + cancel_line("7").size() + 1 - cut});
  lose(talk);
  CHECK(restore(talk).empty());
  CHECK(in_short(talk.take_client()) ==
        Lines{cut == 0 ? "7 -32800 cancelled not_sent" : "7 -32800 cancelled unknown"});
}

TEST_CASE("what one epoch had taken is not held in the next", "[recovery][verdict]") {
  Dialogue talk(with_rules(KeyMode::forward));
  open_with(talk, v2);
  const std::string prompt = prompt_line("7", "\"k\"");
  talk.client(prompt);
  lose(talk);
  CHECK(restore(talk) == Lines{prompt});
  talk.happen(LinkBacklog{talk.link(), prompt.size() + 1});  // this one took none of it
  lose(talk);
  talk.client(cancel_line("7"));
  CHECK(restore(talk).empty());
  CHECK(in_short(talk.take_client()) == Lines{"7 -32800 cancelled unknown"});
}

TEST_CASE("requests sent again keep their bytes, in their order, before what was held",
          "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const Lines lost{
      R"( { "params" : { "cursor":"\u0041" , "x" : 1.0e0 }, "method":"session/list","jsonrpc":"2.0", "id":1e1})",
      request_line("\"b\"", "session/list"), prompt_line("11", ""),
      request_line("12", "session/status", R"({"sessionId":"s1"})")};
  for (const std::string& line : lost) talk.client(line);
  talk.take_agent();
  talk.agent_dies(killed);
  talk.client(request_line("13", "session/list"));
  talk.client(R"({"jsonrpc":"2.0","method":"_note","params":{"sessionId":"s1"}})");
  talk.client(request_line("14", "session/status", R"({"sessionId":"s1"})"));
  talk.agent_starts();
  const Lines got = restore(talk);
  // Without a session: after initialize. Those of s1: after its restore.
  CHECK(got == Lines{lost[0], lost[1], request_line("13", "session/list"), lost[3],
                     R"({"jsonrpc":"2.0","method":"_note","params":{"sessionId":"s1"}})",
                     request_line("14", "session/status", R"({"sessionId":"s1"})")});
  CHECK(in_short(talk.take_client()) == Lines{"11 -32603 agent_lost unknown"});
}

TEST_CASE("a late set_* that would undo an answered one is not sent again", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const auto set = [](std::string_view id, std::string_view option, std::string_view value) {
    return request_line(id, "session/set_config_option",
                        fmt::format(R"({{"sessionId":"s1","configId":"{}","value":"{}"}})", option, value));
  };
  talk.client(set("7", "a", "old"));
  talk.client(set("8", "b", "old"));
  talk.client(set("9", "a", "new"));
  talk.client(set("10", "a", "newest"));
  talk.agent(result_line("9"));
  talk.take_client();
  lose(talk);
  talk.agent_initializes(v2);
  talk.agent(
      result_line(id_of(only_line(talk)), R"({"configOptions":[{"configId":"a","currentValue":"new"}]})"));
  CHECK(talk.take_agent() == Lines{set("8", "b", "old"), set("10", "a", "newest")});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32603 newer_change unknown"});
}

TEST_CASE("a load of which the client saw a part is not started over", "[recovery][verdict]") {
  Dialogue talk(restarting());
  const bool shown = GENERATE(true, false);
  open_with(talk, v1_load);
  const std::string load =
      request_line("7", "session/load", R"({"sessionId":"old","cwd":"/w","mcpServers":[]})");
  talk.client(load);
  talk.agent(update_line("old", shown ? "user_message_chunk" : "available_commands_update"));
  talk.take_client();
  lose(talk);
  talk.agent_initializes(v1_load);
  Lines sent = talk.take_agent();
  sent.erase(sent.begin());  // s1's own
  CHECK(sent == (shown ? Lines{} : Lines{load}));
  CHECK(in_short(talk.take_client()) == (shown ? Lines{"7 -32603 replay_interrupted unknown"} : Lines{}));
}

TEST_CASE("progress: what a restore tells is not the prompt's", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v1_load);
  talk.client(prompt_line("7", ""));
  const bool progress = GENERATE(true, false);
  if (progress) talk.agent(update_line("s1", "agent_message_chunk"));
  lose(talk);
  talk.agent_initializes(v1_load);
  const std::string own = only_line(talk);
  talk.agent(update_line("s1", "user_message_chunk"));
  talk.agent(update_line("s1", "available_commands_update"));
  talk.take_client();
  talk.agent(result_line(id_of(own), "null"));
  const Lines got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(member(member(got[0], "error"), "data", "progress") == (progress ? "true" : "false"));
}

TEST_CASE("keys: a duplicate of a lost or held prompt joins it", "[recovery][verdict]") {
  Dialogue talk(with_rules(KeyMode::forward));
  open_with(talk, v2);
  const bool lost = GENERATE(true, false);
  if (lost) talk.client(prompt_line("7", "\"k\""));
  lose(talk);
  if (!lost) talk.client(prompt_line("7", "\"k\""));
  talk.client(prompt_line("8", "\"k\""));
  CHECK(restore(talk) == Lines{prompt_line("7", "\"k\"")});
  talk.client(prompt_line("9", "\"k\""));
  CHECK(talk.take_agent().empty());
  talk.agent(result_line("7", R"({"messageId":"m"})"));
  CHECK(talk.take_client() == Lines{result_line("7", R"({"messageId":"m"})"),
                                    result_line("8", R"({"messageId":"m"})"),
                                    result_line("9", R"({"messageId":"m"})")});
}

TEST_CASE("guard: a lost keyed prompt is unknown, and remembered as unknown", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.client(prompt_line("7", "\"k\""));
  talk.client(prompt_line("8", "\"k\""));
  lose(talk);
  CHECK(restore(talk).empty());
  Lines got = in_short(talk.take_client());
  CHECK(got == Lines{"7 -32603 outcome_unknown unknown", "8 -32603 outcome_unknown unknown"});
  talk.client(prompt_line("9", "\"k\""));
  got = talk.take_client();
  REQUIRE(got.size() == 1);
  CHECK(member(member(got[0], "error"), "data", "outcome") == "\"unknown\"");
  CHECK(talk.take_agent().empty());
}

TEST_CASE("session/cancel before the agent dies: its prompts are not sent again", "[recovery][verdict]") {
  const bool v1 = GENERATE(true, false);
  const bool taken = GENERATE(true, false);
  CAPTURE(v1, taken);
  Dialogue talk(with_rules(KeyMode::forward));
  open_with(talk, v1 ? v1_resume : v2);
  const std::string prompt = prompt_line("7", v1 ? "" : "\"k\"");
  talk.client(prompt);
  talk.client(session_cancel);
  talk.client(prompt_line("8", v1 ? "" : "\"l\""));  // a new turn
  talk.take_agent();
  // What of it was never read stays behind: the whole of all three, or the last two.
  const std::size_t later = session_cancel.size() + prompt.size() + 2;
  talk.happen(LinkBacklog{talk.link(), later + (taken ? 0 : prompt.size() + 1)});
  lose(talk);
  CHECK(restore(talk, v1 ? v1_resume : v2).size() == 1);
  Lines told = in_short(talk.take_client());
  if (taken) {
    CHECK(told == Lines{"7 -32800 cancelled unknown"});
  } else {
    CHECK(told ==
          Lines{v1 ? result_line("7", R"({"stopReason":"cancelled"})") : "7 -32800 cancelled not_sent"});
  }
}

TEST_CASE("session/cancel between epochs: lost prompts are cancelled, held ones answered",
          "[recovery][verdict]") {
  const bool v1 = GENERATE(true, false);
  const int when = GENERATE(0, 1, 2);  // its end is on its way; it is gone; the next one is restored
  CAPTURE(v1, when);
  Dialogue talk(with_rules(KeyMode::forward));
  open_with(talk, v1 ? v1_resume : v2);
  talk.client(prompt_line("7", v1 ? "" : "\"k\""));
  talk.take_agent();
  if (when == 0) talk.happen(AgentExited{talk.epoch(), killed});
  if (when == 1) talk.agent_dies(killed);
  if (when == 2) talk.agent_restarts();
  talk.client(prompt_line("8", ""));
  talk.client(session_cancel);
  talk.client(prompt_line("9", ""));
  CHECK(in_short(talk.take_client()) ==
        Lines{v1 ? result_line("8", R"({"stopReason":"cancelled"})") : "8 -32800 cancelled not_sent"});
  if (when == 0) talk.agent_dies(killed);
  if (when < 2) talk.agent_starts();
  CHECK(restore(talk, v1 ? v1_resume : v2) == Lines{prompt_line("9", "")});
  CHECK(in_short(talk.take_client()) == Lines{"7 -32800 cancelled unknown"});
}

TEST_CASE("$/cancel_request of a held request: it never leaves", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v1_resume);
  lose(talk);
  talk.client(prompt_line("7", ""));
  talk.client(cancel_line("7"));
  CHECK(in_short(talk.take_client()) == Lines{"7 -32800 cancelled not_sent"});
  CHECK(restore(talk, v1_resume).empty());
}

TEST_CASE("agent's requests: one cancel each, late answers swallowed, ids of later epochs re-mapped",
          "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string ask = request_line("5", "session/request_permission", R"({"sessionId":"s1"})");
  talk.agent(ask);
  CHECK(talk.take_client() == Lines{ask});
  lose(talk);
  CHECK(talk.take_client() == Lines{cancel_line("5")});
  restore(talk);
  talk.agent(ask);
  const Lines asked = talk.take_client();
  REQUIRE(asked.size() == 1);
  const std::string mapped(id_of(asked[0]));
  CHECK(mapped != "5");
  CHECK(member(asked[0], "params") == R"({"sessionId":"s1"})");
  talk.client(result_line("5", R"({"late":1})"));
  CHECK(talk.take_agent().empty());
  talk.client(result_line(mapped, R"({"good":1})"));
  CHECK(talk.take_agent() == Lines{result_line("5", R"({"good":1})")});
  talk.agent(ask);
  const std::string third(id_of(talk.take_client().at(0)));
  CHECK(third != mapped);
  lose(talk);
  CHECK(talk.take_client() == Lines{cancel_line(third)});
}

TEST_CASE("an answer to what this epoch was never sent goes nowhere", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string status = request_line("7", "session/status", R"({"sessionId":"s1"})");
  talk.client(status);
  const bool held = GENERATE(true, false);
  if (held) talk.happen(LinkBacklog{talk.link(), status.size() + 1});
  lose(talk);
  const bool broken = GENERATE(true, false);
  talk.agent(broken ? R"({"jsonrpc":"2.0","id":7,"result":{,}})" : result_line("7"));
  CHECK(talk.take_client().empty());
  CHECK(restore(talk) == Lines{status});
  talk.agent(result_line("7"));
  CHECK(talk.take_client() == Lines{result_line("7")});
}

TEST_CASE("a repeated initialize that was lost is the new process's first", "[recovery][verdict]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  const std::string repeat = request_line("7", "initialize", R"({"protocolVersion":2,"n":2})");
  talk.client(repeat);
  lose(talk);
  CHECK(talk.take_agent() == Lines{repeat});
  const int how = GENERATE(0, 1, 2);
  talk.take_orders();
  if (how == 0) {
    talk.agent(result_line("7", v2));
    CHECK(talk.take_client() == Lines{result_line("7", v2)});
    CHECK(method_of(only_line(talk)) == "session/resume");
    return;
  }
  talk.agent(how == 1 ? error_line("7") : std::string(R"({"jsonrpc":"2.0","id":7})"));
  CHECK(talk.take_client().size() == 1);
  CHECK(talk.take_orders() == Lines{"close agent", "end agent 1000"});
}

}  // namespace
}  // namespace acp::sim
