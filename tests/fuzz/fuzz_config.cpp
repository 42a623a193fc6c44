// Any bytes as the file of --config: they are refused, with a line that they have, or they are settings. What
// the settings say, written again, says the same.
#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "proxy/core/limits.h"
#include "proxy/shell/config.h"
#include "tests/fuzz/input.h"

namespace {

namespace fuzz = acp::fuzz;
using acp::shell::Config;
using acp::shell::ConfigProblem;

void check_problem(const ConfigProblem& problem, std::string_view bytes) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(bytes, '\n')) + 1;
  fuzz::check(problem.line <= lines);
  fuzz::check(problem.line > 0 || bytes.size() > acp::limits::config_bytes_max);
  fuzz::check(!problem.text.empty());
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  fuzz::check(std::ranges::none_of(problem.text, is_control));
}

std::string quoted(std::string_view text) {
  std::string string = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // Dots, of which a line may have so many only, since what stood in several lines comes to stand in one.
    const bool plain = byte >= 0x20 && c != '"' && c != '\\' && c != 0x7f && c != '.';
    string += plain ? std::string(1, c) : fmt::format("\\u{:04x}", byte);
  }
  return string + '"';
}

std::string written(const acp::shell::ProxyOption& proxy) {
  std::string text = fmt::format("[[proxy]]\ncommand = {}\nargs = [", quoted(proxy.command.front()));
  for (std::size_t word = 1; word < proxy.command.size(); ++word) text += quoted(proxy.command[word]) + ",\n";
  text += fmt::format("]\non-failure = \"{}\"\n[proxy.env]\n", proxy.is_bypassed ? "bypass" : "end");
  for (const std::string_view variable : proxy.environment) {
    const std::size_t equals = variable.find('=');
    text += fmt::format("{} = {}\n", quoted(variable.substr(0, equals)), quoted(variable.substr(equals + 1)));
  }
  return text;
}

std::string written(const Config& config) {
  std::string text;
  std::string tables;                           // stand behind all else
  const acp::shell::OptionRow* open = nullptr;  // the array that is not closed yet
  for (const auto& value : config) {
    if (value.proxy) {
      tables += written(*value.proxy);
      continue;
    }
    if (open != nullptr && open != value.row) {
      text += "]\n";
      open = nullptr;
    }
    if (!value.row->repeatable) {
      text += fmt::format("{} = {}\n", value.row->name, quoted(value.text));
    } else {
      if (open == nullptr) text += fmt::format("{} = [", value.row->name);
      open = value.row;
      text += fmt::format("{},\n", quoted(value.text));
    }
  }
  if (open != nullptr) text += "]\n";
  return text + tables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view view = fuzz::view_of(bytes, size);
  const auto parsed = acp::shell::parse_config(view);
  if (const auto* problem = std::get_if<ConfigProblem>(&parsed)) {
    check_problem(*problem, view);
    return 0;
  }
  const auto& config = std::get<Config>(parsed);
  for (const auto& value : config) {
    acp::shell::Options options;
    const auto problem = value.proxy ? add_proxy(*value.proxy, options) : value.row->set(value.text, options);
    fuzz::check(problem.empty());
  }
  const std::string again = written(config);
  // Escapes are longer than what they stand for.
  const auto limit = acp::limits::config_bytes_max;
  const auto reread = acp::shell::parse_config(again);
  fuzz::check(again.size() > limit || std::holds_alternative<Config>(reread));
  if (again.size() <= limit) fuzz::check(std::get<Config>(reread) == config);
  return 0;
}
