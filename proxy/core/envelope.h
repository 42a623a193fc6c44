// The scanned top level of a frame: what the relay needs to know of a JSON-RPC message, and where it stands.
//
// Every frame is checked in full (grammar, UTF-8, depth), but only the members named in Slot are located; the
// rest of the frame is passed on as it came. Nothing relies on the order of members. Invariant:
// an Envelope with fault `none` describes one JSON object; the spans are raw tokens of its frame. Lifetime:
// views point into the frame that was scanned; the scanner's index is reused by the next scan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/core/structural_index.h"

namespace acp {

// The members that the relay looks at, named by their path.
enum class Slot : std::uint8_t {
  jsonrpc,
  id,
  method,
  params,
  result,
  error,
  params_session_id,
  params_idempotency_key,
  params_request_id,
  params_protocol_version,
  params_cwd,  // the five that rebuild a session
  params_mcp_servers,
  params_additional_directories,
  params_system_prompt,
  params_meta,
  params_replay_from,
  params_prompt,
  params_mode_id,  // set_mode, set_config_option
  params_config_id,
  params_value,
  params_type,
  params_method,  // proxy/successor
  params_params,
  params_update,
  update_kind,  // params.update.sessionUpdate
  update_current_mode_id,
  update_config_options,
  update_message_id,
  update_content,
  result_session_id,
  result_message_id,
  result_stop_reason,
  result_protocol_version,
  result_info,  // v1: agentInfo
  result_info_name,
  result_capabilities,
  result_modes,
  result_current_mode_id,  // result.modes.currentModeId
  result_config_options,
  error_code,
  error_data,
  error_data_source,
  error_data_outcome,
  count_,
  other = count_,  // any other member
  root,            // the message itself
};

enum class ValueType : std::uint8_t { absent, object, array, string, number, boolean, null };

struct Member {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  ValueType type = ValueType::absent;
  std::uint8_t copies =
      0;  // how often the name occurred (capped at 255): peers read different ones of a duplicate
};

// Why a frame is no JSON object that can be looked at.
enum class FrameFault : std::uint8_t { none, not_json, not_utf8, too_deep, array, scalar, no_memory };

// What a message is by its members (JSON-RPC 2.0).
enum class Shape : std::uint8_t {
  request,       // method and id
  notification,  // method, no id
  response,      // no method; id, result or error
  nothing,       // none of these
};

class Envelope {
 public:
  FrameFault fault = FrameFault::not_json;
  std::string_view frame;

  const Member& member(Slot slot) const noexcept { return members_[static_cast<std::size_t>(slot)]; }
  bool has(Slot slot) const noexcept { return member(slot).type != ValueType::absent; }
  // The raw token or text of a member; empty if absent.
  std::string_view raw(Slot slot) const noexcept {
    const Member& found = member(slot);
    return frame.substr(found.begin, found.end - found.begin);
  }

  Shape shape() const noexcept;
  // `jsonrpc` is the string "2.0".
  bool has_version() const noexcept;
  // A member occurs twice that peers act on: jsonrpc, id, method, params, or params' sessionId or
  // idempotencyKey.
  bool has_duplicates() const noexcept;
  // A response is well formed: version, one id, and exactly one of result and error (a null beside the other
  // counts as absent).
  bool is_sound_response() const noexcept;
  // The response says that the request succeeded. Call on a sound response.
  bool is_success() const noexcept;

 private:
  friend class EnvelopeScanner;
  std::array<Member, static_cast<std::size_t>(Slot::count_)> members_{};
};

class EnvelopeScanner {
 public:
  // Scans one frame (no LF in it); limits::padding_bytes must be readable behind it.
  void scan(std::string_view frame, Envelope& envelope) noexcept;

 private:
  StructuralIndex index_;
};

}  // namespace acp
