// Frames that wait for a restore, and what becomes of requests whose agent went away.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

using rules::MethodId;

}  // namespace

// What a session that could not be restored cannot do.
bool Edge::needs_active_session(const rules::MethodFacts& facts) noexcept {
  return facts.effect == rules::SessionEffect::prompts || facts.effect == rules::SessionEffect::sets;
}

bool Edge::has_held_requests() const noexcept {
  if (!deferred_.empty()) return true;
  return std::any_of(held_.begin(), held_.end(),
                     [](const Held& held) { return held.pending != Pending::no_row; });
}

// Nothing of its session's restore is outstanding; without a session, the epoch's initialize.
bool Edge::is_ready(std::uint32_t session) const {
  if (reach_ == AgentReach::lost || epoch_state_ == EpochState::initializing ||
      epoch_state_ == EpochState::failed)
    return false;
  if (session == SessionTable::none) return true;
  switch (sessions_.at(session).restore) {
    case Restore::due:
    case Restore::asked:
    case Restore::setting: return false;
    case Restore::none:
    case Restore::done:
    case Restore::refused:
    case Restore::refused_for_good:
    case Restore::needs_login: break;
  }
  return true;
}

void Edge::hold(const Frame& frame, std::uint32_t session, Pending* pending) {
  const std::uint32_t row = pending == nullptr ? Pending::no_row : pending->row;
  held_.push_back({session, row, std::string(frame.text)});
  held_bytes_ += frame.text.size();
  if (pending != nullptr) pending->state = PendingState::held;
}

// Keeps a request's bytes for a second try.
void Edge::store(Pending& pending, const Frame& frame) {
  // A component that does not understand its role is started afresh in any case (Relay::start_afresh).
  const bool may_be_misasked = settings_.is_inner && !is_initialized();
  // Its answer is remembered for a client that is started again (answer_initialize_again).
  const bool is_initialize = pending.facts->id == MethodId::initialize;
  if (!settings_.restarts && !may_be_misasked && !is_initialize) return;
  if (stored_bytes_ + frame.text.size() > limits::stored_bytes_max) return;
  pending.stored.assign(frame.text).append(limits::padding_bytes, ' ');
  stored_bytes_ += pending.stored.size();
}

// A frame in memory that outlives the step, as the scanner wants it.
Frame Edge::padded_copy(std::string_view text, Step& step) {
  std::string bytes;
  bytes.reserve(text.size() + 1 + limits::padding_bytes);
  bytes.append(text).push_back('\n');
  bytes.append(limits::padding_bytes, ' ');
  const std::string_view copy = step.actions.arena().add(bytes);
  return {FrameKind::whole, copy.substr(0, text.size()), copy.substr(0, text.size() + 1)};
}

// A kept frame is the frame at hand again.
Frame Edge::scan_kept(std::string_view text, Step& step) {
  const Frame frame = padded_copy(text, step);
  scanner_.scan(frame.text, envelope_);
  INVARIANT(envelope_.fault == FrameFault::none);  // it was scanned when it came
  return frame;
}

// Writes a request that was held or lost, for the first time or again.
void Edge::send_stored(Pending& pending, std::string_view bytes, Step& step) {
  const Frame frame = scan_kept(bytes, step);
  pending.state = PendingState::sent;
  pending.replay_shown = false;
  if (pending.session != SessionTable::none) pending.session_updates = sessions_.at(pending.session).updates;
  if (pending.wire_id.empty()) {
    store(pending, frame);
    send_request(pending, frame, step);
  } else if (begin_request(pending, step); pending.wire_id == pending.sender_id) {
    pass_on(agent_link_, frame, step);
  } else {
    std::array<Splice, 1> splices{{{envelope_.member(Slot::id), pending.wire_id}}};
    pass_on_spliced(agent_link_, frame, splices, step);
  }
  note_traffic(pending.session, step);
}

// Lost requests first, in their original order, then what was held, in its own.
void Edge::release(Step& step) {
  settle_ready(step);
  std::deque<Held> waiting;
  waiting.swap(held_);
  held_bytes_ = 0;
  while (!waiting.empty()) {
    Held held = std::move(waiting.front());
    waiting.pop_front();
    if (is_ready(held.session)) {
      release_one(held, step);
    } else {
      held_bytes_ += held.frame.size();
      held_.push_back(std::move(held));
    }
  }
}

void Edge::release_one(Held& held, Step& step) {
  frame_session_ = held.session;
  if (held.pending == Pending::no_row) return pass_on(agent_link_, padded_copy(held.frame, step), step);
  Pending& pending = from_client_.at(held.pending);
  if (pending.is_retry) return ask_again(pending, held.frame, step);
  const bool refused = held.session != SessionTable::none && needs_active_session(*pending.facts) &&
                       !sessions_.at(held.session).refusal.empty();
  if (!refused) {
    send_stored(pending, held.frame, step);
    return;
  }
  // The agent's own error, unchanged.
  settle_key_lost(pending, rules::Outcome::not_sent);
  answer_each(pending, [&](std::string_view id_token) {
    out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}}\n", id_token,
                       sessions_.at(held.session).refusal);
    send_text(client_link_, out_, step);
  });
}

rules::Loss Edge::loss_of(const Pending& pending, bool restarts) const {
  const bool cancelling =
      pending.state == PendingState::cancelling || pending.state == PendingState::lost_cancelling;
  rules::Loss loss;
  loss.retry_class = pending.facts->retry_class;
  loss.point = pending.state == PendingState::held ? rules::LossPoint::held
               : cancelling                        ? rules::LossPoint::cancelling
                                                   : rules::LossPoint::sent;
  if (pending.key != Pending::no_row) {
    loss.key = guards(*pending.facts) ? rules::KeyCare::guarded : rules::KeyCare::forwarded;
  }
  loss.restarts = restarts;
  loss.client_gone = client_gone_;
  loss.repeated_initialize = pending.facts->id == MethodId::initialize && is_initialized();
  loss.newer_change_answered = pending.newer_change_answered;
  loss.replay_shown = pending.replay_shown;
  loss.recover_prompt = settings_.recover_prompts && pending.is_unkeyed;
  return loss;
}

// Every lost request whose session is ready, in order of arrival.
void Edge::settle_ready(Step& step) {
  std::vector<std::uint32_t> lost;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (is_lost(*pending) && is_ready(pending->session)) lost.push_back(pending->row);
  }
  for (const std::uint32_t row : lost) settle_lost_one(from_client_.at(row), step);
}

// What a dead proxy had of the cancellation may be lost, though the agent behind it lives and works on: then
// no later prompt of the session would ever have its turn.
void Edge::cancel_behind(const Pending& pending, Step& step) {
  const bool concerns = settings_.is_inner && pending.state == PendingState::lost_cancelling &&
                        pending.facts->id == MethodId::session_prompt &&
                        pending.session != SessionTable::none;
  if (!concerns) return;
  for (Pending* other = from_client_.oldest(); other != nullptr; other = from_client_.after(*other)) {
    const bool is_wanted =
        other->session == pending.session && other->facts->id == MethodId::session_prompt &&
        other->state != PendingState::lost_cancelling && other->state != PendingState::held;
    if (is_wanted) return;  // session/cancel would end that, too
  }
  out_ = R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":)";
  append_json_string(out_, sessions_.at(pending.session).id);
  out_ += "}}\n";
  frame_session_ = pending.session;
  send_text(agent_link_, out_, step);
}

void Edge::settle_lost_one(Pending& pending, Step& step) {
  cancel_behind(pending, step);
  rules::Decision decision = rules::decide(loss_of(pending, true));
  std::string_view reason = rules::to_string(decision.reason);
  INVARIANT(decision.verdict != rules::Verdict::send);  // only what is held
  INVARIANT(decision.verdict != rules::Verdict::drop);  // without a client nothing is restored
  if (decision.verdict == rules::Verdict::resend) {
    if (is_orphan(pending)) return remove_request(pending);
    if (!pending.stored.empty()) {
      step.actions.log(LogLevel::info, fmt::format("{}: sent again ({})", pending.facts->method,
                                                   rules::to_string(pending.facts->retry_class)));
      ++counters_.sent_again;
      return send_stored(pending, pending.stored_text(), step);
    }
    decision = {rules::Verdict::fail, rules::Outcome::unknown, rules::Reason::agent_lost,
                code::internal_error};
    reason = "too_large_to_keep";
  } else if (decision.verdict == rules::Verdict::resolve) {
    if (settle_resolved(pending, step)) return;
    decision.code =
        pending.state == PendingState::lost_cancelling ? code::request_cancelled : code::internal_error;
    decision.outcome = rules::Outcome::unknown;
    reason = "outcome_unknown";
  }
  const std::string_view refusal =
      pending.session == SessionTable::none ? std::string_view{} : sessions_.at(pending.session).refusal;
  const bool too_late = refusal == restore_timeout_error;
  if (too_late && decision.code == code::internal_error) reason = "restore_timeout";
  INVARIANT(end_.has_value());
  std::string message =
      describe_loss(decision, pending.facts->effect == rules::SessionEffect::prompts, *end_);
  if (decision.verdict == rules::Verdict::resolve && pending.key != Pending::no_row)
    message += " If the agent honours keys itself, start keyhop with --keys=forward.";
  step.actions.log(LogLevel::info,
                   fmt::format("{}: answered with an error ({})", pending.facts->method, reason));
  fail_all(pending,
           {.code = decision.code,
            .message = message,
            .reason = reason,
            .outcome = decision.outcome,
            .progress = has_progress(pending),
            .agent = &*end_,
            .agent_error = too_late ? std::string_view{} : refusal},
           step);
}

// `session/cancel` goes to the agent behind the session's prompts: should it die before it answers them, they
// are not sent again.
void Edge::note_turn_cancelled(std::uint32_t session) {
  if (session == SessionTable::none || sessions_.at(session).open_prompts == 0) return;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    const bool prompt = pending->session == session && pending->facts->id == MethodId::session_prompt;
    if (prompt && pending->state == PendingState::sent) pending->turn_cancelled = true;
  }
}

// `session/cancel` while its session is rebuilt: there is nothing to cancel at the agent. What was lost will
// not be sent again, what waits is answered now. True if the living agent has a prompt of it all
// the same: one that was passed on after the session had been refused.
bool Edge::cancel_held_prompts(std::uint32_t session, Step& step) {
  bool at_agent = false;
  std::vector<std::uint32_t> held;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->session != session || pending->facts->id != MethodId::session_prompt) continue;
    if (pending->state == PendingState::lost) pending->state = PendingState::lost_cancelling;
    if (pending->state == PendingState::held) held.push_back(pending->row);
    if (pending->state != PendingState::sent) continue;
    if (reach_ == AgentReach::lost) pending->state = PendingState::cancelling;  // its epoch is being ended
    at_agent = at_agent || reach_ != AgentReach::lost;
  }
  for (const std::uint32_t row : held) answer_cancelled(from_client_.at(row), false, step);
  return at_agent;
}

// A held request that the client cancelled: it never left. `by_request`: $/cancel_request did it; else it is
// a prompt, and session/cancel did. v1 ends a turn that session/cancel ended with a result, not with an error
// (ACP).
void Edge::answer_cancelled(Pending& pending, bool by_request, Step& step) {
  std::erase_if(held_, [&](const Held& held) {
    if (held.pending != pending.row) return false;
    held_bytes_ -= held.frame.size();
    return true;
  });
  if (by_request || version() != rules::Version::v1) {
    return fail_all(pending,
                    {.code = code::request_cancelled,
                     .message = "Cancelled before it was sent.",
                     .reason = "cancelled",
                     .outcome = rules::Outcome::not_sent},
                    step);
  }
  settle_key_lost(pending, rules::Outcome::not_sent);
  answer_each(pending, [&](std::string_view id_token) {
    out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"stopReason\":\"cancelled\"}}}}\n",
                       id_token);
    send_text(client_link_, out_, step);
  });
}

}  // namespace acp
