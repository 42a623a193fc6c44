#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "tests/sim/chain_peers.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {

int number_of(std::string_view token) noexcept {
  int number = -1;
  std::from_chars(token.data(), token.data() + token.size(), number);
  return number;
}

int number_in_meta(std::string_view params, std::string_view name) noexcept {
  return number_of(member(params, "_meta", name));
}

const ChainMessage* ChainDisk::find(std::string_view id) const {
  const auto found = std::ranges::find_if(log, [&](const ChainMessage& each) { return each.id == id; });
  return found == log.end() ? nullptr : &*found;
}

const ChainMessage* ChainDisk::find_key(std::string_view session, std::string_view key) const {
  const auto found = std::ranges::find_if(
      log, [&](const ChainMessage& each) { return each.session == session && each.key == key; });
  return found == log.end() ? nullptr : &*found;
}

std::size_t ChainDisk::insert(ChainMessage message) {
  if (!message.key.empty() && find_key(message.session, message.key) != nullptr)
    failure = fmt::format("a second insertion of key {} in {}", message.key, message.session);
  if (std::ranges::any_of(log, [&](const ChainMessage& each) { return each.tag == message.tag; }))
    failure = fmt::format("a second insertion of request {}", message.tag);
  message.id = fmt::format("m{}", log.size());
  sessions[message.session].push_back(log.size());
  log.push_back(std::move(message));
  return log.size() - 1;
}

void ChainAgent::take(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top)) return;
  if (top.method.empty()) return take_answer(line, top.id);
  const std::string_view method = top.method;
  if (!top.id.empty()) return take_request(top.id, method, top.params);
  if (method == "$/cancel_request" || method == "session/cancel") cancel(method, top.params);
}

void ChainAgent::take_request(std::string_view id, std::string_view method, std::string_view params) {
  if (method == "initialize" && was_asked_)
    disk_.misanswer = fmt::format("initialized in the middle of a life: {}", params);
  was_asked_ = was_asked_ || (initialized_ && method != "initialize");
  if (method == "initialize") {
    initialized_ = true;
    const std::string_view v1 =
        person_.resumes
            ? R"({"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}})"
            : R"({"protocolVersion":1,"agentCapabilities":{"loadSession":true}})";
    return say(result_line(
        id, person_.version == 1 ? v1 : R"({"protocolVersion":2,"info":{"name":"A","version":"1"}})"));
  }
  if (method == "session/new") {
    const std::string fresh = fmt::format("s{}", disk_.sessions.size());
    disk_.sessions[fresh];
    active_.insert(fresh);
    return say(result_line(id, fmt::format(R"({{"sessionId":"{}"}})", fresh)));
  }
  if (method == "session/resume") return resume(id, params, false);
  if (method == "session/load") return resume(id, params, true);
  if (method == "session/prompt") return take_prompt(id, params);
  const int tag = number_in_meta(params, "tag");
  if (tag >= 0 && !disk_.echoed.insert(tag).second)
    disk_.failure = fmt::format("request {} was done twice", tag);
  const std::size_t size = member(params, "x").size();
  say(result_line(id, fmt::format(R"({{"for":{},"x":"{:b<{}}"}})", tag, "", size + size / 5)));
}

void ChainAgent::resume(std::string_view id, std::string_view params, bool loads) {
  const std::string_view session = unquoted(member(params, "sessionId"));
  const auto known = disk_.sessions.find(session);
  if (known == disk_.sessions.end()) return say(error_line(id, -32002, "no such session"));
  active_.emplace(session);
  const std::string_view from = member(params, "replayFrom");
  if (loads || (!from.empty() && from != "null")) {
    for (const std::size_t place : known->second) tasks_.push_back(shown(disk_.log[place], true));
    if (!loads) tasks_.push_back(update(session, R"("sessionUpdate":"state_update","state":"idle")", true));
  }
  tasks_.push_back(result_line(id));
}

void ChainAgent::take_prompt(std::string_view id, std::string_view params) {
  const std::string_view session = unquoted(member(params, "sessionId"));
  if (!active_.contains(session)) return say(error_line(id, -32002, "no such session"));
  std::string_view block = member(params, "prompt");
  block = block.substr(1, block.size() - 2);
  const bool holds = unquoted(member(block, "text")).starts_with("hold");
  (holds ? held_ : prompts_)
      .push_back({std::string(id), std::string(session), std::string(unquoted(member(block, "text"))),
                  std::string(unquoted(member(params, "idempotencyKey"))), number_in_meta(params, "tag")});
}

void ChainAgent::cancel(std::string_view method, std::string_view params) {
  const bool heeds = random_.chance(70);
  const bool all = method == "session/cancel";
  const std::string_view which = all ? unquoted(member(params, "sessionId")) : member(params, "requestId");
  const auto is_over = [&](const Prompt& prompt) {
    const bool meant = which == (all ? prompt.session : prompt.id);
    if (meant) say(error_line(prompt.id, -32800, "cancelled"));
    return meant;
  };
  std::erase_if(held_, is_over);
  if (heeds) std::erase_if(prompts_, is_over);
}

bool ChainAgent::release(const std::function<bool(int)>& is_wanted) {
  return std::erase_if(held_, [&](const Prompt& prompt) {
           const bool over = !is_wanted(prompt.tag);
           if (over) say(error_line(prompt.id, -32800, "given up"));
           return over;
         }) > 0;
}

std::vector<int> ChainAgent::held() const {
  std::vector<int> tags;
  for (const Prompt& prompt : held_) tags.push_back(prompt.tag);
  return tags;
}

// Its client does not answer it.
bool ChainAgent::cancel_question() {
  const auto found = std::ranges::find_if(disk_.questions, [&](const ChainQuestion& each) {
    return each.life == life_ && each.holds && !each.answered && !each.cancelled;
  });
  if (found == disk_.questions.end()) return false;
  found->cancelled = true;
  say(cancel_line(found->id));
  return true;
}

void ChainAgent::flood(std::string_view session) {
  constexpr std::size_t size = 300'000;
  for (int i = 0; i < 6; ++i) {
    tasks_.push_back(update(
        session,
        fmt::format(R"("sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{:f<{}}"}})",
                    "", size)));
  }
}

std::string ChainAgent::update(std::string_view session, std::string_view what, bool replayed) {
  std::string params = fmt::format(R"({{"sessionId":"{}","update":{{{}}},"_meta":{{"n":{}}}}})", session,
                                   what, disk_.news.size());
  disk_.news.push_back({std::string(session), params, life_, replayed});
  return R"({"jsonrpc":"2.0","method":"session/update","params":)" + params + "}";
}

std::string ChainAgent::shown(const ChainMessage& message, bool replayed) {
  return update(
      message.session,
      fmt::format(
          R"("sessionUpdate":"user_message","messageId":"{}","content":[{{"type":"text","text":"{}"}}])",
          message.id, message.text),
      replayed);
}

void ChainAgent::insert() {
  const Prompt prompt = prompts_.front();
  prompts_.pop_front();
  if (person_.refuses_prompts && random_.chance(20)) return say(error_line(prompt.id, -32000, "busy"));
  const ChainMessage* known =
      person_.honours_keys && !prompt.key.empty() ? disk_.find_key(prompt.session, prompt.key) : nullptr;
  if (known != nullptr) return say(result_line(prompt.id, fmt::format(R"({{"messageId":"{}"}})", known->id)));
  const std::size_t place = disk_.insert(
      {.session = prompt.session, .id = {}, .text = prompt.text, .key = prompt.key, .tag = prompt.tag});
  const ChainMessage& message = disk_.log[place];
  for (std::size_t more = person_.asks ? random_.below(4) : 0; more > 0; --more) ask(prompt);
  const std::string answer = result_line(prompt.id, fmt::format(R"({{"messageId":"{}"}})", message.id));
  const bool first = random_.chance(50);
  if (first) tasks_.push_back(shown(message, false));
  tasks_.push_back(answer);
  if (!first) tasks_.push_back(shown(message, false));
  for (std::size_t more = person_.talks ? random_.below(5) : 0; more > 0; --more) {
    tasks_.push_back(update(
        prompt.session, R"("sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"so"})"));
  }
  tasks_.push_back(update(prompt.session, R"("sessionUpdate":"state_update","state":"idle")"));
}

void ChainAgent::ask(const Prompt& prompt) {
  const std::size_t number = disk_.questions.size();
  ChainQuestion question{std::to_string(next_id_++), life_, -1, {}, false};
  question.holds = random_.chance(25);
  const std::string meta = fmt::format(R"("_meta":{{"q":{}}}}})", number);
  std::string method;
  std::string params;
  switch (random_.below(3)) {
    case 0:
      method = "session/request_permission";
      params = fmt::format(R"({{"sessionId":"{}","options":[],)", prompt.session) + meta;
      question.params = params;
      break;
    case 1:
      method = "elicitation/create";
      question.about = prompt.tag;
      question.params = R"("mode":"form",)" + meta;
      params = fmt::format(R"({{"requestId":{},)", prompt.id) + question.params;
      break;
    default:
      method = "mcp/message";
      params = fmt::format(R"({{"serverId":"m","requestId":"r{}","method":"tools/list",)", number) + meta;
      question.params = params;
  }
  say(fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"{}","params":{}}})", question.id, method, params));
  disk_.questions.push_back(std::move(question));
}

void ChainAgent::take_answer(std::string_view line, std::string_view id) {
  const auto found = std::ranges::find_if(
      disk_.questions, [&](const ChainQuestion& each) { return each.life == life_ && each.id == id; });
  if (found == disk_.questions.end() || found->answered) {
    disk_.misanswer = fmt::format("an answer to no open question: {}", line);
    return;
  }
  found->answered = true;
  const bool own = unquoted(member(member(line, "error", "data"), "source")) == "keyhop";
  const int about = number_of(member(member(line, "result", "_meta"), "q"));
  const bool refused = member(line, "error", "code") == "-32800";
  if (!own && !refused && about != found - disk_.questions.begin())
    disk_.misanswer = fmt::format("another question's answer: {}", line);
}

bool ChainAgent::work() {
  if (!prompts_.empty() && (tasks_.empty() || random_.chance(50))) {
    insert();
    return true;
  }
  if (tasks_.empty()) return cancel_question();
  say(std::move(tasks_.front()));
  tasks_.pop_front();
  return true;
}

}  // namespace acp::sim
