#include "tests/sim/lives_client.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

namespace acp::sim {
namespace {

// Every request that a client may send an agent, in that version; initialize and the proxies' own excepted.
std::vector<std::string_view> all_methods(rules::Version version) {
  std::vector<std::string_view> methods;
  for (const rules::MethodFacts& row : rules::methods()) {
    const bool fits = row.direction == rules::Direction::client_to_agent &&
                      row.kind == rules::MessageKind::request && row.id != rules::MethodId::initialize &&
                      rules::stability_of(row, version) != rules::Stability::absent;
    if (fits) methods.push_back(row.method);
  }
  for (const std::string_view other : {"_ext/do", "_unknown", "future/method"}) methods.push_back(other);
  return methods;
}

bool names_session(rules::SessionPlace place) {
  return place == rules::SessionPlace::params || place == rules::SessionPlace::params_optional ||
         place == rules::SessionPlace::params_and_result;
}

}  // namespace

int LivesClient::any_session() {
  if (book_.sessions.empty() || random_.chance(3)) return 7;  // one that nobody knows
  const std::size_t most = script_ == nullptr ? SIZE_MAX : script_->sessions_max;
  return book_.sessions[random_.below(std::min(book_.sessions.size(), most))];
}

Said LivesClient::request(std::string_view method, int session, std::string_view more, bool notification) {
  const int number = static_cast<int>(book_.attempts.size());
  Attempt& attempt = book_.attempts.emplace_back();
  attempt.tag = next_tag_++;
  attempt.facts = &rules::facts_of(
      rules::Sender::client, notification ? rules::MessageKind::notification : rules::MessageKind::request,
      method, version());
  if (!names_session(attempt.facts->session)) session = unset;
  attempt.session = session;
  std::string& line = attempt.line;
  line = R"({"jsonrpc":"2.0")";
  if (!notification) {
    attempt.id = number % 3 == 0 ? fmt::format("\"r{}\"", number) : std::to_string(1000 + number);
    line += R"(,"id":)";
    attempt.id_begin = line.size();
    line += attempt.id;
  }
  fmt::format_to(std::back_inserter(line), R"(,"method":"{}","params":{{)", method);
  if (session != unset) fmt::format_to(std::back_inserter(line), R"("sessionId":"s{}",)", session);
  fmt::format_to(std::back_inserter(line), R"("tag":{}{},"_meta":{{"a":{}}}}}}})", attempt.tag, more, number);
  return {Said::What::attempt, number, line + "\n"};
}

// The same prompt once more under another id, as a client does that got no answer.
Said LivesClient::repeat_of(const Attempt& original) {
  const int number = static_cast<int>(book_.attempts.size());
  Attempt attempt;
  attempt.tag = original.tag;
  attempt.facts = original.facts;
  attempt.session = original.session;
  attempt.keyed = true;
  attempt.id = std::to_string(1000 + number);
  attempt.id_begin = original.id_begin;
  attempt.line = original.line;
  attempt.line.replace(attempt.id_begin, original.id.size(), attempt.id);
  const std::size_t meta = attempt.line.rfind(R"({"a":)");
  attempt.line.replace(meta, std::string::npos, fmt::format(R"({{"a":{}}}}}}})", number));
  book_.attempts.push_back(std::move(attempt));
  return {Said::What::attempt, number, book_.attempts.back().line + "\n"};
}

Said LivesClient::say_initialize() {
  return request("initialize", unset, fmt::format(R"(,"protocolVersion":{})", plan_.person.version));
}

Said LivesClient::say_new_session() {
  return request("session/new", unset,
                 fmt::format(R"(,"cwd":"/w{}","mcpServers":[])", book_.attempts.size()));
}

Said LivesClient::say_prompt() {
  if (plan_.has(Fault::duplicates) && random_.chance(35)) {
    for (std::size_t i = book_.attempts.size(); i > 0 && i + 12 > book_.attempts.size(); --i) {
      const Attempt& old = book_.attempts[i - 1];
      if (old.keyed && random_.chance(40)) return repeat_of(Attempt(old));
    }
  }
  const bool keyed = random_.chance(60) && (script_ == nullptr || keys_ < script_->keys_max);
  keys_ += keyed ? 1 : 0;
  std::string more = fmt::format(R"(,"prompt":[{{"type":"text","text":"do {}"}}])", next_tag_);
  if (keyed) more += fmt::format(R"(,"idempotencyKey":"k{}")", next_tag_);
  Said said = request("session/prompt", any_session(), more);
  book_.attempts.back().keyed = keyed;
  return said;
}

Said LivesClient::say_set() {
  const auto value = random_.below(modes_count);
  const bool mode = plan_.person.version == 1 && random_.chance(50);
  const auto option = static_cast<int>(random_.below(options_count));
  const std::string more = mode ? fmt::format(R"(,"modeId":"m{}")", value)
                                : fmt::format(R"(,"configId":"c{}","value":"v{}")", option, value);
  Said said = request(mode ? "session/set_mode" : "session/set_config_option", any_session(), more);
  Attempt& attempt = book_.attempts.back();
  attempt.value = fmt::format("{}{}", mode ? 'm' : 'v', value);
  attempt.option = mode ? unset : option;
  return said;
}

Said LivesClient::say_any_method() {
  static const std::vector<std::string_view> of_v1 = all_methods(rules::Version::v1);
  static const std::vector<std::string_view> of_v2 = all_methods(rules::Version::v2);
  const std::string_view method = random_.pick(plan_.person.version == 1 ? of_v1 : of_v2);
  if (method == "session/prompt") return say_prompt();
  if (method == "session/set_mode" || method == "session/set_config_option") return say_set();
  const bool opens = method == "session/new" || method == "session/fork";
  if (opens && book_.sessions.size() > 4) return request("session/list", unset, "");
  std::string more;
  const bool activates = method == "session/resume" || method == "session/load";
  if (opens || activates) more = fmt::format(R"(,"cwd":"/w{}","mcpServers":[])", book_.attempts.size());
  if (method == "session/resume" && plan_.person.version == 2 && random_.chance(50))
    more += R"(,"replayFrom":{"type":"start"})";
  if (random_.chance(5)) return request("_ext/note", any_session(), "", true);
  return request(method, any_session(), more);
}

Said LivesClient::say_cancel() {
  if (random_.chance(40)) {
    const int session = any_session();
    return {Said::What::session_cancel, session,
            fmt::format(R"({{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"s{}"}}}})"
                        "\n",
                        session)};
  }
  std::size_t which =
      book_.attempts.size() - 1 - random_.below(std::min<std::size_t>(book_.attempts.size(), 8));
  if (book_.attempts[which].id.empty()) which = 0;
  return {Said::What::cancel, static_cast<int>(which),
          fmt::format(R"({{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{}}}}})"
                      "\n",
                      book_.attempts[which].id)};
}

Said LivesClient::say_answer(std::size_t which) {
  ClientAsk& ask = book_.asks[which];
  ask.answered = true;
  return {Said::What::answer, static_cast<int>(which),
          fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{{"nonce":{}}}}})"
                      "\n",
                      ask.id, ask.nonce)};
}

std::optional<Said> LivesClient::answer_one() {
  for (std::size_t i = 0; i < book_.asks.size(); ++i) {
    if (!book_.asks[i].answered && !book_.asks[i].withdrawn) return say_answer(i);
  }
  return std::nullopt;
}

Said LivesClient::speak() {
  if (book_.attempts.empty()) return say_initialize();
  const std::size_t roll = random_.below(20);
  if (roll < 8) return say_prompt();
  if (roll < 11) return say_set();
  if (roll < 13 && plan_.has(Fault::cancels)) return say_cancel();
  if (roll < 16 && !book_.asks.empty()) {
    // Also late: the answer to what was withdrawn, or to a process that is no more.
    const std::size_t which =
        book_.asks.size() - 1 - random_.below(std::min<std::size_t>(book_.asks.size(), 3));
    const ClientAsk& ask = book_.asks[which];
    if (!ask.answered && (!ask.withdrawn || plan_.has(Fault::late_answers))) return say_answer(which);
  }
  return say_any_method();
}

}  // namespace acp::sim
