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

// A proxy between client and agent.
struct ProxyOption {
  std::vector<std::string> command = {};      // never empty, nor its first word
  std::vector<std::string> environment = {};  // "NAME=value", set for it beside keyhop's own
  bool is_bypassed = false;                   // once it cannot go on the chain does without it
  friend bool operator==(const ProxyOption&, const ProxyOption&) = default;
};

struct Options {
  Command command = Command::relay;

  // relay
  Settings core;                     // without salt and the random part of id_prefix: the shell's
  std::vector<std::string> agent;    // the words after `--`; empty: keyhop is a component of a conductor
  std::vector<ProxyOption> proxies;  // --proxy or [[proxy]], in the order of the chain
  std::string place;                 // of keyhop itself below other keyhops ("2.1"); empty: below none
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

// Where a keyhop tells those that it starts what their place below it is.
inline constexpr std::string_view place_variable = "KEYHOP_PLACE";

// Whether a variable is the twin of an option, of this version or a later one. Such variables are keyhop's
// own and not passed on to the agent. `name` without "=value".
bool is_option_variable(std::string_view name);

// The text of --help: at most 80 columns and 40 lines.
std::string_view help_text() noexcept;

}  // namespace acp::shell
