#include "tests/sim/chain_wire.h"

#include <fmt/format.h>

#include "tests/sim/json_scan.h"

namespace acp::sim {

std::optional<ChainFinding> ChainWire::wrote(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top) || top.jsonrpc.empty())
    return ChainFinding{Invariant::valid, fmt::format("no message: {}", line)};
  const std::string_view method = top.method;
  if (top.method.empty()) {
    if (top.id == "null") return std::nullopt;  // about what had no id
    const auto found = heard_.find(top.id);
    if (found == heard_.end())
      return ChainFinding{Invariant::one_answer, fmt::format("an answer to nothing: {}", line)};
    heard_.erase(found);
  } else if (method == "$/cancel_request") {
    const std::string_view id = member(top.params, "requestId");
    if (!asked_.contains(id))
      return ChainFinding{Invariant::cancelled, fmt::format("names nothing that is open: {}", line)};
    if (!cancelled_.emplace(id).second)
      return ChainFinding{Invariant::cancelled, fmt::format("a second time: {}", line)};
  } else if (!top.id.empty() && !asked_.emplace(top.id).second) {
    return ChainFinding{Invariant::ids, fmt::format("the id is open already: {}", line)};
  }
  return std::nullopt;
}

void ChainWire::read(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top) || top.id.empty()) return;
  if (!top.method.empty()) {
    heard_.emplace(top.id);
    return;
  }
  const auto found = asked_.find(top.id);
  if (found == asked_.end()) return;
  if (const auto cancelled = cancelled_.find(top.id); cancelled != cancelled_.end())
    cancelled_.erase(cancelled);
  asked_.erase(found);
}

}  // namespace acp::sim
