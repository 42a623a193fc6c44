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
    case KeyState::unknown: return LedgerState::unknown;
  }
  return LedgerState::unknown;
}

// Its outcome is not known, or the ledger may not know it.
bool is_undecided(const KeyRow& row) noexcept { return row.state != KeyState::inserted || row.is_unsaved; }

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

// The row as it is now, whether the file has it or not.
void Edge::tell_row(KeyRow& row, LedgerBatch& batch) {
  if (std::exchange(row.in_ledger, true)) {
    batch.changes.emplace_back(UpdateLedgerRow{row_of(row)});
  } else {
    batch.changes.emplace_back(AddLedgerRow{row_of(row)});
  }
}

bool Edge::has_undecided(std::uint32_t session) {
  bool undecided = false;
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
  KeyRow* row = pending.is_unkeyed ? nullptr : &keys_.at(pending.key);
  if (row != nullptr) {
    row->content = pending.content;
    row->is_command = pending.is_command;
    row->sent_at = pending.place;
  }
  if (ledger_ != LedgerUse::ready) return 0;
  if (row == nullptr && stale == 0 && !has_undecided(pending.session)) return 0;
  LedgerBatch batch = begin_batch(pending.session);
  if (stale != 0) batch.changes.emplace_back(RemoveLedgerPrompt{stale});
  if (row == nullptr) {
    // It is one of the prompts under way, which every batch tells of.
  } else {
    tell_row(*row, batch);
  }
  return order(std::move(batch), {0, pending.session, pending.key, pending.row}, step);
}

// Orders a batch written under the next ticket, which is returned.
std::uint64_t Edge::order(LedgerBatch batch, Commit commit, Step& step) {
  batch.ticket = commit.ticket = ++tickets_;
  commits_.push_back(commit);
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
  // Never a message without its row: one that is given and whose row is open would prove the prompt absent.
  keys_.for_each_of(number, [&](KeyRow& row) {
    if (std::exchange(row.is_unsaved, false) && row.in_ledger)
      batch.changes.emplace_back(UpdateLedgerRow{row_of(row)});
  });
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
  order(std::move(batch), {0, session, Pending::no_row, Pending::no_row}, step);
}

void Edge::save_row(KeyRow& row, Step& step) {
  if (!row.in_ledger) return;
  row.is_unsaved = true;  // every batch tells of such rows
  save(row.session, begin_batch(row.session), step);
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
  if (event.error != LedgerError::none) {
    note_unsaved(commit.session);
    fail_commit(commit, event.error, step);
  } else if (commit.is_void && outbox_.waits_for(event.ticket)) {
    commit_again(commit, step);
  } else {
    outbox_.confirm(event.ticket);
  }
  flush_outbox(step);
}

// What was written left out what an earlier batch should have told, and that one failed: the frame waits for
// a batch that tells all of it.
void Edge::commit_again(const Commit& commit, Step& step) {
  LedgerBatch batch = begin_batch(commit.session);
  if (commit.key != Pending::no_row) tell_row(keys_.at(commit.key), batch);
  const std::uint64_t ticket = order(std::move(batch), {0, commit.session, commit.key, commit.pending}, step);
  outbox_.wait_for(commit.ticket, ticket);
}

// A batch was not written: whatever it told goes into the next one, so that no row is ever without its
// messages.
void Edge::note_unsaved(std::uint32_t number) {
  Session& session = sessions_.at(number);
  for (Commit& later : commits_) later.is_void = later.is_void || later.session == number;
  keys_.for_each_of(number, [](KeyRow& row) { row.is_unsaved = true; });
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
      resembles = resembles || (is_undecided(other) && other.content == pending.content);
    });
    pending.in_ledger = false;
    if (!resembles) return outbox_.confirm(commit.ticket);
  }
  outbox_.drop(pending.row);
  if (pending.state == PendingState::abandoned) return remove_request(pending);  // it has its error
  if (row != nullptr) {
    pending.key = Pending::no_row;
    forget_row(*row, step);
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

}  // namespace acp
