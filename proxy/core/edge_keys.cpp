// One key, one answer: duplicates join, known keys are answered from memory, misused ones are refused (RFD).
#include <fmt/format.h>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/ledger_problem.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

using rules::MethodId;

// Known not to be active on the agent: closed, or not resumed since an earlier run sent its prompts.
bool is_not_active(const Session& session) noexcept {
  return session.state == SessionState::inactive ||
         (session.state == SessionState::mentioned && session.needs_reading);
}

// RFD: "an opaque, case-sensitive string of 1 to 255 characters". Characters are code points.
bool is_key_sound(std::string_view decoded) noexcept {
  return !decoded.empty() && count_code_points(decoded) <= limits::key_code_points_max;
}

}  // namespace

// The guard looks after session/prompt where the version knows keys; methods made keyed by --rule are the
// agent's business.
bool Edge::guards(const rules::MethodFacts& facts) const noexcept {
  return settings_.keys == KeyMode::guard && facts.id == MethodId::session_prompt &&
         facts.retry_class == rules::RetryClass::keyed;
}

Edge::KeyedRequest Edge::on_keyed_request(const rules::MethodFacts& facts, std::uint32_t session,
                                          Step& step) {
  const bool defined = facts.retry_class == rules::RetryClass::keyed;
  // v1 knows no keys, but equal ones join while pending.
  if (!defined && facts.id != MethodId::session_prompt) return {Keyed::no, {}, {}};
  const Member& member = envelope_.member(Slot::params_idempotency_key);
  if (member.type == ValueType::absent || member.type == ValueType::null) return {Keyed::no, {}, {}};
  const std::string_view id_token = envelope_.raw(Slot::id);
  if (member.type != ValueType::string ||
      !is_key_sound(decoded(Slot::params_idempotency_key, key_scratch_))) {
    if (!guards(facts)) return {Keyed::no, {}, {}};
    refuse(id_token, code::invalid_params, "malformed_key",
           "Invalid params: `idempotencyKey` must be a string of 1 to 255 characters.", step);
    return {Keyed::done, {}, {}};
  }
  if (session == SessionTable::none && facts.id != MethodId::session_prompt) session = sessions_.intern("");
  const bool nameless = envelope_.member(Slot::params_session_id).type != ValueType::string &&
                        facts.id == MethodId::session_prompt;
  if (nameless) return {Keyed::no, {}, {}};  // no session, no scope: for the agent to refuse
  if (guards(facts) && refuse_unprotected(session, step)) return {Keyed::done, {}, {}};
  const std::string_view key = decoded(Slot::params_idempotency_key, key_scratch_);
  const KeyTable::Scope scope{session, &facts, decoded(Slot::method, method_scratch_),
                              SaltedHash(fingerprinter_.salt(), 'k').add(key).print(), key};
  KeyRow* known = session == SessionTable::none ? nullptr : keys_.find(scope);
  if (known == nullptr && (session == SessionTable::none || keys_.full())) {
    if (!guards(facts)) return {Keyed::no, {}, {}};
    refuse_unsent(id_token, "too_many_keys",
                  "Too many keyed prompts are remembered to protect another one; it was not sent. Restart "
                  "keyhop, or start it with --keys=forward.",
                  step);
    return {Keyed::done, {}, {}};
  }
  const Fingerprint print = fingerprinter_.of(envelope_.raw(Slot::params));
  if (known == nullptr) return {Keyed::first, scope, print};
  return {answer_known_key(*known, scope, print, step), scope, print};
}

// True if the ledger cannot remember a keyed prompt of this session: it was answered, and not sent
// unprotected. Only of a session that began in this run is it known that no earlier run has sent it.
bool Edge::refuse_unprotected(std::uint32_t session, Step& step) {
  const LedgerReading reading =
      session == SessionTable::none ? LedgerReading::unread : sessions_.at(session).ledger;
  const bool unread = ledger_ == LedgerUse::ready && reading == LedgerReading::failed;
  if (ledger_ != LedgerUse::failed && !unread) return false;
  if (unread) sessions_.at(session).ledger = LedgerReading::unread;  // the next one tries again
  const bool is_new = reading == LedgerReading::read;
  const LedgerProblem problem = problem_of(ledger_error_);
  const std::string message = fmt::format(
      "The ledger (--ledger) cannot remember this prompt: {}. It was not sent{}. Name another "
      "file with --ledger; --ledger off goes without.",
      problem.words, is_new ? "" : " now; whether an earlier keyhop sent it is unknown");
  refuse(envelope_.raw(Slot::id),
         {.message = message,
          .reason = problem.reason,
          .outcome = is_new ? rules::Outcome::not_sent : rules::Outcome::unknown},
         step);
  return true;
}

Edge::Keyed Edge::answer_known_key(KeyRow& row, const KeyTable::Scope& scope, const Fingerprint& print,
                                   Step& step) {
  const std::string_view id_token = envelope_.raw(Slot::id);
  const bool same = row.print == print;
  if (row.state == KeyState::pending) {
    if (same) {
      join(row, scope);
      return Keyed::done;
    }
    if (scope.facts->retry_class != rules::RetryClass::keyed) return Keyed::no;  // v1
  } else if (is_not_active(sessions_.at(row.session))) {
    // ACP: "-32002, session unknown or not active here", until a session/resume.
    out_.clear();
    append_error(
        out_, id_token,
        {.code = code::resource_not_found,
         .message = "The session is not active. Resume it, then send the prompt again with the same key.",
         .reason = "session_not_active",
         .session_id_token = envelope_.raw(Slot::params_session_id)});
    send_text(client_link_, out_, step);
    return Keyed::done;
  }
  if (row.state != KeyState::pending && history_may_differ(row)) return Keyed::waits;
  answer_settled(row, same, id_token, step);
  return Keyed::done;
}

// Its session is being rebuilt, with its history: the new epoch may have forgotten the prompt.
bool Edge::history_may_differ(const KeyRow& row) {
  return !is_settled() && reach_ != AgentReach::ending && !is_ready(row.session) && wants_replay(row.session);
}

// `same`: the request is the one that the key names.
void Edge::answer_settled(const KeyRow& row, bool same, std::string_view id_token, Step& step) {
  if (same) return answer_remembered(row, id_token, step);
  refuse(id_token, code::invalid_params, "key_reused",
         "Invalid params: this idempotencyKey already names another prompt of this session. Use a new key "
         "for a new prompt.",
         step);
}

// A retry that waited for the history and can wait no longer is answered with what is remembered. False if
// nothing is.
bool Edge::answer_retry(Pending& pending, Step& step) {
  if (!pending.is_retry) return false;
  const KeyRow* row = keys_.find({pending.session, pending.facts, {}, pending.key_hash, {}});
  if (row == nullptr || row->state == KeyState::pending) return false;
  answer_settled(*row, row->print == pending.print, pending.sender_id, step);
  remove_request(pending);
  return true;
}

// The history was read: the retry is looked at as if it came now.
void Edge::ask_again(Pending& pending, std::string_view text, Step& step) {
  remove_request(pending);
  on_client_request(scan_kept(text, step), step);
}

// The RFD's "A retry gets the original messageId and nothing else", or what else is known of it.
void Edge::answer_remembered(const KeyRow& row, std::string_view id_token, Step& step) {
  ++counters_.remembered;
  out_.clear();
  if (row.state == KeyState::inserted && !row.message_id.empty()) {
    out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"messageId\":{}}}}}\n", id_token,
                       row.message_id);
  } else if (row.state == KeyState::inserted) {
    append_error(
        out_, id_token,
        {.message =
             "This prompt was inserted before; the agent gave no messageId for it. It was not sent again.",
         .reason = "no_message_id",
         .outcome = rules::Outcome::inserted});
  } else {
    append_error(out_, id_token,
                 {.message = "The answer to this prompt was lost, and nothing tells whether it was inserted. "
                             "It was not sent again. Look at the "
                             "conversation; to submit it anew use a new key. If the agent honours keys "
                             "itself, start keyhop with --keys=forward.",
                  .reason = "outcome_unknown",
                  .outcome = rules::Outcome::unknown});
  }
  send_text(client_link_, out_, step);
}

void Edge::join(const KeyRow& row, const KeyTable::Scope& scope) {
  ++counters_.joined;
  Pending& waiter = open_request(*scope.facts, scope.session);
  waiter.state = PendingState::waiting;
  waiter.first = row.first;
  Pending& first = from_client_.at(row.first);
  if (first.last_waiter == Pending::no_row) {
    first.next_waiter = waiter.row;
  } else {
    from_client_.at(first.last_waiter).next_waiter = waiter.row;
  }
  first.last_waiter = waiter.row;
}

void Edge::settle_key_answered(Pending& pending) {
  if (pending.key == Pending::no_row) return;
  KeyRow& row = keys_.at(pending.key);
  pending.key = Pending::no_row;
  INVARIANT(row.state == KeyState::pending);
  row.first = Pending::no_row;
  if (!guards(*pending.facts)) return keys_.remove(row);
  if (envelope_.is_success()) {
    const bool named = envelope_.member(Slot::result_message_id).type == ValueType::string;
    return settle_key_inserted(row, named ? envelope_.raw(Slot::result_message_id) : std::string_view{});
  }
  // RFD: "Errors leave the key unused." But an error that another keyhop made further on says what is known:
  // only not_sent does.
  const bool is_keyhops = envelope_.member(Slot::error_data_source).type == ValueType::string &&
                          decoded(Slot::error_data_source, other_id_scratch_) == "keyhop";
  const bool unsent = envelope_.member(Slot::error_data_outcome).type == ValueType::string &&
                      decoded(Slot::error_data_outcome, other_id_scratch_) == "not_sent";
  const bool has_outcome = envelope_.has(Slot::error_data_outcome);
  if (is_keyhops && has_outcome && !unsent) {
    row.state = KeyState::unknown;
    save_row(row);
  } else {
    forget_row(row);
  }
}

// The agent said so, in an answer or in its history. `token`: the message's id, raw; empty if it gave none.
void Edge::settle_key_inserted(KeyRow& row, std::string_view token) {
  row.first = Pending::no_row;
  row.state = KeyState::inserted;
  row.message_id = token;
  save_row(row);
}

void Edge::settle_key_lost(Pending& pending, rules::Outcome outcome) {
  if (pending.key == Pending::no_row) return;
  KeyRow& row = keys_.at(pending.key);
  pending.key = Pending::no_row;
  row.first = Pending::no_row;
  if (guards(*pending.facts) && outcome != rules::Outcome::not_sent) {
    row.state = KeyState::unknown;
    save_row(row);
  } else {
    forget_row(row);
  }
}

}  // namespace acp
