// The facts of every ACP method: who sends it, in which versions, where its session id is, what it does to a
// session, and whether it may be sent again. The only place of the program that knows a method by its name.
//
// Invariant: one table, sorted by (method, direction, kind, version) and unique in that, checked at compile
// time; v1 and v2 are two rows of one method where their facts differ. Lookups are total, allocate nothing
// and take constant time for practical purposes (93 rows): they run once a frame. Sources: the RFD "v2
// Idempotency Keys", the ACP schemas v1 and v2; each row names the source of its retry class. Lifetime:
// static, immutable; references never dangle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rules/retry.h"

namespace acp::rules {

// The protocol version of a connection, as the *result* of initialize says. unknown: not answered yet.
enum class Version : std::uint8_t { unknown, v1, v2 };

enum class Sender : std::uint8_t { client, agent };
enum class MessageKind : std::uint8_t { request, notification };

// Who may send a method. proxy: between a conductor and a component, by either of the two.
enum class Direction : std::uint8_t { client_to_agent, agent_to_client, both, proxy };

// What a version says about a method. absent: nothing. retired: was once in a draft. legacy: an old spelling
// in use.
enum class Stability : std::uint8_t { absent, stable, unstable, retired, legacy };

// Where the session id stands.
enum class SessionPlace : std::uint8_t {
  none,
  params,             // params.sessionId
  params_optional,    // params.sessionId, where there is one
  result,             // result.sessionId
  result_list,        // result.sessions[].sessionId
  params_and_result,  // params.sessionId names the source, result.sessionId the new session
  wrapped,            // params.params.sessionId
  undefined,          // no published schema says
};

// What a success (of a notification: its arrival) does to a session, as far as a relay must know.
enum class SessionEffect : std::uint8_t {
  none,
  opens,      // result.sessionId becomes active
  activates,  // params.sessionId becomes active
  prompts,    // adds a user message
  cancels,    // ends foreground work, answers held prompts
  sets,       // changes a value that a restore must set again (mode, config option, title, model)
  closes,     // no longer active
  archives,   // no longer active, put away
  deletes,    // gone
  reports,    // tells the session's news to the client
};

// What a request changes by replacing its former value: of two such requests on one target only the later one
// counts.
enum class ChangeTarget : std::uint8_t {
  none,
  mode,
  model,
  config_option,
  title,
  archived,
  provider,
  authentication
};

// The methods that the relay treats in a way of their own, every spelling of one under one name.
enum class MethodId : std::uint8_t {
  other,
  initialize,
  proxy_initialize,  // also _proxy/initialize
  proxy_successor,   // also _proxy/successor, _proxy/successor/request, _proxy/successor/notification
  cancel_request,
  authenticate,  // v1 authenticate, v2 auth/login
  session_new,
  session_fork,
  session_load,
  session_resume,
  session_prompt,
  session_cancel,
  session_update,
  session_close,
  session_delete,
  session_archive,
  set_mode,
  set_config_option,
  request_permission,
  elicitation_create,
  mcp_message,
};

// Where a row's retry class comes from. derived: no source states it, ours by likeness.
enum class Source : std::uint8_t { rfd, schema, derived };

struct MethodFacts {
  std::string_view method;  // "_*" stands for every extension
  Direction direction;
  MessageKind kind;
  Stability v1;
  Stability v2;
  SessionPlace session;
  SessionEffect effect;
  ChangeTarget target;
  MethodId id;
  RetryClass retry_class;
  Source source;
  std::string_view note;  // one line for people
};

inline constexpr std::size_t methods_count = 93;

// All rows in the table's order.
std::span<const MethodFacts, methods_count> methods() noexcept;

// The rows of one method (every direction, kind and version), in the table's order; empty if there is none.
std::span<const MethodFacts> rows_of(std::string_view method) noexcept;

// The row for a message. Total: a method that has no row for this sender, kind and version (extensions,
// future methods, v1's in v2) gets the row "_*" of its kind: pass on, never retry. While the version is
// unknown the v2 row is taken, else the v1 row: name, place and effect do not differ, and a loss before the
// first success of initialize is never retried. Retired and legacy rows count as rows.
const MethodFacts& facts_of(Sender sender, MessageKind kind, std::string_view method,
                            Version version) noexcept;

// How a method is written in frames of keyhop's own: its current spelling; empty for MethodId::other.
std::string_view name_of(MethodId id) noexcept;

// What the row says about that version; unknown: the better known of both (v2 unless absent).
Stability stability_of(const MethodFacts& facts, Version version) noexcept;

// Stable names, as in `keyhop rules --json`. Never empty.
std::string_view to_string(Version value) noexcept;
std::string_view to_string(Sender value) noexcept;
std::string_view to_string(MessageKind value) noexcept;
std::string_view to_string(Direction value) noexcept;
std::string_view to_string(Stability value) noexcept;
std::string_view to_string(SessionPlace value) noexcept;
std::string_view to_string(SessionEffect value) noexcept;
std::string_view to_string(ChangeTarget value) noexcept;
std::string_view to_string(MethodId value) noexcept;
std::string_view to_string(Source value) noexcept;

}  // namespace acp::rules
