// What the agent's history tells: user messages as they are seen, replays that keyhop asked for, and what
// they say of prompts whose answer was lost.
//
// An agent that knows no keys still shows its user messages again, with their old ids, when a session is
// resumed with `replayFrom`. That is the only proof there is.
#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "proxy/core/edge.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

using rules::MethodId;

constexpr std::string_view from_start = R"({"type":"start"})";

// The present agent has it and owes its answer. (One that was given up is among the lost prompts.)
bool is_in_turn(const Pending& pending) noexcept {
  const bool sent = pending.state == PendingState::sent || pending.state == PendingState::cancelling;
  return sent && pending.sent_at != Pending::waits_in_outbox;
}

}  // namespace

// Whether user messages are followed: the guard does it where messages have ids (v2); --recover-prompts in
// v1, too.
bool Edge::reads_history() const noexcept {
  if (version_ == rules::Version::v2) return settings_.keys == KeyMode::guard || settings_.recover_prompts;
  return version_ == rules::Version::v1 && settings_.recover_prompts;
}

// v1 messages need not have ids: the n-th is known as the n-th.
Fingerprint Edge::hash_ordinal(std::size_t ordinal) const {
  return SaltedHash(fingerprinter_.salt(), 'n').add(std::uint64_t{ordinal}).print();
}

Fingerprint Edge::hash_message_id(std::string_view token) {
  return SaltedHash(fingerprinter_.salt(), 'i').add(decode_string(token, other_id_scratch_)).print();
}

// A session/update in the envelope: is it a user message, or the end of a replay?
void Edge::note_user_message(std::uint32_t row) {
  if (version_ == rules::Version::v1) return note_chunk_v1(row);
  if (envelope_.member(Slot::update_kind).type != ValueType::string) return;
  const std::string_view kind = decoded(Slot::update_kind, method_scratch_);
  const char first = kind.empty() ? '\0' : kind.front();
  if (first != 'u' && first != 's' && first != 'r') return;  // most are an agent's chunks
  if (!reads_history()) return;
  SessionHistory& history = sessions_.at(row).history;
  if (kind == "state_update" || kind == "replay_complete") return history.note_finished();
  const bool chunk = kind == "user_message_chunk";
  if (!chunk && kind != "user_message") return;
  if (envelope_.member(Slot::update_message_id).type != ValueType::string) return history.note_gap();
  const std::string_view token = envelope_.raw(Slot::update_message_id);
  const Fingerprint id = hash_message_id(token);
  const bool tells =
      envelope_.has(Slot::update_content) && envelope_.member(Slot::update_content).type != ValueType::null;
  const std::string_view content = tells ? envelope_.raw(Slot::update_content) : std::string_view{};
  if (history.is_reading()) {
    history.read_content(token, id, content, chunk, content_, fingerprinter_);
  } else {
    history.see_content(id, content, chunk, content_, fingerprinter_);
  }
}

// v1 shows a message in chunks that follow each other, with or without an id. Live ones tell nothing here:
// the answer does.
void Edge::note_chunk_v1(std::uint32_t row) {
  SessionHistory& history = sessions_.at(row).history;
  if (!history.is_reading()) return;
  const bool is_chunk = envelope_.member(Slot::update_kind).type == ValueType::string &&
                        decoded(Slot::update_kind, method_scratch_) == "user_message_chunk";
  if (!is_chunk) return history.end_message();
  const std::string_view id = envelope_.raw(Slot::update_message_id);
  if (!history.goes_on(id)) history.begin_message(id);
  history.read_content({}, hash_ordinal(history.ordinal()), envelope_.raw(Slot::update_content), true,
                       content_, fingerprinter_);
}

// v1: the end of a turn says that its prompt was taken in, unless it was cancelled before that or failed.
void Edge::note_answer_v1(const Pending& pending) {
  SessionHistory& history = sessions_.at(pending.session).history;
  const bool cancelled = envelope_.member(Slot::result_stop_reason).type == ValueType::string &&
                         decoded(Slot::result_stop_reason, other_id_scratch_) == "cancelled";
  const bool sure = envelope_.is_success() && !cancelled;
  if (!sure) return history.set_complete(false);
  history.see(hash_ordinal(history.seen().size() + 1), &pending.content, true);
}

// v1: everything that is known is there, at its place. Otherwise nothing can be told from the number of
// messages.
bool Edge::is_as_known(const SessionHistory& history, const Replay& replay) {
  const BaseLine base = history.base_line();
  if (!base.is_complete || replay.messages.size() < base.seen.size()) return false;
  for (std::size_t i = 0; i < base.seen.size(); ++i) {
    if (replay.messages[i].content != base.seen[i].content) return false;
  }
  return true;
}

// Something of the agent's could not be read: a replay that is being read may lack a message now.
void Edge::note_gap() {
  if (own_.empty() && open_replays_ == 0) return;
  for (std::uint32_t row = 0; row < sessions_.size(); ++row) sessions_.at(row).history.note_gap();
}

// A prompt was answered with success: its message is known, and is no other prompt's.
void Edge::note_answer(Pending& pending) {
  if (pending.place == 0) return;
  if (version_ == rules::Version::v1) return note_answer_v1(pending);
  Session& session = sessions_.at(pending.session);
  const bool named =
      envelope_.is_success() && envelope_.member(Slot::result_message_id).type == ValueType::string;
  // Taken in, and nobody knows as what: it still takes part in the matching.
  if (envelope_.is_success() && !named) return remember_prompt(pending);
  if (named)
    session.history.see(hash_message_id(envelope_.raw(Slot::result_message_id)), &pending.content, true);
  forget_prompt(pending);
}

// A prompt without a key is settled: the ledger need not know of it any more.
void Edge::forget_prompt(Pending& pending) {
  if (!pending.in_ledger) return;
  pending.in_ledger = false;
  const bool in_flight = std::any_of(commits_.begin(), commits_.end(),
                                     [&](const Commit& commit) { return commit.session == pending.session; });
  if (!pending.saved && !in_flight) return;  // whatever told it failed
  remove_from_ledger(pending.session, RemoveLedgerPrompt{pending.place}, {});
}

// A prompt without a key got an error of keyhop's own: it may still be in the history, and must not be taken
// for a keyed one.
void Edge::note_lost_prompt(const Pending& pending) {
  if (pending.place == 0 || !pending.is_unkeyed) return;
  if (version_ == rules::Version::v1) return sessions_.at(pending.session).history.set_complete(false);
  remember_prompt(pending);
}

void Edge::remember_prompt(const Pending& pending) {
  Session& session = sessions_.at(pending.session);
  if (session.lost_prompts.size() >= limits::lost_prompts_max) {
    session.is_undecidable = true;  // any message could be one of those that are not kept
    return;
  }
  session.lost_prompts.push_back({{pending.content, pending.is_command, pending.place}, pending.saved});
}

// Whether a restore of this session must show its history: prompts of it are to be decided, or remembered ids
// to be held against it.
bool Edge::wants_replay(std::uint32_t row) {
  if (!reads_history() || sessions_.at(row).replay_refused) return false;
  if (version_ == rules::Version::v1 && !ways_.load) return false;
  const bool guarded = version_ == rules::Version::v2 && settings_.keys == KeyMode::guard;
  if (guarded && keys_.has_rows_of(row)) return true;
  if (!settings_.recover_prompts) return false;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->session == row && is_lost(*pending) && pending->place != 0) return true;
  }
  return false;
}

// The client's first resume of a session with rows of an earlier run: the history is read before it is passed
// on, or along with it if it asks for the history itself. True if the request has to wait.
bool Edge::reads_before_resume(Pending& pending, Step& step) {
  if (pending.session == SessionTable::none || pending.facts->effect != rules::SessionEffect::activates)
    return false;
  Session& session = sessions_.at(pending.session);
  // Not while anything of it may be running: what is live could not be told from the replay.
  const bool may_read = reads_history() && reach_ == AgentReach::open &&
                        session.state != SessionState::active && session.restore != Restore::asked &&
                        !session.history.is_reading();  // nor begun anew while another resume is read along
  if (!may_read) return false;
  if (version_ == rules::Version::v1) {
    if (pending.facts->id != MethodId::session_load) return false;
    pending.reads_history = true;
    return false;
  }
  const std::string_view cursor = envelope_.raw(Slot::params_replay_from);
  const bool asks = !cursor.empty() && cursor != "null";
  std::string padded(from_start);
  padded.append(limits::padding_bytes, ' ');
  const std::string_view start = std::string_view(padded).substr(0, from_start.size());
  if (asks && fingerprinter_.of_content(cursor) == fingerprinter_.of_content(start)) {
    pending.reads_history = true;
    return false;
  }
  const bool needed = session.needs_reading && keys_.has_rows_of(pending.session) && !session.replay_refused;
  if (!needed) return false;
  learn_members(pending.session, envelope_);
  session.precedes_resume = true;
  restore_session(pending.session, step);
  return true;
}

// Every prompt of the session whose answer was lost or is awaited, in the order in which they were sent.
std::vector<Edge::AskedPrompt> Edge::collect_lost(std::uint32_t number) {
  std::vector<AskedPrompt> asked;
  keys_.for_each_of(number, [&](KeyRow& row) {
    const bool decided = row.state != KeyState::unknown || !row.message_id.empty();
    if (!decided && row.sent_at != 0)
      asked.push_back({{row.content, row.sent_at, row.is_command, true}, &row});
  });
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->session != number || pending->place == 0) continue;
    if (is_lost(*pending)) {
      const bool cancelled = pending->state == PendingState::lost_cancelling;
      asked.push_back({{pending->content, pending->place, pending->is_command, cancelled}, nullptr, pending});
    } else if (is_in_turn(*pending)) {
      // One that the client sent while the history was being asked for may be in it. (Beside one that is lost
      // there is none: a session's frames wait until these are settled.)
      asked.push_back({{pending->content, pending->place, pending->is_command, true, true}});
    }
  }
  for (const auto& [lost, saved] : sessions_.at(number).lost_prompts)
    asked.push_back({{lost.content, lost.sent_at, lost.is_command, true}});
  std::sort(asked.begin(), asked.end(),
            [](const AskedPrompt& a, const AskedPrompt& b) { return a.prompt.sent_at < b.prompt.sent_at; });
  return asked;
}

// One replay is read at a time: the one that was asked for last.
void Edge::begin_replay(std::uint32_t session, std::uint32_t reader) {
  sessions_.at(session).replay_reader = reader;
  sessions_.at(session).history.begin_replay();
}

// What it showed, if it is the one that is being read.
std::optional<Replay> Edge::end_replay(std::uint32_t session, std::uint32_t reader) {
  if (sessions_.at(session).replay_reader != reader) return std::nullopt;
  return sessions_.at(session).history.end_replay();
}

// The replay at hand is over. Decides every prompt of the session whose answer was lost, and holds every
// remembered message id against it.
void Edge::conclude_replay(std::uint32_t number, std::uint32_t reader) {
  SessionHistory& history = sessions_.at(number).history;
  std::optional<Replay> replay = end_replay(number, reader);
  if (!replay) return;
  sessions_.at(number).needs_reading = false;
  const bool v1 = version_ == rules::Version::v1;
  if (v1) replay->is_finished = is_as_known(history, *replay);  // its answer came after all of it
  if (sessions_.at(number).has_living_owner || sessions_.at(number).is_undecidable)
    return history.learn(*replay);
  std::vector<AskedPrompt> asked = collect_lost(number);
  std::vector<LostPrompt> prompts;
  for (const AskedPrompt& each : asked) prompts.push_back(each.prompt);
  decide_prompts(history.base_line(), *replay, prompts);
  verify_remembered(number, *replay, prompts);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i].prompt = prompts[i];
    if (prompts[i].fate == PromptFate::inserted) asked[i].token = replay->messages[prompts[i].message].token;
  }
  apply_fates(number, asked);
  if (v1) history.reset();  // the n-th message is what the replay says that it is
  history.learn(*replay);
  // From here on nothing of it is unknown; but not for a prompt that was sent before.
  const bool all_decided = std::none_of(prompts.begin(), prompts.end(), [](const LostPrompt& prompt) {
    return prompt.fate == PromptFate::unknown;
  });
  bool any_open = false;
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending))
    any_open = any_open || (pending->session == number && pending->place != 0 && !is_lost(*pending));
  if (v1 || (replay->proves() && all_decided && !any_open)) history.set_complete(true);
  // v2 marks a message as given in the batch that settles its prompt: neither is on the disk without the
  // other.
  for (const LostPrompt& prompt : prompts) {
    if (v1 && prompt.fate == PromptFate::inserted)
      history.see(replay->messages[prompt.message].id, &prompt.content, true);
  }
}

void Edge::verify_remembered(std::uint32_t number, const Replay& replay,
                             std::span<const LostPrompt> prompts) {
  const MessageJudge judge(sessions_.at(number).history.base_line(), replay, prompts);
  std::vector<KeyRow*> gone;
  keys_.for_each_of(number, [&](KeyRow& row) {
    if (row.state == KeyState::pending || row.message_id.empty()) return;
    const KeyState before = row.state;
    const Fingerprint id = hash_message_id(row.message_id);
    switch (judge.judge(id, row.content)) {
      case MessageFate::there: row.state = KeyState::inserted; break;
      case MessageFate::gone: gone.push_back(&row); return;
      case MessageFate::unknown: row.state = KeyState::unknown; break;
    }
    if (row.state != before) save_row(row);
  });
  for (KeyRow* row : gone) forget_row(*row);
}

// Open requests are told in settle_resolved(); here what nobody waits for.
void Edge::apply_fates(std::uint32_t number, std::span<const AskedPrompt> asked) {
  Session& session = sessions_.at(number);
  for (const AskedPrompt& each : asked) {
    if (each.prompt.is_live) continue;
    const PromptFate fate = each.prompt.fate;
    if (each.pending != nullptr) {
      // Without a key, news of any message that is nobody's is progress: then absence is not believed.
      const bool news = each.pending->is_unkeyed && session.history.has_news_since(each.prompt.sent_at);
      each.pending->fate = fate == PromptFate::absent && news ? PromptFate::unknown : fate;
      each.pending->found_id = each.token;
    } else if (each.row != nullptr) {
      if (fate == PromptFate::absent) forget_row(*each.row);
      if (fate != PromptFate::inserted) continue;
      session.history.see(hash_message_id(each.token), &each.prompt.content, true);
      settle_key_inserted(*each.row, each.token);
    } else if (fate != PromptFate::unknown) {
      if (fate == PromptFate::inserted)
        session.history.see(hash_message_id(each.token), &each.prompt.content, true);
      const std::uint64_t place = each.prompt.sent_at;
      std::erase_if(session.lost_prompts,
                    [&](const LostUnkeyed& lost) { return lost.prompt.sent_at == place; });
      if (ledger_ == LedgerUse::ready) remove_from_ledger(number, RemoveLedgerPrompt{place}, {});
    }
  }
}

// v1 answers a prompt at the end of its turn: a turn that its agent did not live to end has no such answer.
bool Edge::fail_interrupted(Pending& pending, Step& step) {
  INVARIANT(end_.has_value());
  const std::string message = fmt::format(
      "The {} in the middle of the turn. The prompt is in its history and was not sent again; "
      "what it did before it died is done.",
      describe(*end_));
  fail_all(pending,
           {.message = message,
            .reason = "turn_interrupted",
            .outcome = rules::Outcome::inserted,
            .progress = has_progress(pending),
            .agent = &*end_},
           step);
  return true;
}

// A lost prompt that a replay has decided. False if it has not: its outcome is unknown.
bool Edge::settle_resolved(Pending& pending, Step& step) {
  const bool cancelling = pending.state == PendingState::lost_cancelling;
  switch (pending.fate) {
    case PromptFate::unknown: return false;
    case PromptFate::inserted: {
      if (version_ == rules::Version::v1) return fail_interrupted(pending, step);
      step.actions.log(LogLevel::info,
                       "session/prompt: the agent's history has it; answered with its messageId");
      const std::string token = pending.found_id;
      sessions_.at(pending.session).history.see(hash_message_id(token), &pending.content, true);
      if (pending.key != Pending::no_row)
        settle_key_inserted(keys_.at(std::exchange(pending.key, Pending::no_row)), token);
      forget_prompt(pending);
      answer_each(pending, [&](std::string_view id_token) {
        out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"messageId\":{}}}}}\n", id_token,
                           token);
        send_text(client_link_, out_, step);
      });
      return true;
    }
    case PromptFate::absent: break;
  }
  forget_prompt(pending);
  if (is_orphan(pending)) {
    remove_request(pending);
    return true;
  }
  if (cancelling) {
    fail_all(pending,
             {.code = code::request_cancelled,
              .message = "Cancelled. The agent's history shows that the prompt was not inserted.",
              .reason = "cancelled",
              .outcome = rules::Outcome::not_sent},
             step);
    return true;
  }
  // v1: any update since it was sent shows that work had begun.
  const bool began = version_ == rules::Version::v1 && has_progress(pending);
  if (pending.stored.empty() || began) return false;
  step.actions.log(LogLevel::info, "session/prompt: the agent's history does not have it; sent again");
  ++counters_.sent_again;
  pending.fate = PromptFate::unknown;
  send_stored(pending, pending.stored_text(), step);
  return true;
}

}  // namespace acp
