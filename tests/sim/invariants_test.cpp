// The list of invariants promises nothing that no checker looks at.
#include "tests/sim/invariants.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace acp::sim {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The invariants that a world, a checker or a model names in a finding.
std::set<std::string> reported_invariants() {
  static const std::regex finding(R"((?:report|fail|note)\(\s*Invariant::(\w+)|broken = Invariant::(\w+))");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KEYHOP_SIM_SOURCES)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".cpp") || name.ends_with("_test.cpp")) continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator found(text.begin(), text.end(), finding), end; found != end; ++found)
      names.insert((*found)[1].matched ? (*found)[1] : (*found)[2]);
  }
  return names;
}

TEST_CASE("every invariant is one that a checker can find broken", "[invariants]") {
  const std::set<std::string> reported = reported_invariants();
  for (const InvariantFacts& facts : invariants) {
    std::string name(facts.name);
    std::replace(name.begin(), name.end(), ' ', '_');
    INFO(name);
    CHECK(reported.contains(name));
  }
  CHECK(reported.size() == std::size(invariants));
}

}  // namespace
}  // namespace acp::sim
