// What both directions share: reading, sending with and without splices, the facts of the frame at hand,
// silence.
#include "proxy/core/edge.h"

#include <algorithm>

#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"

namespace acp {

Edge::Edge(const Settings& settings, LinkId client, LinkId agent)
    : settings_(settings),
      client_link_(client),
      agent_link_(agent),
      client_framer_(settings.frame_bytes_max),
      agent_framer_(settings.frame_bytes_max),
      fingerprinter_(settings.salt),
      ledger_(settings.ledger && settings.keys == KeyMode::guard ? LedgerUse::opening : LedgerUse::none) {
  for (const RuleOverride& rule : settings.rules) {
    rules::MethodFacts facts =
        rules::facts_of(rules::Sender::client, rules::MessageKind::request, rule.method, rules::Version::v2);
    if (facts.id == rules::MethodId::session_prompt) continue;  // its own class no rule can change
    facts.method = rule.method;
    facts.retry_class = rule.retry_class;
    overrides_.push_back(facts);
  }
}

void Edge::read_client(std::string_view bytes, Step& step) {
  counters_.bytes_from_client += bytes.size();
  client_framer_.feed(bytes);
  while (const auto frame = client_framer_.next()) on_client_frame(*frame, step);
  flush_outbox(step);
}

void Edge::read_agent(std::string_view bytes, Step& step) {
  counters_.bytes_from_agent += bytes.size();
  agent_framer_.feed(bytes);
  while (const auto frame = agent_framer_.next()) on_agent_frame(*frame, step);
  if (std::exchange(retry_is_due_, false)) retry_deferred(step);
  flush_outbox(step);
}

void Edge::take_client(const Frame& frame, Step& step) {
  counters_.bytes_from_client += frame.text.size();
  on_client_frame(frame, step);
  flush_outbox(step);
}

void Edge::take_agent(const Frame& frame, Step& step) {
  counters_.bytes_from_agent += frame.text.size();
  on_agent_frame(frame, step);
  if (std::exchange(retry_is_due_, false)) retry_deferred(step);
  flush_outbox(step);
}

void Edge::finish_client(Step& step) {
  if (const auto frame = client_framer_.finish()) on_client_frame(*frame, step);
}

void Edge::finish_agent(Step& step) {
  if (const auto frame = agent_framer_.finish()) on_agent_frame(*frame, step);
}

bool Edge::is_reachable(LinkId link) const noexcept {
  return link == client_link_ ? !client_gone_ : reach_ == AgentReach::open || reach_ == AgentReach::restoring;
}

// A frame to that peer begins. False: there is nobody to read it.
bool Edge::begin_frame(LinkId link, Step& step) {
  if (link == agent_link_) begin_agent_frame(step);
  return is_reachable(link);
}

void Edge::emit(LinkId link, std::string_view bytes, Step& step) {
  if (link == agent_link_) {
    if (frame_waits_) return outbox_.append(bytes);
    agent_bytes_ += bytes.size();
  }
  step.actions.send(link, bytes);
}

void Edge::pass_on(LinkId link, const Frame& frame, Step& step) {
  if (!begin_frame(link, step)) return;
  if (!frame.line.empty()) return emit(link, frame.line, step);
  emit(link, frame.text, step);
  emit(link, "\n", step);
}

void Edge::pass_on_spliced(LinkId link, const Frame& frame, std::span<Splice> splices, Step& step) {
  if (!begin_frame(link, step)) return;
  std::sort(splices.begin(), splices.end(),
            [](const Splice& a, const Splice& b) { return a.span.begin < b.span.begin; });
  std::size_t done = 0;
  for (const Splice& splice : splices) {
    emit(link, frame.text.substr(done, splice.span.begin - done), step);
    emit(link, step.actions.arena().add(splice.token), step);
    done = splice.span.end;
  }
  if (!frame.line.empty()) return emit(link, frame.line.substr(done), step);
  emit(link, frame.text.substr(done), step);
  emit(link, "\n", step);
}

void Edge::send_text(LinkId link, std::string_view text, Step& step) {
  if (begin_frame(link, step)) emit(link, step.actions.arena().add(text), step);
}

std::string_view Edge::decoded(Slot slot, std::string& scratch) const {
  return decode_string(envelope_.raw(slot), scratch);
}

const rules::MethodFacts& Edge::facts_for(rules::Sender sender, rules::MessageKind kind) {
  const std::string_view method = decoded(Slot::method, method_scratch_);
  if (sender == rules::Sender::client && kind == rules::MessageKind::request) {
    for (const rules::MethodFacts& rule : overrides_) {
      if (rule.method == method) return rule;
    }
  }
  return rules::facts_of(sender, kind, method, version());
}

std::uint32_t Edge::session_of(const rules::MethodFacts& facts, bool make) {
  switch (facts.session) {
    case rules::SessionPlace::params:
    case rules::SessionPlace::params_optional:
    case rules::SessionPlace::params_and_result: break;
    case rules::SessionPlace::none:
    case rules::SessionPlace::result:
    case rules::SessionPlace::result_list:
    case rules::SessionPlace::wrapped:
    case rules::SessionPlace::undefined: return SessionTable::none;
  }
  if (envelope_.member(Slot::params_session_id).type != ValueType::string) return SessionTable::none;
  const std::string_view id = decoded(Slot::params_session_id, session_scratch_);
  return make ? sessions_.intern(id) : sessions_.find(id);
}

std::string Edge::make_own_id() {
  std::string token;
  do {
    token.clear();
    append_json_string(token, settings_.id_prefix + "-" + std::to_string(++own_ids_));
  } while (from_client_.by_wire_id(read_id(token, other_id_scratch_)) != nullptr ||
           from_agent_.by_wire_id(read_id(token, other_id_scratch_)) != nullptr);
  return token;
}

void Edge::note_traffic(std::uint32_t session, Step& step) {
  if (!settings_.silence_timeout || session == SessionTable::none) return;
  sessions_.at(session).last_traffic = step.now;
  if (!silence_deadline_) silence_deadline_ = step.now + *settings_.silence_timeout;
}

rules::Version Edge::version_of_token(std::string_view token) noexcept {
  if (token.empty()) return rules::Version::unknown;
  return token == "1" || token == "0" ? rules::Version::v1 : rules::Version::v2;
}

void Edge::check_silence(Step& step) {
  if (!silence_deadline_ || step.now < *silence_deadline_) return;
  silence_deadline_.reset();
  if (reach_ == AgentReach::lost || reach_ == AgentReach::restoring) {  // a restore has times of its own
    silence_deadline_ = step.now + *settings_.silence_timeout;
    return;
  }
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) {
    const Session& session = sessions_.at(row);
    if (session.open_prompts == 0) continue;
    const Instant ends = session.last_traffic + *settings_.silence_timeout;
    if (ends <= step.now) {
      fail_silent_prompts(row, step);
    } else if (!silence_deadline_ || ends < *silence_deadline_) {
      silence_deadline_ = ends;
    }
  }
}

}  // namespace acp
