// The file of --config: what stands for an option in it, what is refused and in which line, and whose value
// counts. What it says of every key to a user is in tests/process/config_test.py.
#include "proxy/shell/config.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "proxy/core/limits.h"
#include "proxy/shell/options.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/options_parts.h"

namespace acp::shell {
namespace {

using Words = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;
using test::Pipe;

Pairs accepted(std::string_view bytes) {
  const auto parsed = parse_config(bytes);
  if (const auto* problem = std::get_if<ConfigProblem>(&parsed)) {
    FAIL("refused: " << problem->line << ": " << problem->text);
  }
  Pairs pairs;
  for (const auto& value : std::get<Config>(parsed)) pairs.emplace_back(value.row->name, value.text);
  return pairs;
}

ConfigProblem refused(std::string_view bytes) {
  const auto parsed = parse_config(bytes);
  REQUIRE(std::holds_alternative<ConfigProblem>(parsed));
  return std::get<ConfigProblem>(parsed);
}

using test::Held;
using test::mentions;

std::variant<Options, Stop> options_of(const Words& arguments, std::string_view file,
                                       const Words& environment = {}) {
  const Held held(file);
  Words all{"keyhop", "--config", held.path()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<const char*> argv;
  for (const auto& word : all) argv.push_back(word.c_str());
  std::vector<const char*> variables;
  for (const auto& variable : environment) variables.push_back(variable.c_str());
  variables.push_back(nullptr);
  return parse_options(static_cast<int>(argv.size()), argv.data(), variables.data(), false);
}

}  // namespace

TEST_CASE("every option but the file's own stands in a file, as the string of its flag") {
  for (const auto& row : option_rows()) {
    CAPTURE(row.name);
    const std::string name(row.name);
    // Whatever the value, it is the option's own advice that refuses it, or it is taken.
    const auto parsed = parse_config(name + (row.repeatable ? " = ['?']" : " = '?'"));
    if (row.in_file == InFile::nothing) {
      CHECK(row.name == "config");
      CHECK(mentions(std::get<ConfigProblem>(parsed).text, "unknown option"));
      continue;
    }
    Options options;
    const auto advice = row.set("?", options);
    if (advice.empty()) {
      CHECK(std::get<Config>(parsed) == Config{{&row, "?"}});
    } else {
      CHECK(std::get<ConfigProblem>(parsed).text == name + " \"?\": " + advice);
    }
  }
}

TEST_CASE("numbers are written out as the flags take them") {
  const auto [written, text] = GENERATE(table<std::string, std::string>({
      {"5", "5"},
      {"2.5", "2.5"},
      {"5.0", "5"},
      {"1_000", "1000"},
      {"0x10", "16"},
      {"1e3", "1000"},
      {"1e-7", "0.0000001"},
      {"0.1", "0.1"},
      {"'2.5'", "2.5"},
      {"\"\"\"7\"\"\"", "7"},
  }));
  CHECK(accepted("drain = " + written) == Pairs{{"drain", text}});
}

TEST_CASE("of a repeatable option the array's order stays") {
  CHECK(accepted("rule = [\n  '_b=keyed', # first\n  '_a=idempotent',\n]\n") ==
        Pairs{{"rule", "_b=keyed"}, {"rule", "_a=idempotent"}});
  CHECK(accepted("rule = []").empty());
}

TEST_CASE("nothing is in a file that says nothing") {
  CHECK(accepted("").empty());
  CHECK(accepted("# log-level = 'debug'\r\n\r\n").empty());
  CHECK(accepted("\xef\xbb\xbf").empty());
}

TEST_CASE("what is refused in which line") {
  const auto [bytes, line, word] = GENERATE(table<std::string, std::size_t, std::string>({
      {"\ndrain = -1", 2, "drain \"-1\": give a number of seconds"},
      {"drain = nan", 1, "drain \"nan\""},
      {"drain = inf", 1, "drain \"inf\""},
      {"drain = 1.7976931348623157e308", 1, "drain \"17976931348623157"},
      {"drain = 5e-324\nstderr-tail = 1.5", 2, "stderr-tail \"1.5\""},
      {"drain = true", 1, "drain: give a number or a string, not a boolean"},
      {"drain = [1]", 1, "not an array"},
      {"drain = 1979-05-27", 1, "not a date"},
      {"drain = 07:32:00", 1, "not a time"},
      {"drain = 1979-05-27T07:32:00Z", 1, "not a date and time"},
      {"\n[drain]\nx = 1", 2, "not a table"},
      {"log-level = 5", 1, "log-level: give a string, not an integer"},
      {"log-level = 0.5", 1, "log-level: give a string, not a float"},
      {"rule = '_x=keyed'", 1, "rule: give an array of strings, not a string"},
      {"rule = ['_x=keyed',\n\n5]", 3, "not an integer in it"},
      {"rule = ['_x=keyed',\n'_x=keyed']", 2, "has a rule already"},
      {"rule = ['_y=keyed',\n'_x']", 2, "rule \"_x\": give METHOD=CLASS"},
      {"ledger = ''", 1, "ledger \"\": give the path"},
      {"log-file = 'a'\nledger = \"a\\u0000b\"", 2, "ledger \"a?b\": U+0000"},
      {"drain = 1\nnonsense = 1\n", 2, "unknown option \"nonsense\""},
      {"\"\\u001b[2J\" = 1\n", 1, "unknown option \"?[2J\""},
      {"--drain = 1", 1, "unknown option \"--drain\""},
      {"restart_limit = '5/60'", 1, "unknown option \"restart_limit\""},
      {"\n\n[options]\ndrain = 1", 3, "unknown table \"options\""},
      {"\n[a.b]\n", 2, "unknown table \"a\""},
      {"a.b = 1", 1, "unknown table \"a\""},
      {"\n[proxy]\ncommand = 'x'", 2, "proxy: give an array of strings, not a table"},
      {"trace = 'x'", 1, "unknown option \"trace\": it is not in this version"},
      {"z = 1\ny = 1\ndrain = -1\na = 1", 1, "\"z\""},  // not the first of the alphabet
      {"drain = 1\n\ndrain = 2", 3, "drain"},
      {"drain = ", 1, ""},
      {"\n\n\"", 3, ""},
      {"drain", 1, ""},
      {"\n[", 2, ""},
      {"\nledger = '\xff'", 2, "utf-8"},
      {"\r\nledger = '\xc3", 2, "utf-8"},
      {std::string("\n\0", 2), 2, ""},
      {"\x1b[2J", 1, ""},
      {"\n[#", 2, ""},
      {"\n\u00e9 = 1", 2, ""},
      {"\n\u3042", 2, ""},
      {"\n\uFE7F", 2, ""},
  }));
  CAPTURE(bytes);
  const auto problem = refused(bytes);
  CHECK(problem.line == line);
  CHECK(mentions(problem.text, word));
  for (const char c : problem.text) CHECK((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
}

TEST_CASE("files at the limits are read, those beyond are not") {
  const std::string line = "# " + std::string(limits::kib - 3, '-') + "\n";
  std::string bytes;
  while (bytes.size() < limits::config_bytes_max) bytes += line;
  CHECK(accepted(bytes).empty());
  CHECK(refused(bytes + "\n").line == 0);
  CHECK(mentions(refused(bytes + "\n").text, "1024 KiB"));

  const std::string dots(limits::config_dots_max, '.');
  CHECK(accepted("ledger = '" + dots + "'").size() == 1);
  CHECK(refused("\nledger = '." + dots + "'").line == 2);

  const std::size_t nesting = limits::config_nesting_max;
  CHECK(mentions(refused("drain = " + std::string(nesting, '[') + std::string(nesting, ']')).text,
                 "not an array"));
  CHECK(mentions(refused("drain = " + std::string(nesting + 1, '[') + std::string(nesting + 1, ']')).text,
                 "depth"));
}

TEST_CASE("a flag wins over a variable, a variable over the file, the file over the default") {
  const auto [arguments, environment, drain,
              rules] = GENERATE(table<Words, Words, int, std::vector<std::string>>({
      {{}, {}, 3, {"_f=keyed", "_g=keyed"}},
      {{}, {"KEYHOP_DRAIN=", "KEYHOP_RULE="}, 3, {"_f=keyed", "_g=keyed"}},
      {{}, {"KEYHOP_DRAIN=2", "KEYHOP_RULE=_f=keyed"}, 2, {"_f=keyed"}},
      {{"--drain", "1", "--rule", "_g=keyed"}, {"KEYHOP_DRAIN=2", "KEYHOP_RULE=_x=keyed"}, 1, {"_g=keyed"}},
      {{"--drain", "1"}, {"KEYHOP_RULE=_x=keyed"}, 1, {"_x=keyed"}},
  }));
  CAPTURE(arguments, environment);
  Words words = arguments;
  words.insert(words.end(), {"--", "agent"});
  const auto parsed = options_of(words, "drain = 3\nrule = ['_f=keyed', '_g=keyed']\n", environment);
  const auto& options = std::get<Options>(parsed);
  CHECK(options.core.drain == std::chrono::seconds(drain));
  CHECK(options.core.kill_grace == std::chrono::seconds(4));
  REQUIRE(options.core.rules.size() == rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) CHECK(options.core.rules[i].method + "=keyed" == rules[i]);
  CHECK(options.config_path.starts_with("/proc/self/fd/"));
  CHECK(options.warnings.empty());
}

TEST_CASE("a file is wrong also where a flag wins") {
  const auto parsed = options_of({"--drain", "1", "--", "agent"}, "\ndrain = -1\n");
  const auto& stop = std::get<Stop>(parsed);
  CHECK(stop.exit_status == exit_usage);
  CHECK(mentions(stop.text, "/proc/self/fd/"));
  CHECK(mentions(stop.text, ":2: drain \"-1\""));
}

TEST_CASE("the file says also keyhop ledger where the ledger is") {
  const auto path = [](const Words& arguments, std::string_view file, const Words& environment = {}) {
    return std::get<Options>(options_of(arguments, file, environment)).ledger_path;
  };
  CHECK(path({"ledger"}, "ledger = '/f.db'\ndrain = 1") == "/f.db");
  CHECK(path({"ledger"}, "ledger = '/f.db'", {"KEYHOP_LEDGER=/v.db"}) == "/v.db");
  CHECK(path({"ledger", "/p.db"}, "ledger = 'off'") == "/p.db");
  CHECK(path({"--", "agent"}, "ledger = 'off'", {"HOME=/home/a"}).empty());
  CHECK(std::holds_alternative<Stop>(options_of({"ledger"}, "ledger = 'off'")));
}

}  // namespace acp::shell
