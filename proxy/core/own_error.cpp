#include "proxy/core/own_error.h"

#include <cstring>
#include <fmt/format.h>
#include <iterator>

#include "proxy/core/json_token.h"

namespace acp {
namespace {

void append_agent(std::string& out, const AgentEnd& agent) {
  out += ",\"agent\":{";
  std::string_view comma;
  if (agent.status) {
    const bool exited = agent.status->kind == ExitStatus::Kind::exited;
    fmt::format_to(std::back_inserter(out), "\"{}\":{}", exited ? "exitCode" : "signal", agent.status->value);
    comma = ",";
  } else if (agent.start_error != 0) {
    out += "\"startError\":";
    append_json_string(out, ::strerror(agent.start_error));
    comma = ",";
  }
  out += comma;
  out += "\"stderrTail\":";
  append_json_string(out, agent.stderr_tail);
  out += '}';
}

}  // namespace

void append_error(std::string& out, std::string_view id_token, const OwnError& error) {
  fmt::format_to(std::back_inserter(out),
                 "{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{{\"code\":{},\"message\":",
                 id_token.empty() ? std::string_view("null") : id_token, error.code);
  append_json_string(out, error.message);
  out += ",\"data\":{\"source\":\"keyhop\",\"reason\":";
  append_json_string(out, error.reason);
  if (error.outcome != rules::Outcome::none) {
    fmt::format_to(std::back_inserter(out), ",\"outcome\":\"{}\"", rules::to_string(error.outcome));
  }
  if (error.progress) out += *error.progress ? ",\"progress\":true" : ",\"progress\":false";
  if (!error.session_id_token.empty())
    fmt::format_to(std::back_inserter(out), ",\"sessionId\":{}", error.session_id_token);
  if (error.agent != nullptr) append_agent(out, *error.agent);
  if (!error.agent_error.empty())
    fmt::format_to(std::back_inserter(out), ",\"agentError\":{}", error.agent_error);
  out += "}}}\n";
}

std::string describe(const AgentEnd& end) {
  if (end.start_error != 0)
    return fmt::format("{} could not be started ({})", end.who, ::strerror(end.start_error));
  if (!end.status) return end.who + " went away";
  if (end.status->kind == ExitStatus::Kind::exited)
    return fmt::format("{} exited with code {}", end.who, end.status->value);
  return fmt::format("{} was killed by signal {} ({})", end.who, end.status->value,
                     ::strsignal(end.status->value));
}

std::string describe_loss(const rules::Decision& decision, bool is_prompt, const AgentEnd& end) {
  const std::string agent = describe(end);
  if (decision.code == code::request_cancelled) {
    return fmt::format("Cancelled; the {} before it confirmed that.", agent);
  }
  if (decision.outcome == rules::Outcome::not_sent) {
    return fmt::format("The {}; this request had not been sent to it.", agent);
  }
  if (decision.reason == rules::Reason::newer_change) {
    return fmt::format(
        "The {} before it answered. A later change of the same value was answered, so this one was "
        "not sent again.",
        agent);
  }
  if (decision.reason == rules::Reason::replay_interrupted) {
    return fmt::format(
        "The {} in the middle of the replay. It was not started over, since its parts would show "
        "twice: load the session again.",
        agent);
  }
  if (is_prompt) {
    return fmt::format(
        "The {} before it answered. Whether the prompt was taken in is unknown: look at the "
        "conversation before sending it again.",
        agent);
  }
  return fmt::format("The {} before it answered. Whether the request took effect is unknown.", agent);
}

}  // namespace acp
