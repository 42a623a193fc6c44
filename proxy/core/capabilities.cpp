#include "proxy/core/capabilities.h"

#include <simdjson.h>

namespace acp {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

bool says_yes(const element& value) noexcept {
  bool flag = true;
  if (value.is_null()) return false;
  return value.get_bool().get(flag) != simdjson::SUCCESS || flag;
}

// By its token alone: what stands beside it may be sound JSON that no value could hold (a lone surrogate).
bool says_yes(simdjson::simdjson_result<simdjson::ondemand::value> found) noexcept {
  std::string_view token;
  return found.raw_json_token().get(token) == simdjson::SUCCESS && token.substr(0, 4) != "null" &&
         token.substr(0, 5) != "false";
}

// `now`: null for what is no object, and has none.
void compare(const object& before, const object* now, const std::string& path, std::string& missing) {
  for (const auto member : before) {
    if (!says_yes(member.value)) continue;
    const std::string name = path.empty() ? std::string(member.key) : path + "." + std::string(member.key);
    element other;
    if (now == nullptr || now->at_key(member.key).get(other) != simdjson::SUCCESS || !says_yes(other)) {
      if (!missing.empty()) missing += ", ";
      missing += name;
      continue;
    }
    object inner_before;
    object inner_now;
    if (member.value.get_object().get(inner_before) == simdjson::SUCCESS &&
        other.get_object().get(inner_now) == simdjson::SUCCESS) {
      compare(inner_before, &inner_now, name, missing);  // as deep as the frame's checked nesting
    }
  }
}

}  // namespace

RestoreWays restore_ways_v1(std::string_view agent_capabilities) {
  RestoreWays ways;
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(agent_capabilities);
  simdjson::ondemand::document all;
  if (parser.iterate(padded).get(all) != simdjson::SUCCESS) return ways;
  ways.load = says_yes(all["loadSession"]);
  ways.resume = says_yes(all["sessionCapabilities"]["resume"]);
  return ways;
}

std::string missing_capabilities(std::string_view before, std::string_view now) {
  std::string missing;
  simdjson::dom::parser parser_before;
  simdjson::dom::parser parser_now;
  object all_before;
  object all_now;
  if (parser_before.parse(before.data(), before.size()).get_object().get(all_before) != simdjson::SUCCESS)
    return missing;
  const bool has_any =
      parser_now.parse(now.data(), now.size()).get_object().get(all_now) == simdjson::SUCCESS;
  compare(all_before, has_any ? &all_now : nullptr, {}, missing);
  return missing;
}

}  // namespace acp
