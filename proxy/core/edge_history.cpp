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

}  // namespace

Fingerprint Edge::hash_message_id(std::string_view token) {
  return SaltedHash(fingerprinter_.salt(), 'i').add(decode_string(token, other_id_scratch_)).print();
}

// A session/update in the envelope: is it a user message, or the end of a replay?
void Edge::note_user_message(std::uint32_t row) {
  const std::string_view kind = envelope_.raw(Slot::update_kind);
  const char first = kind.size() > 2 ? kind[1] : '\0';
  if (first != 'u' && first != 's' && first != 'r') return;  // most are an agent's chunks
  if (settings_.keys != KeyMode::guard || version_ != rules::Version::v2) return;
  SessionHistory& history = sessions_.at(row).history;
  if (kind == R"("state_update")" || kind == R"("replay_complete")") return history.note_finished();
  const bool chunk = kind == R"("user_message_chunk")";
  if (!chunk && kind != R"("user_message")") return;
  if (envelope_.member(Slot::update_message_id).type != ValueType::string) return;
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

// A prompt was answered with success: its message is known, and is no other prompt's.
void Edge::note_answer(Pending& pending, Step& step) {
  if (pending.place == 0) return;
  Session& session = sessions_.at(pending.session);
  const bool named =
      envelope_.is_success() && envelope_.member(Slot::result_message_id).type == ValueType::string;
  if (named)
    session.history.see(hash_message_id(envelope_.raw(Slot::result_message_id)), &pending.content, true);
  forget_prompt(pending, step);
}

// A prompt without a key is settled: the ledger need not know of it any more.
void Edge::forget_prompt(Pending& pending, Step& step) {
  if (!pending.in_ledger) return;
  LedgerBatch batch = begin_batch(pending.session);
  batch.changes.emplace_back(RemoveLedgerPrompt{pending.place});
  save(pending.session, std::move(batch), step);
  pending.in_ledger = false;
}

// A prompt without a key got an error of keyhop's own: it may still be in the history, and must not be taken
// for a keyed one.
void Edge::note_lost_prompt(const Pending& pending) {
  if (pending.place == 0 || pending.key != Pending::no_row) return;
  auto& lost = sessions_.at(pending.session).lost_prompts;
  if (lost.size() >= limits::lost_prompts_max) {
    lost.erase(lost.begin());
    sessions_.at(pending.session).history.set_complete(false);
  }
  lost.push_back({{pending.content, pending.is_command, pending.place}, pending.in_ledger});
}

// Whether a restore of this session must show its history: prompts of it are to be decided, or remembered ids
// to be held against it.
bool Edge::wants_replay(std::uint32_t row) {
  const Session& session = sessions_.at(row);
  if (settings_.keys != KeyMode::guard || version_ != rules::Version::v2 || session.replay_refused)
    return false;
  if (keys_.has_rows_of(row)) return true;
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
  const bool may_read = settings_.keys == KeyMode::guard && version_ == rules::Version::v2 &&
                        reach_ == AgentReach::open && session.state != SessionState::active &&
                        session.restore != Restore::asked;
  if (!may_read) return false;
  const std::string_view cursor = envelope_.raw(Slot::params_replay_from);
  const bool asks = !cursor.empty() && cursor != "null";
  std::string padded(from_start);
  padded.append(limits::padding_bytes, ' ');
  const std::string_view start = std::string_view(padded).substr(0, from_start.size());
  if (asks && fingerprinter_.of_content(cursor) == fingerprinter_.of_content(start)) {
    session.history.begin_replay();
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

// The replay at hand is over. Decides every prompt of the session whose answer was lost, and holds every
// remembered message id against it.
void Edge::conclude_replay(std::uint32_t number, Step& step) {
  Session& session = sessions_.at(number);
  std::optional<Replay> replay = session.history.end_replay();
  if (!replay) return;
  session.needs_reading = false;
  if (session.has_living_owner) return session.history.learn(*replay);

  // In the order in which they were sent.
  struct Asked {
    LostPrompt prompt;
    KeyRow* row = nullptr;
    Pending* pending = nullptr;
  };
  std::vector<Asked> asked;
  keys_.for_each_of(number, [&](KeyRow& row) {
    Pending* first = row.state == KeyState::pending ? &from_client_.at(row.first) : nullptr;
    const bool lost = first != nullptr ? is_lost(*first) && first->place != 0
                                       : row.state == KeyState::unknown && row.message_id.empty();
    if (lost) asked.push_back({{row.content, row.sent_at, row.is_command}, &row, first});
  });
  for (Pending* pending = from_client_.oldest(); pending != nullptr; pending = from_client_.after(*pending)) {
    if (pending->session != number || !is_lost(*pending) || pending->place == 0) continue;
    if (pending->key == Pending::no_row)
      asked.push_back({{pending->content, pending->place, pending->is_command}, nullptr, pending});
  }
  for (const auto& [lost, in_ledger] : session.lost_prompts)
    asked.push_back({{lost.content, lost.sent_at, lost.is_command}});
  std::sort(asked.begin(), asked.end(),
            [](const Asked& a, const Asked& b) { return a.prompt.sent_at < b.prompt.sent_at; });
  std::vector<LostPrompt> prompts;
  for (const Asked& each : asked) prompts.push_back(each.prompt);
  const BaseLine base = session.history.base_line();
  decide_prompts(base, *replay, prompts);
  std::vector<KeyRow*> forgotten;
  keys_.for_each_of(number, [&](KeyRow& row) {
    if (row.state == KeyState::pending || row.message_id.empty()) return;
    switch (decide_message(base, *replay, prompts, hash_message_id(row.message_id), row.content)) {
      case MessageFate::there: row.state = KeyState::inserted; break;
      case MessageFate::gone: forgotten.push_back(&row); break;
      case MessageFate::unknown: row.state = KeyState::unknown; break;
    }
    save_row(row, step);
  });
  std::vector<std::uint64_t> settled;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const LostPrompt& prompt = prompts[i];
    const Asked& each = asked[i];
    const std::string token =
        prompt.fate == PromptFate::inserted ? replay->messages[prompt.message].token : "";
    if (each.pending != nullptr) {
      const bool news = each.row == nullptr && session.history.has_news_since(prompt.sent_at);
      const bool doubtful = prompt.fate == PromptFate::absent && news;
      each.pending->fate = doubtful ? PromptFate::unknown : prompt.fate;
      each.pending->found_id = token;
    } else if (each.row != nullptr && prompt.fate == PromptFate::inserted) {
      each.row->state = KeyState::inserted;
      each.row->message_id = token;
      save_row(*each.row, step);
    } else if (each.row != nullptr && prompt.fate == PromptFate::absent) {
      forgotten.push_back(each.row);
    } else if (each.row == nullptr && prompt.fate != PromptFate::unknown) {
      settled.push_back(prompt.sent_at);
    }
  }
  session.history.learn(*replay);
  if (replay->proves()) session.history.set_complete(true);
  for (const LostPrompt& prompt : prompts) {
    if (prompt.fate == PromptFate::inserted)
      session.history.see(replay->messages[prompt.message].id, &prompt.content, true);
  }
  for (KeyRow* row : forgotten) forget_row(*row, step);
  if (settled.empty()) return;
  LedgerBatch batch = begin_batch(number);
  for (const std::uint64_t place : settled) {
    batch.changes.emplace_back(RemoveLedgerPrompt{place});
    std::erase_if(session.lost_prompts,
                  [&](const LostUnkeyed& lost) { return lost.prompt.sent_at == place; });
  }
  if (ledger_ == LedgerUse::ready) save(number, std::move(batch), step);
}

// A lost prompt that a replay has decided. False if it has not: its outcome is unknown.
bool Edge::settle_resolved(Pending& pending, Step& step) {
  const bool cancelling = pending.state == PendingState::lost_cancelling;
  switch (pending.fate) {
    case PromptFate::unknown: return false;
    case PromptFate::inserted: {
      step.actions.log(LogLevel::info,
                       "session/prompt: the agent's history has it; answered with its messageId");
      const std::string token = pending.found_id;
      if (pending.key != Pending::no_row) {
        KeyRow& row = keys_.at(std::exchange(pending.key, Pending::no_row));
        row.first = Pending::no_row;
        row.state = KeyState::inserted;
        row.message_id = token;
        save_row(row, step);
      }
      forget_prompt(pending, step);
      answer_each(pending, [&](std::string_view id_token) {
        out_ = fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"messageId\":{}}}}}\n", id_token,
                           token);
        send_text(client_link_, out_, step);
      });
      return true;
    }
    case PromptFate::absent: break;
  }
  forget_prompt(pending, step);
  if (cancelling) {
    fail_all(pending,
             {.code = code::request_cancelled,
              .message = "Cancelled. The agent's history shows that the prompt was not inserted.",
              .reason = "cancelled",
              .outcome = rules::Outcome::not_sent},
             step);
    return true;
  }
  if (pending.stored.empty()) return false;
  step.actions.log(LogLevel::info, "session/prompt: the agent's history does not have it; sent again");
  ++counters_.sent_again;
  pending.fate = PromptFate::unknown;
  send_stored(pending, pending.stored_text(), step);
  return true;
}

}  // namespace acp
