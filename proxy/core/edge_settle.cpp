// How requests end: by the agent's answer, by its end, or by its silence. Each exactly once, for everyone who
// waits.
#include <array>
#include <fmt/format.h>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"

namespace acp {
namespace {

using rules::MethodId;

// What the client is told when the agent ended before it answered. Who, how, was it sent, what now.
std::string lost_message(const rules::Decision& decision, const Pending& pending, const AgentEnd& end) {
  const std::string agent = describe(end);
  if (decision.reason == rules::Reason::cancelled)
    return fmt::format("Cancelled; the agent {} before it confirmed that.", agent);
  if (decision.outcome == rules::Outcome::not_sent)
    return fmt::format("The agent {}; this request had not been sent to it.", agent);
  if (pending.facts->id == MethodId::session_prompt) {
    return fmt::format(
        "The agent {} before it answered. Whether the prompt was taken in is unknown: look at the "
        "conversation before sending it again.",
        agent);
  }
  return fmt::format("The agent {} before it answered. Whether the request took effect is unknown.", agent);
}

rules::LossPoint loss_point(PendingState state) noexcept {
  switch (state) {
    case PendingState::held: return rules::LossPoint::held;
    case PendingState::cancelling: return rules::LossPoint::cancelling;
    case PendingState::sent:
    case PendingState::waiting:
    case PendingState::abandoned: return rules::LossPoint::sent;
  }
  return rules::LossPoint::sent;
}

}  // namespace

bool Edge::has_progress(const Pending& pending) noexcept {
  return pending.session != SessionTable::none &&
         sessions_.at(pending.session).updates != pending.session_updates;
}

void Edge::remove_request(Pending& pending) noexcept {
  if (pending.state == PendingState::abandoned) {
    --abandoned_;
  } else if (pending.session != SessionTable::none && pending.facts->id == MethodId::session_prompt) {
    --sessions_.at(pending.session).open_prompts;
  }
  from_client_.remove(pending);
}

// The agent's answer, under every id that waits for it, side by side: the first one, then its duplicates in
// order.
void Edge::answer_all(Pending& pending, const Frame& frame, Step& step) {
  if (envelope_.is_success()) take_effect(pending);
  settle_key_answered(pending);
  const Member& id = envelope_.member(Slot::id);
  if (pending.wire_id == pending.sender_id || pending.sender_id == envelope_.raw(Slot::id)) {
    pass_on(client_link_, frame, step);
  } else {
    std::array<Splice, 1> splices{{{id, pending.sender_id}}};
    pass_on_spliced(client_link_, frame, splices, step);
  }
  for (std::uint32_t row = pending.next_waiter; row != Pending::no_row;) {
    Pending& waiter = from_client_.at(row);
    row = waiter.next_waiter;
    std::array<Splice, 1> splices{{{id, waiter.sender_id}}};
    pass_on_spliced(client_link_, frame, splices, step);
    remove_request(waiter);
  }
  remove_request(pending);
}

// An error of keyhop's own for a request and all that wait beside it.
void Edge::fail_all(Pending& pending, const OwnError& error, Step& step) {
  settle_key_lost(pending, error.outcome);
  const auto fail = [&](std::string_view id_token) {
    out_.clear();
    append_error(out_, id_token, error);
    send_text(client_link_, out_, step);
  };
  fail(pending.sender_id);
  for (std::uint32_t row = pending.next_waiter; row != Pending::no_row;) {
    Pending& waiter = from_client_.at(row);
    row = waiter.next_waiter;
    fail(waiter.sender_id);
    remove_request(waiter);
  }
  remove_request(pending);
}

// What a success tells about sessions and the protocol version.
void Edge::take_effect(const Pending& pending) {
  const auto set_state = [this](std::uint32_t session, SessionState state) {
    if (session != SessionTable::none) sessions_.at(session).state = state;
  };
  switch (pending.facts->effect) {
    case rules::SessionEffect::opens:
      if (envelope_.member(Slot::result_session_id).type == ValueType::string) {
        const std::uint32_t opened = sessions_.intern(decoded(Slot::result_session_id, session_scratch_));
        set_state(opened, SessionState::active);
        // A new session of an old name shares nothing with it (design §6.4).
        if (pending.facts->id == MethodId::session_new && opened != SessionTable::none)
          keys_.remove_settled_of(opened);
      }
      break;
    case rules::SessionEffect::activates: set_state(pending.session, SessionState::active); break;
    case rules::SessionEffect::closes:
    case rules::SessionEffect::archives: set_state(pending.session, SessionState::inactive); break;
    case rules::SessionEffect::deletes:
      set_state(pending.session, SessionState::inactive);
      if (pending.session != SessionTable::none) keys_.remove_settled_of(pending.session);
      break;
    case rules::SessionEffect::prompts:
      // Taken in, hence active; but an answer that comes after the session was closed opens nothing.
      if (pending.session != SessionTable::none &&
          sessions_.at(pending.session).state == SessionState::mentioned) {
        set_state(pending.session, SessionState::active);
      }
      break;
    case rules::SessionEffect::none:
    case rules::SessionEffect::cancels:
    case rules::SessionEffect::sets:
    case rules::SessionEffect::reports: break;
  }
  if (pending.facts->id == MethodId::initialize &&
      envelope_.member(Slot::result_protocol_version).type == ValueType::number) {
    const std::string_view token = envelope_.raw(Slot::result_protocol_version);
    version_ = token == "1" || token == "0" ? rules::Version::v1 : rules::Version::v2;
  }
}

void Edge::settle_one(Pending& pending, const AgentEnd& end, Step& step) {
  const rules::Decision decision = rules::decide({
      .retry_class = pending.facts->retry_class,
      .point = loss_point(pending.state),
      .key = pending.key == Pending::no_row ? rules::KeyCare::none
             : guards(*pending.facts)       ? rules::KeyCare::guarded
                                            : rules::KeyCare::forwarded,
      .restarts = false,
      .client_gone = client_gone_,
  });
  const std::string message = lost_message(decision, pending, end);
  const std::string_view reason = rules::to_string(decision.reason);
  // A dropped one is owed no answer; failing it sends none, since its client is gone.
  INVARIANT(decision.verdict == rules::Verdict::fail || decision.verdict == rules::Verdict::drop);
  fail_all(pending,
           {.code = decision.code,
            .message = message,
            .reason = reason,
            .outcome = decision.verdict == rules::Verdict::drop ? rules::Outcome::unknown : decision.outcome,
            .progress = has_progress(pending),
            .agent = &end},
           step);
}

void Edge::settle_lost(const AgentEnd& end, Step& step) {
  while (Pending* pending = from_client_.oldest()) {
    INVARIANT(pending->state !=
              PendingState::waiting);  // it is younger than what it waits beside, and leaves with that
    if (pending->state == PendingState::abandoned) {
      remove_request(*pending);
    } else {
      settle_one(*pending, end, step);
    }
  }
  cancel_open_agent_requests(step);
  reach_ = AgentReach::gone;
  end_ = end;
}

// Whatever the dead agent asked is moot: the client is told once for each, and a late answer goes nowhere.
void Edge::cancel_open_agent_requests(Step& step) {
  while (Pending* pending = from_agent_.oldest()) {
    if (pending->state != PendingState::cancelling) {
      out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\",\"params\":{{\"requestId\":{}}}}}\n",
                         rules::name_of(MethodId::cancel_request), pending->wire_id);
      send_text(client_link_, out_, step);
    }
    from_agent_.remove(*pending);
  }
}

// --silence-timeout: the agent is asked once to stop, the open prompts get their one error, late answers are
// dropped.
void Edge::fail_silent_prompts(std::uint32_t session, Step& step) {
  step.actions.log(LogLevel::warning,
                   "a session was silent for longer than --silence-timeout: its open prompts are given up");
  out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\",\"params\":{{\"sessionId\":",
                     rules::name_of(MethodId::session_cancel));
  append_json_string(out_, sessions_.at(session).id);
  out_ += "}}\n";
  send_text(agent_link_, out_, step);
  for (Pending* pending = from_client_.oldest(); pending != nullptr;) {
    Pending* const next = from_client_.after(*pending);
    const bool due = pending->session == session && pending->facts->id == MethodId::session_prompt &&
                     pending->state != PendingState::abandoned;
    if (due) give_up(*pending, step);
    pending = next;
  }
}

// The sender gets its error now; the row stays until the agent's late answer, which is dropped.
void Edge::give_up(Pending& pending, Step& step) {
  const bool waits = pending.state == PendingState::waiting;
  out_.clear();
  append_error(out_, pending.sender_id,
               {.message = "The agent was silent for longer than --silence-timeout; it was asked to cancel. "
                           "Whether the prompt was taken in is unknown.",
                .reason = "silence_timeout",
                .outcome = rules::Outcome::unknown,
                .progress = has_progress(pending)});
  send_text(client_link_, out_, step);
  if (waits) return remove_request(pending);
  settle_key_lost(pending, rules::Outcome::unknown);
  if (pending.session != SessionTable::none) --sessions_.at(pending.session).open_prompts;
  pending.next_waiter = pending.last_waiter =
      Pending::no_row;  // they are given up one by one, all of this session
  from_client_.abandon(pending);
  ++abandoned_;
}

}  // namespace acp
