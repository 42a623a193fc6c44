// What the ledger must have before a frame may leave, and what it had when this run began.
//
// A keyed prompt leaves once its row is on the disk; what follows it keeps its place (outbox.h). A request
// that needs a session's rows waits until they were read. Nothing that comes from the agent ever waits here.
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

LedgerState state_of(KeyState state) noexcept {
  switch (state) {
    case KeyState::pending: return LedgerState::open;
    case KeyState::inserted: return LedgerState::inserted;
    case KeyState::unknown: return LedgerState::unknown;
  }
  return LedgerState::unknown;
}

LedgerRow row_of(const KeyRow& row) {
  return {.key = row.key_hash,
          .print = row.print,
          .content = row.content,
          .state = state_of(row.state),
          .is_command = row.is_command,
          .sent_at = row.sent_at,
          .message_id = row.message_id};
}

}  // namespace

void Edge::open_ledger(const LedgerOpened& event, Step& step) {
  if (ledger_ != LedgerUse::opening) return;
  ledger_error_ = event.error;
  ledger_ = event.error == LedgerError::none ? LedgerUse::ready : LedgerUse::failed;
  if (event.salt != nullptr && ledger_ == LedgerUse::ready) fingerprinter_.set_salt(*event.salt);
  if (ledger_ == LedgerUse::failed) {
    step.actions.log(LogLevel::warning,
                     fmt::format("the ledger (--ledger) is not used: {}; prompts with an idempotencyKey are "
                                 "refused until keyhop is started with one that works, or with --ledger off",
                                 problem_of(event.error).words));
  }
  retry_deferred(step);
}

// ---- frames that need a session's rows ----

// Whether the request at hand needs rows that were not read yet; orders them read.
bool Edge::must_wait_for_ledger(Step& step) {
  if (envelope_.shape() != Shape::request || envelope_.has_duplicates()) return false;
  if (envelope_.member(Slot::method).type != ValueType::string || version_ != rules::Version::v2)
    return false;
  const rules::MethodFacts& facts = facts_for(rules::Sender::client, rules::MessageKind::request);
  const bool keyed = facts.retry_class == rules::RetryClass::keyed &&
                     envelope_.member(Slot::params_idempotency_key).type == ValueType::string;
  const bool activates = facts.effect == rules::SessionEffect::activates;
  if (!keyed && !activates) return false;
  if (ledger_ == LedgerUse::opening) return true;
  if (ledger_ != LedgerUse::ready || (keyed && !guards(facts))) return false;
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
    case LedgerReading::read: return false;
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
  if (!needs_rows && step.now >= deferred_.front().since + limits::commit_patience) {
    const bool behind = std::any_of(deferred_.begin(), deferred_.end(), [&](const Deferred& waiting) {
      return waiting.session == session && session != SessionTable::none;
    });
    if (!behind) return false;
  }
  deferred_.push_back({session, step.now, std::string(frame.text)});
  deferred_bytes_ += frame.text.size();
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
    const Frame frame = padded_copy(deferred.frame, step);
    scanner_.scan(frame.text, envelope_);
    INVARIANT(envelope_.fault == FrameFault::none);  // it was scanned when it came
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
  const rules::MethodFacts& prompt = rules::facts_of(rules::Sender::client, rules::MessageKind::request,
                                                     rules::name_of(MethodId::session_prompt), version());
  for (const LedgerRow& row : known.rows) {
    session.history.skip_to(row.sent_at);
    const KeyTable::Scope scope{number, &prompt, {}, row.key, {}};
    if (keys_.find(scope) != nullptr || keys_.full()) continue;
    KeyRow& added = keys_.add(scope, row.print);
    added.state = row.state == LedgerState::inserted ? KeyState::inserted : KeyState::unknown;
    added.message_id = row.message_id;
    added.content = row.content;
    added.is_command = row.is_command;
    added.sent_at = row.sent_at;
    added.in_ledger = true;
    session.needs_reading = true;
  }
  if (session.history.base_line().seen.empty()) {
    for (const LedgerMessage& message : known.messages) {
      session.history.skip_to(message.seen_at);
      session.history.add({.id = message.id,
                           .content = message.content,
                           .is_content_known = message.is_content_known,
                           .is_given = message.is_given,
                           .is_saved = true,
                           .seen_at = message.seen_at});
    }
    session.history.set_complete(known.is_complete);
  }
  for (const LedgerPrompt& prompt_row : known.prompts) {
    session.history.skip_to(prompt_row.sent_at);
    session.lost_prompts.push_back({prompt_row, true});
  }
}

// ---- frames that need a row ----

// A prompt that takes part in the order of its session's messages.
bool Edge::tracks(const Pending& pending) const noexcept {
  return reads_history() && pending.session != SessionTable::none &&
         pending.facts->id == MethodId::session_prompt;
}

bool Edge::has_undecided(std::uint32_t session) {
  bool undecided = false;
  keys_.for_each_of(session, [&](KeyRow& row) { undecided = undecided || row.state != KeyState::inserted; });
  return undecided;
}

// The prompt in the envelope is about to be sent: gives it its place among the session's messages and, where
// the ledger must know first, the ticket that it waits for (0: none).
std::uint64_t Edge::protect(Pending& pending, Step& step) {
  if (!tracks(pending)) return 0;
  Session& session = sessions_.at(pending.session);
  const ContentReader::Message message =
      content_.of_prompt(envelope_.raw(Slot::params_prompt), fingerprinter_);
  pending.content = message.content;
  pending.is_command = message.is_command;
  const bool has_row = pending.key != Pending::no_row && guards(*pending.facts);
  if (!has_row && !std::exchange(pending.is_unkeyed, true)) ++session.open_unkeyed;
  pending.place = session.history.next_place();
  KeyRow* row = pending.is_unkeyed ? nullptr : &keys_.at(pending.key);
  if (row != nullptr) {
    row->content = pending.content;
    row->is_command = pending.is_command;
    row->sent_at = pending.place;
  }
  if (ledger_ != LedgerUse::ready) return 0;
  if (row == nullptr && !has_undecided(pending.session)) return 0;
  LedgerBatch batch = begin_batch(pending.session);
  if (row == nullptr) {
    // It is one of the prompts under way, which every batch tells of.
  } else if (std::exchange(row->in_ledger, true)) {
    batch.changes.emplace_back(UpdateLedgerRow{row_of(*row)});
  } else {
    batch.changes.emplace_back(AddLedgerRow{row_of(*row)});
  }
  batch.ticket = ++tickets_;
  commits_.push_back({batch.ticket, pending.session, pending.key, pending.row});
  step.actions.commit(std::move(batch));
  return tickets_;
}

// Whatever the file does not have yet of this session's messages and of the prompts that are under way.
LedgerBatch Edge::begin_batch(std::uint32_t number) {
  Session& session = sessions_.at(number);
  LedgerBatch batch{.agent = agent_name_, .session = session.id};
  batch.changes.emplace_back(SetLedgerComplete{session.history.is_complete()});
  if (session.history.take_trimmed()) {
    batch.changes.emplace_back(TrimLedgerMessages{session.history.seen().front().seen_at});
  }
  for (SeenMessage& seen : session.history.seen()) {
    if (std::exchange(seen.is_saved, true)) continue;
    batch.changes.emplace_back(
        PutLedgerMessage{{seen.id, seen.content, seen.is_content_known, seen.is_given, seen.seen_at}});
  }
  for (LostUnkeyed& lost : session.lost_prompts) {
    if (!std::exchange(lost.in_ledger, true)) batch.changes.emplace_back(AddLedgerPrompt{lost.prompt});
  }
  if (session.open_unkeyed == 0) return batch;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    const bool unsaved =
        pending->session == number && pending->place != 0 && !pending->in_ledger && pending->is_unkeyed;
    if (!unsaved) continue;
    batch.changes.emplace_back(AddLedgerPrompt{{pending->content, pending->is_command, pending->place}});
    pending->in_ledger = true;
  }
  return batch;
}

// Written when it may be: nothing waits for it.
void Edge::save(std::uint32_t session, LedgerBatch batch, Step& step) {
  batch.ticket = ++tickets_;
  commits_.push_back({batch.ticket, session, Pending::no_row, Pending::no_row});
  step.actions.commit(std::move(batch));
}

void Edge::save_row(const KeyRow& row, Step& step) {
  if (!row.in_ledger) return;
  LedgerBatch batch = begin_batch(row.session);
  batch.changes.emplace_back(UpdateLedgerRow{row_of(row)});
  save(row.session, std::move(batch), step);
}

// The key is unused again, here and in the file.
void Edge::forget_row(KeyRow& row, Step& step) {
  for (Commit& commit : commits_) {
    if (commit.key == row.row) commit.key = Pending::no_row;
  }
  if (row.in_ledger) {
    LedgerBatch batch{.agent = agent_name_, .session = sessions_.at(row.session).id};
    batch.changes.emplace_back(RemoveLedgerRow{row.key_hash});
    save(row.session, std::move(batch), step);
  }
  keys_.remove(row);
}

// Its rows end with it, also those that were never read.
void Edge::forget_session(std::uint32_t number, Step& step) {
  Session& session = sessions_.at(number);
  keys_.remove_settled_of(number);
  session.lost_prompts.clear();
  session.has_living_owner = false;
  if (ledger_ == LedgerUse::none || version_ != rules::Version::v2) return;
  LedgerBatch batch{.agent = agent_name_, .session = session.id};
  batch.changes.emplace_back(ForgetLedgerSession{});
  save(number, std::move(batch), step);
}

void Edge::on_committed(const LedgerCommitted& event, Step& step) {
  const auto found = std::find_if(commits_.begin(), commits_.end(),
                                  [&](const Commit& commit) { return commit.ticket == event.ticket; });
  if (found == commits_.end()) return;
  const Commit commit = *found;
  commits_.erase(found);
  if (event.error == LedgerError::none) {
    outbox_.confirm(event.ticket);
  } else {
    note_unsaved(commit.session);
    fail_commit(commit, event.error, step);
  }
  flush_outbox(step);
}

// A batch was not written: whatever it told goes into the next one, so that no row is ever without its
// messages.
void Edge::note_unsaved(std::uint32_t number) {
  Session& session = sessions_.at(number);
  for (SeenMessage& seen : session.history.seen()) seen.is_saved = false;
  for (LostUnkeyed& lost : session.lost_prompts) lost.in_ledger = false;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->session == number) pending->in_ledger = false;
  }
}

// The frame that waited for it is not sent, unless it can go without.
void Edge::fail_commit(const Commit& commit, LedgerError error, Step& step) {
  if (commit.pending == Pending::no_row) {
    return step.actions.log(
        LogLevel::warning, fmt::format("the ledger (--ledger) was not updated: {}", problem_of(error).words));
  }
  const bool conflict = error == LedgerError::conflict;
  KeyRow* row = commit.key == Pending::no_row ? nullptr : &keys_.at(commit.key);
  if (row != nullptr) {
    row->in_ledger = false;
    if (conflict) sessions_.at(row->session).ledger = LedgerReading::unread;
  }
  Pending& pending = from_client_.at(commit.pending);
  const bool waits = pending.row != Pending::no_row && pending.sent_at == Pending::waits_in_outbox &&
                     outbox_.waits_for(commit.ticket);
  if (!waits) return;  // its epoch was lost, or it was withdrawn
  if (row == nullptr) {
    // A prompt without a key goes on, unless it could be taken for a keyed one later.
    bool resembles = false;
    keys_.for_each_of(pending.session, [&](KeyRow& other) {
      resembles = resembles || (other.state != KeyState::inserted && other.content == pending.content);
    });
    pending.in_ledger = false;
    if (!resembles) return outbox_.confirm(commit.ticket);
  }
  outbox_.drop(pending.row);
  const LedgerProblem problem = problem_of(error);
  const std::string message =
      conflict
          ? "Another keyhop has sent a prompt with this key in this session. It was not sent from here; send "
            "it again to learn what became of it."
          : fmt::format(
                "The ledger (--ledger) could not record this prompt: {}. It was not sent. Make room "
                "or name another file with --ledger; --ledger off goes without.",
                problem.words);
  fail_all(pending,
           {.message = message,
            .reason = problem.reason,
            .outcome = conflict ? rules::Outcome::unknown : rules::Outcome::not_sent},
           step);
}

// ---- the outbox ----

void Edge::begin_agent_frame(Step& step) {
  frame_waits_ = is_reachable(agent_link_) && (frame_ticket_ != 0 || !outbox_.empty());
  if (frame_waits_) outbox_.begin({frame_ticket_, frame_session_, frame_pending_, frame_cancels_, step.now});
  frame_session_ = SessionTable::none;
  frame_pending_ = Pending::no_row;
  frame_ticket_ = 0;
  frame_cancels_ = false;
}

void Edge::flush_outbox(Step& step) {
  if (outbox_.empty() || !is_reachable(agent_link_)) return;
  while (auto frame = outbox_.take_free(step.now)) {
    if (frame->pending != Pending::no_row) from_client_.at(frame->pending).sent_at = agent_bytes_;
    agent_bytes_ += frame->bytes.size();
    step.actions.send_copy(agent_link_, frame->bytes);
  }
}

// `session/cancel` for prompts that have waited long for their commit: they never left, and are answered
// here.
void Edge::retract_waiting(std::uint32_t session, Step& step) {
  if (outbox_.empty() || session == SessionTable::none) return;
  for (const std::uint32_t row : outbox_.requests_of(session)) {
    Pending& pending = from_client_.at(row);
    if (pending.facts->id == MethodId::session_prompt) answer_cancelled(pending, false, step);
  }
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
  if (!deferred_.empty() && step.now >= deferred_.front().since + limits::commit_patience &&
      deferred_passed_ != deferred_.front().since) {
    deferred_passed_ = deferred_.front().since;
    retry_deferred(step);
  }
  flush_outbox(step);
}

}  // namespace acp
