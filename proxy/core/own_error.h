// The errors that keyhop makes itself, as frames.
//
// Invariant: every one of them carries data.source "keyhop", so that nobody takes it for the agent's word,
// and no key, prompt text, env or header. Lifetime: plain values, used at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/core/types.h"
#include "rules/retry.h"

namespace acp {

namespace code {
inline constexpr int parse_error = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int invalid_params = -32602;
inline constexpr int internal_error = rules::code_internal_error;
inline constexpr int request_cancelled = rules::code_request_cancelled;
inline constexpr int resource_not_found = -32002;
}  // namespace code

// What is known of an agent that is no more.
struct AgentEnd {
  std::string who = "agent";              // Settings::component
  std::optional<ExitStatus> status = {};  // none: it never started, or its status was lost
  int start_error = 0;                    // errno value, if the command could not be executed
  std::string stderr_tail = {};           // its last lines, keys masked; may be empty
};

// The error object, raw, that stands for the agent's where a session's restore ran out of time.
inline constexpr std::string_view restore_timeout_error =
    R"({"code":-32603,"message":"keyhop: the agent did not restore the session in time (--restore-timeout).","data":{"source":"keyhop","reason":"restore_timeout","outcome":"not_sent"}})";
// The same where its answer to the restore could not be read.
inline constexpr std::string_view restore_unreadable_error =
    R"({"code":-32603,"message":"keyhop: the agent's answer to the session's restore could not be read.","data":{"source":"keyhop","reason":"malformed_answer","outcome":"not_sent"}})";

struct OwnError {
  int code = code::internal_error;
  std::string_view message = {};
  std::string_view reason = {};  // a stable word for programs
  rules::Outcome outcome = rules::Outcome::none;
  std::optional<bool> progress = {};       // updates of the session came while the request was open
  const AgentEnd* agent = nullptr;         // whose end is the cause
  std::string_view agent_error = {};       // raw JSON: what the agent said to the restore
  std::string_view session_id_token = {};  // raw token; for -32002
};

// Appends the error answer to the request with this raw id token (empty: `null`), LF included.
void append_error(std::string& out, std::string_view id_token, const OwnError& error);

// What the client is told of a request that the agent's end left unanswered: who, how, was it sent, what now.
std::string describe_loss(const rules::Decision& decision, bool is_prompt, const AgentEnd& end);

// "agent exited with code 3", "agent was killed by signal 9 (Killed)", "agent could not be started (No such
// file or directory)".
std::string describe(const AgentEnd& end);

}  // namespace acp
