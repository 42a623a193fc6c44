// What the relay sends to an agent, and how it starts and ends.
#include <algorithm>
#include <fmt/format.h>

#include "tests/sim/lives_checker.h"

namespace acp::sim {

int LivesChecker::to_agent(LinkId link, std::string_view line, Instant now) {
  if (link != link_ || closed_) {
    fail(Invariant::dead_epochs, fmt::format("a line for link {}: {}", link.value, line));
    return unset;
  }
  const int number = attempt_of(line);
  const bool as_written = number != unset && at(number).line == line;
  if (as_written && heard_first_ && initialized_) return client_line_sent(number, line, now);
  TopLevel top;
  if (!read_top_level(line, top)) {
    fail(Invariant::bytes, fmt::format("no message for the agent: {}", line));
    return unset;
  }
  if (!heard_first_) {
    heard_first_ = true;
    if (top.method != "initialize") fail(Invariant::initialize, fmt::format("first came {}", line));
    own_initialize_ = top.id;
  } else if (!initialized_) {
    fail(Invariant::initialize, fmt::format("before its answer came {}", line));
  }
  if (top.method.empty()) return unset;  // an answer: the agent judges it
  if (top.id.starts_with("\"keyhop")) {
    check_own_request(top, line, now);
    return unset;
  }
  if (top.method == "$/cancel_request") {
    const auto found = by_id_.find(member(top.params, "requestId"));
    const bool right =
        found != by_id_.end() && at(found->second).sent_epoch == epoch_ && at(found->second).cancels-- > 0;
    if (!right) fail(Invariant::cancelled, fmt::format("a cancel that nobody asked for: {}", line));
    return unset;
  }
  if (top.method == "session/cancel") return unset;
  if (number == unset) {
    fail(Invariant::bytes, fmt::format("nobody wrote {}", line));
    return unset;
  }
  return client_line_sent(number, line, now);
}

// The number that its `params._meta` bears: the last member of all that the client writes.
int LivesChecker::attempt_of(std::string_view line) const {
  const std::size_t mark = line.rfind(R"("_meta":{"a":)");
  const int number = mark == std::string_view::npos ? unset : number_in(line.substr(mark));
  const bool known = number >= 0 && static_cast<std::size_t>(number) < book_.attempts.size();
  return known && book_.attempts[static_cast<std::size_t>(number)].read ? number : unset;
}

int LivesChecker::client_line_sent(int number, std::string_view line, Instant now) {
  Attempt& attempt = at(number);
  if (line != attempt.line) fail(Invariant::bytes, fmt::format("{}\n  was sent as {}", attempt.line, line));
  check_repeat(attempt);
  check_session_ready(attempt, now);
  if (attempt.facts->id != rules::MethodId::initialize) {
    int& last = last_order_.try_emplace(attempt.session, -1).first->second;
    if (attempt.order <= last) fail(Invariant::order, fmt::format("overtaken: {}", line));
    last = attempt.order;
  }
  ++attempt.sends;
  attempt.sent_epoch = epoch_;
  attempt.replay_seen = false;
  attempt.replay_possible = attempt.news_in == step_;
  return number;
}

void LivesChecker::check_repeat(const Attempt& attempt) {
  using rules::RetryClass;
  if (attempt.answered) fail(Invariant::once, fmt::format("sent after its answer: {}", attempt.line));
  if (attempt.sent_epoch == epoch_)
    fail(Invariant::once, fmt::format("twice to one process: {}", attempt.line));
  if (attempt.cancelled && attempt.cancelled_in < step_)
    fail(Invariant::cancelled, fmt::format("sent all the same: {}", attempt.line));
  if (attempt.taken == 0) return;
  const bool prompt = attempt.facts->effect == rules::SessionEffect::prompts;
  const RetryClass retry_class = attempt.facts->retry_class;
  const bool initialize = attempt.facts->id == rules::MethodId::initialize;
  const bool again = retry_class == RetryClass::idempotent || retry_class == RetryClass::duplicating ||
                     (retry_class == RetryClass::keyed && attempt.keyed) || (initialize && ever_initialized_);
  if (!again || attempt.id.empty())
    fail(Invariant::once,
         fmt::format("{} again: {}", prompt ? "a prompt" : "what must not be repeated", attempt.line));
  if (attempt.newer_change) fail(Invariant::once, fmt::format("it undoes a later change: {}", attempt.line));
  if (attempt.replay_seen)
    fail(Invariant::once, fmt::format("half of its replay was shown: {}", attempt.line));
}

void LivesChecker::check_session_ready(const Attempt& attempt, Instant now) {
  if (epoch_ == 1 || attempt.session == unset) return;
  const KnownSession& known = session(attempt.session);
  const bool too_late = known.overdue || known.alive + plan_.settings.restore_timeout <= now;
  const bool waits = (known.back == Back::asked || !known.own_id.empty()) && !too_late;
  if (waits || known.back == Back::due)
    fail(Invariant::restore, fmt::format("before its session is restored: {}", attempt.line));
}

int LivesChecker::waiting_resume(int session) const {
  for (std::size_t i = 0; i < book_.attempts.size(); ++i) {
    const Attempt& attempt = book_.attempts[i];
    const bool activates = attempt.facts->effect == rules::SessionEffect::activates;
    const bool waits = attempt.read && !attempt.answered && attempt.sent_epoch != epoch_;
    if (activates && waits && attempt.session == session) return static_cast<int>(i);
  }
  return unset;
}

void LivesChecker::check_own_request(const TopLevel& top, std::string_view line, Instant now) {
  const std::string_view method = top.method;
  if (method == "initialize") {
    if (top.id != own_initialize_) fail(Invariant::own_requests, fmt::format("a second {}", line));
    return;
  }
  const bool sets = method == "session/set_mode" || method == "session/set_config_option";
  const bool restores = method == "session/resume" || method == "session/load";
  if (!sets && !restores) return fail(Invariant::own_requests, std::string(line));
  KnownSession& known = session(number_in(member(top.params, "sessionId")));
  if (restores) {
    const bool waits_to_read = known.back == Back::none || known.back == Back::refused;
    const int resume = waits_to_read ? waiting_resume(number_in(member(top.params, "sessionId"))) : unset;
    known.reads = resume != unset && member(top.params, "cwd") == fmt::format("\"/w{}\"", resume) &&
                  !member(top.params, "replayFrom").empty();
    const bool given_up = known.back == Back::done && known.overdue;  // a value's answer never came
    const bool due = known.reads || known.back == Back::due || known.back == Back::late ||
                     known.back == Back::refused || given_up;
    if (!due) fail(Invariant::restore, fmt::format("not due: {}", line));
    const bool advertised =
        plan_.person.version == 2 || (method == "session/load" ? v1_loads_ && !v1_resumes_ : v1_resumes_);
    if (!advertised) fail(Invariant::restore, fmt::format("not the way to restore: {}", line));
    const std::string cwd = fmt::format("\"/w{}\"", known.reads ? resume : known.params_of);
    if (member(top.params, "cwd") != cwd)
      fail(Invariant::restore, fmt::format("not with cwd {}: {}", cwd, line));
    known.back = Back::asked;
    known.asks_replay = method == "session/load" || !member(top.params, "replayFrom").empty();
    known.compare_values = false;
  } else if (!known.own_id.empty() || known.back != Back::done) {
    fail(Invariant::values, fmt::format("out of turn: {}", line));
  }
  known.own_id = top.id;
  known.overdue = false;
  known.alive = now;
}

void LivesChecker::about_to_hear(int number, const AgentLife& life) {
  const Attempt& attempt = at(number);
  if (attempt.session == unset || epoch_ == 1) return;
  KnownSession& known = session(attempt.session);
  const bool closed = known.closed_here;
  const auto effect = attempt.facts->effect;
  known.closed_here = closed || effect == rules::SessionEffect::closes ||
                      effect == rules::SessionEffect::archives || effect == rules::SessionEffect::deletes;
  if (!known.compare_values || closed) return;
  known.compare_values = false;
  const bool reads_on = attempt.sent_epoch == epoch_ && !closed_;
  if (!reads_on || plan_.person.refuses_values || life.changed_by_itself()) return;
  if (static_cast<std::size_t>(attempt.session) >= disk_.sessions.size()) return;
  if (known.mode.firm && known.mode.raw != fmt::format("m{}", life.mode_of(attempt.session)))
    fail(Invariant::values, fmt::format("mode m{}, not {}", life.mode_of(attempt.session), known.mode.raw));
  for (int i = 0; i < options_count; ++i) {
    const Value& value = known.options[static_cast<std::size_t>(i)];
    const int now = life.option_of(attempt.session, i);
    if (value.firm && value.raw != fmt::format("v{}", now))
      fail(Invariant::values,
           fmt::format("option c{} of s{} is v{}, not {}", i, attempt.session, now, value.raw));
  }
}

void LivesChecker::start_ordered(const StartAgent& order, Phase before, Instant now) {
  const bool first = order.epoch == Epoch{1};
  if (first) return;
  if (ended_ && stdout_ended_ && !closed_) close_epoch(now);
  if (!closed_) fail(Invariant::one_life, "a process is started while the one before may live");
  if (order.epoch.value != epoch_ + 1 || order.link <= link_)
    fail(Invariant::one_life, "an epoch or link is used twice");
  if (!ever_initialized_ || client_ended_ || client_lost_ || signal_ != 0)
    fail(Invariant::budget, "started again without a reason");
  const auto& limit = plan_.settings.restart_limit;
  while (!restarts_.empty() && restarts_.front() + limit.window <= now) restarts_.pop_front();
  const bool parked = before == Phase::parked || before == Phase::spent;
  failures_ =
      served_ ? 0 : failures_ + (parked ? 0U : 1U);  // what could not take over is no failure to start
  if (!by_person_ && !parked && restarts_.size() >= limit.restarts_max)
    fail(Invariant::budget, fmt::format("{} restarts in the window", restarts_.size() + 1));
  if (!by_person_ && parked && now < closed_at_ + std::chrono::seconds(30) && !restarts_.empty() &&
      restarts_.size() >= limit.restarts_max)
    fail(Invariant::budget, "started again too soon after it was spent");
  const auto least = std::chrono::milliseconds(50) * (1 << std::min(failures_ == 0 ? 0U : failures_ - 1, 8U));
  if (failures_ > 0 && !by_person_ && !parked && now < closed_at_ + least)
    fail(Invariant::budget, fmt::format("no wait after {} lives that did not serve", failures_));
  if (failures_ == 0 && !parked && now != closed_at_)
    fail(Invariant::budget, "a wait after a life that served");
  restarts_.push_back(now);
  epoch_ = order.epoch.value;
  link_ = order.link;
  heard_first_ = initialized_ = ended_ = stdout_ended_ = closed_ = end_ordered_ = served_ = start_failed_ =
      false;
  takes_over_ = true;
  exit_.reset();
  last_order_.clear();
  own_initialize_.clear();
  for (KnownSession& known : sessions_) {
    known.back = known.active ? Back::due : Back::none;
    known.own_id.clear();
    known.overdue = known.reads = known.closed_here = false;
    known.refusal.clear();
    known.compare_values = false;
  }
}

void LivesChecker::exit_ordered(int status, Phase before) {
  if (++exits_ > 1) fail(Invariant::exit, "twice");
  const bool spent = before == Phase::spent || before == Phase::parked;
  int due = 70;
  if (signal_ != 0) {
    due = 128 + signal_;
  } else if (spent) {
    due = 75;
  } else if (start_failed_) {
    due = 69;
  } else if (exit_) {
    due = exit_->as_shell_status();
  }
  const bool told_to_go =
      (client_ended_ || client_lost_) && end_ordered_ && signal_ == 0 && !spent && status == 0;
  if (status != due && !told_to_go) fail(Invariant::exit, fmt::format("status {}, not {}", status, due));
}

void LivesChecker::no_rest() {
  for (const Attempt& attempt : book_.attempts) {
    if (attempt.read && !attempt.id.empty() && !attempt.answered)
      return fail(Invariant::rest, fmt::format("open for ever: {}", attempt.line));
  }
  fail(Invariant::rest, "keyhop does not end");
}

void LivesChecker::at_rest() {
  if (client_lost_) return;
  for (const Attempt& attempt : book_.attempts) {
    if (attempt.read && !attempt.id.empty() && !attempt.answered)
      return fail(Invariant::one_answer, fmt::format("none came for {}", attempt.line));
  }
}

}  // namespace acp::sim
