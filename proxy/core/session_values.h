// What a session's mode and config options were last known to be, and how to say that again to a fresh agent.
//
// Two sources: what the client set and the agent confirmed, and what the agent itself reported last (results
// and updates). The later one counts. Sources of the shapes: ACP v1 (`modes.currentModeId`,
// `current_mode_update`, `configOptions[].id`), ACP v2 (`configOptions[].configId`). Invariant: one entry for
// each mode or option, in the order last set or reported; raw tokens, never re-spelled. Bounded by
// limits::session_values_max. Lifetime: owned by a Session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace acp {

class SessionValues {
 public:
  enum class Kind : std::uint8_t { mode, config_option };
  struct Value {
    Kind kind;
    std::string id;     // raw token of the option's id; empty for the mode
    std::string value;  // raw token
    std::string
        type;  // raw token as the client sent it; empty if it sent none, or if only the agent reported
    bool set_by_client;  // or changed by the agent in mid-session: then a fresh agent will not know it by
                         // itself
  };

  // The client set this and the agent confirmed it.
  void set(Kind kind, std::string_view id, std::string_view value, std::string_view type);
  // The agent says that this is so now. `in_update`: by an update of its own, not in the result of new, load
  // or resume.
  void report(Kind kind, std::string_view id, std::string_view value, bool in_update);

  // Takes the agent's `configOptions` array (raw text) or the mode out of a result or an update.
  void report_config_options(std::string_view array, bool in_update);

  // What has to be set again after a restore whose result reported `restored`: what differs, and what it did
  // not mention but was set or changed in the session's life. In the order last set.
  std::vector<Value> differing_from(const SessionValues& restored) const;

  bool empty() const noexcept { return values_.empty(); }
  void clear() noexcept { values_.clear(); }

 private:
  Value* find(Kind kind, std::string_view id) noexcept;
  const Value* find(Kind kind, std::string_view id) const noexcept;
  Value& place_last(Kind kind, std::string_view id);

  std::vector<Value> values_;
};

}  // namespace acp
