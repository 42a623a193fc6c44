#include "proxy/shell/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <span>
#include <utility>

#include "proxy/shell/option_values.h"

namespace acp::shell {
namespace {

constexpr std::size_t shown_bytes_max = 60;

constexpr std::string_view help =
    R"(keyhop 0.1.0: a transparent proxy for the Agent Client Protocol (ACP)

Usage: keyhop [OPTIONS] -- AGENT [ARG...]      stand in front of an agent
       keyhop rules [--json] [METHOD...]       show what may be sent again

Messages pass unchanged. A prompt that is sent again with the same
idempotencyKey reaches the agent once, and every attempt gets the one answer.

Options (default in brackets):
  --keys guard|forward       who looks after keys: keyhop itself, or an agent
                             that honours them [guard]
  --rule METHOD=CLASS        retry class of a request, over the table's:
                             idempotent, keyed, duplicating or not-retried;
                             repeatable
  --drain SECONDS            how long open requests may still be answered after
                             the client closed [5]
  --kill-grace SECONDS       how long the agent may then take to end before it
                             is terminated [4]
  --max-frame BYTES          longest message; units KiB, MiB, GiB [64MiB]
  --silence-timeout SECONDS  give up a prompt whose session is silent for so
                             long, or off [off]
  --restart on-loss|never    what to do when the agent dies [on-loss]
  --restart-limit N/SECONDS  how often it is restarted in that time [5/60]
  --restore-timeout SECONDS  how long a restarted agent may take to initialize
                             or to restore a session [120]
  --ledger off               where keys are remembered; off: in memory [off]
  --log-level LEVEL          debug, info, warning, error or off [info]
  --log-format text|json     how log lines on stderr look [text]
  --log-file FILE            write log lines there too
  --stderr-tail LINES        how much of a dead agent's stderr its errors
                             quote, 0 to 100 [5]
  --help, --version          print this, or the version

Each option can be set in the environment: KEYHOP_LOG_LEVEL=debug for
--log-level debug, KEYHOP_RULE=METHOD=CLASS,... for --rule. Flags win.

Exit status: the agent's own; 0 after the client closed; 128+n after signal n;
64 wrong usage, 69 the agent cannot be started, 70 internal error.
)";

// Options of later versions: an error as flags, a warning as variables.
constexpr std::array<std::string_view, 6> later_options{"proxy", "config",       "recover-prompts",
                                                        "trace", "trace-bodies", "metrics"};
constexpr std::array<std::string_view, 4> later_commands{"verify", "trace", "ledger", "serve"};

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

bool is_twin_of_later_option(std::string_view name) {
  return std::ranges::any_of(later_options,
                             [&](std::string_view option) { return variable_of(option) == name; });
}

// What a user typed, fit for one line of a terminal.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, shown_bytes_max)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return text.size() > shown_bytes_max ? shown + "..." : shown;
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
};

std::string unknown_word(std::string_view word) {
  const auto name = word.substr(0, word.find('='));  // what follows could be a secret
  for (const auto later : later_options) {
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
    if (!problem.empty() && row.name == "ledger") {
      // A person sets it once for every version of keyhop; like the variables of later options it is said,
      // not refused.
      options.warnings.push_back(fmt::format("{}: {}", variable_of(row.name), problem));
      return std::nullopt;
    }
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
  static constexpr std::array<std::string_view, 3> silent{"KEYHOP_HELP", "KEYHOP_VERSION", "KEYHOP_JSON"};
  for (const auto& [name, value] : variables) {
    if (value.empty() || std::ranges::find(silent, name) != silent.end() || is_twin_of_option(name)) continue;
    warnings.push_back(fmt::format(
        "{} is ignored: {}", printable(name),
        is_twin_of_later_option(name) ? "that option is not in this version" : "there is no such option"));
  }
}

std::optional<Stop> set_options(const Words& words, const Variables& variables, Options& options) {
  for (const auto& row : option_rows()) {
    const bool flag_given = !words.values.at(row.name).empty();
    const auto variable = variables.find(variable_of(row.name));
    auto stop = flag_given                    ? set_from_words(words, row, options)
                : variable != variables.end() ? set_from_variable(variable->second, row, options)
                                              : std::nullopt;
    if (stop) return stop;
  }
  return std::nullopt;
}

bool wants_table(const Words& words) { return !words.operands.empty() && words.operands.front() == "rules"; }

// Decides between the agent and a subcommand. `after`: the words after `--`, null without it.
std::optional<Stop> set_command(const Words& words, const std::vector<std::string>* after, bool on_terminal,
                                Options& options) {
  const auto& operands = words.operands;
  if (wants_table(words)) {
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
  if (words.json) return usage("--json belongs to keyhop rules");
  if (after == nullptr && on_terminal) return Stop{std::string(help), exit_usage};
  if (after == nullptr) {
    return usage(
        "no agent: put it after --, as in keyhop -- AGENT (a hop in a conductor's chain is not in this "
        "version)");
  }
  if (after->empty() || after->front().empty()) return usage("no agent after --");
  options.agent = *after;
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
  const auto variables =
      wants_table(words) ? Variables() : variables_of(environment);  // rules reads no variable
  if (auto stop = set_options(words, variables, options)) return std::move(*stop);
  const auto* const agent = separated ? &after : nullptr;
  if (auto stop = set_command(words, agent, on_terminal, options)) return std::move(*stop);
  warn_of_ignored(variables, options.warnings);
  return options;
}

bool is_option_variable(std::string_view name) {
  return is_twin_of_option(name) || is_twin_of_later_option(name);
}

std::string_view help_text() noexcept { return help; }

}  // namespace acp::shell
