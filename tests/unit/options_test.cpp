// The command line and its environment: every option by flag and by variable, what is refused and in which
// words' place, the help's size.
#include "proxy/shell/options.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/options_parts.h"

namespace acp::shell {
namespace {

using test::accepted;
using test::mentions;
using test::parse;
using test::stopped;
using test::Words;

TEST_CASE("only an agent: every default") {
  const auto options = accepted({"--", "agent", "-x", "--drain", "--", "rules"});
  CHECK(options.command == Command::relay);
  CHECK(options.agent == Words{"agent", "-x", "--drain", "--", "rules"});
  CHECK(options.core.keys == KeyMode::guard);
  CHECK(options.core.rules.empty());
  CHECK(options.core.drain == std::chrono::seconds(5));
  CHECK(options.core.kill_grace == std::chrono::seconds(4));
  CHECK(options.core.frame_bytes_max == 64 * limits::mib);
  CHECK_FALSE(options.core.silence_timeout);
  CHECK(options.core.stderr_tail_lines == 5);
  CHECK(options.log_level == LogLevel::info);
  CHECK(options.log_format == LogFormat::text);
  CHECK_FALSE(options.log_file);
  CHECK(options.warnings.empty());
}

TEST_CASE("every option by flag, by flag=value and by variable") {
  struct Row {
    std::string name;
    std::string value;
    bool (*holds)(const Options& options);
  };
  const std::vector<Row> rows{
      {"keys", "forward", [](const Options& options) { return options.core.keys == KeyMode::forward; }},
      {"keys", "guard", [](const Options& options) { return options.core.keys == KeyMode::guard; }},
      {"drain", "0", [](const Options& options) { return options.core.drain == std::chrono::seconds(0); }},
      {"drain", "0.25",
       [](const Options& options) { return options.core.drain == std::chrono::milliseconds(250); }},
      {"drain", "604800",
       [](const Options& options) { return options.core.drain == std::chrono::seconds(604800); }},
      {"kill-grace", "1.5",
       [](const Options& options) { return options.core.kill_grace == std::chrono::milliseconds(1500); }},
      {"max-frame", "2048", [](const Options& options) { return options.core.frame_bytes_max == 2048; }},
      {"max-frame", "1KiB", [](const Options& options) { return options.core.frame_bytes_max == 1024; }},
      {"max-frame", "3MiB",
       [](const Options& options) { return options.core.frame_bytes_max == 3 * limits::mib; }},
      {"max-frame", "1GiB",
       [](const Options& options) { return options.core.frame_bytes_max == 1024 * limits::mib; }},
      {"silence-timeout", "90",
       [](const Options& options) {
         return options.core.silence_timeout == Duration(std::chrono::seconds(90));
       }},
      {"silence-timeout", "off", [](const Options& options) { return !options.core.silence_timeout; }},
      {"stderr-tail", "0", [](const Options& options) { return options.core.stderr_tail_lines == 0; }},
      {"stderr-tail", "100", [](const Options& options) { return options.core.stderr_tail_lines == 100; }},
      {"log-level", "debug", [](const Options& options) { return options.log_level == LogLevel::debug; }},
      {"log-level", "warning", [](const Options& options) { return options.log_level == LogLevel::warning; }},
      {"log-level", "error", [](const Options& options) { return options.log_level == LogLevel::error; }},
      {"log-level", "off", [](const Options& options) { return !options.log_level; }},
      {"log-format", "json", [](const Options& options) { return options.log_format == LogFormat::json; }},
      {"log-file", "/tmp/a b", [](const Options& options) { return options.log_file == "/tmp/a b"; }},
      {"ledger", "off",
       [](const Options& options) { return !options.core.ledger && options.ledger_path.empty(); }},
      {"ledger", "/tmp/a b.db",
       [](const Options& options) { return options.core.ledger && options.ledger_path == "/tmp/a b.db"; }},
      {"ledger", "relative",
       [](const Options& options) { return options.core.ledger && options.ledger_path == "relative"; }},
      {"recover-prompts", "proven", [](const Options& options) { return options.core.recover_prompts; }},
      {"recover-prompts", "never", [](const Options& options) { return !options.core.recover_prompts; }},
      {"config", "/dev/null", [](const Options& options) { return options.config_path == "/dev/null"; }},
      {"restart", "never", [](const Options& options) { return !options.core.restarts; }},
      {"restart", "on-loss", [](const Options& options) { return options.core.restarts; }},
      {"restart-limit", "3/1.5",
       [](const Options& options) {
         return options.core.restart_limit.restarts_max == 3 &&
                options.core.restart_limit.window == std::chrono::milliseconds(1500);
       }},
      {"restore-timeout", "7",
       [](const Options& options) { return options.core.restore_timeout == std::chrono::seconds(7); }},
      {"rule", "_x=keyed",
       [](const Options& options) {
         return options.core.rules.size() == 1 && options.core.rules[0].method == "_x" &&
                options.core.rules[0].retry_class == rules::RetryClass::keyed;
       }},
  };
  for (const auto& [name, value, holds] : rows) {
    CAPTURE(name, value);
    std::string variable = "KEYHOP_" + name + "=" + value;
    const auto equals = variable.find('=');
    std::transform(variable.begin(), variable.begin() + static_cast<std::ptrdiff_t>(equals), variable.begin(),
                   [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    CHECK(holds(accepted({"--" + name, value, "--", "agent"})));
    CHECK(holds(accepted({"--" + name + "=" + value, "--", "agent"})));
    CHECK(holds(accepted({"--", "agent"}, {variable})));
    CHECK(is_option_variable(variable.substr(0, equals)));
    CHECK(mentions(help_text(), "--" + name + " "));
  }
}

TEST_CASE("a flag wins over its variable, which is then not even read") {
  CHECK(accepted({"--drain", "2", "--", "a"}, {"KEYHOP_DRAIN=3"}).core.drain == std::chrono::seconds(2));
  CHECK(accepted({"--drain", "2", "--", "a"}, {"KEYHOP_DRAIN=nonsense"}).core.drain ==
        std::chrono::seconds(2));
  CHECK(accepted({"--rule", "_a=keyed", "--", "a"}, {"KEYHOP_RULE=_b=keyed"}).core.rules.size() == 1);
}

TEST_CASE("an empty variable counts as unset, and of two the first counts") {
  CHECK(accepted({"--", "a"}, {"KEYHOP_DRAIN="}).core.drain == std::chrono::seconds(5));
  CHECK(accepted({"--", "a"}, {"KEYHOP_DRAIN=1", "KEYHOP_DRAIN=2"}).core.drain == std::chrono::seconds(1));
  CHECK(accepted({"--", "a"}, {"KEYHOP_DRAIN", "HOME=/x", "=", ""}).warnings.empty());
}

TEST_CASE("rules are repeatable, by commas in the variable") {
  const auto by_flags = accepted({"--rule", "_a=keyed", "--rule", "session/new=not-retried", "--", "a"});
  REQUIRE(by_flags.core.rules.size() == 2);
  CHECK(by_flags.core.rules[1].method == "session/new");
  CHECK(by_flags.core.rules[1].retry_class == rules::RetryClass::not_retried);
  const auto by_variable = accepted({"--", "a"}, {"KEYHOP_RULE=_a=idempotent,future/method=duplicating"});
  REQUIRE(by_variable.core.rules.size() == 2);
  CHECK(by_variable.core.rules[1].method == "future/method");
  CHECK(accepted({"--rule", "_a=b=keyed", "--", "a"}).core.rules[0].method == "_a=b");
}

TEST_CASE("a wrong value is refused: the flag or variable is named, the status is 64") {
  const auto [name, value] = GENERATE(table<std::string, std::string>({
      {"keys", "Guard"},
      {"keys", "none"},
      {"drain", "abc"},
      {"drain", "-1"},
      {"drain", "1e3"},
      {"drain", "nan"},
      {"drain", "1.2.3"},
      {"drain", "."},
      {"drain", " 5"},
      {"drain", "5s"},
      {"drain", "604800.1"},
      {"drain", "99999999999999999999999999"},
      {"kill-grace", "x"},
      {"max-frame", "0"},
      {"max-frame", "1023"},
      {"max-frame", "2GiB"},
      {"max-frame", "1073741825"},
      {"max-frame", "99999999999999999999999"},
      {"max-frame", "18014398509481984KiB"},
      {"max-frame", "MiB"},
      {"max-frame", "64MB"},
      {"max-frame", "1.5MiB"},
      {"max-frame", "-64MiB"},
      {"silence-timeout", "0"},
      {"silence-timeout", "0.0001"},
      {"silence-timeout", "on"},
      {"stderr-tail", "101"},
      {"stderr-tail", "-1"},
      {"stderr-tail", "five"},
      {"log-level", "trace"},
      {"log-format", "xml"},
      {"config", "/nonexistent/keyhop.toml"},
      {"restart", "always"},
      {"restart-limit", "5"},
      {"restart-limit", "x/60"},
      {"restart-limit", "1001/60"},
      {"restart-limit", "5/x"},
      {"restore-timeout", "soon"},
      {"rule", "keyed"},
      {"rule", "=keyed"},
      {"rule", "_x="},
      {"rule", "_x=mcp_defined"},
      {"rule", "_*=idempotent"},
      {"rule", "session/prompt=idempotent"},
      {"rule", "initialize=idempotent"},
      {"rule", "proxy/successor=keyed"},
      {"rule", "session/update=idempotent"},
      {"rule", "fs/write_text_file=idempotent"},
  }));
  CAPTURE(name, value);
  const auto by_flag = stopped({"--" + name + "=" + value, "--", "agent"});
  CHECK(by_flag.exit_status == 64);
  CHECK(mentions(by_flag.text, "--" + name));
  CHECK(mentions(by_flag.text, "\"" + value + "\""));

  std::string variable = "KEYHOP_";
  for (const char c : name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  const auto by_variable = stopped({"--", "agent"}, {variable + "=" + value});
  CHECK(by_variable.exit_status == 64);
  CHECK(mentions(by_variable.text, variable));
}

TEST_CASE("the value of a variable is never echoed") {
  const auto name = GENERATE(as<std::string>(), "KEYHOP_DRAIN", "KEYHOP_RULE", "KEYHOP_KEYS",
                             "KEYHOP_MAX_FRAME", "KEYHOP_LOG_LEVEL", "KEYHOP_RESTART");
  CHECK_FALSE(mentions(stopped({"--", "agent"}, {name + "=hunter2"}).text, "hunter2"));
  const auto options =
      accepted({"--", "agent"}, {"KEYHOP_TOKEN=hunter2", "KEYHOP_TRACE=hunter2", "KEYHOP_LEDGER=hunter2"});
  REQUIRE(options.warnings.size() == 2);
  for (const auto& warning : options.warnings) CHECK_FALSE(mentions(warning, "hunter2"));
}

TEST_CASE("where the ledger is") {
  const auto [arguments, environment, path] = GENERATE(table<Words, Words, std::string>({
      {{}, {"HOME=/home/a"}, "/home/a/.local/state/keyhop/ledger.db"},
      {{}, {"HOME=/home/a", "XDG_STATE_HOME=/state"}, "/state/keyhop/ledger.db"},
      {{}, {"HOME=/home/a", "XDG_STATE_HOME="}, "/home/a/.local/state/keyhop/ledger.db"},
      {{}, {"HOME=/home/a", "XDG_STATE_HOME=state"}, "/home/a/.local/state/keyhop/ledger.db"},
      {{}, {"HOME_=/x", "XDG_STATE_HOMES=/x", "HOME=/home/a"}, "/home/a/.local/state/keyhop/ledger.db"},
      {{}, {"HOME=home"}, ""},  // the system's record of users tells
      {{}, {}, ""},
      {{"--ledger", "l.db"}, {"HOME=/home/a", "KEYHOP_LEDGER=off"}, "l.db"},
      {{}, {"HOME=/home/a", "KEYHOP_LEDGER=/l.db"}, "/l.db"},
      {{}, {"HOME=/home/a", "KEYHOP_LEDGER="}, "/home/a/.local/state/keyhop/ledger.db"},
      {{"--keys", "guard"}, {"HOME=/home/a"}, "/home/a/.local/state/keyhop/ledger.db"},
  }));
  CAPTURE(arguments, environment);
  Words all = arguments;
  all.insert(all.end(), {"--", "agent", "-x", "a b"});
  const auto options = accepted(all, environment);
  CHECK(options.core.ledger);
  CHECK(options.ledger_path == path);
  CHECK(options.core.agent_command == "agent -x a b");
  CHECK(options.warnings.empty());
}

TEST_CASE("no ledger is opened for an agent that looks after its keys itself, or where it is off") {
  const auto arguments = GENERATE(Words{"--keys", "forward"}, Words{"--keys", "forward", "--ledger", "/l.db"},
                                  Words{"--ledger", "off"});
  Words all = arguments;
  all.insert(all.end(), {"--", "agent"});
  const auto options = accepted(all, {"HOME=/home/a", "KEYHOP_LEDGER=/m.db"});
  CHECK_FALSE(options.core.ledger);
  CHECK(options.ledger_path.empty());
}

TEST_CASE("keyhop ledger is the subcommand, keyhop -- ledger an agent") {
  const Words environment{"HOME=/home/a", "KEYHOP_DRAIN=nonsense", "KEYHOP_NOTHING=x"};
  auto options = accepted({"ledger"}, environment);
  CHECK(options.command == Command::ledger);
  CHECK(options.ledger_path == "/home/a/.local/state/keyhop/ledger.db");
  CHECK_FALSE(options.json);
  CHECK_FALSE(options.forget);
  CHECK(options.warnings.empty());
  options = accepted({"ledger", "--json", "--forget", "s 1", "a.db"}, environment);
  CHECK(options.json);
  CHECK(options.forget == "s 1");
  CHECK(options.ledger_path == "a.db");
  CHECK(accepted({"--forget=-x", "ledger", "--", "-a.db"}).forget == "-x");
  CHECK(accepted({"ledger", "--", "-a.db"}).ledger_path == "-a.db");
  CHECK(accepted({"ledger"}, {"KEYHOP_LEDGER=b.db"}).ledger_path == "b.db");
  CHECK(accepted({"--ledger", "c.db", "ledger"}, {"KEYHOP_LEDGER=b.db"}).ledger_path == "c.db");
  CHECK(accepted({"ledger", "d.db"}, {"KEYHOP_LEDGER=off"}).ledger_path == "d.db");
  CHECK(accepted({"--", "ledger"}).command == Command::relay);
  CHECK(accepted({"ledger"}, {"KEYHOP_CONFIG=/dev/null"}).config_path == "/dev/null");
  CHECK(accepted({"rules", "ledger"}).command == Command::rules);
}

TEST_CASE("options of later versions: flags are refused, variables ignored with a warning") {
  const auto name = GENERATE(as<std::string>(), "trace", "trace-bodies", "metrics");
  CAPTURE(name);
  const auto stop = stopped({"--" + name, "x", "--", "agent"});
  CHECK(stop.exit_status == 64);
  CHECK(mentions(stop.text, "--" + name));
  CHECK_FALSE(mentions(help_text(), "--" + name));
  std::string variable = "KEYHOP_";
  for (const char c : name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  const auto options = accepted({"--", "agent"}, {variable + "=x"});
  REQUIRE(options.warnings.size() == 1);
  CHECK(mentions(options.warnings[0], variable));
  CHECK(is_option_variable(variable));
}

TEST_CASE("a variable that is no option is named once, in printable form") {
  const auto options =
      accepted({"--", "agent"}, {"KEYHOP_DRIAN=3", "KEYHOP_A\033[31m=3", "KEYHOP_VERSION=9"});
  REQUIRE(options.warnings.size() == 2);
  CHECK(mentions(options.warnings[1], "KEYHOP_DRIAN"));
  CHECK_FALSE(mentions(options.warnings[0], "\033"));
  CHECK_FALSE(is_option_variable("KEYHOP_DRIAN"));
  CHECK_FALSE(is_option_variable("DRAIN"));
}

TEST_CASE("wrong use is refused with 64 and says what to do") {
  const auto [arguments, word] = GENERATE(table<Words, std::string>({
      {Words{"--"}, "after --"},
      {Words{"--", ""}, "after --"},
      {Words{"agent"}, "after --"},
      {Words{"agent", "--", "x"}, "after --"},
      {Words{"-"}, "after --"},
      {Words{"--nope", "--", "agent"}, "--nope"},
      {Words{"--nope=hunter2", "--", "agent"}, "--nope"},
      {Words{"-x", "--", "agent"}, "-x"},
      {Words{"--dra", "3", "--", "agent"}, "--dra"},
      {Words{"--drain", "--", "agent"}, "--drain"},
      {Words{"--drain=", "--", "agent"}, "--drain"},
      {Words{"--drain"}, "--drain"},
      {Words{"--drain", "1", "--drain", "2", "--", "agent"}, "--drain"},
      {Words{"--rule", "_a=keyed", "--rule", "_a=keyed", "--", "agent"}, "--rule"},
      {Words{"--json", "--", "agent"}, "--json"},
      {Words{"verify", "--", "agent"}, "verify"},
      {Words{"trace", "FILE"}, "trace"},
      {Words{"ledger", "a", "b"}, "PATH"},
      {Words{"ledger", "a", "--", "b"}, "PATH"},
      {Words{"ledger", ""}, "PATH"},
      {Words{"--ledger", "off", "ledger"}, "PATH"},
      {Words{"ledger", "--forget"}, "--forget"},
      {Words{"ledger", "--forget", "a", "--forget", "b"}, "--forget"},
      {Words{"--forget", "a", "--", "agent"}, "--forget"},
      {Words{"rules", "--forget", "a"}, "--forget"},
      {Words{"--ledger", "", "--", "agent"}, "--ledger"},
      {Words{"--config", "/dev/null", "--config", "/dev/null", "--", "agent"}, "--config"},
      {Words{"--config", "/", "--", "agent"}, "--config"},
      {Words{"--recover-prompts", "always", "--", "agent"}, "--recover-prompts"},
      {Words{"serve"}, "serve"},
      {Words{"--drain", "x", "rules"}, "--drain"},
  }));
  const auto stop = stopped(arguments);
  CHECK(stop.exit_status == 64);
  CHECK(mentions(stop.text, word));
  CHECK_FALSE(mentions(stop.text, "hunter2"));
}

TEST_CASE("an option takes one value and not the words after it") {
  const auto options = accepted({"--rule", "_a=keyed", "rules", "session/new"});
  CHECK(options.command == Command::rules);
  CHECK(options.methods == Words{"session/new"});
  CHECK(stopped({"--keys", "guard", "guard", "--", "agent"}).exit_status == 64);
}

TEST_CASE("what a user typed is shown short and printable") {
  const auto stop = stopped({"--keys", std::string(10000, 'x') + "\033[2J", "--", "agent"});
  CHECK(stop.text.size() < 300);
  CHECK_FALSE(mentions(stopped({"\033[2J"}).text, "\033"));
  CHECK_FALSE(mentions(stopped({"--\033[2J"}).text, "\033"));
}

TEST_CASE("keyhop rules is the subcommand, keyhop -- rules an agent") {
  CHECK(accepted({"rules"}).command == Command::rules);
  CHECK(accepted({"rules"}).methods.empty());
  CHECK_FALSE(accepted({"rules"}).json);
  const auto options = accepted({"rules", "--json", "session/prompt", "--", "_x"},
                                {"KEYHOP_DRAIN=nonsense", "KEYHOP_CONFIG=/nonexistent"});
  CHECK(options.json);
  CHECK(options.methods == Words{"session/prompt", "_x"});
  CHECK(options.agent.empty());
  CHECK(accepted({"--json", "rules"}).json);
  CHECK(accepted({"--", "rules"}).agent == Words{"rules"});
  CHECK(accepted({"--", "rules"}).command == Command::relay);
}

TEST_CASE("help and version are printed with status 0, also among mistakes") {
  CHECK(stopped({"--version"}).text == "keyhop 0.1.0\n");
  CHECK(stopped({"--version"}).exit_status == 0);
  for (const Words& arguments :
       {Words{"--help"}, Words{"-h"}, Words{"--nope", "--help"}, Words{"rules", "--help"}}) {
    const auto stop = stopped(arguments);
    CHECK(stop.exit_status == 0);
    CHECK(stop.text == help_text());
  }
  CHECK(accepted({"--", "agent", "--help"}).agent == Words{"agent", "--help"});
}

TEST_CASE("without an agent a person at a terminal gets the help, and 64") {
  const auto stop = stopped({}, {}, true);
  CHECK(stop.exit_status == 64);
  CHECK(stop.text == help_text());
  CHECK(stopped({"--drain", "x"}, {}, true).text != help_text());
  CHECK(std::holds_alternative<Options>(parse({"--", "agent"}, {}, true)));
}

TEST_CASE("the help fits a terminal of 80 columns and 40 lines") {
  std::istringstream lines{std::string(help_text())};
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; }));
  }
  CHECK(count <= 40);
  CHECK(help_text().starts_with("keyhop 0.1.0"));
}

TEST_CASE("no arguments at all, not even a name") {
  const auto parsed = parse_options(0, nullptr, nullptr, false);
  REQUIRE(std::holds_alternative<Options>(parsed));
  CHECK(std::get<Options>(parsed).agent.empty());
  CHECK(std::get<Stop>(parse_options(0, nullptr, nullptr, true)).exit_status == 64);
}

}  // namespace
}  // namespace acp::shell
