#include <fmt/format.h>

#include "tests/sim/chain_peers.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

// `text` with one span of it replaced.
std::string spliced(std::string_view text, std::string_view span, std::string_view with) {
  const auto at = static_cast<std::size_t>(span.data() - text.data());
  std::string out(text.substr(0, at));
  return out.append(with).append(text.substr(at + span.size()));
}

}  // namespace

std::string ChainProxy::spelled(std::string_view word) const {
  return fmt::format("{}proxy/{}", person_.prefixed ? "_" : "", word);
}

void ChainProxy::take(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top)) return;
  if (top.method.empty()) return take_answer(line, top.id);
  const std::string_view method = top.method;
  if (person_.is_none) {
    if (method.ends_with("proxy/initialize")) return take_wrong_spelling(top.id, method, top.params);
    if (!top.id.empty()) say(error_line(top.id, -32601, "Method not found"));
    return;
  }
  if (method == spelled("successor")) {
    const std::string_view inner = unquoted(member(top.params, "method"));
    const std::string_view params = member(top.params, "params");
    // A cancel is plain on every hop.
    if (inner.empty() || inner == "$/cancel_request") return;
    const std::string_view named = member(params, "requestId");
    const auto found = inner == "elicitation/create" ? passed_.find(named) : passed_.end();
    if (found == passed_.end()) return pass(top.id, inner, params, false);
    return pass(top.id, inner, spliced(params, named, found->second), false);
  }
  if (method == spelled("initialize")) initialize_id_ = top.id;
  if (method == spelled("initialize")) return pass(top.id, "initialize", top.params, true);
  if (method == "$/cancel_request") return take_cancel(top.params);
  if (method.starts_with("proxy/") || method.starts_with("_proxy/"))
    return take_wrong_spelling(top.id, top.method, top.params);
  pass(top.id, top.method, top.params, true);
}

void ChainProxy::take_answer(std::string_view line, std::string_view id) {
  const auto found = passed_.find(id);
  if (found == passed_.end()) return;
  if (found->second == initialize_id_) ready_ = member(line, "error").empty();
  say(spliced(line, id, found->second));
  sent_.erase(found->second);
  passed_.erase(found);
}

void ChainProxy::ask(bool successor) {
  if (!ready_) return;
  const std::string id = person_.ids == ChainIds::fresh ? std::to_string(next_id_++)
                                                        : fmt::format("\"o{}-{}\"", component_, next_id_++);
  const std::string envelope = fmt::format(R"("method":"{}","params":{{)", spelled("successor"));
  say(fmt::format(R"({{"jsonrpc":"2.0","id":{},{}"method":"_test/own"{}}})", id, successor ? envelope : "",
                  successor ? "}" : ""));
}

void ChainProxy::take_cancel(std::string_view params) {
  const std::string_view id = member(params, "requestId");
  const auto found = sent_.find(id);
  if (found == sent_.end()) return;
  const std::string own = spliced(params, id, found->second.id);
  if (found->second.wrapped && person_.wraps_cancels) {
    return say(fmt::format(
        R"({{"jsonrpc":"2.0","method":"{}","params":{{"method":"$/cancel_request","params":{}}}}})",
        spelled("successor"), own));
  }
  say(fmt::format(R"({{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}})", own));
}

void ChainProxy::take_wrong_spelling(std::string_view id, std::string_view method, std::string_view params) {
  misasked_ = true;
  switch (person_.wrong) {
    case ChainWrong::refuse:
      if (!id.empty()) say(error_line(id, -32601, "Method not found"));
      return;
    case ChainWrong::pass: return pass(id, method, params, true);
    case ChainWrong::exit: exits_ = true; return;
  }
}

void ChainProxy::pass(std::string_view id, std::string_view method, std::string_view params, bool wrapped) {
  std::string line = R"({"jsonrpc":"2.0")";
  if (!id.empty()) {
    std::string own(id);
    if (person_.ids == ChainIds::fresh) own = std::to_string(next_id_++);
    if (person_.ids == ChainIds::text) own = fmt::format("\"p{}-{}\"", component_, next_id_++);
    line.append(R"(,"id":)").append(own);
    passed_[own] = id;
    sent_[std::string(id)] = {own, wrapped};
  }
  if (wrapped) line.append(R"(,"method":")").append(spelled("successor")).append(R"(","params":{"method":")");
  if (!wrapped) line.append(R"(,"method":")");
  line.append(method).append("\"");
  if (!params.empty()) line.append(R"(,"params":)").append(params);
  say(line.append(wrapped ? "}}" : "}"));
}

}  // namespace acp::sim
