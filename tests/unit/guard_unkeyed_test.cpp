// What the agent's history says of prompts without keys, in either version, and of what it leaves out.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;

Settings proven(KeyMode keys = KeyMode::guard) {
  Settings settings = restarting();
  settings.keys = keys;
  settings.recover_prompts = true;
  return settings;
}

std::string chunk(std::string_view text, std::string_view more = "") {
  return update_line("s1", "user_message_chunk",
                     fmt::format(R"(,"content":{{"type":"text","text":"{}"}}{})", text, more));
}

// A new process is sent keyhop's own session/load, and shows this.
void reload_showing(Dialogue& talk, const Lines& updates) {
  talk.agent_restarts();
  talk.agent_initializes(v1_load);
  const std::string own = only_line(talk);
  REQUIRE(method_of(own) == "session/load");
  for (const std::string& update : updates) talk.agent(update);
  talk.agent(result_line(id_of(own), "null"));
}

// The lost prompt 3 was sent again, was found, or nothing is known of it.
std::string fate_of(Dialogue& talk, std::string_view prompt) {
  if (talk.take_agent() == Lines{std::string(prompt)}) return "absent";
  const Lines told = in_short(talk.take_client());
  if (told.empty() || !told.back().starts_with("3 ")) return "open";
  return told.back() == "3 -32603 turn_interrupted inserted" ? "inserted" : "unknown";
}

TEST_CASE("keys=forward: prompts without keys are proven absent all the same", "[guard][unkeyed]") {
  Dialogue talk(proven(KeyMode::forward));
  open_with(talk, named);
  talk.client(keyed("3", "k", "hi"));
  talk.client(unkeyed("4", "yo"));
  talk.take_agent();
  restart_showing(talk, {});
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi"), unkeyed("4", "yo")});
}

TEST_CASE("a lost request that is no prompt needs no history", "[guard][unkeyed]") {
  Dialogue talk(proven(KeyMode::forward));
  open_with(talk, named);
  talk.client(request_line("3", "session/set_mode", R"({"sessionId":"s1","modeId":"m"})"));
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(named);
  CHECK(member(member(only_line(talk), "params"), "replayFrom").empty());
}

TEST_CASE("updates of no kind cross; a message that was seen without its text is still an old one",
          "[guard][unkeyed]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  const Lines updates{
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":7}}})",
      update_line("s1", ""),
      update_line("s1", "user_message", R"(,"messageId":"m1")"),
      update_line("s1", "user_message", R"(,"messageId":"m2","content":null)"),
  };
  for (const std::string& update : updates) talk.agent(update);
  CHECK(talk.take_client() == updates);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_agent();
  restart_showing(talk, {{"m1", "hi"}, {"m2", "hi"}});
  talk.run_ledger();
  CHECK(talk.take_agent() == Lines{keyed("3", "k", "hi")});
}

TEST_CASE("a replay whose messages are of no kind is shown where it is not keyhop's", "[guard][unkeyed]") {
  MemoryLedger ledger;
  Dialogue talk(guarded());
  lose_one(talk, ledger);
  talk.agent_restarts();
  talk.agent_initializes(named);
  const std::string own = only_line(talk);
  const std::string odd =
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":7}}})";
  talk.agent(odd);
  CHECK(talk.take_client() == Lines{odd});
  talk.agent(user_message("m1", "hi"));
  CHECK(talk.take_client() == none);
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(own), "{}"));
  CHECK(talk.take_client().back() == result_line("3", message_result("m1")));
}

TEST_CASE("a message of somebody else's while the prompt was open: its absence is not believed",
          "[guard][unkeyed]") {
  // What the agent told while the prompt was open, and shows of it later; what is known of the prompt then.
  const auto [told, shown, fate] = GENERATE(table<Lines, History, std::string>({
      {{}, {{"m0", "old"}}, "absent"},
      {{user_message("m0", "old")}, {{"m0", "old"}}, "absent"},  // no news
      {{user_message("m1", "else")}, {{"m0", "old"}}, "unknown"},
      {{user_message("m1", "else")}, {{"m0", "old"}, {"m1", "else"}}, "unknown"},
  }));
  CAPTURE(told);
  MemoryLedger ledger;
  Dialogue talk(proven());
  open_guarded(talk, ledger);
  talk.client(unkeyed("2", "old"));
  talk.agent(result_line("2", message_result("m0")));
  talk.client(unkeyed("3", "two"));
  for (const std::string& line : told) talk.agent(line);
  talk.take_agent();
  restart_showing(talk, shown);
  CHECK(fate_of(talk, unkeyed("3", "two")) == fate);
}

TEST_CASE("v1: only an ended turn says that its prompt was taken in", "[guard][unkeyed]") {
  const auto [answer, shown, fate] = GENERATE(table<std::string, Lines, std::string>({
      {result_line("2", R"({"stopReason":"end_turn"})"), {chunk("one")}, "absent"},
      {result_line("2", "{}"), {chunk("one")}, "absent"},
      {result_line("2", R"({"stopReason":7})"), {chunk("one")}, "absent"},
      {result_line("2", R"({"stopReason":"cancelled"})"), {chunk("one")}, "unknown"},
      {error_line("2"), {chunk("one")}, "unknown"},
      {result_line("2", "{}"), {}, "unknown"},  // what is known is not there
  }));
  CAPTURE(answer);
  Dialogue talk(proven());
  open_with(talk, v1_load);
  talk.client(unkeyed("2", "one"));
  talk.agent(answer);
  talk.client(unkeyed("3", "two"));
  talk.take_agent();
  talk.take_client();
  reload_showing(talk, shown);
  CHECK(fate_of(talk, unkeyed("3", "two")) == fate);
}

TEST_CASE("v1: where a message of the history ends", "[guard][unkeyed]") {
  const std::string a = R"(,"messageId":"a")";
  const std::string b = R"(,"messageId":"b")";
  const std::string odd =
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":7}}})";
  const auto [shown, fate] = GENERATE_COPY(table<Lines, std::string>({
      {{chunk("two")}, "inserted"},
      {{chunk("t"), chunk("wo")}, "inserted"},
      {{chunk("t", a), chunk("wo", a)}, "inserted"},
      {{chunk("t", a), chunk("wo", b)}, "unknown"},  // two messages that nobody knows
      {{chunk("t"), odd, chunk("wo")}, "unknown"},
      {Lines{}, "absent"},
  }));
  Dialogue talk(proven());
  open_with(talk, v1_load);
  talk.client(unkeyed("3", "two"));
  talk.take_agent();
  reload_showing(talk, shown);
  CHECK(fate_of(talk, unkeyed("3", "two")) == fate);
}

TEST_CASE("v1: without session/load there is no history", "[guard][unkeyed]") {
  constexpr std::string_view resume_only =
      R"({"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}})";
  Dialogue talk(proven());
  open_with(talk, resume_only);
  talk.client(unkeyed("3", "two"));
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(resume_only);
  const std::string own = only_line(talk);
  CHECK(method_of(own) == "session/resume");
  talk.agent(result_line(id_of(own), "null"));
  CHECK(fate_of(talk, unkeyed("3", "two")) == "unknown");
}

TEST_CASE("v1: where both ways are offered, the one that shows the history is taken for a lost prompt",
          "[guard][unkeyed]") {
  Dialogue talk(proven());
  open_with(talk, v1_resume);
  const bool lost = GENERATE(true, false);
  if (lost) talk.client(unkeyed("3", "two"));
  talk.take_agent();
  talk.agent_restarts();
  talk.agent_initializes(v1_resume);
  CHECK(method_of(only_line(talk)) == (lost ? "session/load" : "session/resume"));
}

TEST_CASE("v1: a load of the client's is read along, a resume shows nothing", "[guard][unkeyed]") {
  const std::string method = GENERATE("session/load", "session/resume");
  Dialogue talk(proven());
  talk.client(request_line("0", "initialize", R"({"protocolVersion":1})"));
  talk.agent(result_line("0", v1_load));
  talk.client(request_line("1", method, R"({"sessionId":"s1","cwd":"/w"})"));
  CHECK(talk.take_agent().back() == request_line("1", method, R"({"sessionId":"s1","cwd":"/w"})"));
  talk.agent(chunk("one"));
  talk.agent(result_line("1", "null"));
  talk.client(unkeyed("3", "two"));
  talk.take_agent();
  CHECK(talk.take_client() == Lines{result_line("0", v1_load), chunk("one"), result_line("1", "null")});
  reload_showing(talk, {chunk("one")});
  CHECK(fate_of(talk, unkeyed("3", "two")) == (method == "session/load" ? "absent" : "unknown"));
}

TEST_CASE("keyhop restarted: whatever the client's resume asks to see, the whole history is read before",
          "[guard][unkeyed]") {
  const std::string cursor =
      GENERATE("", R"(,"replayFrom":null)", R"(,"replayFrom":{"type":"message","messageId":"m0"})");
  MemoryLedger ledger;
  Dialogue talk(guarded());
  begin_run_after_loss(talk, ledger);
  talk.client(resume_line("1", cursor));
  talk.run_ledger();
  SECTION("shown") {
    show_history(talk, {{"m1", "hi"}});
    CHECK(talk.take_agent() == Lines{resume_line("1", cursor)});
  }
  SECTION("refused: not asked again") {
    talk.agent(error_line(id_of(only_line(talk)), -32602));
    CHECK(talk.take_agent() == Lines{resume_line("1", cursor)});
    talk.agent(error_line("1", -32603));
    talk.client(resume_line("2", cursor));
    CHECK(talk.take_agent() == Lines{resume_line("2", cursor)});
  }
}

TEST_CASE("more prompts without a message id than are kept: any message could be one of them",
          "[guard][unkeyed]") {
  const std::size_t count = limits::lost_prompts_max + GENERATE(0U, 1U);
  MemoryLedger ledger;
  Dialogue talk(guarded());
  open_guarded(talk, ledger);
  History history;
  for (std::size_t i = 0; i < count; ++i) {
    talk.client(unkeyed("2", "u"));
    talk.agent(result_line("2", "{}"));
    history.emplace_back("u" + std::to_string(i), "u");
  }
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  talk.take_agent();
  talk.take_client();
  history.emplace_back("m1", "hi");
  restart_showing(talk, history);
  const bool kept = count == limits::lost_prompts_max;
  CHECK(in_short(talk.take_client()).back() ==
        (kept ? result_line("3", message_result("m1")) : "3 -32603 outcome_unknown unknown"));
}

}  // namespace
}  // namespace acp::sim
