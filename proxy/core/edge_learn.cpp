// What is learned while all is well, for the day when the agent is restarted.
#include "proxy/core/edge.h"
#include "proxy/core/json_token.h"
#include "rules/updates.h"

namespace acp {
void Edge::learn_initialize(const Pending& pending) {
  if (pending.stored.empty()) return;
  scanner_.scan(pending.stored_text(), stored_);
  initialize_params_.assign(stored_.raw(Slot::params));
  initialize_result_.assign(envelope_.raw(Slot::result));
  initialize_capabilities_.assign(envelope_.raw(Slot::result_capabilities));
  if (version_ == rules::Version::v1) ways_ = restore_ways_v1(initialize_capabilities_);
}

// The params that a restore will give: those of the last new, load, resume or fork that succeeded.
void Edge::learn_session(const Pending& pending, std::uint32_t row) {
  if (row == SessionTable::none || pending.stored.empty()) return;
  Session& session = sessions_.at(row);
  scanner_.scan(pending.stored_text(), stored_);
  session.is_restorable = true;
  learn_members(row, stored_);
  session.restore = Restore::done;
  session.refusal.clear();
  report_result(session.values);
}

void Edge::learn_members(std::uint32_t row, const Envelope& envelope) {
  std::string& members = sessions_.at(row).restore_members;
  members.clear();
  append_member(members, "cwd", envelope.raw(Slot::params_cwd));
  append_member(members, "mcpServers", envelope.raw(Slot::params_mcp_servers));
  append_member(members, "additionalDirectories", envelope.raw(Slot::params_additional_directories));
  append_member(members, "systemPrompt", envelope.raw(Slot::params_system_prompt));
  append_member(members, "_meta", envelope.raw(Slot::params_meta));
}

void Edge::learn_values(const Pending& pending) {
  if (pending.session == SessionTable::none || pending.stored.empty()) return;
  SessionValues& values = sessions_.at(pending.session).values;
  scanner_.scan(pending.stored_text(), stored_);
  if (pending.facts->target == rules::ChangeTarget::mode && stored_.has(Slot::params_mode_id)) {
    values.set(SessionValues::Kind::mode, {}, stored_.raw(Slot::params_mode_id), {});
  }
  if (pending.facts->target != rules::ChangeTarget::config_option || !stored_.has(Slot::params_config_id))
    return;
  values.set(SessionValues::Kind::config_option, stored_.raw(Slot::params_config_id),
             stored_.raw(Slot::params_value), stored_.raw(Slot::params_type));
  // The answer has all options as they are now: one change may have changed others.
  if (envelope_.member(Slot::result_config_options).type == ValueType::array) {
    values.report_config_options(envelope_.raw(Slot::result_config_options), true);
  }
}

// An update that tells a mode or option: the last word counts, also the agent's. While a session is rebuilt
// it tells what the fresh agent begins with, not what was last known.
void Edge::report_update(std::uint32_t row) {
  Session& session = sessions_.at(row);
  const bool fresh = session.restore == Restore::asked || session.restore == Restore::setting;
  SessionValues& values = fresh ? session.restored_values : session.values;
  if (envelope_.has(Slot::update_current_mode_id)) {
    values.report(SessionValues::Kind::mode, {}, envelope_.raw(Slot::update_current_mode_id), true);
  }
  if (envelope_.member(Slot::update_config_options).type == ValueType::array) {
    values.report_config_options(envelope_.raw(Slot::update_config_options), true);
  }
}

// History that keyhop's own load asked for is not news to the client.
bool Edge::hides(std::uint32_t row) {
  Session& session = sessions_.at(row);
  if (!session.hides_history && !session.hides_rest) return false;
  if (envelope_.member(Slot::update_kind).type != ValueType::string) return false;
  std::string scratch;
  const std::string_view kind = decoded(Slot::update_kind, scratch);
  if (kind == "state_update") session.hides_rest = false;
  return rules::is_history(kind);
}

// A load or resume of the client's whose replay it has begun to see cannot be sent again: chunks append.
void Edge::note_replay(std::uint32_t row) {
  std::string scratch;
  if (envelope_.member(Slot::update_kind).type != ValueType::string) return;
  if (!rules::is_history(decoded(Slot::update_kind, scratch))) return;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    const bool replays = pending->facts->effect == rules::SessionEffect::activates && pending->session == row;
    if (replays && pending->state == PendingState::sent) pending->replay_shown = true;
  }
}

// RFD: "A retry sent after a later change to the same option overwrites that change." Older requests for the
// same thing that are still open will not be sent again.
void Edge::note_newer_change(const Pending& answered) {
  if (answered.facts->target == rules::ChangeTarget::none) return;
  std::string option;
  if (!answered.stored.empty()) {
    scanner_.scan(answered.stored_text(), stored_);
    option.assign(stored_.raw(Slot::params_config_id));
  }
  for (Pending* older = from_client_.oldest(); older != &answered; older = from_client_.after(*older)) {
    if (older->facts->target != answered.facts->target || older->session != answered.session) continue;
    if (answered.facts->target == rules::ChangeTarget::config_option && !older->stored.empty()) {
      scanner_.scan(older->stored_text(), stored_);
      if (stored_.raw(Slot::params_config_id) != option) continue;
    }
    older->newer_change_answered = true;
  }
}

}  // namespace acp
