#include "tests/sim/model_agent.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

std::uint8_t last_digit(std::string_view token) noexcept {
  const std::string_view inside = unquoted(token);
  return inside.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(inside.back() - '0');
}

std::string update(std::size_t session, std::string_view kind, std::string_view more) {
  return fmt::format(
      R"({{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","update":{{"sessionUpdate":"{}"{}}}}}}})",
      session_name(session), kind, more);
}

std::string user_message(std::size_t number, ModelWork work, bool same_text) {
  return update(work.session, "user_message",
                fmt::format(R"(,"messageId":"m{}","content":[{{"type":"text","text":"{}"}}])", number,
                            text_of(work, same_text)));
}

}  // namespace

std::string session_name(std::size_t session) { return fmt::format("s{}", session); }
std::string key_name(std::size_t key) { return fmt::format("k{}", key); }
std::string text_of(ModelWork work, bool same_text) {
  return same_text ? std::string("go on") : fmt::format("work {}", work.key);
}

bool ModelDisk::has(ModelWork work) const noexcept {
  return std::ranges::any_of(
      messages, [work](const ModelMessage& message) { return !message.gone && message.work == work; });
}

const ModelMessage* ModelDisk::find(std::string_view id) const noexcept {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (fmt::format("m{}", i) == id) return &messages[i];
  }
  return nullptr;
}

void ModelDisk::tell(std::string& out) const {
  fmt::format_to(std::back_inserter(out), "disk {}", sessions);
  for (const ModelMessage& message : messages)
    fmt::format_to(std::back_inserter(out), " {},{},{}", message.work.session, message.work.key,
                   message.gone);
  out += '\n';
}

void ModelProcess::send(std::string_view line, ModelDisk& disk) {
  pipe.emplace_back(line);
  take_rest_at_once(disk);
}

// When a prompt or a cancel is taken nobody can tell: the next thing to see of it is an insertion.
void ModelProcess::take_rest_at_once(ModelDisk& disk) {
  while (!pipe.empty()) {
    const std::string_view method = unquoted(member(pipe.front(), "method"));
    if (method != "session/prompt" && method != "$/cancel_request" && method != "initialize" &&
        method != "session/new")
      return;
    const std::string line = std::move(pipe.front());
    pipe.pop_front();
    const std::string_view id = member(line, "id");
    if (method[0] == '$') {
      cancel(line);
    } else if (member(line, "method") == "\"initialize\"") {
      say(result_line(id, R"({"protocolVersion":2,"info":{"name":"A","version":"1"}})"));
    } else if (member(line, "method") == "\"session/new\"") {
      active_.push_back(static_cast<std::uint8_t>(disk.sessions));
      say(result_line(id, fmt::format(R"({{"sessionId":"{}"}})", session_name(disk.sessions++))));
    } else {
      const ModelWork work{last_digit(member(line, "params", "sessionId")),
                           last_digit(member(line, "params", "idempotencyKey"))};
      if (std::ranges::find(active_, work.session) == active_.end()) {
        say(error_line(id, -32002, "session is not active"));
      } else {
        prompts.push_back({std::string(id), work});
      }
    }
  }
}

void ModelProcess::take(ModelDisk& disk) {
  const std::string line = std::move(pipe.front());
  pipe.pop_front();
  const std::string_view id = member(line, "id");
  if (unquoted(member(line, "method")) == "session/resume") {
    resume(line, id, disk);
  } else if (!id.empty()) {
    say(error_line(id, -32601, "no such method"));
  }
  take_rest_at_once(disk);
}

void ModelProcess::resume(std::string_view line, std::string_view id, const ModelDisk& disk) {
  const std::uint8_t session = last_digit(member(line, "params", "sessionId"));
  if (session >= disk.sessions) return say(error_line(id, -32002, "no such session"));
  active_.push_back(session);
  const std::string_view from = member(line, "params", "replayFrom");
  if (!from.empty() && from != "null") {
    for (std::size_t i = 0; i < disk.messages.size(); ++i) {
      const ModelMessage& message = disk.messages[i];
      if (message.work.session == session && !message.gone) say(user_message(i, message.work, same_text_));
    }
    say(update(session, "state_update", R"(,"state":"idle")"));
  }
  say(result_line(id));
}

void ModelProcess::cancel(std::string_view line) {
  const std::string_view which = member(line, "params", "requestId");
  std::erase_if(prompts, [&](const ModelPrompt& prompt) {
    const bool meant = prompt.id == which && prompt.message == ModelPrompt::not_inserted;
    if (meant) say(error_line(prompt.id, -32800, "cancelled"));
    return meant;
  });
}

const ModelPrompt* ModelProcess::next_to_insert(std::size_t session) const noexcept {
  const auto found = std::ranges::find_if(prompts, [session](const ModelPrompt& prompt) {
    return prompt.work.session == session && prompt.message == ModelPrompt::not_inserted;
  });
  return found == prompts.end() ? nullptr : &*found;
}

const ModelPrompt* ModelProcess::next_to_answer(std::size_t session) const noexcept {
  const auto found = std::ranges::find_if(
      prompts, [session](const ModelPrompt& prompt) { return prompt.work.session == session; });
  const bool none = found == prompts.end() || found->message == ModelPrompt::not_inserted;
  return none ? nullptr : &*found;
}

void ModelProcess::insert(const ModelPrompt& prompt, ModelDisk& disk) {
  const std::size_t message = disk.messages.size();
  prompts[static_cast<std::size_t>(&prompt - prompts.data())].message = message;
  inserted.push_back(message);
  disk.messages.push_back({prompt.work});
  say(user_message(message, prompt.work, same_text_));
}

void ModelProcess::answer(const ModelPrompt& prompt) {
  say(result_line(prompt.id, fmt::format(R"({{"messageId":"m{}"}})", prompt.message)));
  say(update(prompt.work.session, "state_update", R"(,"state":"idle")"));
  const std::string id = prompt.id;
  std::erase_if(prompts, [&](const ModelPrompt& each) { return each.id == id; });
}

void ModelProcess::leave_client() {
  words.clear();
  std::erase_if(prompts,
                [](const ModelPrompt& prompt) { return prompt.message != ModelPrompt::not_inserted; });
}

bool ModelProcess::die(ModelDisk& disk, std::size_t saved) noexcept {
  alive = false;
  const bool loses = saved < inserted.size();
  for (std::size_t i = saved; i < inserted.size(); ++i) disk.messages[inserted[i]].gone = true;
  inserted.clear();
  prompts.clear();
  pipe.clear();
  return loses;
}

void ModelProcess::tell(std::string& out) const {
  const auto put = std::back_inserter(out);
  fmt::format_to(put, "process {}{}{}", started, alive, doomed);
  for (const std::string& line : pipe) fmt::format_to(put, " |{}", line);
  for (const ModelPrompt& prompt : prompts)
    fmt::format_to(put, " {}:{},{},{}", prompt.id, prompt.work.session, prompt.work.key, prompt.message);
  for (const std::size_t message : inserted) fmt::format_to(put, " i{}", message);
  for (const std::uint8_t session : active_) fmt::format_to(put, " a{}", session);
  fmt::format_to(put, "\n{}\n", words);
}

}  // namespace acp::sim
