// What the tests of a dead proxy share: one proxy before the agent, written by hand, and prompts to lose.
//
// Invariant: none but those of the chain. Lifetime: as ChainTalk.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/chain_parts.h"

namespace acp::test {

inline std::string id_of(std::string_view line) { return std::string(sim::member(line, "id")); }
inline std::string method_of(std::string_view line) {
  const std::string method(sim::unquoted(sim::member(line, "method")));
  if (!method.ends_with("proxy/successor")) return method;
  return "^" + std::string(sim::unquoted(sim::member(sim::member(line, "params"), "method")));
}
inline Lines methods_of(const Lines& lines) {
  Lines methods;
  for (const std::string& line : lines) methods.push_back(method_of(line));
  return methods;
}

inline const std::string prompt = R"({"sessionId":"s1","prompt":[{"type":"text","text":"T"}]})";
inline const std::string keyed =
    R"({"sessionId":"s1","prompt":[{"type":"text","text":"T"}],"idempotencyKey":"k"})";

// A proxy without a mind of its own: what it has from the client goes on at once.
class OneProxy : public ChainTalk {
 public:
  explicit OneProxy(ChainPlan plan = plan_for(1)) : ChainTalk(std::move(plan)) { open(); }
  // The proxy is killed; the next one asks for its initialize and answers it, without a word to the agent.
  void again() {
    restarts(0);
    const Lines asked = take(0);
    REQUIRE(methods_of(asked) == Lines{"proxy/initialize"});
    component(
        0,
        R"({"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":2}}})");
    CHECK(take(0) == Lines{result_line("0", R"({"protocolVersion":2})")});
    component(0, result_line(id_of(asked[0]), R"({"protocolVersion":2})"));
  }
  std::string wrapped(std::string_view id, std::string_view method, std::string_view params) {
    return fmt::format(
        R"({{"jsonrpc":"2.0","id":{},"method":"proxy/successor","params":{{"method":"{}","params":{}}}}})",
        id, method, params);
  }
};

}  // namespace acp::test
