// What tests of options share: parsing a command line, and a file for --config.
//
// Invariant: accepted() and stopped() fail the test where the other one would be right. Lifetime: a Held file
// is readable once, as long as the object.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/shell/options.h"
#include "tests/unit/descriptors.h"

namespace acp::test {

using shell::Options;
using shell::Stop;

using Words = std::vector<std::string>;

inline std::variant<Options, Stop> parse(const Words& arguments, const Words& environment = {},
                                         bool on_terminal = false) {
  std::vector<const char*> argv{"keyhop"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  std::vector<const char*> variables;
  for (const auto& variable : environment) variables.push_back(variable.c_str());
  variables.push_back(nullptr);
  return shell::parse_options(static_cast<int>(argv.size()), argv.data(), variables.data(), on_terminal);
}

inline Options accepted(const Words& arguments, const Words& environment = {}) {
  auto parsed = parse(arguments, environment);
  if (const auto* stop = std::get_if<Stop>(&parsed)) FAIL("refused: " << stop->text);
  return std::get<Options>(std::move(parsed));
}

inline Stop stopped(const Words& arguments, const Words& environment = {}, bool on_terminal = false) {
  const auto parsed = parse(arguments, environment, on_terminal);
  REQUIRE(std::holds_alternative<Stop>(parsed));
  const auto& stop = std::get<Stop>(parsed);
  CHECK(stop.text.ends_with('\n'));
  return stop;
}

inline bool mentions(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// A pipe that holds `bytes` (few) and its end, as a path.
class Held {
 public:
  explicit Held(std::string_view bytes) : pipe_(make_pipe()) {
    REQUIRE(::write(pipe_.writing.number(), bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()));
    pipe_.writing.reset();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(pipe_.reading.number()); }

 private:
  Pipe pipe_;
};

}  // namespace acp::test
