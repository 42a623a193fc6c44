// A new epoch is told what the old one knew: initialize, every active session, every value that was set.
//
// Requests of keyhop's own; their answers never reach the client. A session's frames wait for its own restore
// only.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "rules/updates.h"

namespace acp {
namespace {

using rules::MethodId;

constexpr Duration retry_pause = std::chrono::seconds(10);  // between restores of a session that was refused

std::string_view trimmed_type(std::string_view value, rules::Version version) noexcept {
  const bool flag = value == "true" || value == "false";
  if (version == rules::Version::v2) return flag ? "\"boolean\"" : "\"id\"";
  return flag ? "\"boolean\""
              : std::string_view{};  // v1: the type is optional and means boolean where it stands
}

}  // namespace

void Edge::lose_epoch(const AgentEnd& end, std::size_t unwritten, Step& step) {
  end_ = end;
  reach_ = AgentReach::lost;
  const std::uint64_t taken = agent_bytes_ - std::min<std::uint64_t>(agent_bytes_, unwritten);
  std::vector<Held> never_left;
  std::vector<std::uint32_t> cancelled;  // of those
  repeated_initialize_ = Pending::no_row;
  own_.clear();
  for (Pending* pending = from_client_.oldest(); pending != nullptr;) {
    Pending* const next = from_client_.after(*pending);
    // Not one byte of it was ever taken: it waits like any that came later.
    const bool unsent =
        is_at_agent(*pending) && !pending->was_taken && pending->sent_at >= taken && !pending->stored.empty();
    pending->had_progress = has_progress(*pending);
    if (pending->state == PendingState::sent && pending->turn_cancelled)
      pending->state = PendingState::cancelling;
    if (pending->sender_id.empty() && pending->key == Pending::no_row) {  // nobody wants it again
      if (pending->state != PendingState::abandoned) note_lost_prompt(*pending);
      remove_request(*pending);
      pending = next;
      continue;
    }
    switch (pending->state) {
      case PendingState::sent:
        pending->state = unsent ? PendingState::held : PendingState::lost;
        pending->was_taken = !unsent;
        if (unsent)
          never_left.push_back({pending->session, pending->row, std::string(pending->stored_text())});
        break;
      case PendingState::cancelling:
        pending->state = PendingState::lost_cancelling;
        pending->was_taken = true;
        if (unsent) cancelled.push_back(pending->row);
        break;
      case PendingState::abandoned:  // has no key, and is gone
      case PendingState::waiting:
      case PendingState::held:
      case PendingState::lost:
      case PendingState::lost_cancelling: break;
    }
    pending = next;
  }
  // Its waiters leave with it, hence not while the rows are walked.
  for (const std::uint32_t row : cancelled) {
    Pending& pending = from_client_.at(row);
    answer_cancelled(pending, !pending.turn_cancelled, step);
  }
  for (const Held& held : never_left) held_bytes_ += held.frame.size();
  held_.insert(held_.begin(), std::make_move_iterator(never_left.begin()),
               std::make_move_iterator(never_left.end()));
  outbox_.clear();
  cancel_open_agent_requests(step);
  later_epoch_ = true;
  epoch_state_ = EpochState::initializing;
  agent_unreadable_ = false;
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) {
    Session& session = sessions_.at(row);
    session.refusal.clear();
    session.hides_history = session.hides_rest = session.precedes_resume = session.asks_replay = false;
    session.replay_refused = false;
    session.needs_reading = keys_.has_rows_of(row);
    session.history.end_replay();
    const bool known = session.state == SessionState::active && session.is_restorable;
    session.restore = known ? Restore::due : Restore::none;
  }
}

void Edge::begin_restore(LinkId agent, Step& step) {
  agent_link_ = agent;
  agent_framer_ = Framer(settings_.frame_bytes_max);
  agent_bytes_ = 0;
  reach_ = AgentReach::restoring;
  epoch_state_ = EpochState::initializing;
  last_sign_of_life_ = step.now;
  // A repeated initialize that was lost is the new process's first.
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->facts->id != MethodId::initialize || pending->state != PendingState::lost ||
        pending->stored.empty())
      continue;
    repeated_initialize_ = pending->row;
    send_stored(*pending, pending->stored_text(), step);
    return;
  }
  if (!is_initialized()) return serve_uninitialized(step);
  send_own(OwnKind::initialize, SessionTable::none, rules::name_of(MethodId::initialize), initialize_params_,
           step);
}

void Edge::send_own(OwnKind kind, std::uint32_t session, std::string_view method, std::string_view params,
                    Step& step) {
  std::string id = make_own_id();
  out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{}\"", id, method);
  append_member(out_, "params", params);
  out_ += "}\n";
  own_.push_back({kind, session, std::move(id)});
  frame_session_ = session;
  send_text(agent_link_, out_, step);
}

// True if the answer at hand is to a request of keyhop's own; it is dealt with then.
bool Edge::take_own_answer(const IdView& id, Step& step) {
  const auto found = std::find_if(own_.begin(), own_.end(), [&](const OwnRequest& own) {
    return read_id(own.id, other_id_scratch_) == id;
  });
  if (found == own_.end()) return false;
  const OwnRequest own = std::move(*found);
  own_.erase(found);
  if (!is_reachable(agent_link_)) return true;  // last words of an epoch that serves no more
  const bool success = envelope_.is_sound_response() && envelope_.is_success();
  switch (own.kind) {
    case OwnKind::initialize: success ? on_initialized(step) : on_initialize_refused(step); break;
    case OwnKind::restore:
      if (own.late && !success) break;
      success
          ? on_session_restored(own.session, step)
          : on_session_refused(
                own.session,
                envelope_.is_sound_response() ? envelope_.raw(Slot::error) : restore_unreadable_error, step);
      break;
    case OwnKind::set_value: on_value_answered(own.session, success, step); break;
  }
  return true;
}

void Edge::on_initialize_refused(Step& step) {
  if (!is_initialized()) return serve_uninitialized(step);
  fail_restore("the new agent refused to initialize", step);
}

// It takes over from one that had not initialized either: the client may ask it.
void Edge::serve_uninitialized(Step& step) {
  epoch_state_ = EpochState::restoring;
  release(step);
  finish_epoch_if_restored(step);
}

void Edge::fail_restore(std::string reason, Step& step) {
  epoch_state_ = EpochState::failed;
  restore_failure_ = std::move(reason);
  step.actions.log(LogLevel::error, restore_failure_);
}

// The new agent answered initialize: it must speak the same version; fewer capabilities are said and lived
// with.
void Edge::on_initialized(Step& step) {
  const std::string_view token = envelope_.raw(Slot::result_protocol_version);
  const bool same = version_of_token(token) == version_;
  if (!same)
    return fail_restore(
        fmt::format("the agent now speaks protocol version {}: it cannot take over this connection", token),
        step);
  const std::string missing =
      missing_capabilities(initialize_capabilities_, envelope_.raw(Slot::result_capabilities));
  if (!missing.empty())
    step.actions.log(LogLevel::warning,
                     fmt::format("the restarted agent lacks capabilities that it had: {}", missing));
  if (version_ == rules::Version::v1) ways_ = restore_ways_v1(envelope_.raw(Slot::result_capabilities));
  epoch_state_ = EpochState::restoring;
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) {
    if (sessions_.at(row).restore == Restore::due) restore_session(row, step);
  }
  release(step);
  finish_epoch_if_restored(step);
}

void Edge::restore_session(std::uint32_t row, Step& step) {
  Session& session = sessions_.at(row);
  MethodId way = MethodId::session_resume;
  const bool replays = wants_replay(row);
  if (version_ == rules::Version::v1 && (!ways_.resume || replays))
    way = ways_.load ? MethodId::session_load : MethodId::other;
  if (settings_.is_inner && way != MethodId::session_resume) {
    session.restore = Restore::none;  // the agent still has it, and a load would show all of it again
    return;
  }
  if (way == MethodId::other) {
    // Nothing that was not advertised may be called; the agent decides what a request for the session is
    // worth now.
    session.restore = Restore::none;
    step.actions.log(
        LogLevel::warning,
        "the agent offers neither session/resume nor session/load: a session could not be restored");
    return;
  }
  // What an earlier try still asks is nobody's business any more.
  std::erase_if(own_, [row](const OwnRequest& own) { return own.session == row; });
  session.restore = Restore::asked;
  session.asks_replay = replays;
  session.hides_history = way == MethodId::session_load || session.asks_replay;
  if (session.asks_replay) begin_replay(row, Pending::no_row);
  session.last_restore = session.restore_alive = step.now;
  session.restored_values.clear();
  std::string params = "{\"sessionId\":";
  append_json_string(params, session.id);
  params += session.restore_members;
  if (session.asks_replay && way == MethodId::session_resume) params += R"(,"replayFrom":{"type":"start"})";
  params += '}';
  send_own(OwnKind::restore, row, rules::name_of(way), params, step);
}

// What the result of a new, load or resume says of mode and options.
void Edge::report_result(SessionValues& values) const {
  if (envelope_.has(Slot::result_current_mode_id)) {
    values.report(SessionValues::Kind::mode, {}, envelope_.raw(Slot::result_current_mode_id), false);
  }
  if (envelope_.member(Slot::result_config_options).type == ValueType::array) {
    values.report_config_options(envelope_.raw(Slot::result_config_options), false);
  }
}

// `null`, `{}` and a full result all mean success.
void Edge::on_session_restored(std::uint32_t row, Step& step) {
  Session& session = sessions_.at(row);
  session.hides_history = false;
  // Without news of the state the replay may not be at its end. (After a late answer it stays as the time-out
  // left it: the client may have spoken since.)
  if (session.restore == Restore::asked) {
    session.hides_rest =
        session.asks_replay && version_ == rules::Version::v2 && !session.history.is_finished();
  }
  session.refusal.clear();
  report_result(session.restored_values);
  conclude_replay(row, Pending::no_row);
  session.to_set = session.values.differing_from(session.restored_values);
  session.first_tries = session.to_set.size();
  session.next_to_set = 0;
  session.restore = Restore::setting;
  set_next_value(row, step);
}

void Edge::on_session_refused(std::uint32_t row, std::string_view error, Step& step) {
  Session& session = sessions_.at(row);
  session.hides_history = false;
  end_replay(row, Pending::no_row);
  const std::string_view code = envelope_.raw(Slot::error_code);
  if (std::exchange(session.asks_replay, false) && code == "-32602") {
    step.actions.log(LogLevel::warning,
                     "the agent does not show a session's history again: prompts whose answer "
                     "was lost stay unknown");
    session.replay_refused = true;
    if (!session.precedes_resume) return restore_session(row, step);
  }
  // The client's own resume follows: the agent's word on that is what counts.
  if (session.precedes_resume) return finish_session(row, Restore::none, step);
  session.refusal.assign(error);
  const bool login = code == "-32000";
  const bool for_good = code == "-32002" || code == "-32602";
  step.actions.log(LogLevel::warning, fmt::format("the agent refused to restore a session (code {})",
                                                  code.empty() ? "none" : code));
  finish_session(row,
                 login      ? Restore::needs_login
                 : for_good ? Restore::refused_for_good
                            : Restore::refused,
                 step);
}

// One value after another, in the order last set; a refused one once more after the rest (one option may need
// another first).
void Edge::set_next_value(std::uint32_t row, Step& step) {
  Session& session = sessions_.at(row);
  if (session.next_to_set == session.to_set.size()) return finish_session(row, Restore::done, step);
  const SessionValues::Value& value = session.to_set[session.next_to_set];
  const bool mode = value.kind == SessionValues::Kind::mode;
  std::string params = "{\"sessionId\":";
  append_json_string(params, session.id);
  if (mode) {
    append_member(params, "modeId", value.value);
  } else {
    append_member(params, "configId", value.id);
    append_member(params, "type", value.type.empty() ? trimmed_type(value.value, version_) : value.type);
    append_member(params, "value", value.value);
  }
  params += '}';
  send_own(OwnKind::set_value, row, rules::name_of(mode ? MethodId::set_mode : MethodId::set_config_option),
           params, step);
}

void Edge::on_value_answered(std::uint32_t row, bool success, Step& step) {
  Session& session = sessions_.at(row);
  session.restore_alive = step.now;
  const bool first_try = session.next_to_set < session.first_tries;
  if (!success && first_try)
    session.to_set.push_back(SessionValues::Value(session.to_set[session.next_to_set]));
  if (!success && !first_try) {
    const auto& value = session.to_set[session.next_to_set];
    step.actions.log(LogLevel::warning,
                     fmt::format("the agent refused to set again: {}",
                                 value.kind == SessionValues::Kind::mode ? "the mode" : value.id));
  }
  ++session.next_to_set;
  set_next_value(row, step);
}

void Edge::finish_session(std::uint32_t row, Restore state, Step& step) {
  Session& session = sessions_.at(row);
  session.restore = std::exchange(session.precedes_resume, false) ? Restore::none : state;
  if (state == Restore::done) session.refusal.clear();  // a late success counts
  session.to_set.clear();
  release(step);
  finish_epoch_if_restored(step);
}

void Edge::finish_epoch_if_restored(Step& step) {
  if (epoch_state_ != EpochState::restoring) return;
  if (std::any_of(own_.begin(), own_.end(), [](const OwnRequest& own) { return !own.late; })) return;
  epoch_state_ = EpochState::ready;
  reach_ = AgentReach::open;
  INVARIANT(held_.empty());
  step.actions.log(LogLevel::info, fmt::format("the {} is restored", settings_.component));
}

// But for those that the client has closed since, or asks for itself.
void Edge::restore_after_login(Step& step) {
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) {
    Session& session = sessions_.at(row);
    if (session.restore != Restore::needs_login || session.state != SessionState::active) continue;
    bool asked = false;
    for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending))
      asked = asked || (pending->session == row && pending->facts->effect == rules::SessionEffect::activates);
    if (!asked) restore_session(row, step);
  }
}

// A refusal may wear off (a dead process's lock): tried again before the next request that needs the session.
bool Edge::try_restore_again(std::uint32_t row, Step& step) {
  Session& session = sessions_.at(row);
  if (session.restore != Restore::refused || step.now < session.last_restore + retry_pause) return false;
  session.refusal.clear();
  restore_session(row, step);
  return session.restore == Restore::asked;
}

Instant Edge::due_at(const OwnRequest& own) const noexcept {
  const Instant since =
      own.session == SessionTable::none ? last_sign_of_life_ : sessions_.at(own.session).restore_alive;
  return since + settings_.restore_timeout;
}

std::optional<Instant> Edge::restore_deadline() const noexcept {
  if (!is_reachable(agent_link_)) return std::nullopt;
  std::optional<Instant> first;
  for (const OwnRequest& own : own_) {
    if (!own.late && (!first || due_at(own) < *first)) first = due_at(own);
  }
  if (repeated_initialize_ != Pending::no_row && is_initialized())
    first = last_sign_of_life_ + settings_.restore_timeout;
  return first;
}

void Edge::check_restores(Step& step) {
  if (!is_reachable(agent_link_)) return;
  constexpr std::string_view too_late = "the new agent did not answer initialize in time (--restore-timeout)";
  if (repeated_initialize_ != Pending::no_row && is_initialized() &&
      last_sign_of_life_ + settings_.restore_timeout <= step.now) {
    return fail_restore(std::string(too_late), step);
  }
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].late || step.now < due_at(own_[i])) continue;
    if (own_[i].kind == OwnKind::initialize) return fail_restore(std::string(too_late), step);
    own_[i].late = true;
    step.actions.log(LogLevel::warning, "a session was not restored in time (--restore-timeout)");
    Session& session = sessions_.at(own_[i].session);
    // What it still shows of the past is no news, until the client speaks of the session.
    session.hides_rest = std::exchange(session.hides_history, false);
    end_replay(own_[i].session, Pending::no_row);
    const bool precedes = std::exchange(session.precedes_resume, false);
    session.restore = precedes ? Restore::none : Restore::refused;
    if (!precedes) session.refusal = restore_timeout_error;
    release(step);
    finish_epoch_if_restored(step);
  }
}

}  // namespace acp
