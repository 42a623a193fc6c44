// What the tests of the guard share: dialogues with a ledger, and an agent that shows its history.
//
// Invariant: none but those of the dialogue. Lifetime: plain functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/recovery.h"

namespace acp::sim {

inline Settings guarded() {
  Settings settings = restarting();
  settings.ledger = true;
  settings.agent_command = "agent";
  return settings;
}

inline constexpr std::string_view named = R"({"protocolVersion":2,"info":{"name":"A","version":"1"}})";

// Another run of keyhop with the same ledger: initialized, nothing resumed.
inline void begin_run(Dialogue& talk, MemoryLedger& ledger, std::string_view initialized = named) {
  talk.use_ledger(ledger);
  talk.client(request_line("0", "initialize", R"({"protocolVersion":2})"));
  talk.agent(result_line("0", initialized));
  talk.take_client();
  talk.take_agent();
}

inline void open_guarded(Dialogue& talk, MemoryLedger& ledger) {
  begin_run(talk, ledger);
  talk.client(request_line("1", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
  talk.agent(result_line("1", R"({"sessionId":"s1"})"));
  talk.run_ledger();
  talk.take_client();
  talk.take_agent();
}

inline std::string prompt_of(std::string_view text) {
  return fmt::format(R"([{{"type":"text","text":"{}"}}])", text);
}
inline std::string keyed(std::string_view id, std::string_view key, std::string_view text,
                         std::string_view session = "s1") {
  return request_line(id, "session/prompt",
                      fmt::format(R"({{"sessionId":"{}","prompt":{},"idempotencyKey":"{}"}})", session,
                                  prompt_of(text), key));
}
inline std::string unkeyed(std::string_view id, std::string_view text, std::string_view session = "s1") {
  return request_line(id, "session/prompt",
                      fmt::format(R"({{"sessionId":"{}","prompt":{}}})", session, prompt_of(text)));
}
inline std::string message_result(std::string_view message) {
  return fmt::format(R"({{"messageId":"{}"}})", message);
}
inline std::string user_message(std::string_view message, std::string_view text,
                                std::string_view session = "s1") {
  return update_line(session, "user_message",
                     fmt::format(R"(,"messageId":"{}","content":{})", message, prompt_of(text)));
}
inline std::string resume_line(std::string_view id, std::string_view more = "") {
  return request_line(id, "session/resume",
                      fmt::format(R"({{"sessionId":"s1","cwd":"/w","mcpServers":[]{}}})", more));
}

// One keyed prompt "hi", sent and not answered.
inline void lose_one(Dialogue& talk, MemoryLedger& ledger) {
  open_guarded(talk, ledger);
  talk.client(keyed("3", "k", "hi"));
  talk.run_ledger();
  REQUIRE(talk.take_agent() == Lines{keyed("3", "k", "hi")});
}

// The run after one that was killed in that state.
inline void begin_run_after_loss(Dialogue& talk, MemoryLedger& ledger) {
  Dialogue before(guarded());
  lose_one(before, ledger);
  begin_run(talk, ledger);
}

using History = std::vector<std::pair<std::string, std::string>>;  // message id, text

// The agent answers keyhop's own resume, the one line that it got: with its history if that is asked for.
inline void show_history(Dialogue& talk, const History& history, bool says_state = true) {
  const std::string own = only_line(talk);
  REQUIRE(method_of(own) == "session/resume");
  CHECK(member(member(own, "params"), "replayFrom") == R"({"type":"start"})");
  for (const auto& [message, text] : history) talk.agent(user_message(message, text));
  talk.agent(update_line("s1", "agent_message", R"(,"messageId":"a1","content":[])"));
  if (says_state) talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(own), "{}"));
  talk.run_ledger();
}

// The agent is killed, another one runs and shows its history.
inline void restart_showing(Dialogue& talk, const History& history, bool says_state = true) {
  talk.agent_restarts();
  talk.agent_initializes(named);
  show_history(talk, history, says_state);
}

}  // namespace acp::sim
