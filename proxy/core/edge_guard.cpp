// What the ledger must have before a frame may leave.
//
// A keyed prompt leaves once its row is on the disk; what follows it keeps its place (outbox.h).
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
    case KeyState::unknown: break;
  }
  return LedgerState::unknown;
}

// Its outcome is not known, or the ledger may not know it.
bool is_undecided(const KeyRow& row) noexcept {
  return row.state != KeyState::inserted || (row.in_ledger && !row.saved);
}

bool is_row_removal(const LedgerRemoval& removal) noexcept {
  return std::holds_alternative<RemoveLedgerRow>(removal.change);
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

// A prompt that takes part in the order of its session's messages.
bool Edge::tracks(const Pending& pending) const noexcept {
  return reads_history() && pending.session != SessionTable::none &&
         pending.facts->id == MethodId::session_prompt;
}

bool Edge::has_undecided(std::uint32_t session) {
  const auto& removals = sessions_.at(session).removals;
  bool undecided = std::any_of(removals.begin(), removals.end(), is_row_removal);
  keys_.for_each_of(session, [&](KeyRow& row) { undecided = undecided || is_undecided(row); });
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
  // What was there before it is only being read.
  if (session.needs_reading || session.history.is_reading()) session.history.set_complete(false);
  // One that never left (or is proven absent) takes a new place: the ledger's old one would stand for
  // another.
  const std::uint64_t stale = std::exchange(pending.in_ledger, false) ? pending.place : 0;
  pending.place = session.history.next_place();
  pending.saved.change();
  KeyRow* row = pending.is_unkeyed ? nullptr : &keys_.at(pending.key);
  if (row != nullptr) {
    row->content = pending.content;
    row->is_command = pending.is_command;
    row->sent_at = pending.place;
    row->saved.change();
  }
  if (ledger_ != LedgerUse::ready) return 0;
  if (row == nullptr && stale == 0 && !has_undecided(pending.session)) return 0;
  if (stale != 0) remove_from_ledger(pending.session, RemoveLedgerPrompt{stale}, {});
  LedgerBatch batch = begin_batch(pending.session);
  // One without a row is one of the prompts under way, which every batch tells of; so is a row that was
  // written before.
  if (row != nullptr && !std::exchange(row->in_ledger, true)) {
    row->saved.tell(batch.ticket);
    // The removal is in this batch, once more; from here on it would remove this row.
    row->on_disk = std::erase_if(session.removals, [&](const LedgerRemoval& removal) {
                     const auto* removed = std::get_if<RemoveLedgerRow>(&removal.change);
                     return removed != nullptr && removed->key == row->key_hash;
                   }) != 0;
    batch.changes.emplace_back(AddLedgerRow{row_of(*row)});
  }
  if (row != nullptr) row->protected_by = batch.ticket;
  return order(std::move(batch), {0, pending.session, pending.key, pending.row}, step);
}

// Orders a batch written; its ticket.
std::uint64_t Edge::order(LedgerBatch batch, Commit commit, Step& step) {
  commit.ticket = batch.ticket;
  commits_.push_back(commit);
  step.actions.commit(std::move(batch));
  return commit.ticket;
}

// Whatever the file may not have yet of this session's messages and of the prompts that are under way
// (saved.h).
LedgerBatch Edge::begin_batch(std::uint32_t number) {
  Session& session = sessions_.at(number);
  session.must_save = false;
  LedgerBatch batch{.ticket = ++tickets_, .agent = agent_name_, .session = session.id};
  batch.changes.emplace_back(SetLedgerComplete{session.history.is_complete()});
  if (session.history.take_trimmed()) {
    batch.changes.emplace_back(TrimLedgerMessages{session.history.seen().front().seen_at});
  }
  for (SeenMessage& seen : session.history.seen()) {
    if (!seen.saved.tell(batch.ticket)) continue;
    batch.changes.emplace_back(
        PutLedgerMessage{{seen.id, seen.content, seen.is_content_known, seen.is_given, seen.seen_at}});
  }
  // Never a message without its row: one that is given and whose row is open would prove the prompt absent.
  keys_.for_each_of(number, [&](KeyRow& row) {
    if (row.in_ledger && row.protected_by == 0 && row.saved.tell(batch.ticket))
      batch.changes.emplace_back(UpdateLedgerRow{row_of(row)});
  });
  for (LostUnkeyed& lost : session.lost_prompts) {
    if (lost.saved.tell(batch.ticket)) batch.changes.emplace_back(AddLedgerPrompt{lost.prompt});
  }
  for_each_unkeyed(number, [&](Pending& pending) {
    pending.in_ledger = true;
    if (!pending.saved.tell(batch.ticket)) return;
    batch.changes.emplace_back(AddLedgerPrompt{{pending.content, pending.is_command, pending.place}});
  });
  for (LedgerRemoval& removal : session.removals) {
    removal.saved.tell(batch.ticket);
    batch.changes.push_back(removal.change);
  }
  return batch;
}

// The batch with this ticket is on the disk, and so is all that it told.
void Edge::confirm_batch(std::uint32_t number, std::uint64_t ticket) {
  Session& session = sessions_.at(number);
  for (SeenMessage& seen : session.history.seen()) seen.saved.confirm(ticket);
  keys_.for_each_of(number, [&](KeyRow& row) { row.saved.confirm(ticket); });
  for (LostUnkeyed& lost : session.lost_prompts) lost.saved.confirm(ticket);
  for_each_unkeyed(number, [&](Pending& pending) { pending.saved.confirm(ticket); });
  std::erase_if(session.removals, [ticket](LedgerRemoval& removal) {
    removal.saved.confirm(ticket);
    return bool(removal.saved);
  });
}

// What has changed is written at the end of the step, all in one batch: nothing waits for it.
void Edge::save(std::uint32_t number) {
  if (!std::exchange(sessions_.at(number).must_save, true)) to_save_.push_back(number);
}

void Edge::finish_step(Step& step) {
  for (const std::uint32_t number : to_save_) {
    // Not if another batch has told of it meanwhile.
    if (std::exchange(sessions_.at(number).must_save, false))
      order(begin_batch(number), {0, number, Pending::no_row, Pending::no_row}, step);
  }
  to_save_.clear();
}

void Edge::save_row(KeyRow& row) {
  row.saved.change();
  if (row.in_ledger) save(row.session);
}

// The key is unused again, here and in the file.
void Edge::forget_row(KeyRow& row) {
  for (Commit& commit : commits_) {
    if (commit.key == row.row) commit.key = Pending::no_row;
  }
  if (row.in_ledger) remove_from_ledger(row.session, RemoveLedgerRow{row.key_hash, row.run}, row.content);
  keys_.remove(row);
}

// `content`: of a keyed prompt, else nothing.
void Edge::remove_from_ledger(std::uint32_t number, LedgerChange change, const Fingerprint& content) {
  auto& removals = sessions_.at(number).removals;
  if (removals.size() >= limits::removals_max) {
    // The disk has been full for long. A prompt without a key that stays in the file only makes others
    // doubtful.
    const auto least = std::find_if_not(removals.begin(), removals.end(), is_row_removal);
    removals.erase(least == removals.end() ? removals.begin() : least);
  }
  removals.push_back({std::move(change), content});
  save(number);
}

// Its rows end with it, also those that were never read.
void Edge::forget_session(std::uint32_t number, Step& step) {
  Session& session = sessions_.at(number);
  keys_.remove_settled_of(number);
  session.lost_prompts.clear();
  session.removals.clear();
  session.has_living_owner = false;
  if (ledger_ == LedgerUse::none || version_ != rules::Version::v2) return;
  LedgerBatch batch{.ticket = ++tickets_, .agent = agent_name_, .session = session.id};
  batch.changes.emplace_back(ForgetLedgerSession{});
  session.must_save = false;
  order(std::move(batch), {0, number, Pending::no_row, Pending::no_row}, step);
}

void Edge::on_committed(const LedgerCommitted& event, Step& step) {
  const auto found = std::find_if(commits_.begin(), commits_.end(),
                                  [&](const Commit& commit) { return commit.ticket == event.ticket; });
  if (found == commits_.end()) return;
  const Commit commit = *found;
  commits_.erase(found);
  if (event.error == LedgerError::none) confirm_batch(commit.session, commit.ticket);
  const LedgerError error = event.error == LedgerError::none ? commit.error : event.error;
  if (error != LedgerError::none) {
    fail_commit(commit, error, step);
  } else {
    if (commit.key != Pending::no_row) {
      KeyRow& row = keys_.at(commit.key);
      row.on_disk = true;
      if (row.protected_by == commit.ticket) row.protected_by = 0;
    }
    outbox_.confirm(commit.ticket);
  }
  flush_outbox(step);
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
    row->protected_by = 0;
    row->in_ledger = false;
    // What the file has of it is older than this.
    if (row->on_disk && !conflict)
      remove_from_ledger(row->session, RemoveLedgerRow{row->key_hash, row->run}, row->content);
    if (conflict) sessions_.at(row->session).ledger = LedgerReading::unread;
  }
  Pending& pending = from_client_.at(commit.pending);
  const bool waits = pending.sent_at == Pending::waits_in_outbox && outbox_.waits_for(commit.ticket);
  if (!waits) {  // its epoch was lost, or it was withdrawn
    for (Commit& later : commits_) {
      if (row != nullptr && later.key == commit.key) later.error = error;  // it only updates the row
    }
    return;
  }
  if (row == nullptr) {
    // A prompt without a key goes on, unless it could be taken for a keyed one later.
    bool resembles = false;
    keys_.for_each_of(pending.session, [&](KeyRow& other) {
      resembles = resembles || (is_undecided(other) && other.content == pending.content);
    });
    for (const LedgerRemoval& removal : sessions_.at(pending.session).removals)
      resembles = resembles || (is_row_removal(removal) && removal.content == pending.content);
    if (!resembles) return outbox_.confirm(commit.ticket);
    forget_prompt(pending);  // a later batch may have told of it
  }
  outbox_.drop(pending.row);
  if (pending.state == PendingState::abandoned) return remove_request(pending);  // it has its error
  if (row != nullptr) {
    pending.key = Pending::no_row;
    forget_row(*row);
  }
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
  if (frame_waits_) outbox_.begin({frame_ticket_, frame_session_, frame_pending_, step.now});
  frame_session_ = SessionTable::none;
  frame_pending_ = Pending::no_row;
  frame_ticket_ = 0;
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
  if (session == SessionTable::none) return;
  for (const std::uint32_t row : outbox_.requests_of(session)) {
    Pending& pending = from_client_.at(row);
    const bool open = pending.state != PendingState::abandoned;  // else it has its error
    if (open && pending.facts->id == MethodId::session_prompt) answer_cancelled(pending, false, step);
  }
}

}  // namespace acp
