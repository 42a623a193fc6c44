#include "rules/methods.h"

#include <array>
#include <tuple>

namespace acp::rules {
namespace {

// The table's columns in words short enough to stand in line.
namespace table {

using enum Stability;
using enum SessionEffect;
using enum MethodId;
using enum RetryClass;
using enum Source;

constexpr auto to_agent = Direction::client_to_agent;
constexpr auto to_client = Direction::agent_to_client;
constexpr auto either = Direction::both;
constexpr auto chain = Direction::proxy;

constexpr auto request = MessageKind::request;
constexpr auto notice = MessageKind::notification;

constexpr auto nowhere = SessionPlace::none;
constexpr auto params = SessionPlace::params;
constexpr auto optional = SessionPlace::params_optional;
constexpr auto result = SessionPlace::result;
constexpr auto list = SessionPlace::result_list;
constexpr auto param_result = SessionPlace::params_and_result;
constexpr auto wrapped = SessionPlace::wrapped;
constexpr auto undefined = SessionPlace::undefined;

constexpr auto nothing = ChangeTarget::none;
constexpr auto mode = ChangeTarget::mode;
constexpr auto model = ChangeTarget::model;
constexpr auto config_option = ChangeTarget::config_option;
constexpr auto title = ChangeTarget::title;
constexpr auto archived = ChangeTarget::archived;
constexpr auto provider = ChangeTarget::provider;
constexpr auto authentication = ChangeTarget::authentication;

// One row a line, in the order that static_asserts below state. To add a method: add its rows, correct
// methods_count.
// clang-format off
constexpr std::array<MethodFacts, methods_count> rows{{
    // method                         sender     kind     in v1     in v2     session id    effect     it changes      id                  retry class  source
    {"$/cancel_request",              either,    notice,  stable,   absent,   nowhere,      none,      nothing,        cancel_request,     not_retried, derived, "as v2; id may be null"},
    {"$/cancel_request",              either,    notice,  absent,   stable,   nowhere,      none,      nothing,        cancel_request,     not_retried, rfd,     "params:/requestId is a JSON-RPC id of the sender: translate per hop, never forward raw"},
    {"_*",                            either,    request, stable,   stable,   optional,     none,      nothing,        other,              not_retried, derived, "extension request; semantics unknown; unknown -> -32601"},
    {"_*",                            either,    notice,  stable,   stable,   optional,     none,      nothing,        other,              not_retried, derived, "extension notification; unknown ones ignored"},
    {"_proxy/initialize",             chain,     request, legacy,   legacy,   nowhere,      none,      nothing,        proxy_initialize,   as_carried,  derived, "Rust SDK <= 4.x spelling; conductor->proxy only"},
    {"_proxy/successor",              chain,     request, legacy,   legacy,   wrapped,      none,      nothing,        proxy_successor,    as_carried,  derived, "Rust SDK <= 4.x spelling; envelope _meta, alias meta accepted"},
    {"_proxy/successor",              chain,     notice,  legacy,   legacy,   wrapped,      none,      nothing,        proxy_successor,    not_retried, derived, "Rust SDK <= 4.x spelling"},
    {"_proxy/successor/notification", chain,     notice,  legacy,   absent,   wrapped,      none,      nothing,        proxy_successor,    not_retried, derived, "older still"},
    {"_proxy/successor/request",      chain,     request, legacy,   absent,   wrapped,      none,      nothing,        proxy_successor,    as_carried,  derived, "older still; role marked by _meta.proxy in initialize"},
    {"auth/login",                    to_agent,  request, absent,   stable,   nowhere,      none,      authentication, authenticate,       idempotent,  rfd,     "only if authMethods non-empty; never for terminal methods"},
    {"auth/logout",                   to_agent,  request, absent,   stable,   nowhere,      none,      authentication, other,              idempotent,  rfd,     "only if authMethods non-empty"},
    {"auth/status",                   to_agent,  request, unstable, absent,   nowhere,      none,      nothing,        other,              idempotent,  derived, "as v2"},
    {"auth/status",                   to_agent,  request, absent,   unstable, nowhere,      none,      nothing,        other,              idempotent,  rfd,     "read-only; never answered with -32000"},
    {"auth/status_update",            to_client, notice,  unstable, absent,   nowhere,      none,      nothing,        other,              not_retried, derived, "as v2"},
    {"auth/status_update",            to_client, notice,  absent,   unstable, nowhere,      none,      nothing,        other,              not_retried, rfd,     "connection-scoped"},
    {"authenticate",                  to_agent,  request, stable,   absent,   nowhere,      none,      authentication, authenticate,       idempotent,  derived, "mirrors auth/login; may show a second login flow"},
    {"document/didChange",            to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "incremental edits would apply twice"},
    {"document/didClose",             to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "notification"},
    {"document/didFocus",             to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "notification"},
    {"document/didOpen",              to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "notification"},
    {"document/didSave",              to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "notification"},
    {"elicitation/complete",          to_client, notice,  stable,   absent,   nowhere,      none,      nothing,        other,              not_retried, derived, "as v2"},
    {"elicitation/complete",          to_client, notice,  absent,   stable,   nowhere,      none,      nothing,        other,              not_retried, rfd,     "connection-scoped; unknown or completed ids ignored"},
    {"elicitation/create",            to_client, request, stable,   absent,   optional,     none,      nothing,        elicitation_create, idempotent,  derived, "as v2"},
    {"elicitation/create",            to_client, request, absent,   stable,   optional,     none,      nothing,        elicitation_create, idempotent,  rfd,     "request scope carries params:/requestId = a client->agent JSON-RPC id: translate when rewriting ids"},
    {"fs/read_text_file",             to_client, request, stable,   absent,   params,       none,      nothing,        other,              idempotent,  derived, "read-only"},
    {"fs/write_text_file",            to_client, request, stable,   absent,   params,       none,      nothing,        other,              idempotent,  derived, "whole-file replace; overwrites edits made in between"},
    {"initialize",                    to_agent,  request, stable,   absent,   nowhere,      none,      nothing,        initialize,         not_retried, derived, "connection-bound; TypeScript SDK accepts repeats on stdio"},
    {"initialize",                    to_agent,  request, absent,   stable,   nowhere,      none,      nothing,        initialize,         not_retried, rfd,     "repeat only before the first other request, else -32600; on HTTP/WS one per connection"},
    {"logout",                        to_agent,  request, stable,   absent,   nowhere,      none,      authentication, other,              idempotent,  derived, "mirrors auth/logout; gated by agentCapabilities.auth.logout"},
    {"mcp/connect",                   to_client, request, retired,  retired,  nowhere,      none,      nothing,        other,              duplicating, derived, "Aug 2026 artifacts only; spare MCP connection"},
    {"mcp/disconnect",                to_client, request, retired,  retired,  nowhere,      none,      nothing,        other,              idempotent,  derived, "Aug 2026 artifacts only; already closed"},
    {"mcp/message",                   to_agent,  request, absent,   unstable, nowhere,      none,      nothing,        mcp_message,        mcp_defined, rfd,     "listed by the RFD in this direction too; the schema of SDK 2.4.0 has the request agent->client only"},
    {"mcp/message",                   to_agent,  notice,  unstable, unstable, nowhere,      none,      nothing,        mcp_message,        not_retried, derived, "provider to consumer, bound to params:/requestId (not a JSON-RPC id)"},
    {"mcp/message",                   to_client, request, unstable, absent,   nowhere,      none,      nothing,        mcp_message,        mcp_defined, derived, "as v2"},
    {"mcp/message",                   to_client, request, absent,   unstable, nowhere,      none,      nothing,        mcp_message,        mcp_defined, rfd,     "route by params:/serverId; params:/requestId unchanged; inner error inside a successful result"},
    {"nes/accept",                    to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "notification"},
    {"nes/close",                     to_agent,  request, retired,  retired,  params,       none,      nothing,        other,              idempotent,  derived, "ends the NES session once"},
    {"nes/reject",                    to_agent,  notice,  retired,  retired,  params,       none,      nothing,        other,              not_retried, derived, "notification"},
    {"nes/start",                     to_agent,  request, retired,  retired,  result,       none,      nothing,        other,              duplicating, derived, "frozen v1 entrypoint only; creates a NES session"},
    {"nes/suggest",                   to_agent,  request, retired,  retired,  params,       none,      nothing,        other,              idempotent,  derived, "computes a suggestion; costs work, changes nothing"},
    {"providers/disable",             to_agent,  request, unstable, absent,   nowhere,      none,      provider,       other,              idempotent,  derived, "sets the same value again; as v2"},
    {"providers/disable",             to_agent,  request, absent,   unstable, nowhere,      none,      provider,       other,              idempotent,  rfd,     "sets the same value again"},
    {"providers/list",                to_agent,  request, unstable, absent,   nowhere,      none,      nothing,        other,              idempotent,  derived, "read-only; as v2"},
    {"providers/list",                to_agent,  request, absent,   unstable, nowhere,      none,      nothing,        other,              idempotent,  rfd,     "read-only"},
    {"providers/set",                 to_agent,  request, unstable, absent,   nowhere,      none,      provider,       other,              idempotent,  derived, "sets the same value again; as v2"},
    {"providers/set",                 to_agent,  request, absent,   unstable, nowhere,      none,      provider,       other,              idempotent,  rfd,     "sets the same value again"},
    {"proxy/initialize",              chain,     request, unstable, absent,   nowhere,      none,      nothing,        proxy_initialize,   as_carried,  derived, "as v2"},
    {"proxy/initialize",              chain,     request, absent,   unstable, nowhere,      none,      nothing,        proxy_initialize,   as_carried,  rfd,     "conductor->proxy only; effectively not_retried like initialize"},
    {"proxy/successor",               chain,     request, unstable, absent,   wrapped,      none,      nothing,        proxy_successor,    as_carried,  derived, "as v2"},
    {"proxy/successor",               chain,     request, absent,   unstable, wrapped,      none,      nothing,        proxy_successor,    as_carried,  rfd,     "both ways; outer id = request; key at params:/params/idempotencyKey unchanged; result of new/fork at result:/sessionId"},
    {"proxy/successor",               chain,     notice,  unstable, unstable, wrapped,      none,      nothing,        proxy_successor,    not_retried, derived, "wrapped notification: class of the carried notification"},
    {"session/archive",               to_agent,  request, unstable, absent,   params,       archives,  archived,       session_archive,    idempotent,  derived, "as v2"},
    {"session/archive",               to_agent,  request, absent,   unstable, params,       archives,  archived,       session_archive,    idempotent,  rfd,     "active session is closed first; missing -> -32002"},
    {"session/cancel",                to_agent,  notice,  stable,   absent,   params,       cancels,   nothing,        session_cancel,     not_retried, derived, "as v2; confirmed by the prompt response"},
    {"session/cancel",                to_agent,  notice,  absent,   stable,   params,       cancels,   nothing,        session_cancel,     not_retried, rfd,     "a late copy cancels newer work; keep order with prompts"},
    {"session/close",                 to_agent,  request, stable,   absent,   params,       closes,    nothing,        session_close,      idempotent,  derived, "capability sessionCapabilities.close"},
    {"session/close",                 to_agent,  request, absent,   stable,   params,       closes,    nothing,        session_close,      idempotent,  rfd,     "treat -32002 as success; prompt replies may follow its response"},
    {"session/delete",                to_agent,  request, stable,   absent,   params,       deletes,   nothing,        session_delete,     idempotent,  derived, "capability sessionCapabilities.delete"},
    {"session/delete",                to_agent,  request, absent,   stable,   params,       deletes,   nothing,        session_delete,     idempotent,  rfd,     "capability session.delete; treat -32002 as success"},
    {"session/fork",                  to_agent,  request, unstable, absent,   param_result, opens,     nothing,        session_fork,       duplicating, derived, "as v2"},
    {"session/fork",                  to_agent,  request, absent,   unstable, param_result, opens,     nothing,        session_fork,       duplicating, rfd,     "params = source session, result = new session; HTTP reply on the source session's stream"},
    {"session/list",                  to_agent,  request, stable,   absent,   list,         none,      nothing,        other,              idempotent,  derived, "capability sessionCapabilities.list; read-only"},
    {"session/list",                  to_agent,  request, absent,   stable,   list,         none,      nothing,        other,              idempotent,  rfd,     "read-only; opaque cursors"},
    {"session/load",                  to_agent,  request, stable,   absent,   params,       activates, nothing,        session_load,       idempotent,  derived, "capability loadSession; replays the whole history again as chunks; HTTP reply on connection stream"},
    {"session/new",                   to_agent,  request, stable,   absent,   result,       opens,     nothing,        session_new,        duplicating, derived, "as v2; mcpServers required"},
    {"session/new",                   to_agent,  request, absent,   stable,   result,       opens,     nothing,        session_new,        duplicating, rfd,     "updates for the new id may precede the response"},
    {"session/options",               to_agent,  request, absent,   unstable, undefined,    none,      nothing,        other,              idempotent,  rfd,     "named in the RFD only; absent from the schema of SDK 2.4.0, shape unknown"},
    {"session/prompt",                to_agent,  request, stable,   absent,   params,       prompts,   nothing,        session_prompt,     not_retried, derived, "no key in v1; pending for the whole turn; resend starts a second turn"},
    {"session/prompt",                to_agent,  request, absent,   stable,   params,       prompts,   nothing,        session_prompt,     keyed,       rfd,     "params:/idempotencyKey forwarded unchanged; unkeyed resend = new operation; may stay pending while held; result:/messageId"},
    {"session/request_permission",    to_client, request, stable,   absent,   params,       none,      nothing,        request_permission, idempotent,  derived, "client answers outcome cancelled after session/cancel"},
    {"session/request_permission",    to_client, request, absent,   stable,   params,       none,      nothing,        request_permission, idempotent,  rfd,     "cancelled by agent via $/cancel_request, answered with outcome cancelled"},
    {"session/resume",                to_agent,  request, stable,   absent,   params,       activates, nothing,        session_resume,     idempotent,  derived, "capability sessionCapabilities.resume; no replay"},
    {"session/resume",                to_agent,  request, absent,   stable,   params,       activates, nothing,        session_resume,     idempotent,  rfd,     "state_update before the response; servers and roots replaced"},
    {"session/set_config_option",     to_agent,  request, stable,   absent,   params,       sets,      config_option,  set_config_option,  idempotent,  derived, "as v2; type optional"},
    {"session/set_config_option",     to_agent,  request, absent,   stable,   params,       sets,      config_option,  set_config_option,  idempotent,  rfd,     "late resend undoes a newer change; retry before further changes"},
    {"session/set_mode",              to_agent,  request, stable,   absent,   params,       sets,      mode,           set_mode,           idempotent,  derived, "sets a value; same late-resend caveat"},
    {"session/set_model",             to_agent,  request, retired,  absent,   params,       sets,      model,          other,              idempotent,  derived, "never stabilised; still session-scoped in the TypeScript HTTP transport"},
    {"session/set_title",             to_agent,  request, unstable, absent,   params,       sets,      title,          other,              idempotent,  derived, "as v2"},
    {"session/set_title",             to_agent,  request, absent,   unstable, params,       sets,      title,          other,              idempotent,  rfd,     "sets the same value again; late resend overwrites a newer title"},
    {"session/status",                to_agent,  request, unstable, absent,   params,       none,      nothing,        other,              idempotent,  derived, "as v2, no state field"},
    {"session/status",                to_agent,  request, absent,   unstable, params,       none,      nothing,        other,              idempotent,  rfd,     "read-only; open does not mean attached to this connection"},
    {"session/unarchive",             to_agent,  request, unstable, absent,   params,       none,      archived,       other,              idempotent,  derived, "as v2"},
    {"session/unarchive",             to_agent,  request, absent,   unstable, params,       none,      archived,       other,              idempotent,  rfd,     "never loads or resumes; missing -> -32002"},
    {"session/update",                to_client, notice,  stable,   absent,   params,       reports,   nothing,        session_update,     not_retried, derived, "as v2; recover with session/load"},
    {"session/update",                to_client, notice,  absent,   stable,   params,       reports,   nothing,        session_update,     not_retried, rfd,     "chunks would duplicate; recover with session/resume; child ids in params:/update/sessionId (subagent_update)"},
    {"terminal/cancel",               to_agent,  request, absent,   stable,   params,       none,      nothing,        other,              idempotent,  rfd,     "-32602 once exited; opposite direction to v1 terminal/*"},
    {"terminal/create",               to_client, request, stable,   absent,   params,       none,      nothing,        other,              not_retried, derived, "runs a command again; no key exists"},
    {"terminal/kill",                 to_client, request, stable,   absent,   params,       none,      nothing,        other,              idempotent,  derived, "already dead"},
    {"terminal/output",               to_client, request, stable,   absent,   params,       none,      nothing,        other,              idempotent,  derived, "read-only"},
    {"terminal/release",              to_client, request, stable,   absent,   params,       none,      nothing,        other,              idempotent,  derived, "second call may error (id invalid): treat as done"},
    {"terminal/wait_for_exit",        to_client, request, stable,   absent,   params,       none,      nothing,        other,              idempotent,  derived, "observes only; long pending"},
    {"tool_call/cancel",              to_agent,  request, absent,   stable,   params,       none,      nothing,        other,              idempotent,  rfd,     "-32602 once final; only while capabilities.cancel is advertised"},
}};
// clang-format on

}  // namespace table

constexpr const auto& rows = table::rows;

consteval auto sort_key(const MethodFacts& facts) {
  const bool from_v1 = facts.v1 != Stability::absent;
  return std::tuple(facts.method, facts.direction, facts.kind, from_v1 ? Version::v1 : Version::v2);
}

consteval bool sorted_and_unique() {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (!(sort_key(rows[i - 1]) < sort_key(rows[i]))) return false;
  }
  return true;
}

// No two rows of one method, direction and kind speak about the same version, and none about no version.
consteval bool versions_disjoint() {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    if (row.v1 == Stability::absent && row.v2 == Stability::absent) return false;
    if (i == 0) continue;
    const auto& last = rows[i - 1];
    if (last.method != row.method || last.direction != row.direction || last.kind != row.kind) continue;
    if (last.v1 != Stability::absent && row.v1 != Stability::absent) return false;
    if (last.v2 != Stability::absent && row.v2 != Stability::absent) return false;
  }
  return true;
}

consteval const MethodFacts* extension_row(MessageKind kind) {
  for (const auto& row : rows) {
    if (row.method == "_*" && row.kind == kind) return &row;
  }
  return nullptr;
}

consteval bool all_have_notes() {
  for (const auto& row : rows) {
    if (row.note.empty()) return false;
  }
  return true;
}

static_assert(rows.size() == methods_count);
static_assert(sorted_and_unique());
static_assert(versions_disjoint());
// Do not compile without such a row.
constexpr const MethodFacts& extension_request = *extension_row(MessageKind::request);
constexpr const MethodFacts& extension_notification = *extension_row(MessageKind::notification);
static_assert(all_have_notes());

// The rows of each name by a hash of its length and three of its bytes, made at compile time: a search by
// name takes several times as long, and this is asked for every frame. The factors give every name a slot of
// its own.
struct Slot {
  std::uint8_t first = 0;
  std::uint8_t count = 0;  // 0: free
};
constexpr std::size_t slots_count = 256;

constexpr std::size_t slot_of(std::string_view method) {
  if (method.empty()) return 0;
  const auto byte = [&](std::size_t at) -> std::size_t { return static_cast<unsigned char>(method[at]); };
  const auto size = method.size();
  return (size + byte(size * 3 / 4) * 13 + byte(size / 2) + byte(size - 1) * 55) % slots_count;
}

constexpr auto slots = [] {
  std::array<Slot, slots_count> made{};
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t end = first;
    while (end < rows.size() && rows[end].method == rows[first].method) ++end;
    std::size_t i = slot_of(rows[first].method);
    while (made[i].count != 0) i = (i + 1) % slots_count;
    made[i] = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(end - first)};
    first = end;
  }
  return made;
}();
static_assert(rows.size() <= UINT8_MAX);

constexpr bool sent_by(Direction direction, Sender sender) {
  switch (direction) {
    case Direction::client_to_agent: return sender == Sender::client;
    case Direction::agent_to_client: return sender == Sender::agent;
    case Direction::both:
    case Direction::proxy: break;
  }
  return true;
}

}  // namespace

std::span<const MethodFacts, methods_count> methods() noexcept { return rows; }

std::span<const MethodFacts> rows_of(std::string_view method) noexcept {
  for (std::size_t i = slot_of(method); slots[i].count != 0; i = (i + 1) % slots_count) {
    const auto* const first = &rows[slots[i].first];
    if (first->method == method) return {first, slots[i].count};
  }
  return {};
}

const MethodFacts& facts_of(Sender sender, MessageKind kind, std::string_view method,
                            Version version) noexcept {
  const MethodFacts* found = nullptr;
  for (const auto& row : rows_of(method)) {
    if (row.kind != kind || !sent_by(row.direction, sender)) continue;
    if (version == Version::v1 && row.v1 == Stability::absent) continue;
    if (version == Version::v2 && row.v2 == Stability::absent) continue;
    // The v1 row stands before the v2 row, so that the last one wins while the version is unknown.
    found = &row;
  }
  if (found != nullptr) return *found;
  return kind == MessageKind::request ? extension_request : extension_notification;
}

std::string_view name_of(MethodId id) noexcept {
  if (id == MethodId::other) return {};
  for (const auto& row : rows) {
    if (row.id == id && row.v1 != Stability::legacy) return row.method;
  }
  return {};
}

Stability stability_of(const MethodFacts& facts, Version version) noexcept {
  switch (version) {
    case Version::v1: return facts.v1;
    case Version::v2: return facts.v2;
    case Version::unknown: return facts.v2 != Stability::absent ? facts.v2 : facts.v1;
  }
  return Stability::absent;
}

std::string_view to_string(Version value) noexcept {
  switch (value) {
    case Version::unknown: return "unknown";
    case Version::v1: return "v1";
    case Version::v2: return "v2";
  }
  return "invalid";
}

std::string_view to_string(Sender value) noexcept {
  switch (value) {
    case Sender::client: return "client";
    case Sender::agent: return "agent";
  }
  return "invalid";
}

std::string_view to_string(MessageKind value) noexcept {
  switch (value) {
    case MessageKind::request: return "request";
    case MessageKind::notification: return "notification";
  }
  return "invalid";
}

std::string_view to_string(Direction value) noexcept {
  switch (value) {
    case Direction::client_to_agent: return "client_to_agent";
    case Direction::agent_to_client: return "agent_to_client";
    case Direction::both: return "both";
    case Direction::proxy: return "proxy";
  }
  return "invalid";
}

std::string_view to_string(Stability value) noexcept {
  switch (value) {
    case Stability::absent: return "absent";
    case Stability::stable: return "stable";
    case Stability::unstable: return "unstable";
    case Stability::retired: return "retired";
    case Stability::legacy: return "legacy";
  }
  return "invalid";
}

std::string_view to_string(SessionPlace value) noexcept {
  switch (value) {
    case SessionPlace::none: return "none";
    case SessionPlace::params: return "params";
    case SessionPlace::params_optional: return "params_optional";
    case SessionPlace::result: return "result";
    case SessionPlace::result_list: return "result_list";
    case SessionPlace::params_and_result: return "params_and_result";
    case SessionPlace::wrapped: return "wrapped";
    case SessionPlace::undefined: return "undefined";
  }
  return "invalid";
}

std::string_view to_string(SessionEffect value) noexcept {
  switch (value) {
    case SessionEffect::none: return "none";
    case SessionEffect::opens: return "opens";
    case SessionEffect::activates: return "activates";
    case SessionEffect::prompts: return "prompts";
    case SessionEffect::cancels: return "cancels";
    case SessionEffect::sets: return "sets";
    case SessionEffect::closes: return "closes";
    case SessionEffect::archives: return "archives";
    case SessionEffect::deletes: return "deletes";
    case SessionEffect::reports: return "reports";
  }
  return "invalid";
}

std::string_view to_string(ChangeTarget value) noexcept {
  switch (value) {
    case ChangeTarget::none: return "none";
    case ChangeTarget::mode: return "mode";
    case ChangeTarget::model: return "model";
    case ChangeTarget::config_option: return "config_option";
    case ChangeTarget::title: return "title";
    case ChangeTarget::archived: return "archived";
    case ChangeTarget::provider: return "provider";
    case ChangeTarget::authentication: return "authentication";
  }
  return "invalid";
}

std::string_view to_string(MethodId value) noexcept {
  switch (value) {
    case MethodId::other: return "other";
    case MethodId::initialize: return "initialize";
    case MethodId::proxy_initialize: return "proxy_initialize";
    case MethodId::proxy_successor: return "proxy_successor";
    case MethodId::cancel_request: return "cancel_request";
    case MethodId::authenticate: return "authenticate";
    case MethodId::session_new: return "session_new";
    case MethodId::session_fork: return "session_fork";
    case MethodId::session_load: return "session_load";
    case MethodId::session_resume: return "session_resume";
    case MethodId::session_prompt: return "session_prompt";
    case MethodId::session_cancel: return "session_cancel";
    case MethodId::session_update: return "session_update";
    case MethodId::session_close: return "session_close";
    case MethodId::session_delete: return "session_delete";
    case MethodId::session_archive: return "session_archive";
    case MethodId::set_mode: return "set_mode";
    case MethodId::set_config_option: return "set_config_option";
    case MethodId::request_permission: return "request_permission";
    case MethodId::elicitation_create: return "elicitation_create";
    case MethodId::mcp_message: return "mcp_message";
  }
  return "invalid";
}

std::string_view to_string(Source value) noexcept {
  switch (value) {
    case Source::rfd: return "rfd";
    case Source::schema: return "schema";
    case Source::derived: return "derived";
  }
  return "invalid";
}

}  // namespace acp::rules
