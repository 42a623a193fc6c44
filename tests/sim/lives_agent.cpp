#include "tests/sim/lives_agent.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "rules/methods.h"

namespace acp::sim {

int number_in(std::string_view token) noexcept {
  const std::size_t first = token.find_first_of("0123456789");
  if (first == std::string_view::npos) return -1;
  int number = 0;
  for (const char digit : token.substr(first)) {
    if (digit < '0' || digit > '9') break;
    number = number * 10 + (digit - '0');
  }
  return number;
}

bool AgentLife::is_active(int session) const {
  return knows(session) && static_cast<std::size_t>(session) < active_.size() &&
         active_[static_cast<std::size_t>(session)];
}

void AgentLife::hear(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top) || top.jsonrpc != "\"2.0\"") {
    wrong_ = fmt::format("no message at the agent: {}", line);
    return;
  }
  if (top.method.empty()) return hear_answer(top.id, line);
  if (!top.id.empty()) return hear_request(top, line);
  if (top.method == "$/cancel_request") return hear_cancel(line, top.params);
  if (top.method != "session/cancel") return;
  const int session = number_in(member(top.params, "sessionId"));
  for (Held& held : held_) {
    if (held.session == session && held.method == "session/prompt") held.stopped = true;
  }
}

void AgentLife::hear_answer(std::string_view id, std::string_view line) {
  const auto found = std::find_if(asks_.begin(), asks_.end(), [&](const Ask& ask) { return ask.id == id; });
  if (found == asks_.end()) {
    wrong_ = fmt::format("an answer that this process never asked for: {}", line);
    return;
  }
  const std::string_view nonce = member(line, "result", "nonce");
  if (!nonce.empty() && number_in(nonce) != found->nonce)
    wrong_ = fmt::format("the answer to another process's question: {}", line);
  asks_.erase(found);
}

void AgentLife::hear_cancel(std::string_view line, std::string_view params) {
  const std::string_view id = member(params, "requestId");
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Held& held) { return held.id == id; });
  if (found == held_.end()) return;  // answered meanwhile
  if (found->own) wrong_ = fmt::format("a cancel of keyhop's own request: {}", line);
  if (random_ != nullptr && random_->chance(30)) return;  // it may as well finish
  found->stopped = found->acted;                          // what it did is done: it ends early
  if (!found->acted) found->failure = R"({"code":-32800,"message":"cancelled"})";
}

void AgentLife::hear_request(const TopLevel& top, std::string_view line) {
  Held held;
  held.id = top.id;
  held.method = top.method;
  held.line = line;
  held.session = number_in(member(top.params, "sessionId"));
  held.tag = number_in(member(top.params, "tag"));
  held.own = top.id.starts_with(person_.own_prefix);
  const bool taken =
      std::any_of(held_.begin(), held_.end(), [&](const Held& other) { return other.id == held.id; });
  if (taken) wrong_ = fmt::format("two open requests of one id: {}", line);
  held.failure = failure_of(held, top.params);
  if (held.failure.empty() && !person_.acts_late) act(held);
  held_.push_back(std::move(held));
}

// Why it will not do this; decided when it hears it, so that an error means that it did not act.
std::string AgentLife::failure_of(const Held& held, std::string_view params) {
  const auto error = [](int code) { return fmt::format(R"({{"code":{},"message":"no"}})", code); };
  const bool later = epoch_ > 1;
  const bool activates = held.method == "session/resume" || held.method == "session/load";
  if (held.method == "initialize") {
    return later && person_.refuses_initialize ? error(-32603) : std::string();
  }
  if (held.method == "authenticate" || held.method == "auth/login") return {};
  if (!person_.replays && held.own && !member(params, "replayFrom").empty()) return error(-32602);
  if (later && held.own && activates && person_.restore_error != 0) {
    const bool admitted = person_.restore_error == -32000 && disk_.logged_in;
    const bool wears_off = person_.restore_error == -32603;
    if (!admitted && (!wears_off || ++restore_tries_ < 3)) return error(person_.restore_error);
  }
  if (later && held.own && !activates && person_.refuses_values) return error(-32602);
  const auto version = person_.version == 1 ? rules::Version::v1 : rules::Version::v2;
  const rules::MethodFacts& facts =
      rules::facts_of(rules::Sender::client, rules::MessageKind::request, held.method, version);
  if (facts.method == "_*" && !held.method.starts_with("_ext")) return error(-32601);
  const bool needs_active =
      facts.effect == rules::SessionEffect::prompts || facts.effect == rules::SessionEffect::sets;
  if (needs_active && !is_active(held.session)) return error(-32002);
  const bool needs_known = activates || held.method == "session/fork";
  if (needs_known && !knows(held.session)) return error(-32002);
  return !held.own && random_ != nullptr && random_->chance(6) ? error(-32603) : std::string();
}

void AgentLife::act(Held& held) {
  held.acted = true;
  const std::string_view params = member(held.line, "params");
  if (held.method == "session/prompt") {
    DiskSession& session = at(held.session);
    const std::string_view key = member(params, "idempotencyKey");
    if (person_.honours_keys && !key.empty()) {
      for (const auto& [known, message] : session.keys) {
        if (known != key) continue;
        held.message = message;
        return;  // once only
      }
    }
    held.message = disk_.next_message++;
    session.messages.push_back({held.message, std::string(member(params, "prompt"))});
    if (!key.empty()) session.keys.emplace_back(key, held.message);
  } else {
    act_on_session(held, params);
  }
  if (!held.own) disk_.act(held.tag, epoch_);
}

void AgentLife::activate(int session, bool fresh) {
  const auto row = static_cast<std::size_t>(session);
  if (active_.size() <= row) active_.resize(row + 1);
  if (fresh && !active_[row] && person_.forgets_values) {
    at(session).mode = 0;
    at(session).options = {};
  }
  active_[row] = true;
}

void AgentLife::act_on_session(Held& held, std::string_view params) {
  const std::string& method = held.method;
  if (method == "session/new" || method == "session/fork") {
    DiskSession made;
    if (method == "session/fork") made.messages = at(held.session).messages;
    disk_.sessions.push_back(std::move(made));
    held.message = static_cast<int>(disk_.sessions.size()) - 1;
    return;  // it is active once its name is told
  }
  if (method == "authenticate" || method == "auth/login") disk_.logged_in = true;
  if (method == "logout" || method == "auth/logout") disk_.logged_in = false;
  if (!knows(held.session)) return;
  if (method == "session/resume" || method == "session/load") return activate(held.session, true);
  if (method == "session/set_mode") at(held.session).mode = number_in(member(params, "modeId"));
  if (method == "session/set_config_option") {
    const auto option = static_cast<std::size_t>(number_in(member(params, "configId")));
    if (option < options_count) at(held.session).options[option] = number_in(member(params, "value"));
  }
  const bool ends = method == "session/close" || method == "session/delete" || method == "session/archive";
  if (ends && is_active(held.session)) active_[static_cast<std::size_t>(held.session)] = false;
  if (method == "session/delete") at(held.session).exists = false;
}

void AgentLife::answer(std::size_t which) {
  const bool silent = held_[which].own && epoch_ > 1 && person_.never_restores &&
                      (held_[which].method == "session/resume" || held_[which].method == "session/load");
  if (silent) return;
  Held held = std::move(held_[which]);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  if (held.failure.empty() && !held.acted) {
    // What it needs may have gone meanwhile.
    held.failure = failure_of(held, member(held.line, "params"));
    if (held.failure.empty()) act(held);
  }
  if (!held.failure.empty()) return say_answer(held.id, "error", held.failure);
  if (held.method == "session/new" || held.method == "session/fork") activate(held.message, false);
  if (held.method == "session/resume" || held.method == "session/load") replay(held);
  if (held.method == "session/prompt") update(held.session, "agent_message_chunk");
  say_answer(held.id, "result", result_of(held));
  initialized_ = initialized_ || held.method == "initialize";
}

void AgentLife::say_answer(std::string_view id, std::string_view name, std::string_view value) {
  fmt::format_to(std::back_inserter(said_), "{{\"jsonrpc\":\"2.0\",\"id\":{},\"{}\":{}}}\n", id, name, value);
}

}  // namespace acp::sim
