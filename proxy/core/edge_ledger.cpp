// What the ledger had when this run began: frames that need a session's rows wait until they were read.
//
// Nothing that comes from the agent ever waits here.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/ledger_problem.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

using rules::MethodId;

}  // namespace

void Edge::open_ledger(const LedgerOpened& event, Step& step) {
  if (ledger_ != LedgerUse::opening) return;
  ledger_error_ = event.error;
  ledger_ = event.error == LedgerError::none ? LedgerUse::ready : LedgerUse::failed;
  if (event.salt != nullptr && ledger_ == LedgerUse::ready) use_salt(*event.salt);
  if (ledger_ == LedgerUse::failed) {
    step.actions.log(LogLevel::warning,
                     fmt::format("the ledger (--ledger) is not used: {}; prompts with an idempotencyKey are "
                                 "refused until keyhop is started with one that works, or with --ledger off",
                                 problem_of(event.error).words));
  }
  retry_deferred(step);
}

// What was hashed under another salt means nothing under this one.
void Edge::use_salt(const Salt& salt) {
  fingerprinter_.set_salt(salt);
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) {
    SessionHistory& history = sessions_.at(row).history;
    if (history.last_place() == 0) continue;
    history.reset();
    history.set_complete(false);
    sessions_.at(row).is_undecidable = true;
  }
}

// Whether the request at hand needs rows that were not read yet; orders them read.
bool Edge::must_wait_for_ledger(Step& step) {
  if (envelope_.shape() != Shape::request || envelope_.has_duplicates()) return false;
  if (envelope_.member(Slot::method).type != ValueType::string) return false;
  const rules::MethodFacts& facts = facts_for(rules::Sender::client, rules::MessageKind::request);
  // A prompt takes a place among messages that are hashed with the ledger's salt.
  const bool tracked = version() == rules::Version::v2 || settings_.recover_prompts;
  if (ledger_ == LedgerUse::opening && facts.id == MethodId::session_prompt && tracked) return true;
  if (version() != rules::Version::v2) return false;
  const bool keyed = facts.retry_class == rules::RetryClass::keyed &&
                     envelope_.member(Slot::params_idempotency_key).type == ValueType::string;
  const bool activates = facts.effect == rules::SessionEffect::activates;
  const bool prompts = facts.id == MethodId::session_prompt;
  if (!keyed && !activates && !prompts) return false;
  // The scope of the rows is the agent's name, which comes with its answer.
  if (version_ == rules::Version::unknown) return awaits_initialize(step.now);
  if (ledger_ == LedgerUse::opening) return true;
  if (ledger_ != LedgerUse::ready || (!activates && !prompts)) return false;
  const std::uint32_t session = session_of(facts, true);
  if (session == SessionTable::none) return false;
  // Rows of a run whose processes lived may be decidable now.
  if (activates && sessions_.at(session).has_living_owner && !retrying_)
    sessions_.at(session).ledger = LedgerReading::unread;
  switch (sessions_.at(session).ledger) {
    case LedgerReading::unread: ask_ledger(session, step); return true;
    case LedgerReading::reading:
    case LedgerReading::waiting: return true;
    case LedgerReading::failed:
    case LedgerReading::read: break;
  }
  return false;
}

// An agent that is asked before it has answered initialize refuses (ACP v2) or queues: one that does neither
// is not waited for.
bool Edge::awaits_initialize(Instant now) {
  if (now >= initialize_asked_ + limits::initialize_patience) return false;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->facts->id == MethodId::initialize) return true;
  }
  return false;
}

void Edge::ask_ledger(std::uint32_t row, Step& step) {
  Session& session = sessions_.at(row);
  if (session.ledger == LedgerReading::unread) session.ledger_asked = step.now;
  session.ledger = LedgerReading::reading;
  session.has_living_owner = false;
  session.ledger_ticket = ++tickets_;
  step.actions.read_ledger(session.ledger_ticket, agent_name_, session.id);
}

// Keeps the frame at hand for later if it, or one before it, waits for the ledger. Once that takes long only
// frames of the same session wait.
bool Edge::defer(const Frame& frame, Step& step) {
  if (reach_ == AgentReach::gone) return false;
  const bool needs_rows = must_wait_for_ledger(step);
  if (!needs_rows && deferred_.empty()) return false;
  std::uint32_t session = SessionTable::none;
  if (envelope_.member(Slot::params_session_id).type == ValueType::string)
    session = sessions_.find(decoded(Slot::params_session_id, session_scratch_));
  const bool others_pass =
      !deferred_.empty() && step.now >= deferred_.front().since + limits::commit_patience;
  if (!needs_rows && others_pass) {
    const bool behind = std::any_of(deferred_.begin(), deferred_.end(), [&](const Deferred& waiting) {
      return waiting.session == session && session != SessionTable::none;
    });
    if (!behind) return false;
  }
  deferred_.push_back({session, step.now, std::string(frame.text)});
  deferred_bytes_ += frame.text.size();
  return true;
}

// A request that was not looked at yet is cancelled: it is answered here. True if there is one of that id.
bool Edge::cancel_deferred(const IdView& id, Step& step) {
  const auto found = std::find_if(deferred_.begin(), deferred_.end(), [&](const Deferred& deferred) {
    const Frame frame = padded_copy(deferred.frame, step);
    scanner_.scan(frame.text, stored_);
    return stored_.shape() == Shape::request && read_id(stored_.raw(Slot::id), other_id_scratch_) == id;
  });
  if (found == deferred_.end()) return false;
  out_.clear();
  append_error(out_, stored_.raw(Slot::id),
               {.code = code::request_cancelled,
                .message = "Cancelled before it was sent.",
                .reason = "cancelled",
                .outcome = rules::Outcome::not_sent});
  deferred_bytes_ -= found->frame.size();
  deferred_.erase(found);
  send_text(client_link_, out_, step);
  return true;
}

void Edge::retry_deferred(Step& step) {
  if (deferred_.empty()) return;
  std::deque<Deferred> waiting;
  waiting.swap(deferred_);
  deferred_bytes_ = 0;
  retrying_ = true;
  for (Deferred& deferred : waiting) {
    const std::size_t before = deferred_.size();
    const Frame frame = scan_kept(deferred.frame, step);
    if (!defer(frame, step)) on_client_message(frame, step);
    if (deferred_.size() > before) deferred_.back().since = deferred.since;
  }
  retrying_ = false;
}

void Edge::on_ledger_read(const LedgerRead& event, Step& step) {
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) {
    Session& session = sessions_.at(row);
    if (session.ledger_ticket != event.ticket || session.ledger != LedgerReading::reading) continue;
    if (event.session == nullptr) {
      ledger_error_ = event.error;
      session.ledger = LedgerReading::failed;
      step.actions.log(LogLevel::warning, fmt::format("the ledger (--ledger) could not be read: {}",
                                                      problem_of(event.error).words));
    } else if (event.session->has_living_owner && step.now < session.ledger_asked + limits::owner_patience) {
      session.ledger = LedgerReading::waiting;
      session.ledger_look_again = step.now + limits::owner_pause;
    } else {
      session.ledger = LedgerReading::read;
      load_rows(row, *event.session);
    }
    break;
  }
  retry_deferred(step);
}

void Edge::load_rows(std::uint32_t number, const LedgerSession& known) {
  Session& session = sessions_.at(number);
  session.has_living_owner = known.has_living_owner;
  const bool first = !std::exchange(session.is_loaded, true);
  if (first) load_messages(number, known);
  const rules::MethodFacts& prompt = rules::facts_of(rules::Sender::client, rules::MessageKind::request,
                                                     rules::name_of(MethodId::session_prompt), version());
  for (const LedgerRow& row : known.rows) {
    const KeyTable::Scope scope{number, &prompt, {}, row.key, {}};
    if (keys_.find(scope) != nullptr || keys_.full()) continue;
    KeyRow& added = keys_.add(scope, row.print);
    added.state = row.state == LedgerState::inserted ? KeyState::inserted : KeyState::unknown;
    added.message_id = row.message_id;
    added.content = row.content;
    added.is_command = row.is_command;
    added.run = row.run;
    // A row that another keyhop wrote beside us has no place in our order, and is never decided here.
    added.sent_at = first ? row.sent_at : 0;
    added.in_ledger = added.on_disk = true;
    added.saved = Saved::already();
    session.needs_reading = true;
  }
}

// What earlier runs saw and sent comes before anything of this one.
void Edge::load_messages(std::uint32_t number, const LedgerSession& known) {
  Session& session = sessions_.at(number);
  std::uint64_t last = 0;
  std::vector<SeenMessage> messages;
  for (const LedgerMessage& message : known.messages) {
    last = std::max(last, message.seen_at);
    messages.push_back({.id = message.id,
                        .content = message.content,
                        .is_content_known = message.is_content_known,
                        .is_given = message.is_given,
                        .seen_at = message.seen_at,
                        .saved = Saved::already()});
  }
  std::vector<LostUnkeyed> prompts;
  for (const LedgerPrompt& lost : known.prompts) {
    last = std::max(last, lost.sent_at);
    prompts.push_back({lost, Saved::already()});
  }
  for (const LedgerRow& row : known.rows) last = std::max(last, row.sent_at);
  if (last > 0) {
    session.history.shift(last);
    for (LostUnkeyed& lost : session.lost_prompts) lost.prompt.sent_at += last;
    for (Pending* pending = from_client_.oldest(); pending != nullptr;
         pending = from_client_.after(*pending)) {
      if (pending->session == number && pending->place != 0) pending->place += last;
    }
    keys_.for_each_of(number, [&](KeyRow& row) { row.sent_at += row.sent_at != 0 ? last : 0; });
  }
  const bool fresh = session.history.seen().empty();
  session.history.add_older(std::move(messages));
  // That run may have seen more than it wrote. Where it left rows the history is read first.
  session.history.set_complete(known.is_complete && fresh && !known.rows.empty());
  session.lost_prompts.insert(session.lost_prompts.begin(), prompts.begin(), prompts.end());
}

std::optional<Instant> Edge::ledger_deadline() const noexcept {
  if (ledger_ == LedgerUse::none) return std::nullopt;
  std::optional<Instant> first;
  if (is_reachable(agent_link_)) first = outbox_.patience_ends();
  const auto consider = [&](Instant instant) {
    if (!first || instant < *first) first = instant;
  };
  if (!deferred_.empty() && deferred_.front().since != deferred_passed_)
    consider(deferred_.front().since + limits::commit_patience);
  for (const Deferred& deferred : deferred_) {
    if (deferred.session == SessionTable::none) continue;
    const Session& session = sessions_.at(deferred.session);
    if (session.ledger == LedgerReading::waiting) consider(session.ledger_look_again);
  }
  const bool nameless = !deferred_.empty() && version_ == rules::Version::unknown;
  if (nameless && !initialize_passed_) consider(initialize_asked_ + limits::initialize_patience);
  return first;
}

void Edge::check_ledger(Step& step) {
  if (ledger_ == LedgerUse::none) return;
  for (const Deferred& deferred : deferred_) {
    if (deferred.session == SessionTable::none) continue;
    const Session& session = sessions_.at(deferred.session);
    if (session.ledger == LedgerReading::waiting && session.ledger_look_again <= step.now)
      ask_ledger(deferred.session, step);
  }
  if (!initialize_passed_ && step.now >= initialize_asked_ + limits::initialize_patience) {
    initialize_passed_ = true;
    retry_deferred(step);
  }
  if (!deferred_.empty() && step.now >= deferred_.front().since + limits::commit_patience &&
      deferred_passed_ != deferred_.front().since) {
    deferred_passed_ = deferred_.front().since;
    retry_deferred(step);
  }
  flush_outbox(step);
}

}  // namespace acp
