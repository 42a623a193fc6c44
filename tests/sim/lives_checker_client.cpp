// What the relay sends to the client.
#include <algorithm>
#include <fmt/format.h>

#include "tests/sim/lives_checker.h"

namespace acp::sim {

// An answer that no answer of the agent's is due for: a duplicate's, or one of keyhop's own. What is due
// stays due behind it.
bool LivesChecker::is_beside(const TopLevel& top) const {
  const auto found = by_id_.find(top.id);
  if (!top.method.empty() || found == by_id_.end()) return false;
  return std::none_of(due_.begin(), due_.end(), [&](const Due& due) {
    return due.kind == DueKind::answer && due.target == found->second;
  });
}

void LivesChecker::to_client(std::string_view line, Instant /*now*/) {
  const auto take_news = [&] {
    const bool news = !due_.empty() && due_.front().kind == DueKind::news && due_.front().line == line;
    if (news && !client_lost_) due_.pop_front();
    return news && !client_lost_;
  };
  if (take_news()) return;  // most lines, without another look
  TopLevel top;
  if (!read_top_level(line, top))
    return fail(Invariant::own_answer, fmt::format("no message for the client: {}", line));
  if (!is_beside(top)) skip_optional(line);
  if (take_news()) return;
  if (client_lost_) return fail(Invariant::one_answer, fmt::format("the client is gone: {}", line));
  if (top.method.empty()) return client_hears_answer(line, top);
  if (!top.id.empty()) return client_hears_question(line, top);
  if (top.method == "$/cancel_request") return client_hears_withdrawal(line, member(top.params, "requestId"));
  const bool own = line.find(R"("replay":"own")") != std::string_view::npos;
  own ? fail(Invariant::replay, std::string(line))
      : fail(Invariant::news, fmt::format("out of turn: {}", line));
}

void LivesChecker::client_hears_question(std::string_view line, const TopLevel& top) {
  const int nonce = number_in(member(top.params, "nonce"));
  const bool right = !due_.empty() && due_.front().kind == DueKind::question &&
                     due_.front().target == nonce && member(due_.front().line, "params") == top.params;
  if (!right) return fail(Invariant::questions, fmt::format("out of turn: {}", line));
  due_.pop_front();
  for (const ClientAsk& ask : book_.asks) {
    if (ask.id == top.id) fail(Invariant::questions, fmt::format("its id was used before: {}", line));
  }
  asks_[nonce].client_id = top.id;
  book_.asks.push_back({std::string(top.id), nonce});
}

void LivesChecker::client_hears_withdrawal(std::string_view line, std::string_view id) {
  for (ClientAsk& ask : book_.asks) {
    if (ask.id == id) ask.withdrawn = true;
  }
  if (!due_.empty() && due_.front().kind == DueKind::withdrawal &&
      asks_[due_.front().target].client_id == id) {
    due_.pop_front();
    return;
  }
  for (auto& [nonce, ask] : asks_) {
    if (ask.client_id != id) continue;
    const bool moot = ended_ && stdout_ended_ && ask.open && !ask.withdrawn && ++ask.moot == 1;
    if (!moot) fail(Invariant::moot, fmt::format("not due: {}", line));
    return;
  }
  fail(Invariant::moot, fmt::format("the client was never asked that: {}", line));
}

int LivesChecker::attempts_of(int tag) const {
  return static_cast<int>(std::count_if(book_.attempts.begin(), book_.attempts.end(),
                                        [tag](const Attempt& other) { return other.tag == tag; }));
}

// It, or a prompt that it waited beside.
bool LivesChecker::was_cancelled(int tag) const {
  return std::any_of(book_.attempts.begin(), book_.attempts.end(), [tag](const Attempt& other) {
    return other.tag == tag && (other.cancelled || other.session_cancelled);
  });
}

void LivesChecker::client_hears_answer(std::string_view line, const TopLevel& top) {
  const auto found = by_id_.find(top.id);
  if (found == by_id_.end()) return fail(Invariant::one_answer, fmt::format("to nothing: {}", line));
  Attempt& attempt = at(found->second);
  if (attempt.answered) return fail(Invariant::one_answer, fmt::format("a second one: {}", line));
  const auto later = std::find_if(due_.begin(), due_.end(), [&](const Due& due) {
    return due.kind == DueKind::answer && due.target == found->second;
  });
  if (later != due_.end() && later != due_.begin())
    fail(Invariant::news, fmt::format("overtaken by {}", line));
  const bool awaited = later != due_.end();
  if (awaited) {
    answer_ = due_.front().line;
    answered_ = found->second;
    due_.pop_front();
  }
  const bool keyhops = member(member(top.error, "data"), "source") == "\"keyhop\"";
  if (keyhops) {
    client_hears_error(attempt, line, top.error);
  } else {
    check_agents_answer(found->second, line);
  }
  settled(attempt);
}

// Not an error of keyhop's own: the agent's answer, its refusal to restore, or what keyhop remembers of it.
void LivesChecker::check_agents_answer(int number, std::string_view line) {
  const Attempt& attempt = at(number);
  const bool success = member(line, "error").empty();
  if (answered_ != unset && at(answered_).tag == attempt.tag) {
    const Attempt& first = at(answered_);
    std::string due = answer_;
    const std::size_t id = due.find(first.id);
    if (id != std::string::npos) due.replace(id, first.id.size(), attempt.id);
    if (due != line) fail(Invariant::own_answer, fmt::format("{}\n  where the agent said {}", line, answer_));
    const std::string_view tag = member(line, "result", "tag");
    if (!tag.empty() && number_in(tag) != attempt.tag)
      fail(Invariant::own_answer, fmt::format("another's: {}", line));
  } else if (!success) {
    const bool refused = attempt.session != unset && !session(attempt.session).refusal.empty() &&
                         line.find(session(attempt.session).refusal) != std::string_view::npos;
    const bool reused = member(line, "error", "code") == "-32602";
    if (!refused && !reused) fail(Invariant::own_answer, fmt::format("nobody gave this: {}", line));
    if (attempt.taken > 0) fail(Invariant::own_answer, fmt::format("refused, though it was sent: {}", line));
  } else if (line.find(R"("stopReason":"cancelled")") != std::string_view::npos) {
    // v1 ends a turn so; only what never left.
    if (attempt.taken > 0 || !was_cancelled(attempt.tag))
      fail(Invariant::own_answer, fmt::format("made up: {}", line));
    return;
  } else if (line.find(R"("messageId":)") == std::string_view::npos || !attempt.keyed) {
    fail(Invariant::own_answer, fmt::format("made up: {}", line));
  }
  if (success && acts_of(attempt) == 0) fail(Invariant::acted, fmt::format("it did not: {}", line));
}

void LivesChecker::client_hears_error(Attempt& attempt, std::string_view line, std::string_view error) {
  const std::string_view data = member(error, "data");
  const std::string_view outcome = unquoted(member(data, "outcome"));
  const std::string_view reason = unquoted(member(data, "reason"));
  const bool alone = attempts_of(attempt.tag) == 1;
  if (outcome == "not_sent" && alone && acts_of(attempt) > 0)
    fail(Invariant::acted, fmt::format("it did: {}", line));
  if (outcome == "inserted" && acts_of(attempt) == 0)
    fail(Invariant::acted, fmt::format("it did not: {}", line));
  if (outcome == "unknown" && alone && attempt.taken == 0) called_lost_.emplace_back(line);
  const bool cancelled = member(error, "code") == "-32800";
  if (cancelled && !was_cancelled(attempt.tag))
    fail(Invariant::own_answer, fmt::format("nobody cancelled it: {}", line));
  if (reason == "newer_change" && !attempt.newer_change)
    fail(Invariant::again, fmt::format("none was: {}", line));
  if (reason == "replay_interrupted" && !attempt.replay_seen && !attempt.replay_possible)
    fail(Invariant::again, fmt::format("it was not: {}", line));
  const auto retry_class = attempt.facts->retry_class;
  const bool repeatable =
      (retry_class == rules::RetryClass::idempotent || retry_class == rules::RetryClass::duplicating) &&
      reason == "agent_lost";
  if (repeatable || (outcome == "not_sent" && reason == "agent_lost")) lost_again_.emplace_back(line);
}

// Nothing more is owed for it: what it did is counted.
void LivesChecker::settled(Attempt& attempt) {
  attempt.answered = true;
  --open_;
  using rules::RetryClass;
  const bool prompt = attempt.facts->effect == rules::SessionEffect::prompts;
  const auto retry_class = attempt.facts->retry_class;
  const bool repeats = retry_class == RetryClass::idempotent || retry_class == RetryClass::duplicating ||
                       attempt.facts->id == rules::MethodId::initialize;
  const bool keyed = retry_class == RetryClass::keyed && attempt.keyed;
  const bool left_to_agent = keyed && plan_.settings.keys == KeyMode::forward && !plan_.person.honours_keys;
  // v1 knows no keys: a duplicate after the answer is a new prompt.
  const bool again_by_client = prompt && attempt.keyed && retry_class != RetryClass::keyed;
  if (!repeats && !left_to_agent && !again_by_client && acts_of(attempt) > 1)
    fail(Invariant::once, fmt::format("acted {} times: {}", acts_of(attempt), attempt.line));
  if (attempts_of(attempt.tag) == 1 && acts_of(attempt) > static_cast<std::size_t>(attempt.taken))
    fail(Invariant::once,
         fmt::format("acted {} times, sent to {}: {}", acts_of(attempt), attempt.taken, attempt.line));
}

}  // namespace acp::sim
