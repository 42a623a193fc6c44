#include "proxy/core/session_values.h"

#include <algorithm>
#include <simdjson.h>

#include "proxy/core/limits.h"

namespace acp {
namespace {

// Ids are compared as written: the same agent and the same client spell them the same way every time.
bool is_same(const SessionValues::Value& value, SessionValues::Kind kind, std::string_view id) noexcept {
  return value.kind == kind && value.id == id;
}

std::string_view trimmed(std::string_view token) noexcept {
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

SessionValues::Value* SessionValues::find(Kind kind, std::string_view id) noexcept {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const Value& value) { return is_same(value, kind, id); });
  return found == values_.end() ? nullptr : &*found;
}

const SessionValues::Value* SessionValues::find(Kind kind, std::string_view id) const noexcept {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const Value& value) { return is_same(value, kind, id); });
  return found == values_.end() ? nullptr : &*found;
}

SessionValues::Value& SessionValues::place_last(Kind kind, std::string_view id) {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const Value& value) { return is_same(value, kind, id); });
  if (found != values_.end()) {
    std::rotate(found, found + 1, values_.end());
    return values_.back();
  }
  if (values_.size() == limits::session_values_max) values_.erase(values_.begin());
  return values_.emplace_back(Value{kind, std::string(id), {}, {}, false});
}

void SessionValues::set(Kind kind, std::string_view id, std::string_view value, std::string_view type) {
  Value& entry = place_last(kind, id);
  entry.value.assign(value);
  entry.type.assign(type);
  entry.set_by_client = true;
}

void SessionValues::report(Kind kind, std::string_view id, std::string_view value, bool in_update) {
  if (Value* known = find(kind, id); known != nullptr && known->value == value) return;
  Value& entry = place_last(kind, id);
  const bool changed = in_update || !entry.value.empty();
  entry.value.assign(value);
  entry.set_by_client = entry.set_by_client || changed;
}

void SessionValues::report_config_options(std::string_view array, bool in_update) {
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(array);
  simdjson::ondemand::document document;
  simdjson::ondemand::array options;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_array().get(options) != simdjson::SUCCESS)
    return;
  for (auto element : options) {
    simdjson::ondemand::object option;
    if (element.get_object().get(option) != simdjson::SUCCESS) return;
    std::string id;
    std::string current;
    for (auto member : option) {
      std::string_view name;
      if (member.unescaped_key().get(name) != simdjson::SUCCESS) return;
      const bool is_id = name == "configId" || name == "id";
      const bool is_current = name == "currentValue";
      simdjson::ondemand::value value = member.value().value_unsafe();  // fails only where its key did
      if (is_id) id = trimmed(value.raw_json_token());
      if (is_current) current = trimmed(value.raw_json_token());
    }
    if (!id.empty() && !current.empty()) report(Kind::config_option, id, current, in_update);
  }
}

std::vector<SessionValues::Value> SessionValues::differing_from(const SessionValues& restored) const {
  std::vector<Value> result;
  for (const Value& value : values_) {
    const Value* now = restored.find(value.kind, value.id);
    const bool differs = now == nullptr ? value.set_by_client : now->value != value.value;
    if (differs) result.push_back(value);
  }
  return result;
}

}  // namespace acp
