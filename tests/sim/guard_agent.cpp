#include "tests/sim/guard_agent.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

std::string update(std::string_view session, std::string_view kind, std::string_view more) {
  return fmt::format(
      R"({{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","update":{{"sessionUpdate":"{}"{}}}}}}})",
      session, kind, more);
}

int number_of(std::string_view id) {
  int number = 0;
  std::from_chars(id.data(), id.data() + id.size(), number);
  return number;
}

}  // namespace

std::string GuardPerson::in_words() const {
  std::string words;
  const auto add = [&](bool has, std::string_view word) {
    if (has) words.append(words.empty() ? "" : ", ").append(word);
  };
  add(honours_keys, "honours keys");
  add(refuses_replay, "refuses to replay");
  add(rewrites, "rewrites");
  add(forgets, "forgets");
  add(echoes_late, "echoes late");
  add(echoes_nothing, "echoes nothing");
  add(chunks, "chunks");
  add(renames, "renames");
  add(replays_late, "replays late");
  add(hides_state, "hides its state");
  add(gives_no_id, "gives no ids");
  add(refuses_prompts, "refuses prompts");
  return words.empty() ? "is plain" : words;
}

const GuardMessage* GuardDisk::find(std::string_view id) const {
  const auto found = std::ranges::find_if(
      log, [&](const GuardMessage& message) { return message.live_id == id || message.stored_id == id; });
  return found == log.end() ? nullptr : &*found;
}

const GuardMessage* GuardDisk::find_key(std::string_view session, std::string_view key) const {
  const auto found = std::ranges::find_if(log, [&](const GuardMessage& message) {
    return !message.gone && message.session == session && message.key == key;
  });
  return found == log.end() ? nullptr : &*found;
}

std::size_t GuardDisk::insert(GuardMessage message) {
  if (!message.key.empty() && find_key(message.session, message.key) != nullptr && failure.empty())
    failure = fmt::format("a second insertion of key {} in {}", message.key, message.session);
  message.live_id = message.stored_id = fmt::format("m{}", next_message++);
  sessions[message.session].push_back(log.size());
  log.push_back(std::move(message));
  return log.size() - 1;
}

void GuardDisk::bury(int life, const GuardPerson& person, Prng& random) {
  for (auto& [name, places] : sessions) {
    for (const std::size_t place : places) {
      GuardMessage& message = log[place];
      if (message.life == life && person.renames && message.stored_id == message.live_id)
        message.stored_id += "s";
    }
    while (person.forgets && !places.empty() && random.chance(70)) {
      GuardMessage& message = log[places.back()];
      if (message.life != life || message.saved) break;
      message.gone = true;
      places.pop_back();
    }
  }
  for (GuardMessage& message : log) message.saved = message.saved || message.life == life;
}

void GuardAgent::take(std::string_view line) {
  const std::string_view id = member(line, "id");
  const std::string_view method = unquoted(member(line, "method"));
  const std::string session(unquoted(member(line, "params", "sessionId")));
  if (method == "initialize") {
    say(result_line(id, R"({"protocolVersion":2,"info":{"name":"A","version":"1"}})"));
  } else if (method == "session/new") {
    const std::string fresh = fmt::format("s{}", disk_.next_session++);
    disk_.sessions[fresh];
    active_.push_back(fresh);
    say(result_line(id, fmt::format(R"({{"sessionId":"{}"}})", fresh)));
  } else if (method == "session/resume") {
    resume(line, id, session);
  } else if (method == "session/prompt") {
    take_prompt(line, id, session);
  } else if (method == "$/cancel_request" || method == "session/cancel") {
    cancel(line, method);
  } else if (!id.empty() && !method.empty()) {
    say(result_line(id));
  }
}

void GuardAgent::resume(std::string_view line, std::string_view id, std::string_view session) {
  const auto known = disk_.sessions.find(std::string(session));
  if (known == disk_.sessions.end()) return say(error_line(id, -32002, "no such session"));
  const std::string_view from = member(line, "params", "replayFrom");
  const bool replays = !from.empty() && from != "null";
  if (replays && person_.refuses_replay) return say(error_line(id, -32602, "no replay"));
  active_.emplace_back(session);
  std::vector<std::string> lines;
  if (replays) {
    for (const std::size_t place : known->second) {
      const GuardMessage& message = disk_.log[place];
      show(message, message.stored_id, !person_.chunks, lines);
      if (random_.chance(50))
        lines.push_back(update(session, "agent_message", R"(,"messageId":"a","content":[])"));
    }
    if (!person_.hides_state) lines.push_back(update(session, "state_update", R"(,"state":"idle")"));
  }
  if (person_.replays_late) {
    say(result_line(id));
    tasks_.push_back({lines, true});
    return;
  }
  for (std::string& each : lines) say(std::move(each));
  say(result_line(id));
}

void GuardAgent::take_prompt(std::string_view line, std::string_view id, std::string_view session) {
  if (std::ranges::find(active_, session) == active_.end())
    return say(error_line(id, -32002, "session is not active"));
  std::string_view block = member(line, "params", "prompt");
  block.remove_prefix(1);
  block.remove_suffix(1);
  prompts_.push_back({std::string(id), std::string(session), std::string(unquoted(member(block, "text"))),
                      std::string(unquoted(member(line, "params", "idempotencyKey")))});
}

void GuardAgent::forget_unkeyed(std::string_view session, std::string_view text) {
  std::erase_if(prompts_, [&](const Prompt& prompt) {
    return prompt.key.empty() && prompt.session == session && prompt.text == text;
  });
}

void GuardAgent::cancel(std::string_view line, std::string_view method) {
  if (random_.chance(30)) return;  // not heeded
  const std::string_view which =
      method == "session/cancel" ? member(line, "params", "sessionId") : member(line, "params", "requestId");
  std::erase_if(prompts_, [&](const Prompt& prompt) {
    const bool meant = method == "session/cancel" ? unquoted(which) == prompt.session : which == prompt.id;
    if (meant) say(error_line(prompt.id, -32800, "cancelled"));
    return meant;
  });
}

void GuardAgent::show(const GuardMessage& message, std::string_view id, bool whole,
                      std::vector<std::string>& lines) {
  const std::string text = person_.rewrites ? message.text + " (edited)" : message.text;
  if (whole) {
    lines.push_back(
        update(message.session, "user_message",
               fmt::format(R"(,"messageId":"{}","content":[{{"type":"text","text":"{}"}}])", id, text)));
    return;
  }
  const std::size_t half = text.size() / 2;
  for (const std::string& part : {text.substr(0, half), text.substr(half)}) {
    lines.push_back(
        update(message.session, "user_message_chunk",
               fmt::format(R"(,"messageId":"{}","content":{{"type":"text","text":"{}"}})", id, part)));
  }
}

void GuardAgent::insert() {
  const Prompt prompt = prompts_.front();
  prompts_.pop_front();
  if (person_.refuses_prompts && random_.chance(20)) return say(error_line(prompt.id, -32000, "busy"));
  const GuardMessage* known =
      person_.honours_keys && !prompt.key.empty() ? disk_.find_key(prompt.session, prompt.key) : nullptr;
  if (known != nullptr) {
    const bool same = known->text == prompt.text;
    return say(same ? result_line(prompt.id, fmt::format(R"({{"messageId":"{}"}})", known->stored_id))
                    : error_line(prompt.id, -32602, "key reused"));
  }
  const std::size_t place = disk_.insert({.session = prompt.session,
                                          .live_id = {},
                                          .stored_id = {},
                                          .text = prompt.text,
                                          .key = prompt.key,
                                          .request = number_of(prompt.id),
                                          .life = life_});
  const GuardMessage& message = disk_.log[place];
  Task answer{{result_line(
      prompt.id, person_.gives_no_id ? "{}" : fmt::format(R"({{"messageId":"{}"}})", message.live_id))}};
  Task echo{{}, person_.echoes_late};
  show(message, message.live_id, !person_.chunks, echo.lines);
  const bool first = random_.chance(50) && !person_.echoes_late;
  if (!person_.echoes_nothing && first) tasks_.push_back(echo);
  tasks_.push_back(std::move(answer));
  if (!person_.echoes_nothing && !first) tasks_.push_back(std::move(echo));
  tasks_.push_back({{update(prompt.session, "state_update", R"(,"state":"idle")")}});
}

bool GuardAgent::work() {
  if (random_.chance(20)) {
    for (GuardMessage& message : disk_.log) message.saved = message.saved || message.life == life_;
  }
  if (!prompts_.empty() && (tasks_.empty() || random_.chance(50))) {
    insert();
    return true;
  }
  auto next = std::ranges::find_if(tasks_, [](const Task& task) { return !task.late; });
  if (next == tasks_.end() || random_.chance(10)) next = tasks_.begin();
  if (next == tasks_.end()) return false;
  for (std::string& line : next->lines) say(std::move(line));
  tasks_.erase(next);
  return true;
}

}  // namespace acp::sim
