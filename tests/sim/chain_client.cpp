// The client of the chain's histories, and what it is owed.
#include <algorithm>
#include <fmt/format.h>

#include "tests/sim/chain_world.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {

bool ChainWorld::has_open() const {
  return std::ranges::any_of(asks_, [](const auto& each) { return each.second.open && each.second.read; });
}

std::string ChainWorld::pick_session() {
  if (sessions_.empty()) return {};
  const std::size_t most = script_ == nullptr ? SIZE_MAX : script_->sessions_max;
  return sessions_[random_.below(std::min(sessions_.size(), most))];
}

// ---- what it says ----

void ChainWorld::say(Ask::Kind kind, std::string_view method, std::string params, Ask ask) {
  const int id = next_id_++;
  ask.kind = kind;
  ask.params = fmt::format(R"({{{}{}"_meta":{{"tag":{}}}}})", params, params.empty() ? "" : ",", id);
  const std::string line = request_line(std::to_string(id), method, ask.params);
  say_line(line);
  asks_.emplace(id, std::move(ask));
}

void ChainWorld::say_line(std::string_view line) {
  tell("C", line);
  from_client_.bytes.append(line) += '\n';
}

// With --max-frame small, some of them fit on no hop, some not on all.
void ChainWorld::say_echo() {
  const std::size_t size = plan_.oversize && faults_ && random_.chance(60) ? 1700 + random_.below(500) : 4;
  say(Ask::Kind::echo, "_test/echo", fmt::format(R"("x":"{:a<{}}","y":1.50e1)", "", size), {});
}

void ChainWorld::say_initialize() {
  const std::string_view method = !plan_.is_component        ? "initialize"
                                  : plan_.prefixed_conductor ? "_proxy/initialize"
                                                             : "proxy/initialize";
  say(Ask::Kind::initialize, method, fmt::format(R"("protocolVersion":{})", plan_.agent.version), {});
}

void ChainWorld::say_resume(const std::string& session, bool replay) {
  if (plan_.agent.version == 1) {
    return say(Ask::Kind::resume, plan_.agent.resumes && !replay ? "session/resume" : "session/load",
               fmt::format(R"("sessionId":"{}","cwd":"/w","mcpServers":[])", session), {.session = session});
  }
  say(Ask::Kind::resume, "session/resume",
      fmt::format(R"("sessionId":"{}","cwd":"/w","mcpServers":[]{})", session,
                  replay ? R"(,"replayFrom":{"type":"start"})" : ""),
      {.session = session});
}

void ChainWorld::say_prompt(const std::string& session, const std::string& key, const std::string& text) {
  bool alone = true;
  for (auto& [id, ask] : asks_) {
    if (!ask.open || ask.kind != Ask::Kind::prompt || ask.session != session) continue;
    ask.alone = alone = false;
  }
  const std::string token = key.empty() ? std::string() : fmt::format(R"("idempotencyKey":"{}",)", key);
  say(Ask::Kind::prompt, "session/prompt",
      fmt::format(R"("sessionId":"{}",{}"prompt":[{{"type":"text","text":"{}"}}])", session, token, text),
      {.session = session, .key = key, .text = text, .alone = alone});
}

void ChainWorld::say_new_prompt() {
  const std::string session = pick_session();
  const bool holds = plan_.cancels && faults_ && random_.chance(12);
  const std::string text = fmt::format("{} {}", holds ? "hold" : "text", next_text_++);
  if (holds) return say_prompt(session, {}, text);
  const bool has_key = random_.chance(60) && plan_.agent.version == 2 &&
                       (script_ == nullptr || keys_.size() < script_->keys_max);
  if (!has_key) return say_prompt(session, {}, text);
  const std::string key = fmt::format("k{}", keys_.size());
  keys_.push_back({session, key, text});
  say_prompt(session, key, text);
}

void ChainWorld::say_cancel() {
  if (random_.chance(25) && !sessions_.empty()) {
    const std::string session = pick_session();
    for (auto& [id, ask] : asks_) ask.cancelled = ask.cancelled || (ask.open && ask.session == session);
    const std::string line = fmt::format(
        R"({{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{}"}}}})", session);
    return say_line(line);
  }
  for (auto& [id, ask] : asks_) {
    if (!ask.open || ask.cancelled || random_.chance(50)) continue;
    ask.cancelled = true;
    return say_line(cancel_line(std::to_string(id)));
  }
}

// Says something that a client could say now.
void ChainWorld::speak() {
  if (client_done_ || from_client_.bytes.size() > 1500) return;
  if (asks_.empty()) return say_initialize();
  if (!initialized_ && !plan_.hasty) return;
  const bool creates = std::ranges::any_of(
      asks_, [](const auto& each) { return each.second.kind == Ask::Kind::create && each.second.open; });
  if ((sessions_.empty() || random_.chance(3)) && !creates && sessions_.size() < 3)
    return say(Ask::Kind::create, "session/new", R"("cwd":"/w","mcpServers":[])", {});
  if (plan_.junk && random_.chance(8)) {
    from_client_.bytes += random_.chance(50) ? "not JSON\n" : "[1,2]\n";
    return;
  }
  if (sessions_.empty()) return;
  const std::size_t roll = random_.below(20);
  if (roll == 0) return say_resume(pick_session(), random_.chance(50));
  if (roll < 4 && plan_.cancels) return say_cancel();
  if (roll < 6) return say_echo();
  if (roll < 11 && plan_.retries && !keys_.empty()) {
    const Key& key = random_.pick(keys_);
    return say_prompt(key.session, key.key, key.text);
  }
  say_new_prompt();
}

bool ChainWorld::answer_question() {
  if (questions_.empty() || client_lost_ || client_done_) return false;
  const auto next = std::ranges::find_if(questions_, [&](const auto& each) {
    return each.second < 0 || !disk_.questions[static_cast<std::size_t>(each.second)].holds;
  });
  if (next == questions_.end()) return false;
  const auto [id, number] = *next;
  questions_.erase(next);
  say_line(result_line(id, fmt::format(R"({{"_meta":{{"q":{}}}}})", number)));
  return true;
}

// keyhop has it whole.
void ChainWorld::was_read(std::string_view line) {
  if (member(line, "method").empty()) return;
  const auto found = asks_.find(number_of(member(line, "id")));
  if (found != asks_.end()) found->second.read = true;
}

// ---- what it hears ----

void ChainWorld::hear(std::string_view line) {
  ++outcome_.messages;
  TopLevel top;
  if (!read_top_level(line, top)) return;
  if (top.method == "session/update") return hear_news(top.params);
  if (top.method == "$/cancel_request") return hear_cancel(member(top.params, "requestId"));
  if (!top.method.empty()) return hear_question(top.id, top.method, top.params);
  const int id = number_of(top.id);
  const auto found = asks_.find(id);
  if (found == asks_.end()) return;  // about a line that was no message; the wire looks at ids
  Ask& ask = found->second;
  if (!ask.open) return fail(Invariant::one_answer, fmt::format("a second answer: {}", line));
  ask.open = false;
  ask.succeeded = top.error.empty();
  return ask.succeeded ? hear_answer(ask, id, line) : hear_error(ask, id, line);
}

// It gives up on the question, and answers that.
void ChainWorld::hear_cancel(std::string_view id) {
  const auto asked = std::ranges::find_if(questions_, [&](const auto& each) { return each.first == id; });
  if (asked == questions_.end()) return;  // its answer is under way
  questions_.erase(asked);
  if (!client_done_) say_line(error_line(id, -32800, "cancelled"));
}

void ChainWorld::hear_error(const Ask& ask, int id, std::string_view line) {
  const std::string_view data = member(line, "error", "data");
  if (unquoted(member(data, "source")) != "keyhop") return;
  // What could not be read of a replay may prove a prompt inserted; so may what was cancelled.
  const bool unread =
      (plan_.oversize || plan_.junk || plan_.cancels) && unquoted(member(data, "outcome")) == "unknown";
  if (last_ && !ending_ && !plan_.small_budget && !unread)
    fail(Invariant::again, fmt::format("nothing goes wrong, and it fails: {}", line));
  if (unquoted(member(data, "outcome")) != "not_sent" || ending_) return;
  const bool acted =
      ask.kind == Ask::Kind::echo
          ? disk_.echoed.contains(id)
          : std::ranges::any_of(disk_.log, [&](const ChainMessage& message) { return message.tag == id; });
  if (acted) fail(Invariant::acted, fmt::format("said not to be sent, and done: {}", line));
}

void ChainWorld::hear_answer(Ask& ask, int id, std::string_view line) {
  switch (ask.kind) {
    case Ask::Kind::initialize: initialized_ = true; return;
    case Ask::Kind::create: sessions_.emplace_back(unquoted(member(line, "result", "sessionId"))); return;
    case Ask::Kind::resume: return;
    case Ask::Kind::echo:
      if (number_of(member(line, "result", "for")) != id || !disk_.echoed.contains(id))
        fail(Invariant::acted, fmt::format("never done: {}", line));
      return;
    case Ask::Kind::prompt: return hear_prompt_result(ask, id, line);
  }
}

// A success means that the agent has the message.
void ChainWorld::hear_prompt_result(const Ask& ask, int id, std::string_view line) {
  const bool ended = ask.cancelled && plan_.agent.version == 1;
  if (ended && unquoted(member(line, "result", "stopReason")) == "cancelled") return;
  const ChainMessage* message = disk_.find(unquoted(member(line, "result", "messageId")));
  if (message == nullptr) return fail(Invariant::acted, fmt::format("a message that never was: {}", line));
  const bool its_own = message->session == ask.session && message->text == ask.text &&
                       (ask.key.empty() ? message->tag == id : message->key == ask.key);
  if (!its_own) fail(Invariant::own_message, fmt::format("another prompt's message: {}", line));
}

// Updates come as they were said, in the order in which they were.
void ChainWorld::hear_news(std::string_view params) {
  const int number = number_in_meta(params, "n");
  if (number < 0 || static_cast<std::size_t>(number) >= disk_.news.size())
    return fail(Invariant::bytes, fmt::format("never said: {}", params));
  const ChainNews& news = disk_.news[static_cast<std::size_t>(number)];
  if (news.params != params) fail(Invariant::bytes, fmt::format("said otherwise: {}", params));
  const auto [last, first] = last_news_.try_emplace(news.session, -1);
  if (number <= last->second) fail(Invariant::news, fmt::format("out of order: {}", params));
  last->second = number;
  if (!news.replayed) ++heard_news_;
}

void ChainWorld::hear_question(std::string_view id, std::string_view method, std::string_view params) {
  if (method == "_test/own") return questions_.emplace_back(id, -1), void();  // a proxy's
  const int number = number_in_meta(params, "q");
  if (number < 0 || static_cast<std::size_t>(number) >= disk_.questions.size())
    return fail(Invariant::bytes, fmt::format("never asked: {}", params));
  const ChainQuestion& question = disk_.questions[static_cast<std::size_t>(number)];
  if (!heard_questions_.insert(number).second)
    return fail(Invariant::questions, fmt::format("asked twice: {}", params));
  if (!params.ends_with(question.params)) fail(Invariant::bytes, fmt::format("asked otherwise: {}", params));
  if (method == "elicitation/create") {
    const auto meant = asks_.find(question.about);
    const int named = number_of(member(params, "requestId"));
    const auto other = asks_.find(named);
    const bool is_it =
        named == question.about || (other != asks_.end() && meant != asks_.end() &&
                                    !meant->second.key.empty() && other->second.key == meant->second.key);
    const bool undisturbed = meant != asks_.end() && !meant->second.disturbed && meant->second.open;
    if (!is_it && undisturbed)
      fail(Invariant::scope, fmt::format("belongs to request {}: {}", question.about, params));
  }
  questions_.emplace_back(id, number);
}

// ---- what arrives at the agent ----

// The client's params are as it wrote them, its key with them.
void ChainWorld::check_arrival(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top)) return fail(Invariant::valid, fmt::format("no message: {}", line));
  const int tag = number_in_meta(top.params, "tag");
  const auto found = asks_.find(tag);
  if (top.id.empty() || found == asks_.end()) return;
  const std::string_view method = top.method;
  if (method == "session/prompt" && unquoted(member(top.params, "idempotencyKey")) != found->second.key)
    return fail(Invariant::keys, fmt::format("another key than the client's: {}", line));
  const bool own = method == "initialize" || method == "session/resume" ||
                   method == "session/load";  // keyhop repeats those
  if (!own && top.params != found->second.params)
    fail(Invariant::bytes, fmt::format("other params than the client's: {}", line));
}

}  // namespace acp::sim
