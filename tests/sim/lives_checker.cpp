// What the relay is told, and the epochs.
#include "tests/sim/lives_checker.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "rules/updates.h"

namespace acp::sim {

LivesChecker::KnownSession& LivesChecker::session(int number) {
  const auto row = static_cast<std::size_t>(number);
  while (sessions_.size() <= row) sessions_.emplace_back();
  return sessions_[row];
}

// The dead epoch's requests are lost, and no other process can be sent anything yet.
bool LivesChecker::is_lost_between(Phase phase) const {
  return phase == Phase::lost || phase == Phase::waiting || (phase == Phase::starting && epoch_ > 1);
}

void LivesChecker::cancel(Attempt& attempt) noexcept {
  if (!attempt.cancelled) attempt.cancelled_in = step_;
  attempt.cancelled = true;
}

void LivesChecker::client_said(const Said& said, Phase phase) {
  switch (said.what) {
    case Said::What::attempt: {
      Attempt& attempt = at(said.target);
      attempt.read = true;
      attempt.order = next_order_++;
      if (attempt.id.empty()) return;
      by_id_[attempt.id] = said.target;
      ++open_;
      return;
    }
    case Said::What::cancel: {
      const int tag = at(said.target).tag;
      if (!at(said.target).read || at(said.target).answered) return;
      for (Attempt& other : book_.attempts) {
        if (other.tag != tag || !other.read || other.answered) continue;
        cancel(other);
        ++other.cancels;
      }
      return;
    }
    case Said::What::session_cancel:
      for (Attempt& other : book_.attempts) {
        const bool prompt = other.facts->effect == rules::SessionEffect::prompts;
        if (!other.read || other.answered || !prompt || other.session != said.target) continue;
        other.session_cancelled = true;
        if (is_lost_between(phase)) cancel(other);
      }
      return;
    case Said::What::answer:
      for (auto& [nonce, ask] : asks_) {
        if (nonce == book_.asks[static_cast<std::size_t>(said.target)].nonce) ask.open = false;
      }
      return;
  }
}

void LivesChecker::agent_said(std::string_view line, Instant now) {
  TopLevel top;
  if (!read_top_level(line, top)) return;  // cut off by its death
  if (top.method.empty()) return agent_answered(top.id, line, top.error, now);
  if (!top.id.empty()) return agent_asked(top.id, line, top.params);
  if (top.method == "session/update") return agent_told(line, top.params, now);
  // A cancel of its own request.
  const std::string_view id = member(top.params, "requestId");
  for (auto& [nonce, ask] : asks_) {
    if (ask.epoch != epoch_ || ask.agent_id != id || !ask.open) continue;
    ask.withdrawn = true;
    due_.push_back({DueKind::withdrawal, nonce, {}});
  }
}

void LivesChecker::agent_told(std::string_view line, std::string_view params, Instant now) {
  KnownSession& known = session(number_in(member(params, "sessionId")));
  known.alive = now;
  const std::string_view update = member(params, "update");
  // It must stay hidden; but what comes when its time is over cannot be told from what the client asked for.
  if (member(update, "replay") == "\"own\"" && known.back != Back::late) return;
  const bool history = rules::is_history(unquoted(member(update, "sessionUpdate")));
  const bool rebuilt = known.back == Back::asked || !known.own_id.empty();
  if (!rebuilt) learn_values(known, update, true);
  // Live history while a replay that keyhop asked for runs cannot be told from it.
  if (history && known.back == Back::asked && known.asks_replay) return;
  if (history) {
    for (Attempt& attempt : book_.attempts) {
      const bool activates = attempt.facts->effect == rules::SessionEffect::activates;
      const bool asked = activates && attempt.sent_epoch == epoch_ && !attempt.answered;
      if (!activates || attempt.session != number_in(member(params, "sessionId"))) continue;
      attempt.replay_seen = attempt.replay_seen || asked;
      attempt.news_in = step_;
    }
  }
  // While keyhop's own restore is late nobody can tell whose replay this is: it may be shown or not.
  const bool either_way = history && known.back == Back::late;
  due_.push_back({DueKind::news, either_way ? optional : unset, std::string(line)});
}

void LivesChecker::agent_asked(std::string_view id, std::string_view line, std::string_view params) {
  const int nonce = number_in(member(params, "nonce"));
  asks_[nonce] = Ask{epoch_, std::string(id), {}};
  due_.push_back({DueKind::question, nonce, std::string(line)});
}

void LivesChecker::agent_answered(std::string_view id, std::string_view line, std::string_view error,
                                  Instant now) {
  if (id.starts_with("\"keyhop")) return own_answered(id, line, error.empty(), now);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Attempt& attempt = at(found->second);
  if (attempt.answered || attempt.sent_epoch != epoch_) return;
  const bool takes_over = id == own_initialize_;
  if (takes_over) own_answered(id, line, error.empty(), now);
  if (error.empty()) take_effect(attempt, found->second, member(line, "result"));
  // A later one that changes the same thing was answered: older ones must not undo it.
  if (attempt.facts->target != rules::ChangeTarget::none) {
    for (Attempt& older : book_.attempts) {
      const bool same = older.read && older.order < attempt.order && !older.answered &&
                        older.facts->target == attempt.facts->target && older.session == attempt.session &&
                        older.option == attempt.option;
      if (same) older.newer_change = true;
    }
  }
  due_.push_back({DueKind::answer, found->second, std::string(line)});
}

void LivesChecker::take_effect(Attempt& attempt, int number, std::string_view result) {
  using rules::SessionEffect;
  if (attempt.facts->id == rules::MethodId::initialize) {
    ever_initialized_ = true;
    book_.initialized = true;
    v1_resumes_ = result.find(R"("resume":{})") != std::string_view::npos;
    v1_loads_ = result.find(R"("loadSession":true)") != std::string_view::npos;
    return;
  }
  const bool opens = attempt.facts->effect == SessionEffect::opens;
  if (opens || attempt.facts->effect == SessionEffect::activates) {
    const int which = opens ? number_in(member(result, "sessionId")) : attempt.session;
    KnownSession& known = session(which);
    known.active = true;
    known.params_of = number;
    known.back = Back::done;
    known.own_id.clear();  // the client's own repairs it
    known.compare_values = false;
    known.refusal.clear();
    learn_values(known, result, false);
    if (opens && std::find(book_.sessions.begin(), book_.sessions.end(), which) == book_.sessions.end())
      book_.sessions.push_back(which);
    return;
  }
  if (attempt.session == unset) return;
  KnownSession& known = session(attempt.session);
  const bool ends = attempt.facts->effect == SessionEffect::closes ||
                    attempt.facts->effect == SessionEffect::archives ||
                    attempt.facts->effect == SessionEffect::deletes;
  if (ends) known.active = false;
  if (attempt.facts->effect != SessionEffect::sets || attempt.value.empty()) return;
  Value& value =
      attempt.option == unset ? known.mode : known.options[static_cast<std::size_t>(attempt.option)];
  value = {attempt.value, true};
  learn_values(known, result, true);
}

void LivesChecker::learn_values(KnownSession& known, std::string_view holder, bool in_update) {
  const auto learn = [in_update](Value& value, std::string_view raw) {
    if (raw.empty() || value.raw == raw) return;
    value.firm = value.firm || in_update || !value.raw.empty();
    value.raw = raw;
  };
  const std::string_view mode =
      in_update ? member(holder, "currentModeId") : member(member(holder, "modes"), "currentModeId");
  learn(known.mode, unquoted(mode));
  std::string_view options = member(holder, "configOptions");
  for (std::size_t i = 0; i < options_count && !options.empty(); ++i) {
    options.remove_prefix(std::min(options.find('{'), options.size()));
    const std::string_view option = options.substr(0, options.find('}') + 1);
    learn(known.options[i], unquoted(member(option, "currentValue")));
    options.remove_prefix(option.size());
  }
}

void LivesChecker::own_answered(std::string_view id, std::string_view line, bool success, Instant now) {
  // The last words of an epoch that is being ended restore nothing.
  const bool reachable = phase_ == Phase::restoring || phase_ == Phase::draining || phase_ == Phase::serving;
  if (id == own_initialize_) {
    own_initialize_.clear();
    if (phase_ != Phase::restoring && phase_ != Phase::draining) return;  // its last words restore unset
    const std::string_view result = member(line, "result");
    takes_over_ = success && number_in(member(result, "protocolVersion")) == plan_.person.version;
    if (!takes_over_) return;
    initialized_ = true;
    v1_resumes_ = result.find(R"("resume":{})") != std::string_view::npos;
    v1_loads_ = result.find(R"("loadSession":true)") != std::string_view::npos;
    const bool no_way = plan_.person.version == 1 && !v1_resumes_ && !v1_loads_;
    for (KnownSession& known : sessions_) {
      if (no_way && known.back == Back::due) known.back = Back::none;
    }
    return;
  }
  for (KnownSession& known : sessions_) {
    if (known.own_id != id || !reachable) continue;
    known.own_id.clear();
    known.alive = now;
    if (known.back == Back::late && !success) continue;
    if (std::exchange(known.reads, false)) {
      known.back = Back::none;
      continue;
    }
    if (known.back != Back::asked && known.back != Back::late) continue;
    known.back = success ? Back::done : Back::refused;
    known.compare_values = success;
    known.refusal = member(line, "error");
  }
}

void LivesChecker::start_failed() noexcept {
  start_failed_ = true;
  ended_ = stdout_ended_ = true;
}

void LivesChecker::close_epoch(Instant now) {
  closed_at_ = now;
  closed_ = true;
  for (auto& [nonce, ask] : asks_) {
    if (!ask.open || ask.epoch != epoch_) continue;
    const bool once = client_lost_ || ask.withdrawn || ask.moot == 1;
    if (!once)
      fail(Invariant::moot,
           fmt::format("request {} of a dead epoch: {} cancels at the client", nonce, ask.moot));
    ask.open = false;
  }
}

void LivesChecker::skip_optional(std::string_view line) {
  while (!due_.empty() && due_.front().kind == DueKind::news && due_.front().target == optional &&
         due_.front().line != line)
    due_.pop_front();
}

void LivesChecker::after_step(Phase phase, Instant now) {
  ++step_;
  for (KnownSession& known : sessions_) {
    const bool late = known.alive + plan_.settings.restore_timeout <= now;
    if (late && !known.own_id.empty()) known.overdue = true;
    if (late && known.back == Back::asked) known.back = Back::late;
  }
  skip_optional({});
  if (!due_.empty() && !client_lost_ && exits_ == 0) {
    fail(Invariant::news, fmt::format("held back or dropped: {}", due_.front().line));
  }
  due_.clear();
  answered_ = unset;
  const bool follows = phase != Phase::spent && phase != Phase::parked && phase != Phase::over &&
                       phase != Phase::ending && phase != Phase::stranded;
  if (follows && !lost_again_.empty()) fail(Invariant::again, lost_again_.front());
  lost_again_.clear();
  const bool last = phase == Phase::over || phase == Phase::ending || phase == Phase::stranded;
  if (!last && !called_lost_.empty()) fail(Invariant::held, called_lost_.front());
  called_lost_.clear();
  if (initialized_ && phase == Phase::restoring) {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      if (sessions_[i].back == Back::due)
        fail(Invariant::restore, fmt::format("session s{} is not restored", i));
    }
  }
  if (phase == Phase::serving) served_ = true;
  const bool ending = ended_ && stdout_ended_ && (end_ordered_ || start_failed_ || phase != Phase::serving);
  if (ending && !closed_ && phase != Phase::leaving && phase != Phase::closing) close_epoch(now);
  phase_ = phase;
  by_person_ = false;
}

}  // namespace acp::sim
