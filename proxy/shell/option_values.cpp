#include "proxy/shell/option_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "proxy/core/limits.h"
#include "rules/methods.h"
#include "rules/retry.h"

namespace acp::shell {
namespace {

constexpr double seconds_max = 7 * 24 * 3600;
constexpr double silence_seconds_min = 0.001;

template <class Value, std::size_t count>
std::optional<Value> choice_of(const std::array<std::pair<std::string_view, Value>, count>& choices,
                               std::string_view text) {
  for (const auto& [word, value] : choices) {
    if (word == text) return value;
  }
  return std::nullopt;
}

// Plain decimal seconds (no sign, exponent, inf or nan).
std::optional<double> seconds_of(std::string_view text) {
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
  double value = 0;
  const auto* const end = text.data() + text.size();
  if (!plain) return std::nullopt;
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

Duration duration_of(double seconds) { return Duration(std::llround(seconds * 1e9)); }

std::optional<std::size_t> integer_of(std::string_view text) {
  std::size_t value = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

Problem set_duration(std::string_view text, Duration& target) {
  const auto seconds = seconds_of(text);
  if (!seconds || *seconds > seconds_max) {
    return fmt::format("give a number of seconds from 0 to {:.0f}, for example 2.5", seconds_max);
  }
  target = duration_of(*seconds);
  return {};
}

Problem set_drain(std::string_view text, Options& options) { return set_duration(text, options.core.drain); }

Problem set_kill_grace(std::string_view text, Options& options) {
  return set_duration(text, options.core.kill_grace);
}

Problem set_silence_timeout(std::string_view text, Options& options) {
  options.core.silence_timeout.reset();
  if (text == "off") return {};
  const auto seconds = seconds_of(text);
  if (!seconds || *seconds < silence_seconds_min || *seconds > seconds_max) {
    return fmt::format("give a number of seconds from {} to {:.0f}, or off", silence_seconds_min,
                       seconds_max);
  }
  options.core.silence_timeout = duration_of(*seconds);
  return {};
}

Problem set_keys(std::string_view text, Options& options) {
  static constexpr std::array<std::pair<std::string_view, KeyMode>, 2> choices{
      {{"guard", KeyMode::guard}, {"forward", KeyMode::forward}}};
  const auto choice = choice_of(choices, text);
  if (!choice) return "give guard or forward";
  options.core.keys = *choice;
  return {};
}

Problem set_max_frame(std::string_view text, Options& options) {
  static constexpr std::array<std::pair<std::string_view, std::size_t>, 4> units{
      {{"", 1}, {"KiB", limits::kib}, {"MiB", limits::mib}, {"GiB", 1024 * limits::mib}}};
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = integer_of(text.substr(0, digits));
  const auto unit = choice_of(units, text.substr(digits));
  const bool in_range = number && unit && *number <= limits::frame_bytes_max / *unit &&
                        *number * *unit >= limits::frame_bytes_min;
  if (!in_range) {
    return fmt::format(
        "give {} KiB to {} MiB as a whole number, alone (bytes) or with KiB, MiB or GiB: 64MiB",
        limits::frame_bytes_min / limits::kib, limits::frame_bytes_max / limits::mib);
  }
  options.core.frame_bytes_max = *number * *unit;
  return {};
}

// Why the class of this method cannot be set; empty if it can.
Problem rule_refused(std::string_view method) {
  const auto rows = rules::rows_of(method);
  if (method.ends_with('*')) return "name one method; there are no patterns";
  if (rows.empty()) return {};
  switch (rows.front().id) {
    case rules::MethodId::session_prompt:
    case rules::MethodId::initialize:
    case rules::MethodId::proxy_initialize:
    case rules::MethodId::proxy_successor: return fmt::format("the class of {} is fixed", method);
    default: break;
  }
  const auto is_request = [](const auto& row) { return row.kind == rules::MessageKind::request; };
  const auto from_client = [](const auto& row) { return row.direction != rules::Direction::agent_to_client; };
  if (std::ranges::none_of(rows, is_request)) return "notifications are never sent again";
  if (std::ranges::none_of(rows, from_client)) return "requests of the agent are never sent again";
  return {};
}

Problem add_rule(std::string_view text, Options& options) {
  const auto equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0)
    return "give METHOD=CLASS, for example _x/save=idempotent";
  const auto method = text.substr(0, equals);
  const auto retry_class = rules::retry_class_of(text.substr(equals + 1));
  if (!retry_class) return "the class is one of idempotent, keyed, duplicating, not-retried";
  if (auto refused = rule_refused(method); !refused.empty()) return refused;
  auto& rules = options.core.rules;
  if (std::ranges::find(rules, method, &RuleOverride::method) != rules.end())
    return "that method has a rule already";
  rules.push_back({std::string(method), *retry_class});
  return {};
}

Problem set_restart(std::string_view text, Options& options) {
  if (text != "never" && text != "on-loss") return "give on-loss or never";
  options.core.restarts = text == "on-loss";
  return {};
}

// N/SECONDS: at most N restarts in that time.
Problem set_restart_limit(std::string_view text, Options& options) {
  constexpr std::string_view advice = "give N/SECONDS, for example 5/60: at most 5 restarts in 60 s";
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::string(advice);
  const auto restarts = integer_of(text.substr(0, slash));
  Duration window{};
  if (!restarts || *restarts > limits::restarts_max || !set_duration(text.substr(slash + 1), window).empty())
    return std::string(advice);
  options.core.restart_limit = {static_cast<std::uint32_t>(*restarts), window};
  return {};
}

Problem set_restore_timeout(std::string_view text, Options& options) {
  return set_duration(text, options.core.restore_timeout);
}

Problem set_ledger(std::string_view text, Options& options) {
  if (text.empty()) return "give the path of a file, or off";
  options.core.ledger = text != "off";
  if (options.core.ledger) options.ledger_path = text;
  return {};
}

Problem set_recover_prompts(std::string_view text, Options& options) {
  if (text != "never" && text != "proven") return "give never or proven";
  options.core.recover_prompts = text == "proven";
  return {};
}

Problem set_log_level(std::string_view text, Options& options) {
  static constexpr std::array<std::pair<std::string_view, std::optional<LogLevel>>, 5> choices{
      {{"debug", LogLevel::debug},
       {"info", LogLevel::info},
       {"warning", LogLevel::warning},
       {"error", LogLevel::error},
       {"off", std::nullopt}}};
  const auto choice = choice_of(choices, text);
  if (!choice) return "give debug, info, warning, error or off";
  options.log_level = *choice;
  return {};
}

Problem set_log_format(std::string_view text, Options& options) {
  static constexpr std::array<std::pair<std::string_view, LogFormat>, 2> choices{
      {{"text", LogFormat::text}, {"json", LogFormat::json}}};
  const auto choice = choice_of(choices, text);
  if (!choice) return "give text or json";
  options.log_format = *choice;
  return {};
}

Problem set_log_file(std::string_view text, Options& options) {
  if (text.empty()) return "give the path of a file";
  options.log_file = text;
  return {};
}

Problem set_stderr_tail(std::string_view text, Options& options) {
  const auto lines = integer_of(text);
  if (!lines || *lines > limits::stderr_tail_lines_max) {
    return fmt::format("give a number of lines from 0 to {}", limits::stderr_tail_lines_max);
  }
  options.core.stderr_tail_lines = *lines;
  return {};
}

// A shell's words without a shell: blanks separate, '…' and "…" hold together, a backslash takes the next
// character as it is (not between '…'). Nothing where a quote is left open.
std::optional<std::vector<std::string>> words_of_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool begun = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && quote != '\'') {
      if (++at == text.size()) return std::nullopt;
      word += text[at];
      begun = true;
    } else if (quote != 0) {
      if (c != quote) word += c;
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
      begun = true;
    } else if (c != ' ' && c != '\t' && c != '\n') {
      word += c;
      begun = true;
    } else if (std::exchange(begun, false)) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (quote != 0) return std::nullopt;
  if (begun) words.push_back(word);
  return words;
}

Problem add_proxy_command(std::string_view text, Options& options) {
  auto words = words_of_command(text);
  if (!words) return "a quote or backslash is left open; give a command with its arguments in one word";
  return add_proxy({.command = *std::move(words)}, options);
}

Problem set_config(std::string_view text, Options& options) {
  if (text.empty()) return "give the path of a TOML file";
  options.config_path = text;
  return {};
}

constexpr std::array rows{
    OptionRow{"config", set_config, InFile::nothing},
    OptionRow{"keys", set_keys},
    OptionRow{"rule", add_rule, InFile::string, true},
    OptionRow{"proxy", add_proxy_command, InFile::string, true},
    OptionRow{"drain", set_drain, InFile::number_or_string},
    OptionRow{"kill-grace", set_kill_grace, InFile::number_or_string},
    OptionRow{"max-frame", set_max_frame, InFile::number_or_string},
    OptionRow{"silence-timeout", set_silence_timeout, InFile::number_or_string},
    OptionRow{"restart", set_restart},
    OptionRow{"ledger", set_ledger},
    OptionRow{"restart-limit", set_restart_limit},
    OptionRow{"restore-timeout", set_restore_timeout, InFile::number_or_string},
    OptionRow{"recover-prompts", set_recover_prompts},
    OptionRow{"log-level", set_log_level},
    OptionRow{"log-format", set_log_format},
    OptionRow{"log-file", set_log_file},
    OptionRow{"stderr-tail", set_stderr_tail, InFile::number_or_string},
};

}  // namespace

std::span<const OptionRow> option_rows() noexcept { return rows; }

Problem add_proxy(ProxyOption proxy, Options& options) {
  if (proxy.command.empty() || proxy.command.front().empty())
    return "give a command, for example \"my-proxy --flag\"";
  if (options.proxies.size() >= limits::proxies_max)
    return fmt::format("at most {} proxies can stand in a chain", limits::proxies_max);
  options.proxies.push_back(std::move(proxy));
  return {};
}

std::span<const std::string_view> later_option_names() noexcept {
  static constexpr std::array<std::string_view, 3> names{"trace", "trace-bodies", "metrics"};
  return names;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string shown;
  for (const char c : text.substr(0, bytes_max)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return text.size() > bytes_max ? shown + "..." : shown;
}

}  // namespace acp::shell
