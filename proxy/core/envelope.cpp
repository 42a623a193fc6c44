#include "proxy/core/envelope.h"

#include <string>

#include "proxy/core/json_token.h"
#include "proxy/core/json_walk.h"

namespace acp {
namespace {

constexpr std::size_t depth_of_interest =
    4;  // root, params/result/error, error.data/params.update, its arrays

Slot root_slot(std::string_view name) noexcept {
  switch (name.size()) {
    case 2: return name == "id" ? Slot::id : Slot::other;
    case 5: return name == "error" ? Slot::error : Slot::other;
    case 6:
      if (name == "params") return Slot::params;
      if (name == "method") return Slot::method;
      return name == "result" ? Slot::result : Slot::other;
    case 7: return name == "jsonrpc" ? Slot::jsonrpc : Slot::other;
    default: return Slot::other;
  }
}

Slot params_slot(std::string_view name) noexcept {
  switch (name.size()) {
    case 3: return name == "cwd" ? Slot::params_cwd : Slot::other;
    case 4: return name == "type" ? Slot::params_type : Slot::other;
    case 5: return name == "value" ? Slot::params_value : name == "_meta" ? Slot::params_meta : Slot::other;
    case 6:
      if (name == "prompt") return Slot::params_prompt;
      if (name == "method") return Slot::params_method;
      if (name == "params") return Slot::params_params;
      return name == "update" ? Slot::params_update : name == "modeId" ? Slot::params_mode_id : Slot::other;
    case 8: return name == "configId" ? Slot::params_config_id : Slot::other;
    case 9:
      if (name == "sessionId") return Slot::params_session_id;
      return name == "requestId" ? Slot::params_request_id : Slot::other;
    case 10:
      if (name == "mcpServers") return Slot::params_mcp_servers;
      return name == "replayFrom" ? Slot::params_replay_from : Slot::other;
    case 12: return name == "systemPrompt" ? Slot::params_system_prompt : Slot::other;
    case 14: return name == "idempotencyKey" ? Slot::params_idempotency_key : Slot::other;
    case 15: return name == "protocolVersion" ? Slot::params_protocol_version : Slot::other;
    case 21: return name == "additionalDirectories" ? Slot::params_additional_directories : Slot::other;
    default: return Slot::other;
  }
}

Slot result_slot(std::string_view name) noexcept {
  if (name == "sessionId") return Slot::result_session_id;
  if (name == "messageId") return Slot::result_message_id;
  if (name == "stopReason") return Slot::result_stop_reason;
  if (name == "modes") return Slot::result_modes;
  if (name == "configOptions") return Slot::result_config_options;
  if (name == "capabilities" || name == "agentCapabilities") return Slot::result_capabilities;
  if (name == "info" || name == "agentInfo") return Slot::result_info;
  return name == "protocolVersion" ? Slot::result_protocol_version : Slot::other;
}

Slot update_slot(std::string_view name) noexcept {
  if (name == "sessionUpdate") return Slot::update_kind;
  if (name == "messageId") return Slot::update_message_id;
  if (name == "content") return Slot::update_content;
  if (name == "currentModeId") return Slot::update_current_mode_id;
  return name == "configOptions" ? Slot::update_config_options : Slot::other;
}

// The member `name` of the container that stands in `parent`.
Slot child_slot(Slot parent, std::string_view name) noexcept {
  switch (parent) {
    case Slot::root: return root_slot(name);
    case Slot::params: return params_slot(name);
    case Slot::params_update: return update_slot(name);
    case Slot::result: return result_slot(name);
    case Slot::result_modes: return name == "currentModeId" ? Slot::result_current_mode_id : Slot::other;
    case Slot::result_info: return name == "name" ? Slot::result_info_name : Slot::other;
    case Slot::error:
      if (name == "data") return Slot::error_data;
      return name == "code" ? Slot::error_code : Slot::other;
    case Slot::error_data:
      if (name == "source") return Slot::error_data_source;
      return name == "outcome" ? Slot::error_data_outcome : Slot::other;
    default: return Slot::other;
  }
}

ValueType scalar_type(char first) noexcept {
  switch (first) {
    case '"': return ValueType::string;
    case 't':
    case 'f': return ValueType::boolean;
    case 'n': return ValueType::null;
    default: return ValueType::number;
  }
}

// Fills the members of an envelope while the grammar is checked.
template <std::size_t slot_count>
class MemberFinder {
 public:
  MemberFinder(const char* text, std::array<Member, slot_count>& members) noexcept
      : text_(text), members_(members) {}

  void open(std::size_t at, bool object, std::size_t depth) noexcept {
    if (depth > depth_of_interest) return;
    if (depth == 1) {
      root_ = object ? ValueType::object : ValueType::array;
      containers_[1] = object ? Slot::root : Slot::other;
      return;
    }
    const Slot slot = next_;
    next_ = Slot::other;
    opened_[depth] = slot;
    containers_[depth] = object ? slot : Slot::other;
    if (slot != Slot::other) found(slot, at, at, object ? ValueType::object : ValueType::array);
  }
  void close(std::size_t end, std::size_t depth) noexcept {
    if (depth > depth_of_interest || depth == 1) return;
    if (opened_[depth] != Slot::other) members_[index(opened_[depth])].end = static_cast<std::uint32_t>(end);
  }
  void key(std::string_view token, bool escaped, std::size_t depth) noexcept {
    if (depth > depth_of_interest) return;
    if (escaped) {
      next_ = child_slot(containers_[depth], decode_string(token, scratch_));
    } else {
      next_ = child_slot(containers_[depth], token.substr(1, token.size() - 2));
    }
  }
  void value(std::string_view token, bool /*escaped*/, std::size_t depth) noexcept {
    if (depth > depth_of_interest || next_ == Slot::other) return;
    const auto begin = static_cast<std::size_t>(token.data() - text_);
    found(next_, begin, begin + token.size(), scalar_type(token.front()));
    next_ = Slot::other;
  }
  ValueType root() const noexcept { return root_; }

 private:
  static constexpr std::size_t index(Slot slot) noexcept { return static_cast<std::size_t>(slot); }

  void found(Slot slot, std::size_t begin, std::size_t end, ValueType type) noexcept {
    Member& member = members_[index(slot)];
    if (member.copies < UINT8_MAX) ++member.copies;
    member.begin = static_cast<std::uint32_t>(begin);
    member.end = static_cast<std::uint32_t>(end);
    member.type = type;
  }

  const char* text_;
  std::array<Member, slot_count>& members_;
  std::array<Slot, depth_of_interest + 1> containers_{Slot::other, Slot::other, Slot::other, Slot::other,
                                                      Slot::other};  // what each open object is
  std::array<Slot, depth_of_interest + 1> opened_{Slot::other, Slot::other, Slot::other, Slot::other,
                                                  Slot::other};  // the slot each open container fills
  Slot next_ = Slot::other;                                      // the slot of the value to come
  ValueType root_ = ValueType::null;
  std::string scratch_;
};

FrameFault fault_of(IndexFault fault) noexcept {
  switch (fault) {
    case IndexFault::none: return FrameFault::none;
    case IndexFault::not_utf8: return FrameFault::not_utf8;
    case IndexFault::no_memory: return FrameFault::no_memory;
    case IndexFault::empty:
    case IndexFault::broken_string: break;
  }
  return FrameFault::not_json;
}

}  // namespace

Shape Envelope::shape() const noexcept {
  if (has(Slot::method)) return has(Slot::id) ? Shape::request : Shape::notification;
  if (has(Slot::id) || has(Slot::result) || has(Slot::error)) return Shape::response;
  return Shape::nothing;
}

bool Envelope::has_version() const noexcept {
  const std::string_view token = raw(Slot::jsonrpc);
  if (token == "\"2.0\"") return true;
  if (member(Slot::jsonrpc).type != ValueType::string) return false;
  std::string scratch;
  return decode_string(token, scratch) == "2.0";
}

bool Envelope::has_duplicates() const noexcept {
  for (const Slot slot : {Slot::jsonrpc, Slot::id, Slot::method, Slot::params, Slot::params_session_id,
                          Slot::params_idempotency_key}) {
    if (member(slot).copies > 1) return true;
  }
  return false;
}

bool Envelope::is_sound_response() const noexcept {
  if (!has_version() || member(Slot::id).copies != 1 || member(Slot::result).copies > 1 ||
      member(Slot::error).copies > 1)
    return false;
  const bool error_object = member(Slot::error).type == ValueType::object;
  const bool error_empty = !has(Slot::error) || member(Slot::error).type == ValueType::null;
  const bool result_empty = !has(Slot::result) || member(Slot::result).type == ValueType::null;
  if (error_object) return result_empty;
  return error_empty && has(Slot::result);
}

bool Envelope::is_success() const noexcept { return member(Slot::error).type != ValueType::object; }

void EnvelopeScanner::scan(std::string_view frame, Envelope& envelope) noexcept {
  envelope.frame = frame;
  envelope.members_.fill(Member{});
  envelope.fault = fault_of(index_.index(frame));
  if (envelope.fault != FrameFault::none) return;
  MemberFinder finder(frame.data(), envelope.members_);
  switch (walk_json(frame, index_, finder)) {
    case WalkFault::none: break;
    case WalkFault::grammar: envelope.fault = FrameFault::not_json; break;
    case WalkFault::too_deep: envelope.fault = FrameFault::too_deep; break;
  }
  if (envelope.fault != FrameFault::none) {
    envelope.members_.fill(Member{});  // a fault leaves no half-read members
  } else if (finder.root() == ValueType::array) {
    envelope.fault = FrameFault::array;
  } else if (finder.root() != ValueType::object) {
    envelope.fault = FrameFault::scalar;
  }
}

}  // namespace acp
