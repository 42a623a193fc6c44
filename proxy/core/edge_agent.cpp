// Agent to client: messages go on, what is no message goes to stderr, and no open request is left without its
// answer.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "proxy/core/beginning.h"
#include "proxy/core/edge.h"
#include "proxy/core/json_token.h"
#include "proxy/core/limits.h"
#include "proxy/core/salvage.h"

namespace acp {
namespace {

using rules::MethodId;

}  // namespace

void Edge::on_agent_frame(const Frame& frame, Step& step) {
  ++counters_.frames_from_agent;
  last_sign_of_life_ = step.now;
  if (frame.kind == FrameKind::oversize) {
    note_gap();
    return on_agent_oversize(frame, step);
  }
  scanner_.scan(frame.text, envelope_);
  switch (envelope_.fault) {
    case FrameFault::none: return on_agent_message(frame, step);
    case FrameFault::array: return on_agent_batch(frame.text, step);
    case FrameFault::scalar: return note_noise(frame.text, step);
    case FrameFault::not_json:
    case FrameFault::not_utf8:
    case FrameFault::too_deep:
    case FrameFault::no_memory: note_gap(); return salvage_agent_line(frame, step);
  }
}

// One JSON object. What does not say that it is JSON-RPC is a log line, unless it would answer an open
// request.
void Edge::on_agent_message(const Frame& frame, Step& step) {
  const Shape shape = envelope_.shape();
  if (shape == Shape::response) return on_agent_answer(frame, step);
  if (shape == Shape::nothing || !envelope_.has(Slot::jsonrpc)) return note_noise(frame.text, step);
  const IdView id = read_id(envelope_.raw(Slot::id), id_scratch_);
  const bool sound = envelope_.has_version() && envelope_.member(Slot::method).type == ValueType::string &&
                     id.type != IdType::unusable && envelope_.member(Slot::id).copies <= 1 &&
                     envelope_.member(Slot::method).copies == 1 &&
                     envelope_.member(Slot::params).copies <= 1 &&
                     envelope_.member(Slot::jsonrpc).copies == 1;
  if (sound)
    return shape == Shape::request ? on_agent_request(frame, step) : on_agent_notification(frame, step);
  ++counters_.noise;
  note_gap();
  step.actions.log(LogLevel::warning,
                   fmt::format("a malformed message of the {}'s was dropped", settings_.component));
  if (shape == Shape::notification) return;
  // As every receiver owes: the agent must not wait for an answer to a request that nobody could read.
  out_.clear();
  append_error(out_, id.usable() ? envelope_.raw(Slot::id) : std::string_view{},
               {.code = code::invalid_request,
                .message = "Invalid request: it was not passed on to the client.",
                .reason = "malformed_request"});
  send_text(agent_link_, out_, step);
}

void Edge::on_agent_request(const Frame& frame, Step& step) {
  const rules::MethodFacts& facts = facts_for(rules::Sender::agent, rules::MessageKind::request);
  const std::string_view token = envelope_.raw(Slot::id);
  if (from_agent_.full()) {
    out_.clear();
    append_error(out_, token,
                 {.message = "Too many requests to the client are open; this one was not passed on.",
                  .reason = "too_many_requests",
                  .outcome = rules::Outcome::not_sent});
    return send_text(agent_link_, out_, step);
  }
  const IdView id = read_id(token, id_scratch_);
  Pending& pending = from_agent_.add(token, id);
  pending.facts = &facts;
  pending.session = session_of(facts, false);
  note_traffic(pending.session, step);

  std::array<Splice, 2> splices;
  std::size_t count = 0;
  std::string own;
  if (!later_epoch_ && from_agent_.by_wire_id(id) == nullptr) {
    from_agent_.set_wire_id(pending, token, id);
  } else {
    own = make_own_id();
    from_agent_.set_wire_id(pending, own, read_id(own, id_scratch_));
    splices[count++] = {envelope_.member(Slot::id), pending.wire_id};
  }
  // A request-scoped elicitation names a request of the client's by the id on the wire; the client knows its
  // own (ACP).
  if (facts.id == MethodId::elicitation_create && envelope_.has(Slot::params_request_id)) {
    const std::string_view named = envelope_.raw(Slot::params_request_id);
    Pending* asked = from_client_.by_wire_id(read_id(named, other_id_scratch_));
    if (asked != nullptr && !asked->sender_id.empty() && asked->wire_id != asked->sender_id) {
      splices[count++] = {envelope_.member(Slot::params_request_id), asked->sender_id};
    }
  }
  if (count == 0) return pass_on(client_link_, frame, step);
  pass_on_spliced(client_link_, frame, std::span(splices).first(count), step);
}

void Edge::on_agent_notification(const Frame& frame, Step& step) {
  const rules::MethodFacts& facts = facts_for(rules::Sender::agent, rules::MessageKind::notification);
  if (facts.id == MethodId::cancel_request) return cancel_agent_request(frame, step);
  const std::uint32_t session = session_of(facts, false);
  if (session != SessionTable::none) {
    sessions_.at(session).restore_alive = step.now;
    note_traffic(session, step);
    if (envelope_.has(Slot::update_kind)) note_user_message(session);
    if (hides(session)) return;
    ++sessions_.at(session).updates;
    if (envelope_.has(Slot::params_update)) {
      if (open_replays_ > 0) note_replay(session);
      report_update(session);
    }
  }
  pass_on(client_link_, frame, step);
}

void Edge::cancel_agent_request(const Frame& frame, Step& step) {
  const std::string_view token = envelope_.raw(Slot::params_request_id);
  const IdView id = read_id(token, id_scratch_);
  if (!id.usable()) return pass_on(client_link_, frame, step);  // for the client to ignore
  Pending* pending = from_agent_.by_sender_id(id);
  if (pending == nullptr) {
    ++counters_.dropped;
    step.actions.log(LogLevel::debug, "a cancel of a request that is not open at the client: dropped");
    return;
  }
  pending->state = PendingState::cancelling;
  if (pending->wire_id == token || pending->wire_id == pending->sender_id)
    return pass_on(client_link_, frame, step);
  std::array<Splice, 1> splices{{{envelope_.member(Slot::params_request_id), pending->wire_id}}};
  pass_on_spliced(client_link_, frame, splices, step);
}

// The present epoch was sent it: its answer counts.
bool Edge::is_at_agent(const Pending& pending) noexcept {
  return pending.state == PendingState::sent || pending.state == PendingState::cancelling ||
         pending.state == PendingState::abandoned;
}

void Edge::on_agent_answer(const Frame& frame, Step& step) {
  const IdView id = read_id(envelope_.raw(Slot::id), id_scratch_);
  if (!own_.empty() && take_own_answer(id, step)) return;
  Pending* pending = id.usable() ? from_client_.by_wire_id(id) : nullptr;
  if (pending == nullptr || !is_at_agent(*pending)) {
    // JSON-RPC: an error may bear `id:null` when the receiver could not tell the id; it belongs to no
    // request.
    const bool orphan_error =
        id.type == IdType::null && envelope_.is_sound_response() && !envelope_.is_success();
    if (orphan_error) return pass_on(client_link_, frame, step);
    if (!envelope_.has(Slot::jsonrpc)) return note_noise(frame.text, step);
    ++counters_.dropped;
    step.actions.log(
        LogLevel::warning,
        fmt::format("an answer of the {}'s that no open request asked for: dropped", settings_.component));
    return;
  }
  if (pending->state == PendingState::abandoned) {
    ++counters_.dropped;
    step.actions.log(LogLevel::info, "a late answer, after its request had been given up: dropped");
    return remove_request(*pending);
  }
  if (!envelope_.is_sound_response()) return fail_agents_answer(*pending, step);
  note_traffic(pending->session, step);
  const bool takes_over = pending->row == repeated_initialize_;
  answer_all(*pending, frame, step);
  if (!takes_over) return;
  repeated_initialize_ = Pending::no_row;
  if (!is_reachable(agent_link_)) return;
  return envelope_.is_success() ? on_initialized(step) : on_initialize_refused(step);
}

// An answer that cannot be used still ends its request.
void Edge::fail_agents_answer(Pending& pending, Step& step) {
  if (!is_at_agent(pending)) return;
  if (pending.state == PendingState::abandoned) return remove_request(pending);
  step.actions.log(LogLevel::warning,
                   fmt::format("the {}'s answer to an open request could not be read", settings_.component));
  const bool takes_over = pending.row == repeated_initialize_;
  const OwnError error{
      .message = "The agent's answer could not be read; whether the request took effect is unknown.",
      .reason = "malformed_answer",
      .outcome = rules::Outcome::unknown,
      .progress = has_progress(pending)};
  fail_all(pending, error, step);
  if (!takes_over) return;
  repeated_initialize_ = Pending::no_row;
  if (is_reachable(agent_link_)) on_initialize_refused(step);
}

// ACP has no batches: nothing of an array is passed on, but the answers in it end their requests.
void Edge::on_agent_batch(std::string_view array, Step& step) {
  ++counters_.noise;
  step.actions.log(
      LogLevel::warning,
      fmt::format("the {} sent a batch (array), which ACP does not know: dropped", settings_.component));
  for (std::size_t at = array.find('{'); at != std::string_view::npos; at = array.find('{', at)) {
    const std::size_t end = balanced_end(array, at);
    if (end == std::string_view::npos) return;
    const Beginning beginning = read_beginning(array.substr(at, end - at));
    at = end;
    if (!beginning.is_answer()) continue;
    if (Pending* pending = from_client_.by_wire_id(read_id(beginning.id, id_scratch_)))
      fail_agents_answer(*pending, step);
  }
}

void Edge::salvage_agent_line(const Frame& frame, Step& step) {
  const bool unterminated = frame.kind == FrameKind::unterminated;
  Salvage salvage(frame.text, scanner_);
  bool any = false;
  while (const auto piece = salvage.next(envelope_)) {
    if (piece->message) {
      any = true;
      on_agent_message({FrameKind::whole, piece->text, {}}, step);
      continue;
    }
    // Cut off in the middle by the agent's end: its requests get the answer that tells of it.
    const std::size_t brace = std::min(piece->text.find('{'), piece->text.size());
    const Beginning beginning = unterminated ? Beginning{} : read_beginning(piece->text.substr(brace));
    Pending* pending =
        beginning.is_answer() ? from_client_.by_wire_id(read_id(beginning.id, id_scratch_)) : nullptr;
    if (pending != nullptr) {
      ++counters_.noise;
      fail_agents_answer(*pending, step);
    } else {
      note_noise(piece->text, step);
    }
  }
  if (any) step.actions.log(LogLevel::debug, "a message of the agent's was found in a line with other text");
}

// Text on the agent's stdout that is no message: marked, on stderr, and counted. A broken message may hold
// prompt text or a key, so only its size is told.
void Edge::note_noise(std::string_view text, Step& step) {
  if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
  ++counters_.noise;
  const bool secret =
      text.find("jsonrpc") != std::string_view::npos || text.find("\"method\"") != std::string_view::npos;
  std::string line = "[agent stdout] ";
  if (secret) {
    line += fmt::format("(a broken message of {} bytes)", text.size());
  } else {
    line += text.substr(0, limits::noise_line_bytes_max);
    if (text.size() > limits::noise_line_bytes_max) line += fmt::format(" … ({} bytes)", text.size());
    keys_.mask_keys(line);
  }
  line += '\n';
  step.actions.add(WriteStderr{step.actions.arena().add(line)});
}

void Edge::on_agent_oversize(const Frame& frame, Step& step) {
  ++counters_.noise;
  const Beginning beginning = read_beginning(frame.text);
  const std::string size = fmt::format("a message of the agent's is longer than {} bytes (--max-frame)",
                                       settings_.frame_bytes_max);
  if (beginning.is_answer()) {
    step.actions.log(LogLevel::warning, size + ": an answer, dropped");
    if (Pending* pending = from_client_.by_wire_id(read_id(beginning.id, id_scratch_)))
      fail_agents_answer(*pending, step);
    return;
  }
  if (beginning.id.empty() && !beginning.method.empty()) {
    const std::string_view method = decode_string(beginning.method, method_scratch_);
    const bool known =
        rules::facts_of(rules::Sender::agent, rules::MessageKind::notification, method, version()).method ==
        method;
    if (known) {
      step.actions.log(LogLevel::warning, size + ": a notification, dropped");
      return;
    }
  }
  step.actions.log(LogLevel::error,
                   size + ", and its beginning does not tell what it was: this agent cannot go on");
  agent_unreadable_ = true;
}

}  // namespace acp
