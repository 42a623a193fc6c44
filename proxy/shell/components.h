// What stands in the chain, from the options: for the core its edges, for the shell its commands.
//
// A single agent is a chain of one edge. Invariant: component number n of the shell stands at the end of the
// core's edge n (component_of in types.h); a place (KEYHOP_PLACE in a component's environment) is unlike that
// of any other component below the same keyhop, and the same in each run. Lifetime: plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/chain.h"
#include "proxy/shell/options.h"

namespace acp::shell {

// What is started for a component.
struct Component {
  std::vector<std::string> command;
  std::vector<std::string> environment;
  std::string name;  // for a person: "agent", "proxy NAME"
};

// Whether keyhop is more than one edge before an agent.
bool is_chain(const Options& options) noexcept;

// Proxies first, the agent last; without an agent keyhop is a component itself, and the last edge ends in
// whoever started it. Keys are guarded on the last edge only: between components a keyed prompt is sent again
// with its key.
ChainPlan plan_of(const Options& options);

// `environment`: keyhop's own, without its options.
std::vector<Component> components_of(const Options& options, const std::vector<std::string>& environment);

// What sets the rows of the ledger apart that several keyhops of one chain write: each remembers what *it*
// has passed on. Empty for one that is alone before its agent. To stand behind the agent's name.
std::string ledger_place(const Options& options);

}  // namespace acp::shell
