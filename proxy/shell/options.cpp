#include "proxy/shell/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <span>
#include <utility>

#include "proxy/shell/config.h"
#include "proxy/shell/option_values.h"

namespace acp::shell {
namespace {

constexpr std::size_t shown_path_bytes_max = 4096;

constexpr std::string_view help =
    R"(keyhop 0.1.0: a transparent proxy for the Agent Client Protocol (ACP)

Usage: keyhop [OPTIONS] -- AGENT [ARG...]      stand in front of an agent
       keyhop [OPTIONS]                        be a proxy of a conductor
       keyhop rules [--json] [METHOD...]       show what may be sent again
       keyhop ledger [--json] [--forget SESSION] [PATH]    what is remembered

Messages pass unchanged. A prompt that is sent again with the same
idempotencyKey reaches the agent once, and every attempt gets the one answer.

Options (default in brackets):
  --keys guard|forward       who looks after keys: keyhop itself, or an agent
                             that honours them [guard]
  --rule METHOD=CLASS        retry class of a request: idempotent, keyed,
                             duplicating or not-retried; repeatable
  --proxy COMMAND            a proxy between client and agent; repeatable
  --drain SECONDS            how long answers may come after client EOF [5]
  --kill-grace SECONDS       how long the agent may then take to end [4]
  --max-frame BYTES          longest message; units KiB, MiB, GiB [64MiB]
  --silence-timeout SECONDS  give up a prompt after such a silence, or off [off]
  --restart on-loss|never    what to do when the agent dies [on-loss]
  --restart-limit N/SECONDS  how often it is restarted in that time [5/60]
  --restore-timeout SECONDS  how long a restarted agent may take to initialize
                             or to restore a session [120]
  --recover-prompts never|proven  whether a prompt without a key is sent again
                             if it is proven that the agent lost it [never]
  --ledger PATH|off          where keys are remembered; off: in memory only
                             [~/.local/state/keyhop/ledger.db]
  --log-level LEVEL          debug, info, warning, error or off [info]
  --log-format text|json     how log lines on stderr look [text]
  --log-file FILE            write log lines there too
  --stderr-tail LINES        lines of a dead agent's stderr in its errors [5]
  --config FILE              read options from a TOML file: log-level = "debug"
  --help, --version          print this, or the version

Each option can be a variable: KEYHOP_LOG_LEVEL=debug for --log-level debug,
KEYHOP_RULE=METHOD=CLASS,... for --rule. Flag > variable > file > default.

Exit status: the agent's own; 0 after the client closed; 128+n after signal n;
64 wrong usage, 69 the agent cannot be started, 70 internal error.
)";

constexpr std::array<std::string_view, 3> later_commands{"verify", "trace", "serve"};

constexpr std::string_view variable_prefix = "KEYHOP_";

std::string variable_of(std::string_view option) {
  std::string name(variable_prefix);
  for (const char c : option) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

bool is_twin_of_option(std::string_view name) {
  return std::ranges::any_of(option_rows(),
                             [&](const OptionRow& row) { return variable_of(row.name) == name; });
}

// Options of later versions are an error as flags and keys, a warning as variables.
bool is_twin_of_later_option(std::string_view name) {
  return std::ranges::any_of(later_option_names(),
                             [&](std::string_view option) { return variable_of(option) == name; });
}

Stop usage(std::string_view problem) {
  return {fmt::format("keyhop: {}\nkeyhop --help shows the options.\n", problem), exit_usage};
}

// argv up to `--`, split but not understood.
struct Words {
  std::map<std::string_view, std::vector<std::string>> values;  // by option name
  std::vector<std::string> operands;
  bool help = false;
  bool version = false;
  bool json = false;
  std::vector<std::string> forget;
};

std::string unknown_word(std::string_view word) {
  const auto name = word.substr(0, word.find('='));  // what follows could be a secret
  for (const auto later : later_option_names()) {
    if (name == fmt::format("--{}", later)) return fmt::format("{} is not in this version", name);
  }
  return fmt::format("unknown option {}", printable(name));
}

std::variant<Words, Stop> split_words(std::vector<std::string> arguments) {
  Words words;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_flag("-h,--help", words.help);
  app.add_flag("--version", words.version);
  app.add_flag("--json", words.json);
  app.add_option("operands", words.operands);
  app.add_option("--forget", words.forget)
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  for (const auto& row : option_rows()) {
    app.add_option(fmt::format("--{}", row.name), words.values[row.name])
        ->type_size(1)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  try {
    std::ranges::reverse(arguments);  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text(error.what());  // "--name: 1 required …"
    return usage(fmt::format("{} needs a value", text.substr(0, text.find(':'))));
  } catch (const CLI::Error& error) {
    return usage(error.what());
  }
  if (words.help) return Stop{std::string(help), 0};
  if (words.version) return Stop{fmt::format("keyhop {}\n", program_version), 0};
  if (const auto extra = app.remaining(); !extra.empty()) return usage(unknown_word(extra.front()));
  return words;
}

std::optional<Stop> set_from_words(const Words& words, const OptionRow& row, Options& options) {
  const auto& values = words.values.at(row.name);
  if (values.size() > 1 && !row.repeatable) return usage(fmt::format("--{} is given twice", row.name));
  for (const auto& value : values) {
    const auto problem = row.set(value, options);
    if (!problem.empty()) return usage(fmt::format("--{} \"{}\": {}", row.name, printable(value), problem));
  }
  return std::nullopt;
}

std::optional<Stop> set_from_variable(std::string_view value, const OptionRow& row, Options& options) {
  while (!value.empty()) {
    const auto end = row.repeatable ? std::min(value.find(','), value.size()) : value.size();
    const auto problem = row.set(value.substr(0, end), options);
    if (!problem.empty()) return usage(fmt::format("{}: {}", variable_of(row.name), problem));
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return std::nullopt;
}

using Variables = std::map<std::string_view, std::string_view>;

// keyhop's own variables that are set; of equal names the first counts, as for getenv(3).
Variables variables_of(const char* const* environment) {
  Variables variables;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const auto equals = entry.find('=');
    if (!entry.starts_with(variable_prefix) || equals == std::string_view::npos) continue;
    variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

void warn_of_ignored(const Variables& variables, std::vector<std::string>& warnings) {
  // Not options, and names that packagers and build systems like.
  static constexpr std::array<std::string_view, 4> silent{"KEYHOP_HELP", "KEYHOP_VERSION", "KEYHOP_JSON",
                                                          place_variable};
  for (const auto& [name, value] : variables) {
    if (value.empty() || std::ranges::find(silent, name) != silent.end() || is_twin_of_option(name)) continue;
    warnings.push_back(fmt::format(
        "{} is ignored: {}", printable(name),
        is_twin_of_later_option(name) ? "that option is not in this version" : "there is no such option"));
  }
}

std::optional<Stop> set_from_config(const Config& config, const OptionRow& row, Options& options) {
  for (const auto& value : config) {
    if (value.row != &row) continue;
    const auto problem = value.proxy ? add_proxy(*value.proxy, options) : row.set(value.text, options);
    if (!problem.empty()) return usage(problem);
  }
  return std::nullopt;
}

// From the one place that counts; `config` is the last of them.
std::optional<Stop> set_option(const OptionRow& row, const Words& words, const Variables& variables,
                               const Config& config, Options& options) {
  if (!words.values.at(row.name).empty()) return set_from_words(words, row, options);
  const auto variable = variables.find(variable_of(row.name));
  if (variable != variables.end() && !variable->second.empty())
    return set_from_variable(variable->second, row, options);
  return set_from_config(config, row, options);
}

std::variant<Config, Stop> config_of(const Words& words, const std::string& path) {
  if (path.empty()) return Config{};
  auto read = read_config(path);
  const auto* problem = std::get_if<ConfigProblem>(&read);
  if (problem == nullptr) return std::get<Config>(std::move(read));
  const std::string shown = printable(path, shown_path_bytes_max);
  if (problem->line != 0) return usage(fmt::format("{}:{}: {}", shown, problem->line, problem->text));
  const bool by_flag = !words.values.at("config").empty();
  return usage(
      fmt::format("{} \"{}\": {}", by_flag ? "--config" : variable_of("config"), shown, problem->text));
}

std::optional<Stop> set_options(const Words& words, const Variables& variables, Options& options) {
  const auto& rows = option_rows();
  const auto names_file = std::ranges::find(rows, "config", &OptionRow::name);
  if (auto stop = set_option(*names_file, words, variables, {}, options)) return stop;
  auto config = config_of(words, options.config_path);
  if (auto* stop = std::get_if<Stop>(&config)) return std::move(*stop);
  for (const auto& row : rows) {
    if (row.in_file == InFile::nothing) continue;
    if (auto stop = set_option(row, words, variables, std::get<Config>(config), options)) return stop;
  }
  return std::nullopt;
}

bool wants(const Words& words, std::string_view command) {
  return !words.operands.empty() && words.operands.front() == command;
}

// The variables that count for what is wanted: rules reads none, ledger only those that say where it is.
Variables variables_for(const Words& words, const char* const* environment) {
  if (wants(words, "rules")) return {};
  Variables variables = variables_of(environment);
  if (wants(words, "ledger")) {
    std::erase_if(variables, [](const auto& variable) {
      return variable.first != variable_of("ledger") && variable.first != variable_of("config");
    });
  }
  return variables;
}

// The value of a variable that names a directory; empty if it is not set, or not from the root.
std::string_view directory_in(const char* const* environment, std::string_view name) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (!entry.starts_with(name) || entry.substr(name.size(), 1) != "=") continue;
    const std::string_view value = entry.substr(name.size() + 1);
    return value.starts_with('/') ? value : std::string_view();
  }
  return {};
}

// What a keyhop above wrote; anything else is nobody's.
std::string place_in(const Variables& variables) {
  constexpr std::size_t bytes_max = 64;
  const auto found = variables.find(place_variable);
  if (found == variables.end() || found->second.size() > bytes_max) return {};
  const bool is_place = found->second.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_place ? std::string(found->second) : std::string();
}

std::string default_ledger_path(const char* const* environment) {
  const std::string_view state = directory_in(environment, "XDG_STATE_HOME");
  if (!state.empty()) return fmt::format("{}/keyhop/ledger.db", state);
  const std::string_view home = directory_in(environment, "HOME");
  return home.empty() ? std::string() : ledger_path_in(home);
}

std::optional<Stop> set_ledger_command(const Words& words, const std::vector<std::string>* after,
                                       Options& options) {
  options.command = Command::ledger;
  options.json = words.json;
  std::vector<std::string> paths(words.operands.begin() + 1, words.operands.end());
  if (after != nullptr) paths.insert(paths.end(), after->begin(), after->end());
  if (paths.size() > 1) return usage("keyhop ledger takes one PATH");
  if (words.forget.size() > 1) return usage("--forget is given twice");
  if (!words.forget.empty()) options.forget = words.forget.front();
  if (!paths.empty()) {
    if (paths.front().empty()) return usage("keyhop ledger: the PATH is empty");
    options.core.ledger = true;
    options.ledger_path = paths.front();
  }
  if (!options.core.ledger) return usage("the ledger is off; name a file, as in keyhop ledger PATH");
  return std::nullopt;
}

// Decides between the agent and a subcommand. `after`: the words after `--`, null without it.
std::optional<Stop> set_command(const Words& words, const std::vector<std::string>* after, bool on_terminal,
                                Options& options) {
  const auto& operands = words.operands;
  if (wants(words, "ledger")) return set_ledger_command(words, after, options);
  if (!words.forget.empty()) return usage("--forget belongs to keyhop ledger");
  if (wants(words, "rules")) {
    options.command = Command::rules;
    options.methods.assign(operands.begin() + 1, operands.end());
    if (after != nullptr) options.methods.insert(options.methods.end(), after->begin(), after->end());
    options.json = words.json;
    return std::nullopt;
  }
  if (!operands.empty()) {
    const auto& word = operands.front();
    if (std::ranges::find(later_commands, word) != later_commands.end()) {
      return usage(fmt::format("{} is not in this version", word));
    }
    return usage(
        fmt::format("unexpected \"{}\": put the agent after --, as in keyhop -- AGENT", printable(word)));
  }
  if (words.json) return usage("--json belongs to keyhop rules and keyhop ledger");
  if (after == nullptr && on_terminal) return Stop{std::string(help), exit_usage};
  // An agent that looks after its keys itself needs no memory of ours.
  if (options.core.keys == KeyMode::forward) options.core.ledger = false;
  options.core.agent_command = "conductor";
  if (after == nullptr) return std::nullopt;  // a component of whoever started it
  if (after->empty() || after->front().empty()) return usage("no agent after --");
  options.agent = *after;
  options.core.agent_command = fmt::format("{}", fmt::join(*after, " "));
  return std::nullopt;
}

}  // namespace

std::variant<Options, Stop> parse_options(int argc, const char* const* argv, const char* const* environment,
                                          bool on_terminal) {
  const std::span<const char* const> all(argv, static_cast<std::size_t>(std::max(argc, 0)));
  const std::vector<std::string> arguments(all.begin() + (all.empty() ? 0 : 1), all.end());
  const auto separator = std::ranges::find(arguments, "--");
  const bool separated = separator != arguments.end();
  const std::vector<std::string> after(separated ? separator + 1 : separator, arguments.end());

  auto split = split_words({arguments.begin(), separator});
  if (auto* stop = std::get_if<Stop>(&split)) return std::move(*stop);
  const auto& words = std::get<Words>(split);

  Options options;
  options.core.ledger = true;
  const auto variables = variables_for(words, environment);
  if (auto stop = set_options(words, variables, options)) return std::move(*stop);
  const auto* const agent = separated ? &after : nullptr;
  if (auto stop = set_command(words, agent, on_terminal, options)) return std::move(*stop);
  if (!options.core.ledger) options.ledger_path.clear();
  if (options.core.ledger && options.ledger_path.empty())
    options.ledger_path = default_ledger_path(environment);
  options.place = place_in(variables);
  warn_of_ignored(variables, options.warnings);
  return options;
}

std::string ledger_path_in(std::string_view home) {
  return fmt::format("{}/.local/state/keyhop/ledger.db", home);
}

bool is_option_variable(std::string_view name) {
  return is_twin_of_option(name) || is_twin_of_later_option(name);
}

std::string_view help_text() noexcept { return help; }

}  // namespace acp::shell
