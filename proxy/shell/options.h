// Command line, environment and --config file to Options: flag > environment > file > default.
//
// Invariant: parse_options() reads nothing but its arguments and the file that they name, starts nothing and
// prints nothing; what is wrong comes back as text that names the flag, variable or file and line and says
// what to do. Values of environment variables are never echoed, but for a file's path. Exceptions (CLI11's)
// stay inside. Lifetime: plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxy/core/event.h"
#include "proxy/core/settings.h"

namespace acp::shell {

inline constexpr std::string_view program_version = "0.1.0";

inline constexpr int exit_usage = 64;  // EX_USAGE of sysexits

enum class Command : std::uint8_t { relay, rules, ledger };
enum class LogFormat : std::uint8_t { text, json };

struct Options {
  Command command = Command::relay;

  // relay
  Settings core;                   // without salt and the random part of id_prefix: the shell's
  std::vector<std::string> agent;  // the words after `--`; never empty for Command::relay
  std::optional<LogLevel> log_level = LogLevel::info;  // the least that is said; nullopt: nothing
  LogFormat log_format = LogFormat::text;
  std::optional<std::string> log_file;  // log lines go there too
  // Where Settings::ledger says that there is one, and for Command::ledger. Empty: the environment names no
  // home; see ledger_path_in().
  std::string ledger_path;
  std::string config_path;  // the file that was read; empty: none

  // rules
  std::vector<std::string> methods;
  // ledger
  std::optional<std::string> forget;  // a session's id
  // both
  bool json = false;

  // One line each, about environment variables that were ignored; to be logged as warnings.
  std::vector<std::string> warnings;
};

// Nothing to run: print the text (ends with LF) to stdout if the status is 0, else to stderr, and exit with
// it.
struct Stop {
  std::string text;
  int exit_status = 0;
};

// `environment`: "NAME=value" strings, null-terminated like environ(7), or null. `on_terminal`: stdin and
// stdout both are terminals, so that a call without AGENT is a person's who wants the help. An empty variable
// counts as unset.
std::variant<Options, Stop> parse_options(int argc, const char* const* argv, const char* const* environment,
                                          bool on_terminal);

// Where the ledger is by default, for a user with this home directory who set no XDG_STATE_HOME.
std::string ledger_path_in(std::string_view home);

// Whether a variable is the twin of an option, of this version or a later one. Such variables are keyhop's
// own and not passed on to the agent. `name` without "=value".
bool is_option_variable(std::string_view name);

// The text of --help: at most 80 columns and 40 lines.
std::string_view help_text() noexcept;

}  // namespace acp::shell
