// The proxies of a chain: --proxy, its variable, its tables in a file, and what becomes of them: edges for
// the core, commands for the shell, places in the ledger.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include "proxy/core/limits.h"
#include "proxy/shell/components.h"
#include "proxy/shell/config.h"
#include "proxy/shell/option_values.h"
#include "proxy/shell/options.h"
#include "tests/unit/options_parts.h"

namespace acp::shell {
namespace {

using test::accepted;
using test::mentions;
using test::parse;
using test::Words;

std::string refused(const Words& arguments, const Words& environment = {}) {
  const auto parsed = parse(arguments, environment);
  REQUIRE(std::holds_alternative<Stop>(parsed));
  CHECK(std::get<Stop>(parsed).exit_status == exit_usage);
  return std::get<Stop>(parsed).text;
}

using File = test::Held;

std::vector<ProxyOption> proxies_in(std::string_view file) {
  const auto parsed = parse_config(file);
  if (const auto* problem = std::get_if<ConfigProblem>(&parsed))
    FAIL("refused: " << problem->line << ": " << problem->text);
  std::vector<ProxyOption> proxies;
  for (const auto& value : std::get<Config>(parsed)) {
    REQUIRE(value.proxy);
    CHECK(value.row->name == "proxy");
    proxies.push_back(*value.proxy);
  }
  return proxies;
}

}  // namespace

TEST_CASE("a command is split into words as a shell would, and nothing else is done to it", "[proxies]") {
  const auto [text, words] = GENERATE(table<std::string, Words>({
      {"my-proxy", {"my-proxy"}},
      {"my-proxy --flag  -x", {"my-proxy", "--flag", "-x"}},
      {" \t\nmy-proxy\n", {"my-proxy"}},
      {"'a b' c", {"a b", "c"}},
      {"\"a b\" c", {"a b", "c"}},
      {"a' b 'c\"d\"", {"a b cd"}},
      {"a ''", {"a", ""}},
      {"a \"\" b", {"a", "", "b"}},
      {"a '\"' \"'\"", {"a", "\"", "'"}},
      {"a\\ b \\'c \\\\ \\\"", {"a b", "'c", "\\", "\""}},
      {"a \\x", {"a", "x"}},
      {"a '\\'", {"a", "\\"}},
      {"a \"\\\"\\\\ \\x\"", {"a", "\"\\ x"}},
      {"a \\ ", {"a", " "}},
      {"$HOME *; | `x` $(y) > ~ # &&", {"$HOME", "*;", "|", "`x`", "$(y)", ">", "~", "#", "&&"}},
      {"proxy \xE4\xB8\xAD", {"proxy", "\xE4\xB8\xAD"}},
  }));
  CAPTURE(text);
  const auto options = accepted({"--proxy", text, "--", "agent"});
  REQUIRE(options.proxies.size() == 1);
  CHECK(options.proxies[0] == ProxyOption{.command = words});
}

TEST_CASE("a command that is none is refused", "[proxies]") {
  const auto [text, word] = GENERATE(table<std::string, std::string>({
      {"'a", "left open"},
      {"a \"b' c", "left open"},
      {"a \\", "left open"},
      {"a \"\\\"", "left open"},
      {" ", "give a command"},
      {"''", "give a command"},
      {"\"\" a", "give a command"},
  }));
  CAPTURE(text);
  CHECK(mentions(refused({"--proxy", text, "--", "agent"}), "--proxy \"" + text + "\": "));
  CHECK(mentions(refused({"--proxy", text, "--", "agent"}), word));
}

TEST_CASE("proxies stand in the order in which they were given; the variable is not the flag's",
          "[proxies]") {
  const auto flags =
      accepted({"--proxy", "a 1", "--proxy=b", "--proxy", "a 1", "--", "agent"}, {"KEYHOP_PROXY=c"});
  CHECK(flags.proxies ==
        std::vector<ProxyOption>{{.command = {"a", "1"}}, {.command = {"b"}}, {.command = {"a", "1"}}});
  CHECK(accepted({"--", "agent"}, {"KEYHOP_PROXY=a 1,b"}).proxies ==
        std::vector<ProxyOption>{{.command = {"a", "1"}}, {.command = {"b"}}});
  CHECK(is_option_variable("KEYHOP_PROXY"));
  CHECK(mentions(help_text(), "--proxy"));
  CHECK(accepted({"--", "agent"}).proxies.empty());
}

TEST_CASE("no more proxies than components have numbers", "[proxies]") {
  Words arguments;
  for (std::size_t number = 0; number < limits::proxies_max; ++number)
    arguments.insert(arguments.end(), {"--proxy", "p"});
  CHECK(accepted(arguments).proxies.size() == limits::proxies_max);
  arguments.insert(arguments.end(), {"--proxy", "one-more"});
  CHECK(mentions(refused(arguments), "at most 100 proxies"));
  static_assert(limits::proxies_max < 1U << (32 - component_shift));
}

TEST_CASE("without an agent keyhop is a component of whoever started it, with or without proxies",
          "[proxies]") {
  const auto alone = accepted({});
  CHECK(alone.agent.empty());
  CHECK(alone.core.ledger);
  CHECK(is_chain(alone));
  CHECK(accepted({"--proxy", "p"}).agent.empty());
  CHECK_FALSE(is_chain(accepted({"--", "agent"})));
  CHECK(is_chain(accepted({"--proxy", "p", "--", "agent"})));
  CHECK_FALSE(accepted({"--keys", "forward"}, {"HOME=/h"}).core.ledger);
  CHECK(std::holds_alternative<Stop>(parse({}, {}, true)));
}

TEST_CASE("a table of the file says all of a proxy", "[proxies]") {
  CHECK(proxies_in(
            "[[proxy]]\ncommand = 'a b'\nargs = ['-x', '', 'c d']\nenv = {A = '1', \"b.c\" = ''}\n"
            "on-failure = 'bypass'\n\n[[proxy]]\non-failure = 'end'\ncommand = 'p'\n[proxy.env]\nZ = '='\n"
            "[[proxy]]\nargs = []\nenv = {}\ncommand = 'q'\n") ==
        std::vector<ProxyOption>{
            {{"a b", "-x", "", "c d"}, {"A=1", "b.c="}, true}, {{"p"}, {"Z=="}, false}, {{"q"}, {}, false}});
}

TEST_CASE("what is wrong in a table is told with its line", "[proxies]") {
  const auto [text, line, word] = GENERATE(table<std::string, std::size_t, std::string>({
      {"command = 5", 2, "proxy.command: give a string, not an integer"},
      {"command = ''", 1, "proxy: give a command"},
      {"command = \"a\\u0000b\"", 2, "proxy.command: U+0000 cannot be in it"},
      {"args = ['x']", 1, "[[proxy]] needs a command"},
      {"command = 'a'\nargs = 'x'", 3, "proxy.args: give an array of strings, not a string"},
      {"command = 'a'\nargs = [\n'x',\n1]", 5, "proxy.args: give a string, not an integer"},
      {"command = 'a'\nargs = [\"\\u0000\"]", 3, "proxy.args: U+0000"},
      {"command = 'a'\nenv = 'A=1'", 3, "proxy.env: give a table, not a string"},
      {"command = 'a'\nenv = {A = 1}", 3, "proxy.env: give a string, not an integer"},
      {"command = 'a'\nenv = {A = \"\\u0000\"}", 3, "proxy.env: U+0000"},
      {"command = 'a'\n[proxy.env]\n'A=B' = 'x'", 4, "proxy.env: no variable can have this name"},
      {"command = 'a'\n[proxy.env]\n'' = 'x'", 4, "proxy.env: no variable can have this name"},
      {"command = 'a'\n[proxy.env]\n\"A\\u0000\" = 'x'", 4, "proxy.env: no variable can have this name"},
      {"command = 'a'\non-failure = 'stop'", 3, "proxy.on-failure: give \"end\" or \"bypass\""},
      {"command = 'a'\non-failure = true", 3, "proxy.on-failure: give a string, not a boolean"},
      {"command = 'a'\nname = 'x'", 3, "unknown option \"proxy.name\""},
      {"command = 'a'\n\n\n\"\\u001b\" = 'x'", 5, "unknown option \"proxy.?\""},
  }));
  CAPTURE(text);
  const auto parsed = parse_config("[[proxy]]\n" + text);
  REQUIRE(std::holds_alternative<ConfigProblem>(parsed));
  CHECK(std::get<ConfigProblem>(parsed).line == line);
  CHECK(mentions(std::get<ConfigProblem>(parsed).text, word));
}

TEST_CASE("in a file a proxy may be a line as well, and too many are told there", "[proxies]") {
  const auto parsed = parse_config("proxy = ['a \"b c\"', 'd']");
  const auto& config = std::get<Config>(parsed);
  REQUIRE(config.size() == 2);
  CHECK_FALSE(config[0].proxy);
  CHECK(config[0].text == "a \"b c\"");
  CHECK(std::get<ConfigProblem>(parse_config("proxy = 'a'")).text ==
        "proxy: give an array of strings, not a string");
  CHECK(mentions(std::get<ConfigProblem>(parse_config("\nproxy = [\"'\"]")).text, "left open"));
  CHECK(std::get<Config>(parse_config("proxy = []")).empty());
  std::string many;
  for (std::size_t number = 0; number < limits::proxies_max; ++number) many += "[[proxy]]\ncommand = 'p'\n";
  CHECK(proxies_in(many).size() == limits::proxies_max);
  const auto problem = std::get<ConfigProblem>(parse_config(many + "[[proxy]]\ncommand = 'p'\n"));
  CHECK(problem.line == 2 * limits::proxies_max + 1);
  CHECK(mentions(problem.text, "at most 100"));
}

TEST_CASE("a flag or a variable stands for all tables of the file", "[proxies]") {
  const auto options_of = [](Words arguments, const Words& environment = {}) {
    const File file("[[proxy]]\ncommand = 'f'\nenv = {A = '1'}\n[[proxy]]\ncommand = 'g'\n");
    arguments.insert(arguments.begin(), {"--config", file.path()});
    return accepted(arguments, environment);
  };
  CHECK(options_of({"--", "agent"}).proxies ==
        std::vector<ProxyOption>{{{"f"}, {"A=1"}, false}, {.command = {"g"}}});
  CHECK(options_of({"--proxy", "x", "--", "agent"}).proxies == std::vector<ProxyOption>{{.command = {"x"}}});
  CHECK(options_of({}, {"KEYHOP_PROXY=y"}).proxies == std::vector<ProxyOption>{{.command = {"y"}}});
}

TEST_CASE("an edge for each proxy, and the last one for the agent", "[proxies]") {
  Options options = accepted({"--proxy", "/usr/bin/a\033 -x", "--proxy", "b", "--recover-prompts", "proven",
                              "--ledger", "/l.db", "--", "agent", "-y"});
  options.proxies[1].is_bypassed = true;
  options.core.id_prefix = "run-";
  const ChainPlan plan = plan_of(options);
  CHECK_FALSE(plan.is_component);
  REQUIRE(plan.edges.size() == 3);
  const auto& [first, second, last] = std::tie(plan.edges[0], plan.edges[1], plan.edges[2]);
  CHECK(first.label == "proxy 1");
  CHECK(first.settings.component == "proxy a?");
  CHECK(second.label == "proxy 2");
  CHECK(second.settings.component == "proxy b");
  CHECK(last.label == "agent");
  CHECK(last.settings.component == "agent");
  CHECK(first.settings.id_prefix == "run-0-");
  CHECK(last.settings.id_prefix == "run-2-");
  CHECK_FALSE(first.settings.is_bypassed);
  CHECK(second.settings.is_bypassed);
  for (const ChainEdge* inner : {&first, &second}) {
    CHECK(inner->settings.is_inner);
    CHECK(inner->settings.keys == KeyMode::forward);
    CHECK_FALSE(inner->settings.ledger);
    CHECK_FALSE(inner->settings.recover_prompts);
  }
  CHECK_FALSE(last.settings.is_inner);
  CHECK(last.settings.keys == KeyMode::guard);
  CHECK(last.settings.ledger);
  CHECK(last.settings.recover_prompts);
  CHECK(last.settings.restarts);
}

TEST_CASE("a component's last edge ends in its conductor, which is not keyhop's to start", "[proxies]") {
  const ChainPlan alone = plan_of(accepted({}));
  CHECK(alone.is_component);
  REQUIRE(alone.edges.size() == 1);
  CHECK(alone.edges[0].label == "successor");
  CHECK(alone.edges[0].settings.component == "conductor");
  CHECK_FALSE(alone.edges[0].settings.restarts);
  const ChainPlan nested = plan_of(accepted({"--proxy", "p"}));
  REQUIRE(nested.edges.size() == 2);
  CHECK(nested.edges[0].settings.restarts);
  CHECK_FALSE(nested.edges[1].settings.restarts);
}

TEST_CASE("each component's command, name and environment, with its place below this keyhop", "[proxies]") {
  Options options = accepted({"--proxy", "dir/a -x", "--proxy", "b", "--", "agent", "-y"});
  options.proxies[0].environment = {"A=2", "B=3", "KEYHOP_PLACE=9"};
  const Words environment{"A=1", "AA=1", "KEYHOP_PLACE=7", "A"};
  auto components = components_of(options, environment);
  REQUIRE(components.size() == 3);
  CHECK(components[0].command == Words{"dir/a", "-x"});
  CHECK(components[0].name == "proxy a");
  CHECK(components[0].environment == Words{"AA=1", "A", "A=2", "B=3", "KEYHOP_PLACE=1"});
  CHECK(components[1].environment == Words{"A=1", "AA=1", "A", "KEYHOP_PLACE=2"});
  CHECK(components[2].command == Words{"agent", "-y"});
  CHECK(components[2].name == "agent");
  CHECK(components[2].environment == Words{"A=1", "AA=1", "A", "KEYHOP_PLACE=3"});
  options.place = "2.1";
  options.agent.clear();
  components = components_of(options, {});
  REQUIRE(components.size() == 2);
  CHECK(components[1].environment == Words{"KEYHOP_PLACE=2.1.2"});
  CHECK(components_of(accepted({}), environment).empty());
}

TEST_CASE("keyhop's own place is what a keyhop above it wrote", "[proxies]") {
  const auto [value, place] = GENERATE(table<std::string, std::string>({
      {"1", "1"},
      {"2.13.4", "2.13.4"},
      {std::string(64, '1'), std::string(64, '1')},
      {std::string(65, '1'), ""},
      {"", ""},
      {"1a", ""},
      {"1 ", ""},
      {"-1", ""},
      {"1\n", ""},
  }));
  CAPTURE(value);
  const auto options = accepted({"--", "agent"}, {"KEYHOP_PLACE=" + value});
  CHECK(options.place == place);
  CHECK(options.warnings.empty());
  CHECK(accepted({"--", "agent"}).place.empty());
}

TEST_CASE("rows of the ledger are told apart by the place, where there is more than one keyhop",
          "[proxies]") {
  CHECK(ledger_place(accepted({"--", "agent"})).empty());
  CHECK(ledger_place(accepted({"--proxy", "p", "--", "agent"})).empty());
  CHECK(ledger_place(accepted({})) == " (proxy)");
  CHECK(ledger_place(accepted({"--proxy", "p"})) == " (proxy)");
  CHECK(ledger_place(accepted({"--", "agent"}, {"KEYHOP_PLACE=2.1"})) == " (component 2.1)");
  CHECK(ledger_place(accepted({}, {"KEYHOP_PLACE=1"})) == " (component 1)");
}

}  // namespace acp::shell
