// The client of the guard's histories, and what it is owed: one answer for each request, and in it no other
// prompt's message.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "proxy/core/content.h"
#include "proxy/core/fingerprint.h"
#include "proxy/core/limits.h"
#include "proxy/core/salted_hash.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/guard_world.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {

bool GuardWorld::has_open() const {
  return std::any_of(asks_.lower_bound(first_of_run_), asks_.end(),
                     [](const auto& each) { return each.second.open; });
}

void GuardWorld::say(std::string line, Ask ask) {
  tell("C", line);
  asks_.emplace(next_id_++, std::move(ask));
  client_lines_.push_back(std::move(line));
}

std::string GuardWorld::pick_session() {
  if (sessions_.empty()) return {};
  const std::size_t most = script_ == nullptr ? SIZE_MAX : script_->sessions_max;
  return sessions_[random_.below(std::min(sessions_.size(), most))];
}

void GuardWorld::say_resume(const std::string& session, bool replay) {
  std::string params = fmt::format(R"({{"sessionId":"{}","cwd":"/w","mcpServers":[])", session);
  if (replay) params += R"(,"replayFrom":{"type":"start"})";
  say(request_line(std::to_string(next_id_), "session/resume", params + "}"),
      {Ask::Kind::resume, session, {}, {}});
}

void GuardWorld::say_prompt(const std::string& session, const std::string& key, const std::string& text) {
  const std::string token = key.empty() ? std::string() : fmt::format("\"{}\"", key);
  say(prompt_line(std::to_string(next_id_), token, text, session), {Ask::Kind::prompt, session, key, text});
}

void GuardWorld::say_new_prompt() {
  static constexpr std::string_view texts[] = {"one", "two", "three"};
  const std::string session = pick_session();
  const std::string text =
      plan_.distinct ? fmt::format("text {}", next_text_++) : std::string(random_.pick(texts));
  const bool has_key = !random_.chance(35) && (script_ == nullptr || keys_.size() < script_->keys_max);
  if (!has_key) return say_prompt(session, {}, text);
  const std::string key = fmt::format("k{}", next_key_++);
  // Left out of the model: a client that does not wait for its resume's answer and asks with a key for what a
  // prompt without one said that was under way when the keyhop before was killed. That one may be in the
  // history, unseen and in no ledger, and nothing tells the two apart.
  const bool alike = blurred_.contains(session) && !active_.contains(session);
  const std::string said = alike ? fmt::format("{} {}", text, next_text_++) : text;
  keys_.push_back({session, key, said, {}});
  say_prompt(session, key, said);
}

void GuardWorld::say_known_key() {
  if (keys_.empty()) return say_new_prompt();
  Key& key = keys_[random_.chance(60) ? keys_.size() - 1 : random_.below(keys_.size())];
  if (blurred_.contains(key.session) && !active_.contains(key.session)) return;  // as in say_new_prompt()
  if (!plan_.other_texts || random_.chance(80)) return say_prompt(key.session, key.key, key.text);
  const std::string text = plan_.distinct ? fmt::format("text {}", next_text_++) : "other";
  key.other_texts.insert(text);
  say_prompt(key.session, key.key, text);
}

void GuardWorld::say_cancel() {
  if (random_.chance(25) && !sessions_.empty()) {
    const std::string session = pick_session();
    for (auto& [id, ask] : asks_) ask.cancelled = ask.cancelled || (ask.open && ask.session == session);
    client_lines_.push_back(fmt::format(
        R"({{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{}"}}}})", session));
    return tell("C", client_lines_.back());
  }
  for (auto it = asks_.lower_bound(first_of_run_); it != asks_.end(); ++it) {
    if (!it->second.open || it->second.kind != Ask::Kind::prompt || random_.chance(50)) continue;
    it->second.cancelled = true;
    client_lines_.push_back(cancel_line(std::to_string(it->first)));
    return tell("C", client_lines_.back());
  }
}

void GuardWorld::say_initialize() {
  say(request_line(std::to_string(next_id_), "initialize", R"({"protocolVersion":2})"),
      {Ask::Kind::initialize, {}, {}, {}});
}

// Says something that a client could say now.
void GuardWorld::speak() {
  if (client_done_ || client_lines_.size() > 6) return;
  if (asks_.lower_bound(first_of_run_) == asks_.end()) {
    return say_initialize();
  }
  if (!initialized_ && !plan_.hasty) return;
  const bool asked_for_new = std::any_of(asks_.begin(), asks_.end(), [&](const auto& each) {
    return each.second.kind == Ask::Kind::create && each.second.open && each.first >= first_of_run_;
  });
  if (sessions_.empty() || (sessions_.size() < 2 && random_.chance(3))) {
    if (asked_for_new) return;
    return say(request_line(std::to_string(next_id_), "session/new", R"({"cwd":"/w","mcpServers":[]})"),
               {Ask::Kind::create, {}, {}, {}});
  }
  for (const std::string& session : sessions_) {
    const bool asked = std::any_of(asks_.lower_bound(first_of_run_), asks_.end(), [&](const auto& each) {
      return each.second.kind == Ask::Kind::resume && each.second.session == session;
    });
    if (active_.contains(session) || asked || random_.chance(10)) continue;
    return say_resume(session, random_.chance(40));
  }
  const std::size_t roll = random_.below(20);
  if (roll == 0) return say_resume(pick_session(), random_.chance(50));
  if (roll < 3 && plan_.cancels) return say_cancel();
  if (roll < 11) return say_known_key();
  say_new_prompt();
}

void GuardWorld::hear(std::string_view line) {
  ++outcome_.messages;
  tell(">C", line);
  const std::string_view token = member(line, "id");
  if (token.empty() || !member(line, "method").empty()) return;
  int id = -1;
  std::from_chars(token.data(), token.data() + token.size(), id);
  const auto found = asks_.find(id);
  if (found == asks_.end() || id < first_of_run_)
    return fail(Invariant::one_answer, fmt::format("an answer to nothing: {}", line));
  Ask& ask = found->second;
  if (!ask.open) return fail(Invariant::one_answer, fmt::format("a second answer: {}", line));
  ask.open = false;
  const bool success = member(line, "error").empty();
  ask.settled = success || unquoted(member(member(line, "error", "data"), "source")) != "keyhop";
  switch (ask.kind) {
    case Ask::Kind::initialize: initialized_ = true; return;
    case Ask::Kind::create:
      if (!success) return;
      sessions_.emplace_back(unquoted(member(line, "result", "sessionId")));
      active_.insert(sessions_.back());
      return;
    case Ask::Kind::resume:
      if (success) active_.insert(ask.session);
      return;
    case Ask::Kind::prompt:
      return success ? hear_prompt_result(ask, id, line) : hear_prompt_error(ask, id, line);
  }
}

// The message in the answer must be one that was inserted for this very prompt.
void GuardWorld::hear_prompt_result(Ask& ask, int id, std::string_view line) {
  const std::string_view message_id = unquoted(member(line, "result", "messageId"));
  if (message_id.empty()) {
    const bool any = std::ranges::any_of(disk_.log, [&](const GuardMessage& message) {
      return ask.key.empty() ? message.request == id
                             : message.key == ask.key && message.session == ask.session;
    });
    if (!any) fail(Invariant::own_answer, fmt::format("an answer that was never given: {}", line));
    return;
  }
  const GuardMessage* message = disk_.find(message_id);
  if (message == nullptr)
    return fail(Invariant::own_message, fmt::format("a message that never was: {}", line));
  const bool its_own = message->session == ask.session && message->text == ask.text &&
                       (ask.key.empty() ? message->request == id : message->key == ask.key);
  if (!its_own)
    fail(Invariant::own_message,
         fmt::format("another prompt's message: {} (it says \"{}\", key \"{}\", request {}; asked: \"{}\", "
                     "key \"{}\")",
                     line, message->text, message->key, message->request, ask.text, ask.key));
}

void GuardWorld::hear_prompt_error(Ask& ask, int id, std::string_view line) {
  const std::string_view data = member(line, "error", "data");
  if (unquoted(member(data, "source")) != "keyhop") return;
  const std::string_view outcome = unquoted(member(data, "outcome"));
  const std::string_view reason = unquoted(member(data, "reason"));
  if (outcome == "not_sent") {
    ask.not_sent = true;
    const bool inserted = std::ranges::any_of(
        disk_.log, [&](const GuardMessage& message) { return message.request == id && !message.gone; });
    if (inserted) fail(Invariant::acted, fmt::format("said not to be sent, and inserted: {}", line));
  }
  if (reason == "key_reused") {
    const auto key = std::ranges::find_if(
        keys_, [&](const Key& each) { return each.key == ask.key && each.session == ask.session; });
    if (key == keys_.end() || key->other_texts.empty())
      fail(Invariant::own_answer, fmt::format("no other work had that key: {}", line));
  }
  const bool decidable = last_ && plan_.person.is_readable() && plan_.distinct && !plan_.cancels &&
                         !plan_.ledger_fails && decidable_.contains(ask.session);
  if (decidable && outcome == "unknown")
    fail(Invariant::decidable, fmt::format("unknown, though everything is known: {}", line));
}

// Nothing keyed reaches the agent before its row is on the disk, and nothing that was said not to be sent.
void GuardWorld::check_leaving(std::string_view line) {
  if (unquoted(member(line, "method")) != "session/prompt") return;
  int id = -1;
  const std::string_view token = member(line, "id");
  std::from_chars(token.data(), token.data() + token.size(), id);
  const auto ask = asks_.find(id);
  if (ask == asks_.end()) return fail(Invariant::own_requests, fmt::format("a prompt of nobody's: {}", line));
  if (ask->second.not_sent)
    fail(Invariant::row_first, fmt::format("sent, and said not to be sent: {}", line));
  const std::string_view key = unquoted(member(line, "params", "idempotencyKey"));
  if (key.empty()) return;
  const Fingerprint hash = SaltedHash(ledger_.salt(), 'k').add(key).print();
  const std::string session(unquoted(member(line, "params", "sessionId")));
  const bool known = std::ranges::any_of(ledger_.read("A", session).rows,
                                         [&](const LedgerRow& row) { return row.key == hash; });
  if (!known) fail(Invariant::row_first, fmt::format("left before its row was written: {}", line));
}

// What of the prompts that its keyhop had open the ledger knows: all that say the same, or none of them.
void GuardWorld::note_recorded(Process& orphan) {
  std::map<std::pair<std::string, std::string>, std::size_t> open;
  for (auto it = asks_.lower_bound(first_of_run_); it != asks_.end(); ++it) {
    const Ask& ask = it->second;
    if (ask.kind == Ask::Kind::prompt && ask.key.empty() && !ask.settled) ++open[{ask.session, ask.text}];
  }
  Fingerprinter prints(ledger_.salt());
  ContentReader reader;
  for (const auto& [what, count] : open) {
    std::string prompt = fmt::format(R"([{{"type":"text","text":"{}"}}])", what.second);
    const std::size_t size = prompt.size();
    prompt.append(limits::padding_bytes, ' ');
    const Fingerprint content = reader.of_prompt(std::string_view(prompt).substr(0, size), prints).content;
    const auto known = ledger_.read("A", what.first).prompts;
    const auto is_its = [&](const LedgerPrompt& each) { return each.content == content; };
    if (std::cmp_greater_equal(std::ranges::count_if(known, is_its), count)) orphan.recorded.insert(what);
  }
}

// Left out of the model: an orphan that inserts a prompt without a key, of which the ledger does not know
// (none with a key was open in its session when it was sent), only after the next keyhop has sent an equal
// text, or written the row of one that may have been sent. Whose message that is no one could tell: it is
// new, it has the text, and nobody waited for the orphan.
void GuardWorld::spare_orphans(const LedgerBatch& batch) {
  if (orphans_.empty()) return;
  for (const LedgerChange& change : batch.changes) {
    const auto* added = std::get_if<AddLedgerRow>(&change);
    if (added == nullptr) continue;
    for (const auto& [id, ask] : asks_) {
      const bool is_its =
          ask.session == batch.session && !ask.key.empty() &&
          SaltedHash(ledger_.salt(), 'k').add(std::string_view(ask.key)).print() == added->row.key;
      if (is_its) spare_orphans(ask.session, ask.text);
    }
  }
}

void GuardWorld::spare_orphans(std::string_view line) {
  if (orphans_.empty() || unquoted(member(line, "method")) != "session/prompt") return;
  std::string_view block = member(line, "params", "prompt");
  spare_orphans(std::string(unquoted(member(line, "params", "sessionId"))),
                unquoted(member(block.substr(1, block.size() - 2), "text")));
}

void GuardWorld::spare_orphans(const std::string& session, std::string_view text) {
  for (const auto& orphan : orphans_) {
    if (orphan->recorded.contains({session, std::string(text)})) continue;
    orphan->agent.forget_unkeyed(session, text);
    std::erase_if(orphan->pipe, [&](const std::string& waiting) {
      std::string_view prompt = member(waiting, "params", "prompt");
      return prompt.size() > 2 && unquoted(member(waiting, "params", "sessionId")) == session &&
             member(waiting, "params", "idempotencyKey").empty() &&
             unquoted(member(prompt.substr(1, prompt.size() - 2), "text")) == text;
    });
  }
}

}  // namespace acp::sim
