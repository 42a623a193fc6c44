// Client to agent: what is wrong with a frame is answered here, what is right goes on.
#include <array>
#include <fmt/format.h>
#include <utility>

#include "proxy/core/beginning.h"
#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"

namespace acp {
namespace {

using rules::MethodId;

struct Refusal {
  int code;
  std::string_view reason;
  std::string_view message;
};

Refusal refusal_of(FrameFault fault) noexcept {
  switch (fault) {
    case FrameFault::not_json:
      return {code::parse_error, "not_json", "Parse error: this line is not valid JSON."};
    case FrameFault::not_utf8:
      return {code::parse_error, "not_utf8", "Parse error: this line is not valid UTF-8."};
    case FrameFault::too_deep:
      return {code::invalid_request, "too_deep", "Invalid request: nested deeper than 1024 levels."};
    case FrameFault::array:
      return {code::invalid_request, "batch",
              "Invalid request: batches (arrays) are not supported by ACP. Send each message on a line of "
              "its own."};
    case FrameFault::scalar:
      return {code::invalid_request, "not_an_object", "Invalid request: a message is a JSON object."};
    case FrameFault::none:  // is not refused
    case FrameFault::no_memory: break;
  }
  return {code::internal_error, "no_memory", "Out of memory while reading this line; it was not passed on."};
}

}  // namespace

void Edge::on_client_frame(const Frame& frame, Step& step) {
  ++counters_.frames_from_client;
  if (frame.kind == FrameKind::oversize) return refuse_oversize(frame, step);
  scanner_.scan(frame.text, envelope_);
  if (envelope_.fault != FrameFault::none) {
    if (frame.kind == FrameKind::unterminated) {
      ++counters_.refused;
      step.actions.log(LogLevel::warning, "the client's last line had no end and is no message: dropped");
      return;
    }
    const Refusal refusal = refusal_of(envelope_.fault);
    const bool deep = envelope_.fault == FrameFault::too_deep;
    const Beginning beginning = read_beginning(frame.text);
    fail_broken_answer(beginning, step);
    if (deep && beginning.method.empty() && beginning.has_result_or_error) {
      ++counters_.refused;
      return;  // an answer is never answered
    }
    // Where nesting is the only fault, the members before it can still be read.
    const bool certain = deep && !beginning.method.empty() && read_id(beginning.id, id_scratch_).usable();
    return refuse(certain ? beginning.id : std::string_view{}, refusal.code, refusal.reason, refusal.message,
                  step);
  }
  if (ledger_ != LedgerUse::none && defer(frame, step)) return;
  on_client_message(frame, step);
}

// The frame in the envelope, a JSON object.
void Edge::on_client_message(const Frame& frame, Step& step) {
  switch (envelope_.shape()) {
    case Shape::response: return on_client_answer(frame, step);
    case Shape::request:
    case Shape::notification:
    case Shape::nothing: break;
  }
  if (refuse_misshapen(step)) return;
  return envelope_.has(Slot::id) ? on_client_request(frame, step) : on_client_notification(frame, step);
}

// True if the frame is no request or notification that a peer must understand; then it was answered.
bool Edge::refuse_misshapen(Step& step) {
  const std::string_view token = envelope_.raw(Slot::id);
  const IdView id = read_id(token, id_scratch_);
  const bool certain = id.usable() && envelope_.member(Slot::id).copies == 1;
  const std::string_view answer_id = certain ? token : std::string_view{};
  const auto invalid = [&](std::string_view reason, std::string_view message) {
    refuse(answer_id, code::invalid_request, reason, message, step);
    return true;
  };
  if (id.type == IdType::unusable)
    return invalid("bad_id", "Invalid request: `id` must be a string, a number or null of sensible length.");
  if (envelope_.has_duplicates())
    return invalid("duplicate_member",
                   "Invalid request: a member occurs twice, and peers would read different values.");
  if (!envelope_.has_version()) return invalid("bad_version", "Invalid request: `jsonrpc` must be \"2.0\".");
  if (envelope_.member(Slot::method).type != ValueType::string)
    return invalid("no_method", "Invalid request: `method` must be a string.");
  if (version_ == rules::Version::v2 && id.type == IdType::number && !is_integer_id(id)) {
    // ACP v2: string or int64. An agent answers such a request under `id:null`, which would leave it open for
    // ever.
    refuse({}, code::invalid_request, "bad_id",
           "Invalid request: a number as `id` must be an integer in ACP v2.", step);
    return true;
  }
  return false;
}

void Edge::refuse(std::string_view id_token, const OwnError& error, Step& step) {
  ++counters_.refused;
  out_.clear();
  append_error(out_, id_token, error);
  send_text(client_link_, out_, step);
}

void Edge::refuse(std::string_view id_token, int error_code, std::string_view reason,
                  std::string_view message, Step& step) {
  refuse(id_token, {.code = error_code, .message = message, .reason = reason}, step);
}

void Edge::refuse_unsent(std::string_view id_token, std::string_view reason, std::string_view message,
                         Step& step) {
  refuse(id_token, {.message = message, .reason = reason, .outcome = rules::Outcome::not_sent}, step);
}

void Edge::refuse_oversize(const Frame& frame, Step& step) {
  const Beginning beginning = read_beginning(frame.text);
  fail_broken_answer(beginning, step);
  if (beginning.method.empty() && beginning.has_result_or_error) {
    ++counters_.refused;
    return step.actions.log(LogLevel::warning, "an answer of the client's is longer than --max-frame");
  }
  const bool usable = read_id(beginning.id, id_scratch_).usable();
  refuse(
      usable ? beginning.id : std::string_view{}, code::invalid_request, "frame_too_large",
      fmt::format("Invalid request: the message is longer than {} bytes (--max-frame). It was not passed on.",
                  settings_.frame_bytes_max),
      step);
}

// A component that was started again asks its successor to initialize, which did so long ago, or is at it.
// With something new to say it is a client's own second initialize, which v2 knows.
bool Edge::answer_initialize_again(const rules::MethodFacts& facts, Step& step) {
  if (facts.id != MethodId::initialize || !std::exchange(is_repeated_client_, false)) return false;
  if (!is_initialized()) {
    for (Pending* asked = from_client_.oldest(); asked != nullptr; asked = from_client_.after(*asked)) {
      if (asked->facts->id != MethodId::initialize || asked->state != PendingState::sent ||
          asked->stored.empty())
        continue;
      scanner_.scan(asked->stored_text(), stored_);
      if (stored_.raw(Slot::params) != envelope_.raw(Slot::params)) return false;
      from_client_.set_sender(*asked, envelope_.raw(Slot::id), read_id(envelope_.raw(Slot::id), id_scratch_));
      --unasked_;
      return true;
    }
    return false;
  }
  if (version_ == rules::Version::v2 && envelope_.raw(Slot::params) != initialize_params_) return false;
  out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}\n", envelope_.raw(Slot::id),
                     initialize_result_);
  send_text(client_link_, out_, step);
  return true;
}

// keyhop stands before an agent here: a conductor that takes it for a proxy is told so.
bool Edge::refuse_role(const rules::MethodFacts& facts, Step& step) {
  if (facts.id != MethodId::proxy_initialize && facts.id != MethodId::proxy_successor) return false;
  refuse(envelope_.raw(Slot::id), code::invalid_request, "wrong_role",
         "Invalid request: keyhop was started in front of an agent (keyhop -- AGENT) and is no proxy here. "
         "Use `initialize`, "
         "or start keyhop in the chain without an agent command.",
         step);
  return true;
}

void Edge::on_client_request(const Frame& frame, Step& step) {
  const rules::MethodFacts& facts = facts_for(rules::Sender::client, rules::MessageKind::request);
  const std::string_view id_token = envelope_.raw(Slot::id);
  asked_anything_ = true;
  if (answer_initialize_again(facts, step)) return;
  if (facts.id == MethodId::initialize) {
    initialize_asked_ = step.now;
    initialize_passed_ = false;
  }
  if (refuse_role(facts, step)) return;
  if (reach_ == AgentReach::gone) {
    INVARIANT(end_.has_value());
    const std::string message =
        fmt::format("The {}; this request was not sent.{}", describe(*end_), gone_advice_);
    out_.clear();
    append_error(
        out_, id_token,
        {.message = message, .reason = "agent_lost", .outcome = rules::Outcome::not_sent, .agent = &*end_});
    send_text(client_link_, out_, step);
    answered_gone_ = true;
    return;
  }
  if (from_client_.full()) {
    return refuse_unsent(
        id_token, "too_many_requests",
        "Too many requests are open; this one was not sent. Try again when some are answered.", step);
  }
  const std::uint32_t session = session_of(facts, true);
  note_traffic(session, step);
  const KeyedRequest keyed = on_keyed_request(facts, session, step);
  if (keyed.keyed == Keyed::done) return;
  Pending& pending = open_request(facts, session);
  if (keyed.keyed == Keyed::first) {
    KeyRow& row = keys_.add(keyed.scope, keyed.print);
    row.first = pending.row;
    pending.key = row.row;
  }
  if (session != SessionTable::none) note_client_frame(session);
  if (keyed.keyed == Keyed::waits) {
    pending.is_retry = true;
    pending.key_hash = keyed.scope.key_hash;
    pending.print = keyed.print;
    return hold(frame, session, &pending);
  }
  if (reads_before_resume(pending, step)) return hold(frame, session, &pending);
  dispatch(pending, frame, step);
}

// To the agent, or to wait for what it needs.
void Edge::dispatch(Pending& pending, const Frame& frame, Step& step) {
  if (reach_ == AgentReach::ending) {
    // Its last words may be its first answer to initialize: then another one follows after all.
    if (settings_.restarts) return hold(frame, pending.session, &pending);
    pending.state = PendingState::held;
    return;
  }
  if (!is_settled() && !is_ready(pending.session)) return hold(frame, pending.session, &pending);
  if (pending.session != SessionTable::none && needs_active_session(*pending.facts) &&
      try_restore_again(pending.session, step)) {
    return hold(frame, pending.session, &pending);
  }
  store(pending, frame);
  send_request(pending, frame, step);
}

Pending& Edge::open_request(const rules::MethodFacts& facts, std::uint32_t session) {
  const std::string_view token = envelope_.raw(Slot::id);
  Pending& pending = from_client_.add(token, read_id(token, id_scratch_));
  pending.facts = &facts;
  pending.session = session;
  if (session != SessionTable::none) {
    Session& row = sessions_.at(session);
    pending.session_updates = row.updates;
    if (facts.id == MethodId::session_prompt) ++row.open_prompts;
  }
  if (facts.effect == rules::SessionEffect::activates) ++open_replays_;
  if (facts.id == MethodId::initialize && version_ == rules::Version::unknown) {
    // Until the answer fixes it: what the client asks for is what it will use if it sends on without waiting.
    asked_ = version_of_token(envelope_.raw(Slot::params_protocol_version));
  }
  return pending;
}

// A request is about to be written: the guard first.
void Edge::begin_request(Pending& pending, Step& step) {
  frame_ticket_ = protect(pending, step);
  frame_session_ = pending.session;
  frame_pending_ = pending.row;
  if (pending.session != SessionTable::none) note_client_frame(pending.session);
  if (pending.reads_history) begin_replay(pending.session, pending.row);  // also when it is sent again
  const bool waits = frame_ticket_ != 0 || !outbox_.empty();
  pending.sent_at = waits ? Pending::waits_in_outbox : agent_bytes_;
}

void Edge::send_request(Pending& pending, const Frame& frame, Step& step) {
  begin_request(pending, step);
  const std::string_view token = envelope_.raw(Slot::id);
  const IdView id = read_id(token, id_scratch_);
  if (from_client_.by_wire_id(id) == nullptr) {
    from_client_.set_wire_id(pending, token, id);
    return pass_on(agent_link_, frame, step);
  }
  const std::string own = make_own_id();
  from_client_.set_wire_id(pending, own, read_id(own, id_scratch_));
  std::array<Splice, 1> splices{{{envelope_.member(Slot::id), own}}};
  pass_on_spliced(agent_link_, frame, splices, step);
}

void Edge::on_client_notification(const Frame& frame, Step& step) {
  const rules::MethodFacts& facts = facts_for(rules::Sender::client, rules::MessageKind::notification);
  if (facts.id == MethodId::cancel_request) return cancel_client_request(frame, step);
  const std::uint32_t session = session_of(facts, false);
  note_traffic(session, step);
  if (session != SessionTable::none) note_client_frame(session);
  const bool cancels = facts.id == MethodId::session_cancel;
  if (cancels && outbox_.is_slow()) retract_waiting(session, step);
  frame_session_ = session;
  if (is_settled() || reach_ == AgentReach::ending || reach_ == AgentReach::gone || is_ready(session)) {
    if (cancels) note_turn_cancelled(session);
    return pass_on(agent_link_, frame, step);
  }
  if (!cancels) return hold(frame, session, nullptr);
  const bool at_agent = session != SessionTable::none && cancel_held_prompts(session, step);
  if (at_agent) pass_on(agent_link_, frame, step);
}

// `$/cancel_request` names a request of this client's by the client's id; the agent knows it by the id on the
// wire, and of the duplicates of a key it knows one request only. It is told once for a key: its answer
// settles all of them (RFD).
void Edge::cancel_client_request(const Frame& frame, Step& step) {
  const std::string_view token = envelope_.raw(Slot::params_request_id);
  const IdView id = read_id(token, id_scratch_);
  if (!id.usable()) return pass_on(agent_link_, frame, step);  // for the agent to ignore
  Pending* pending = from_client_.by_sender_id(id);
  if (pending != nullptr && pending->state == PendingState::waiting)
    pending = &from_client_.at(pending->first);
  if (pending == nullptr && cancel_deferred(id, step)) return;
  if (pending == nullptr) {
    ++counters_.dropped;
    step.actions.log(LogLevel::debug, "a cancel of a request that is not open: dropped");
    return;
  }
  // Waiting for a ledger that takes its time: then the cancel does not wait behind it.
  const bool stuck = pending->sent_at == Pending::waits_in_outbox && outbox_.is_slow();
  if (pending->state == PendingState::held || (stuck && reach_ == AgentReach::open))
    return answer_cancelled(*pending, true, step);
  if (is_lost(*pending)) {
    pending->state = PendingState::lost_cancelling;  // nobody there to tell; it will not be sent again
    return;
  }
  const bool again = pending->state == PendingState::cancelling;
  pending->state = PendingState::cancelling;
  if (again && pending->key != Pending::no_row) return;
  frame_session_ = pending->session;
  if (pending->wire_id == token) return pass_on(agent_link_, frame, step);
  std::array<Splice, 1> splices{{{envelope_.member(Slot::params_request_id), pending->wire_id}}};
  pass_on_spliced(agent_link_, frame, splices, step);
}

void Edge::on_client_answer(const Frame& frame, Step& step) {
  const std::string_view token = envelope_.raw(Slot::id);
  const IdView id = read_id(token, id_scratch_);
  Pending* pending = id.usable() ? from_agent_.by_wire_id(id) : nullptr;
  if (pending == nullptr && !envelope_.has(Slot::result) && !envelope_.has(Slot::error)) {
    refuse_misshapen(step);  // nothing but an id: no answer, and no method
    return;
  }
  if (pending == nullptr) {
    ++counters_.dropped;
    step.actions.log(LogLevel::debug, "an answer of the client's that no open request asked for: dropped");
    return;
  }
  if (!envelope_.is_sound_response()) return fail_clients_answer(*pending, step);
  note_traffic(pending->session, step);
  frame_session_ = pending->session;
  if (pending->wire_id == pending->sender_id) {
    pass_on(agent_link_, frame, step);
  } else {
    std::array<Splice, 1> splices{{{envelope_.member(Slot::id), pending->sender_id}}};
    pass_on_spliced(agent_link_, frame, splices, step);
  }
  from_agent_.remove(*pending);
}

// A line that cannot be read as a whole but begins as the answer to an open request of the agent's.
void Edge::fail_broken_answer(const Beginning& beginning, Step& step) {
  if (!beginning.is_answer()) return;
  if (Pending* asked = from_agent_.by_wire_id(read_id(beginning.id, id_scratch_)))
    fail_clients_answer(*asked, step);
}

// The agent waits for an answer that nobody will send again: it gets an error in its place.
void Edge::fail_clients_answer(Pending& pending, Step& step) {
  step.actions.log(LogLevel::warning,
                   "the client's answer to an open request of the agent's could not be read");
  out_.clear();
  append_error(out_, pending.sender_id,
               {.message = "The client's answer could not be read.", .reason = "malformed_answer"});
  send_text(agent_link_, out_, step);
  from_agent_.remove(pending);
}

}  // namespace acp
