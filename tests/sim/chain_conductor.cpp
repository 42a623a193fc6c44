// Where keyhop is itself a component: the conductor that started it, between the client and an agent that are
// both behind keyhop's own stdin and stdout.
//
// keyhop's ids are unique on the link, so that client and agent are asked under them; the agent's own are
// told apart from the client's by their form.
#include <fmt/format.h>

#include "tests/sim/chain_world.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {

// A line that keyhop wrote to its conductor.
void ChainWorld::conduct(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top)) return;
  if (top.method == "$/cancel_request") {
    const std::string_view id = member(top.params, "requestId");
    return asked_behind_.contains(id) ? agent_behind_->take(line) : hear(line);
  }
  if (top.method.ends_with("proxy/successor")) {
    if (top.method != fmt::format("{}proxy/successor", plan_.prefixed_conductor ? "_" : ""))
      fail(Invariant::valid, fmt::format("not in the conductor's spelling: {}", line));
    std::string carried = R"({"jsonrpc":"2.0")";
    if (!top.id.empty()) {
      asked_behind_.emplace(top.id);
      carried.append(R"(,"id":)").append(top.id);
    }
    carried.append(R"(,"method":)").append(member(top.params, "method"));
    const std::string_view params = member(top.params, "params");
    if (!params.empty()) carried.append(R"(,"params":)").append(params);
    carried += '}';
    check_arrival(carried);
    return agent_behind_->take(carried);
  }
  constexpr std::string_view mark = "\"a-";
  if (!top.method.empty() || !top.id.starts_with(mark)) return hear(line);
  // An answer to the agent, under the id that it gave.
  const std::string_view own = top.id.substr(mark.size(), top.id.size() - mark.size() - 1);
  const auto at = static_cast<std::size_t>(top.id.data() - line.data());
  agent_behind_->take(fmt::format("{}{}{}", line.substr(0, at), own, line.substr(at + top.id.size())));
}

// What the agent says goes to keyhop in envelopes, its answers as they are.
bool ChainWorld::agent_behind_works() {
  if (agent_behind_ == nullptr || client_done_) return false;
  const bool worked = agent_behind_->work();
  auto& words = agent_behind_->words();
  const bool said = !words.empty();
  for (; !words.empty(); words.pop_front()) {
    TopLevel top;
    const std::string& line = words.front();
    if (!read_top_level(line, top)) continue;
    if (top.method.empty()) {
      say_line(line);
      if (const auto asked = asked_behind_.find(top.id); asked != asked_behind_.end())
        asked_behind_.erase(asked);
      continue;
    }
    if (top.method == "$/cancel_request") {
      say_line(cancel_line(fmt::format("\"a-{}\"", member(top.params, "requestId"))));
      continue;
    }
    const std::string id = top.id.empty() ? std::string() : fmt::format(R"("id":"a-{}",)", top.id);
    say_line(fmt::format(
        R"({{"jsonrpc":"2.0",{}"method":"{}proxy/successor","params":{{"method":"{}","params":{}}}}})", id,
        plan_.prefixed_conductor ? "_" : "", top.method, top.params));
  }
  if (!disk_.failure.empty()) fail(Invariant::once, disk_.failure);
  if (!disk_.misanswer.empty()) fail(Invariant::questions, disk_.misanswer);
  return worked || said;
}

}  // namespace acp::sim
