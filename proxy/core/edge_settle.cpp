// How requests end: by the agent's answer, by its end, or by its silence. Each exactly once, for everyone who
// waits.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"

namespace acp {
namespace {

using rules::MethodId;

}  // namespace

bool Edge::has_progress(const Pending& pending) noexcept {
  if (is_lost(pending) || pending.had_progress)
    return pending.had_progress;  // a restore's news are not its own
  return pending.session != SessionTable::none &&
         sessions_.at(pending.session).updates != pending.session_updates;
}

void Edge::remove_request(Pending& pending) noexcept {
  if (pending.sender_id.empty()) --unasked_;
  if (pending.state != PendingState::abandoned && pending.session != SessionTable::none &&
      pending.facts->id == MethodId::session_prompt) {
    --sessions_.at(pending.session).open_prompts;
  }
  if (pending.facts->effect == rules::SessionEffect::activates) --open_replays_;
  if (pending.sent_at == Pending::waits_in_outbox) outbox_.drop(pending.row);
  if (pending.place != 0 && pending.is_unkeyed) --sessions_.at(pending.session).open_unkeyed;
  stored_bytes_ -= pending.stored.size();
  from_client_.remove(pending);
}

// The agent's answer, under every id that waits for it, side by side: the first one, then its duplicates in
// order.
void Edge::answer_all(Pending& pending, const Frame& frame, Step& step) {
  note_newer_change(pending);
  if (pending.reads_history && !envelope_.is_success()) end_replay(pending.session, pending.row);
  if (envelope_.is_success()) take_effect(pending, step);
  note_answer(pending);
  settle_key_answered(pending);
  retry_is_due_ = retry_is_due_ || pending.facts->id == MethodId::initialize;
  const Member& id = envelope_.member(Slot::id);
  bool as_it_came = pending.wire_id == pending.sender_id;  // the first one only
  answer_each(pending, [&](std::string_view id_token) {
    if (std::exchange(as_it_came, false) || id_token == envelope_.raw(Slot::id))
      return pass_on(client_link_, frame, step);
    std::array<Splice, 1> splices{{{id, id_token}}};
    pass_on_spliced(client_link_, frame, splices, step);
  });
}

// An error of keyhop's own for a request and all that wait beside it.
void Edge::fail_all(Pending& pending, const OwnError& error, Step& step) {
  if (answer_retry(pending, step)) return;
  if (error.outcome == rules::Outcome::unknown) note_lost_prompt(pending);
  settle_key_lost(pending, error.outcome);
  answer_each(pending, [&](std::string_view id_token) {
    out_.clear();
    append_error(out_, id_token, error);
    send_text(client_link_, out_, step);
  });
}

// What a success tells about sessions and the protocol version.
void Edge::take_effect(const Pending& pending, Step& step) {
  const auto set_state = [this](std::uint32_t session, SessionState state) {
    if (session != SessionTable::none) sessions_.at(session).state = state;
  };
  switch (pending.facts->effect) {
    case rules::SessionEffect::opens:
      if (envelope_.member(Slot::result_session_id).type == ValueType::string) {
        const std::uint32_t opened = sessions_.intern(decoded(Slot::result_session_id, session_scratch_));
        set_state(opened, SessionState::active);
        learn_session(pending, opened);
        // A new session of an old name shares nothing with it.
        if (pending.facts->id == MethodId::session_new && opened != SessionTable::none) {
          forget_session(opened, step);
          sessions_.at(opened).history.reset();
          sessions_.at(opened).history.set_complete(true);
          sessions_.at(opened).ledger = LedgerReading::read;
          sessions_.at(opened).needs_reading = false;
        }
      }
      break;
    case rules::SessionEffect::activates:
      set_state(pending.session, SessionState::active);
      learn_session(pending, pending.session);
      if (pending.reads_history) conclude_replay(pending.session, pending.row);
      break;
    case rules::SessionEffect::closes:
    case rules::SessionEffect::archives: set_state(pending.session, SessionState::inactive); break;
    case rules::SessionEffect::deletes:
      set_state(pending.session, SessionState::inactive);
      if (pending.session != SessionTable::none) forget_session(pending.session, step);
      break;
    case rules::SessionEffect::prompts:
      // Taken in, hence active; but an answer that comes after the session was closed opens nothing.
      if (pending.session != SessionTable::none &&
          sessions_.at(pending.session).state == SessionState::mentioned) {
        set_state(pending.session, SessionState::active);
      }
      break;
    case rules::SessionEffect::sets: learn_values(pending); break;
    case rules::SessionEffect::none:
    case rules::SessionEffect::cancels:
    case rules::SessionEffect::reports: break;
  }
  if (pending.facts->id == MethodId::authenticate) restore_after_login(step);
  if (pending.facts->id == MethodId::initialize &&
      envelope_.member(Slot::result_protocol_version).type == ValueType::number) {
    version_ = version_of_token(envelope_.raw(Slot::result_protocol_version));
    const bool first = agent_name_.empty();
    const bool named = first && envelope_.member(Slot::result_info_name).type == ValueType::string;
    if (named) agent_name_ = decoded(Slot::result_info_name, other_id_scratch_);
    if (agent_name_.empty()) agent_name_ = settings_.agent_command;
    learn_initialize(pending);
  }
}

void Edge::settle_one(Pending& pending, const AgentEnd& end, Step& step) {
  const rules::Decision decision = rules::decide(loss_of(pending, false));
  const std::string message =
      describe_loss(decision, pending.facts->effect == rules::SessionEffect::prompts, end);
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
  outbox_.clear();
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->sent_at != Pending::waits_in_outbox) continue;
    if (pending->state == PendingState::sent) pending->state = PendingState::held;  // it never left
    pending->sent_at = 0;
  }
  while (Pending* pending = from_client_.oldest()) {
    INVARIANT(pending->state !=
              PendingState::waiting);  // it is younger than what it waits beside, and leaves with that
    if (pending->state == PendingState::abandoned) {
      remove_request(*pending);
    } else {
      settle_one(*pending, end, step);
    }
  }
  held_.clear();
  held_bytes_ = 0;
  cancel_open_agent_requests(step);
  reach_ = AgentReach::gone;
  end_ = end;
  retry_deferred(step);  // what was not looked at is told the same
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
  frame_session_ = session;  // behind a prompt of it that waits for its commit
  send_text(agent_link_, out_, step);
  for (Pending* pending = from_client_.oldest(); pending != nullptr;) {
    Pending* const next = from_client_.after(*pending);
    const bool due = pending->session == session && pending->facts->id == MethodId::session_prompt &&
                     pending->state != PendingState::abandoned && !is_kept(*pending);
    if (due) give_up(*pending, step);
    pending = next;
  }
}

// It will be sent once its session is restored, which has times of its own; or it joins one that will.
bool Edge::is_kept(const Pending& pending) {
  const std::uint32_t row = pending.state == PendingState::waiting ? pending.first : pending.row;
  return std::any_of(held_.begin(), held_.end(), [row](const Held& held) { return held.pending == row; });
}

// The sender gets its error now; the row stays until the agent's late answer, which is dropped.
void Edge::give_up(Pending& pending, Step& step) {
  const bool waits = pending.state == PendingState::waiting;
  const bool is_asked = !pending.sender_id.empty();
  out_.clear();
  append_error(out_, pending.sender_id,
               {.message = "The agent was silent for longer than --silence-timeout; it was asked to cancel. "
                           "Whether the prompt was taken in is unknown.",
                .reason = "silence_timeout",
                .outcome = rules::Outcome::unknown,
                .progress = has_progress(pending)});
  if (is_asked) send_text(client_link_, out_, step);
  if (waits) return remove_request(pending);
  note_lost_prompt(pending);
  settle_key_lost(pending, rules::Outcome::unknown);
  --sessions_.at(pending.session).open_prompts;
  pending.next_waiter = pending.last_waiter =
      Pending::no_row;  // they are given up one by one, all of this session
  from_client_.forget_sender(pending);
  pending.state = PendingState::abandoned;
  unasked_ += is_asked ? 1 : 0;
}

void Edge::replace_client(Step& step) {
  is_repeated_client_ = true;
  client_framer_ = Framer(settings_.frame_bytes_max);
  deferred_.clear();
  deferred_bytes_ = 0;
  std::vector<std::uint32_t> waiting;
  std::vector<std::uint32_t> held;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    pending->next_waiter = pending->last_waiter = Pending::no_row;
    if (pending->state == PendingState::waiting) {
      waiting.push_back(pending->row);
    } else if (pending->state == PendingState::held) {
      held.push_back(pending->row);
    } else if (!pending->sender_id.empty()) {
      from_client_.forget_sender(*pending);
      ++unasked_;
    }
  }
  for (const std::uint32_t row : waiting) remove_request(from_client_.at(row));
  for (const std::uint32_t row : held) {
    Pending& pending = from_client_.at(row);
    settle_key_lost(pending, rules::Outcome::not_sent);
    remove_request(pending);
  }
  held_.clear();  // and notifications, which died with it
  held_bytes_ = 0;
  while (Pending* asked = from_agent_.oldest()) {
    out_.clear();
    append_error(out_, asked->sender_id,
                 {.message = "The component that this was asked of has died; whether it did it is unknown.",
                  .reason = "client_lost",
                  .outcome = rules::Outcome::unknown});
    send_text(agent_link_, out_, step);
    from_agent_.remove(*asked);
  }
}

}  // namespace acp
