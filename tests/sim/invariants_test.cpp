// The list of invariants promises nothing that no checker looks at.
#include "tests/sim/invariants.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace acp::sim {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The names that stand in the text where something is found: report(Invariant::once, …).
void collect_reported(std::string_view text, std::set<std::string>& names) {
  constexpr std::string_view prefix = "Invariant::";
  for (const std::string_view begin : {"report(", "fail(", "note(", "broken = "}) {
    for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at)) {
      at = text.find_first_not_of(" \n", at + begin.size());
      if (at == std::string_view::npos || !text.substr(at).starts_with(prefix)) continue;
      at += prefix.size();
      const std::size_t end = text.find_first_of(",;)", at);
      names.emplace(text.substr(at, end - at));
    }
  }
}

// The invariants that a world, a checker or a model names in a finding.
std::set<std::string> reported_invariants() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KEYHOP_SIM_SOURCES)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".cpp") && !name.ends_with("_test.cpp"))
      collect_reported(text_of(entry.path()), names);
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
