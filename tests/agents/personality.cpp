#include "tests/agents/personality.h"

#include <charconv>

namespace acp::test_agent {
namespace {

template <typename Number>
bool take_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::optional<MethodRule> parse_method_rule(std::string_view text, bool with_code) {
  MethodRule rule;
  // The epoch stands behind the last '/', but method names have slashes too: only digits make it an epoch.
  if (const std::size_t slash = text.rfind('/');
      slash != std::string_view::npos && take_number(text.substr(slash + 1), rule.epoch_min)) {
    text = text.substr(0, slash);
  }
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    if (!take_number(text.substr(at + 1), rule.times)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (with_code) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos || !take_number(text.substr(equals + 1), rule.code))
      return std::nullopt;
    text = text.substr(0, equals);
  }
  if (text.empty()) return std::nullopt;
  rule.method = text;
  return rule;
}

MethodRule* applying_rule(std::vector<MethodRule>& rules, std::string_view method, std::uint64_t epoch) {
  for (MethodRule& rule : rules) {
    if (rule.method != method || epoch < rule.epoch_min) continue;
    if (rule.times != 0 && rule.applied >= rule.times) continue;
    ++rule.applied;
    return &rule;
  }
  return nullptr;
}

}  // namespace acp::test_agent
