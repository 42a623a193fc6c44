#include "proxy/shell/components.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "proxy/shell/option_values.h"

namespace acp::shell {
namespace {

std::string_view file_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

std::string name_of(const ProxyOption& proxy) {
  return fmt::format("proxy {}", printable(file_name(proxy.command.front())));
}

bool names(std::string_view variable, std::string_view name) noexcept {
  return variable.starts_with(name) && variable.substr(name.size(), 1) == "=";
}

void set_variable(std::vector<std::string>& environment, std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  std::erase_if(environment, [name](std::string_view other) { return names(other, name); });
  environment.emplace_back(variable);
}

std::string place_below(const Options& options, std::size_t number) {
  const std::string_view dot = options.place.empty() ? "" : ".";
  return fmt::format("{}={}{}{}", place_variable, options.place, dot, number + 1);
}

}  // namespace

bool is_chain(const Options& options) noexcept { return options.agent.empty() || !options.proxies.empty(); }

ChainPlan plan_of(const Options& options) {
  ChainPlan plan;
  for (const ProxyOption& proxy : options.proxies) {
    ChainEdge edge{options.core, fmt::format("proxy {}", plan.edges.size() + 1)};
    edge.settings.component = name_of(proxy);
    edge.settings.is_inner = true;
    edge.settings.is_bypassed = proxy.is_bypassed;
    edge.settings.keys = KeyMode::forward;
    edge.settings.ledger = edge.settings.recover_prompts = false;
    plan.edges.push_back(std::move(edge));
  }
  plan.is_component = options.agent.empty();
  plan.edges.push_back({options.core, plan.is_component ? "successor" : "agent"});
  if (plan.is_component) {
    plan.edges.back().settings.restarts = false;  // it is not ours to start
    plan.edges.back().settings.component = "conductor";
  }
  for (std::size_t edge = 0; edge < plan.edges.size(); ++edge)
    plan.edges[edge].settings.id_prefix += fmt::format("{}-", edge);
  return plan;
}

std::vector<Component> components_of(const Options& options, const std::vector<std::string>& environment) {
  std::vector<Component> components;
  for (const ProxyOption& proxy : options.proxies) {
    Component component{proxy.command, environment, name_of(proxy)};
    for (const auto& variable : proxy.environment) set_variable(component.environment, variable);
    components.push_back(std::move(component));
  }
  if (!options.agent.empty()) components.push_back({options.agent, environment, "agent"});
  for (std::size_t number = 0; number < components.size(); ++number)
    set_variable(components[number].environment, place_below(options, number));
  return components;
}

std::string ledger_place(const Options& options) {
  if (!options.place.empty()) return fmt::format(" (component {})", options.place);
  return options.agent.empty() ? " (proxy)" : "";
}

}  // namespace acp::shell
