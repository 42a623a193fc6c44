// One link as keyhop sees it: which requests are open on it, in either direction.
//
// Told of every whole line that keyhop wrote and read, in the order of both. Invariant: what it finds wrong
// is keyhop's doing, for the peers of the simulation make no mistakes but on purpose. Lifetime: of a link.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tests/sim/invariants.h"

namespace acp::sim {

struct ChainFinding {
  Invariant invariant;
  std::string text;
};

class ChainWire {
 public:
  // A finding, or none.
  std::optional<ChainFinding> wrote(std::string_view line);
  void read(std::string_view line);
  // What keyhop was asked on it and has not answered.
  std::size_t owes() const noexcept { return heard_.size(); }

 private:
  using Ids = std::set<std::string, std::less<>>;
  Ids asked_;
  Ids cancelled_;
  Ids heard_;
};

}  // namespace acp::sim
