// What a simulated agent says: results, replays, news and questions of its own.
#include <fmt/format.h>
#include <iterator>

#include "tests/sim/lives_agent.h"

namespace acp::sim {

std::string AgentLife::initialize_result(const Held& held) const {
  const bool later = epoch_ > 1;
  const int version = later ? person_.later_version : person_.version;
  if (version == 2) return fmt::format(R"({{"protocolVersion":2,"capabilities":{{}},"tag":{}}})", held.tag);
  const bool resumes = person_.resumes && !(later && person_.later_loads_only);
  return fmt::format(
      R"({{"protocolVersion":{},"agentCapabilities":{{"loadSession":{},"sessionCapabilities":{{{}}}}},"tag":{}}})",
      version, person_.loads, resumes ? R"("resume":{})" : "", held.tag);
}

// Mode and options as they are, as members of a result.
std::string AgentLife::values_of(int session) const {
  const DiskSession& now = at(session);
  std::string out;
  if (person_.version == 1)
    out = fmt::format(R"("modes":{{"currentModeId":"m{}","availableModes":[]}},)", now.mode);
  out += R"("configOptions":[)";
  for (std::size_t i = 0; i < options_count; ++i) {
    fmt::format_to(std::back_inserter(out), R"({}{{"{}":"c{}","currentValue":"v{}"}})", i == 0 ? "" : ",",
                   person_.version == 1 ? "id" : "configId", i, now.options[i]);
  }
  return out + "]";
}

std::string AgentLife::result_of(const Held& held) {
  const std::string& method = held.method;
  if (method == "initialize") return initialize_result(held);
  if (method == "session/new" || method == "session/fork") {
    return fmt::format(R"({{"sessionId":"s{}",{},"tag":{}}})", held.message, values_of(held.message),
                       held.tag);
  }
  if (method == "session/prompt") {
    if (person_.version == 1)
      return fmt::format(R"({{"stopReason":"{}","tag":{}}})", held.stopped ? "cancelled" : "end_turn",
                         held.tag);
    return fmt::format(R"({{"messageId":"m{}","tag":{}}})", held.message, held.tag);
  }
  if (person_.style == ResultStyle::null) return "null";
  if (person_.style == ResultStyle::empty) return "{}";
  const bool tells =
      method == "session/resume" || method == "session/load" || method == "session/set_config_option";
  if (tells && knows(held.session))
    return fmt::format(R"({{{},"tag":{}}})", values_of(held.session), held.tag);
  return fmt::format(R"({{"tag":{}}})", held.tag);
}

// ACP: the whole history again before the answer to session/load, or where replayFrom asks for it; state
// always.
void AgentLife::replay(const Held& held) {
  const std::string_view params = member(held.line, "params");
  const bool asked = held.method == "session/load" ||
                     (person_.version == 2 && person_.replays && !member(params, "replayFrom").empty());
  const std::string_view mark = held.own ? R"(,"replay":"own")" : R"(,"replay":"asked")";
  if (asked) {
    for (const DiskMessage& message : at(held.session).messages) {
      update(held.session, person_.version == 1 ? "user_message_chunk" : "user_message",
             fmt::format(R"(,"messageId":"m{}","content":{}{})", message.number, message.content, mark));
      update(held.session, "agent_message_chunk", mark);
    }
    if (person_.version == 2) update(held.session, "replay_complete", mark);
  }
  update(held.session, person_.version == 1 ? "available_commands_update" : "state_update");
}

void AgentLife::update(int session, std::string_view kind, std::string_view more) {
  fmt::format_to(
      std::back_inserter(said_),
      R"({{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s{}","update":{{"sessionUpdate":"{}"{}}},"n":{}}}}})"
      "\n",
      session, kind, more, disk_.next_serial++);
}

void AgentLife::change_value(int session, bool mode, int value) {
  changed_by_itself_ = true;
  if (mode) {
    at(session).mode = value;
    return update(session, "current_mode_update", fmt::format(R"(,"currentModeId":"m{}")", value));
  }
  at(session).options[0] = value;
  update(session, "config_option_update", fmt::format(",{}", values_of(session)));
}

void AgentLife::ask(int session, bool elicitation) {
  const std::string id = std::to_string(next_id_++);
  const int nonce = disk_.next_serial++;
  asks_.push_back({id, nonce});
  // A request-scoped elicitation names the request that it belongs to.
  const std::string named = elicitation && !held_.empty() && !held_.front().own
                                ? fmt::format(R"("requestId":{})", held_.front().id)
                                : fmt::format(R"("sessionId":"s{}")", session);
  fmt::format_to(std::back_inserter(said_),
                 R"({{"jsonrpc":"2.0","id":{},"method":"{}","params":{{{},"nonce":{}}}}})"
                 "\n",
                 id, elicitation ? "elicitation/create" : "session/request_permission", named, nonce);
}

bool AgentLife::prepare(std::size_t which) {
  Held& held = held_[which];
  if (held.method != "session/prompt" || !held.failure.empty()) return true;
  const std::string_view prompt = member(held.line, "params", "prompt");
  const auto says = [prompt](std::string_view word) { return prompt.find(word) != std::string_view::npos; };
  const int session = held.session;
  if (!held.prepared) {
    held.prepared = true;
    if (says("ask")) ask(session, false);
    if (says("elicit")) ask(session, true);
    if (says("change")) change_value(session, person_.version == 1, 2);
    if (says("big"))
      update(session, "tool_call_update", fmt::format(R"(,"text":"{}")", std::string(700, 'x')));
  }
  const bool waits = !asks_.empty() && (says("ask") || says("elicit"));
  const bool holds = says("hold") && holds_;
  return held_[which].stopped || !(waits || holds);
}

void AgentLife::chatter() {
  static constexpr std::string_view kinds[] = {"agent_message_chunk", "state_update", "tool_call_update",
                                               "usage_update", "agent_thought_chunk"};
  if (random_ == nullptr || disk_.sessions.empty() || !initialized_) return;
  const int session = static_cast<int>(random_->below(disk_.sessions.size()));
  if (!is_active(session)) return;
  const std::size_t roll = random_->below(10);
  if (roll < 6) return update(session, random_->pick(kinds));
  if (roll == 6)
    return change_value(session, person_.version == 1, static_cast<int>(random_->below(modes_count)));
  if (roll == 7 && !asks_.empty()) {
    const std::string& id = random_->pick(asks_).id;
    fmt::format_to(std::back_inserter(said_),
                   R"({{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{}}}}})"
                   "\n",
                   id);
    return;
  }
  ask(session, random_->chance(30));
}

}  // namespace acp::sim
