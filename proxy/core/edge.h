// One client and one agent, and everything between them: the relay of frames, ids, keys and answers.
//
// An Edge knows two links and no process: who starts and ends the agent is Relay's business. A conductor has
// one edge for each pair of neighbours. Invariant: every request that was read gets exactly one answer under
// its own id, unless its sender is gone; frames of one direction keep their order; bytes outside the spans
// that must change are passed on as they came. Lifetime: as long as the relay; the agent's link may be
// replaced by that of a later epoch.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/actions.h"
#include "proxy/core/beginning.h"
#include "proxy/core/capabilities.h"
#include "proxy/core/content.h"
#include "proxy/core/edge_state.h"
#include "proxy/core/envelope.h"
#include "proxy/core/fingerprint.h"
#include "proxy/core/framer.h"
#include "proxy/core/keys.h"
#include "proxy/core/outbox.h"
#include "proxy/core/own_error.h"
#include "proxy/core/pending.h"
#include "proxy/core/sessions.h"
#include "proxy/core/settings.h"

namespace acp {

// What one step works with: where its actions go, and when it is.
struct Step {
  Actions& actions;
  Instant now;
};

class Edge {
 public:
  Edge(const Settings& settings, LinkId client, LinkId agent);

  // Bytes of either peer. Frames that are complete are dealt with, the rest is kept.
  void read_client(std::string_view bytes, Step& step);
  void read_agent(std::string_view bytes, Step& step);
  // One frame of either peer that somebody else has framed (a hop's link carries two edges: hop.h).
  void take_client(const Frame& frame, Step& step);
  void take_agent(const Frame& frame, Step& step);
  // The end of either stream: an unterminated last frame counts if it parses.
  void finish_client(Step& step);
  void finish_agent(Step& step);

  // The agent's epoch is ending: nothing more is written to it. What the client sends waits for another, or
  // for the facts.
  void close_agent(bool another_follows) noexcept {
    reach_ = another_follows ? AgentReach::lost : AgentReach::ending;
  }
  // It has ended, and none follows now: what is open at either side is settled.
  void settle_lost(const AgentEnd& end, Step& step);

  // ---- a restart (edge_restore.cpp) ----
  // The epoch is over and another will follow: what was sent is lost, what the agent asked the client is
  // cancelled. `unwritten`: bytes for it that it never took; requests in them count as never sent.
  void lose_epoch(const AgentEnd& end, std::size_t unwritten, Step& step);
  // The new epoch can be written to: its initialize goes first, then the sessions, then what is owed.
  void begin_restore(LinkId agent, Step& step);
  EpochState epoch_state() const noexcept { return epoch_state_; }
  // Why it failed, for a person.
  const std::string& restore_failure() const noexcept { return restore_failure_; }
  std::size_t held_bytes() const noexcept { return held_bytes_ + deferred_bytes_ + outbox_.bytes(); }
  // When the next restore runs out of time, and what is done then.
  std::optional<Instant> restore_deadline() const noexcept;
  void check_restores(Step& step);
  // Something came on the agent's stderr: it is alive (re-arms the initialize).
  void note_stderr(Instant now) noexcept { last_sign_of_life_ = now; }

  // ---- the ledger (edge_ledger.cpp, edge_guard.cpp) ----
  void open_ledger(const LedgerOpened& event, Step& step);
  void on_committed(const LedgerCommitted& event, Step& step);
  void on_ledger_read(const LedgerRead& event, Step& step);
  // When something that waits for the ledger is looked at again, and that.
  std::optional<Instant> ledger_deadline() const noexcept;
  void check_ledger(Step& step);
  // Orders what the step has changed. To be called at the end of each, before the relay exits.
  void finish_step(Step& step);
  // Nothing that the client sent waits for anything: an answer, the agent, the ledger.
  bool is_done() const noexcept { return open_requests() == 0 && deferred_.empty() && outbox_.empty(); }

  // The client has died and another one takes its place (a component of a chain that is started again). What
  // it had asked and the agent has goes on without it: a retry with the same key joins it. What waited here
  // is forgotten; what the agent asked gets an error. Its successor's initialize is answered from memory.
  void replace_client(Step& step);
  // The client reads no more: nobody is owed an answer.
  void lose_client() noexcept { client_gone_ = true; }
  bool is_client_gone() const noexcept { return client_gone_; }
  // Requests of the client's that still wait for an answer.
  std::size_t open_requests() const noexcept { return from_client_.size() - unasked_; }
  // A frame of the agent's over the limit could not be told from its beginning: the epoch cannot go on.
  bool is_agent_unreadable() const noexcept { return agent_unreadable_; }
  // A request was answered since the agent was gone (it has told the client why).
  bool has_answered_gone() const noexcept { return answered_gone_; }
  // The client has sent a request that could be read.
  bool was_asked() const noexcept { return asked_anything_; }
  // An initialize has succeeded.
  bool is_initialized() const noexcept { return version_ != rules::Version::unknown; }

  // --silence-timeout: when the next session may have been silent for too long, and what is done then.
  std::optional<Instant> silence_deadline() const noexcept { return silence_deadline_; }
  void check_silence(Step& step);

  const Counters& counters() const noexcept { return counters_; }
  std::size_t remembered_keys() const noexcept { return keys_.size(); }
  std::size_t tracked_sessions() const noexcept { return sessions_.size(); }
  void mask_keys(std::string& text) const { keys_.mask_keys(text); }
  // What requests are told beside the agent's end, once it is gone. Empty, or a sentence after a blank.
  void set_gone_advice(std::string advice) { gone_advice_ = std::move(advice); }
  // A request of the client's waits for an agent.
  bool has_held_requests() const noexcept;
  // There is no agent and one may be started again: requests wait for it from now on.
  void await_agent() noexcept { reach_ = AgentReach::lost; }

 private:
  // edge_client.cpp: client -> agent
  void on_client_frame(const Frame& frame, Step& step);
  void on_client_message(const Frame& frame, Step& step);
  void on_client_request(const Frame& frame, Step& step);
  void on_client_notification(const Frame& frame, Step& step);
  void on_client_answer(const Frame& frame, Step& step);
  void fail_clients_answer(Pending& pending, Step& step);
  void fail_broken_answer(const Beginning& beginning, Step& step);
  void cancel_client_request(const Frame& frame, Step& step);
  bool refuse_misshapen(Step& step);
  bool answer_initialize_again(const rules::MethodFacts& facts, Step& step);
  bool refuse_role(const rules::MethodFacts& facts, Step& step);
  void refuse(std::string_view id_token, const OwnError& error, Step& step);
  void refuse(std::string_view id_token, int error_code, std::string_view reason, std::string_view message,
              Step& step);
  void refuse_unsent(std::string_view id_token, std::string_view reason, std::string_view message,
                     Step& step);
  void refuse_oversize(const Frame& frame, Step& step);
  Pending& open_request(const rules::MethodFacts& facts, std::uint32_t session);
  void dispatch(Pending& pending, const Frame& frame, Step& step);
  void begin_request(Pending& pending, Step& step);
  void send_request(Pending& pending, const Frame& frame, Step& step);
  // What still looks like history after a replay is news again once the client speaks of the session.
  void note_client_frame(std::uint32_t session) { sessions_.at(session).hides_rest = false; }

  // edge_keys.cpp: one key, one answer
  // Not a keyed request; dealt with; the first of its key; a retry that waits for the session's history.
  enum class Keyed : std::uint8_t { no, done, first, waits };
  struct KeyedRequest {
    Keyed keyed;
    KeyTable::Scope scope;
    Fingerprint print;
  };
  KeyedRequest on_keyed_request(const rules::MethodFacts& facts, std::uint32_t session, Step& step);
  Keyed answer_known_key(KeyRow& row, const KeyTable::Scope& scope, const Fingerprint& print, Step& step);
  void answer_settled(const KeyRow& row, bool same, std::string_view id_token, Step& step);
  void answer_remembered(const KeyRow& row, std::string_view id_token, Step& step);
  bool history_may_differ(const KeyRow& row);
  bool answer_retry(Pending& pending, Step& step);
  void ask_again(Pending& pending, std::string_view text, Step& step);
  void join(const KeyRow& row, const KeyTable::Scope& scope);
  void settle_key_answered(Pending& pending);
  void settle_key_inserted(KeyRow& row, std::string_view token);
  void settle_key_lost(Pending& pending, rules::Outcome outcome);
  bool guards(const rules::MethodFacts& facts) const noexcept;
  bool refuse_unprotected(std::uint32_t session, Step& step);

  // edge_ledger.cpp: frames that wait for what the ledger has
  bool must_wait_for_ledger(Step& step);
  bool defer(const Frame& frame, Step& step);
  void retry_deferred(Step& step);
  void ask_ledger(std::uint32_t session, Step& step);
  void load_rows(std::uint32_t session, const LedgerSession& known);
  void load_messages(std::uint32_t session, const LedgerSession& known);
  void use_salt(const Salt& salt);

  // edge_guard.cpp: what the ledger must have before a frame leaves
  bool tracks(const Pending& pending) const noexcept;
  std::uint64_t protect(Pending& pending, Step& step);
  LedgerBatch begin_batch(std::uint32_t session);
  // Prompts of the session without a key that have a place in its order.
  template <class Visit>
  void for_each_unkeyed(std::uint32_t session, Visit visit) {
    if (sessions_.at(session).open_unkeyed == 0) return;
    for (Pending* pending = from_client_.oldest(); pending != nullptr;
         pending = from_client_.after(*pending)) {
      if (pending->session == session && pending->place != 0 && pending->is_unkeyed) visit(*pending);
    }
  }
  void save(std::uint32_t session);
  void confirm_batch(std::uint32_t session, std::uint64_t ticket);
  void save_row(KeyRow& row);
  void forget_row(KeyRow& row);
  void remove_from_ledger(std::uint32_t session, LedgerChange change, const Fingerprint& content);
  void forget_session(std::uint32_t session, Step& step);
  bool has_undecided(std::uint32_t session);
  void flush_outbox(Step& step);
  void retract_waiting(std::uint32_t session, Step& step);
  bool cancel_deferred(const IdView& id, Step& step);
  bool awaits_initialize(Instant now);
  void begin_agent_frame(Step& step);

  // edge_history.cpp: what the agent's history tells
  bool reads_history() const noexcept;
  Fingerprint hash_message_id(std::string_view token);
  Fingerprint hash_ordinal(std::size_t ordinal) const;
  void note_user_message(std::uint32_t session);
  void note_chunk_v1(std::uint32_t session);
  void note_answer_v1(const Pending& pending);
  static bool is_as_known(const SessionHistory& history, const Replay& replay);
  void note_answer(Pending& pending);
  void note_lost_prompt(const Pending& pending);
  void remember_prompt(const Pending& pending);
  void note_gap();
  void forget_prompt(Pending& pending);
  bool wants_replay(std::uint32_t session);
  bool reads_before_resume(Pending& pending, Step& step);
  // A prompt whose answer was lost: of an open request, of a row that nobody waits for, or remembered only.
  struct AskedPrompt {
    LostPrompt prompt;
    KeyRow* row = nullptr;
    Pending* pending = nullptr;
    std::string token = {};  // inserted: the message's id, raw
  };
  std::vector<AskedPrompt> collect_lost(std::uint32_t session);
  void begin_replay(std::uint32_t session, std::uint32_t reader);
  std::optional<Replay> end_replay(std::uint32_t session, std::uint32_t reader);
  void conclude_replay(std::uint32_t session, std::uint32_t reader);
  void verify_remembered(std::uint32_t session, const Replay& replay, std::span<const LostPrompt> prompts);
  void apply_fates(std::uint32_t session, std::span<const AskedPrompt> asked);
  bool fail_interrupted(Pending& pending, Step& step);
  bool settle_resolved(Pending& pending, Step& step);

  // edge_agent.cpp: agent -> client
  void on_agent_frame(const Frame& frame, Step& step);
  void on_agent_message(const Frame& frame, Step& step);
  void on_agent_request(const Frame& frame, Step& step);
  void on_agent_notification(const Frame& frame, Step& step);
  void on_agent_answer(const Frame& frame, Step& step);
  void on_agent_batch(std::string_view array, Step& step);
  void salvage_agent_line(const Frame& frame, Step& step);
  void on_agent_oversize(const Frame& frame, Step& step);
  void cancel_agent_request(const Frame& frame, Step& step);
  void fail_agents_answer(Pending& pending, Step& step);
  void note_noise(std::string_view text, Step& step);

  // edge_settle.cpp: answers and their effects
  void answer_all(Pending& pending, const Frame& frame, Step& step);
  void fail_all(Pending& pending, const OwnError& error, Step& step);
  // `answer(id_token)` for the request and everyone who waits beside it, in order; all of them leave the
  // table.
  template <class Answer>
  void answer_each(Pending& pending, Answer answer) {
    if (!pending.sender_id.empty()) answer(std::string_view(pending.sender_id));
    for (std::uint32_t row = pending.next_waiter; row != Pending::no_row;) {
      Pending& waiter = from_client_.at(row);
      row = waiter.next_waiter;
      answer(std::string_view(waiter.sender_id));
      remove_request(waiter);
    }
    remove_request(pending);
  }
  void take_effect(const Pending& pending, Step& step);
  void settle_one(Pending& pending, const AgentEnd& end, Step& step);
  void fail_silent_prompts(std::uint32_t session, Step& step);
  bool is_kept(const Pending& pending);
  void give_up(Pending& pending, Step& step);
  void cancel_open_agent_requests(Step& step);
  void remove_request(Pending& pending) noexcept;
  bool has_progress(const Pending& pending) noexcept;

  // edge_restore.cpp: a new epoch is told what the old one knew
  enum class OwnKind : std::uint8_t { initialize, restore, set_value };
  struct OwnRequest {
    OwnKind kind;
    std::uint32_t session;
    std::string id;     // raw token
    bool late = false;  // its time is over; a success still counts
  };
  Instant due_at(const OwnRequest& own) const noexcept;
  void send_own(OwnKind kind, std::uint32_t session, std::string_view method, std::string_view params,
                Step& step);
  bool take_own_answer(const IdView& id, Step& step);
  static bool is_at_agent(const Pending& pending) noexcept;
  void on_initialized(Step& step);
  void on_initialize_refused(Step& step);
  void serve_uninitialized(Step& step);
  void fail_restore(std::string reason, Step& step);
  void restore_session(std::uint32_t session, Step& step);
  void on_session_restored(std::uint32_t session, Step& step);
  void on_session_refused(std::uint32_t session, std::string_view reason, Step& step);
  void set_next_value(std::uint32_t session, Step& step);
  void on_value_answered(std::uint32_t session, bool success, Step& step);
  void finish_session(std::uint32_t session, Restore state, Step& step);
  void finish_epoch_if_restored(Step& step);
  void restore_after_login(Step& step);
  bool try_restore_again(std::uint32_t session, Step& step);
  bool hides(std::uint32_t session);
  void learn_members(std::uint32_t session, const Envelope& envelope);
  void report_result(SessionValues& values) const;
  void report_update(std::uint32_t session);
  void note_replay(std::uint32_t session);
  void learn_values(const Pending& pending);
  void learn_session(const Pending& pending, std::uint32_t session);
  void learn_initialize(const Pending& pending);
  void note_newer_change(const Pending& pending);

  // edge_hold.cpp: frames that wait, and what becomes of lost requests
  struct Held {
    std::uint32_t session;
    std::uint32_t pending;  // row of from_client_, or no_row for a notification
    std::string frame;
  };
  // The epoch serves, and nothing of keyhop's own is on its way: no frame has to wait.
  bool is_settled() const noexcept { return reach_ == AgentReach::open && own_.empty(); }
  bool is_ready(std::uint32_t session) const;
  void hold(const Frame& frame, std::uint32_t session, Pending* pending);
  void store(Pending& pending, const Frame& frame);
  void release(Step& step);
  void settle_ready(Step& step);
  void cancel_behind(const Pending& pending, Step& step);
  void settle_lost_one(Pending& pending, Step& step);
  void send_stored(Pending& pending, std::string_view frame, Step& step);
  void release_one(Held& held, Step& step);
  void note_turn_cancelled(std::uint32_t session);
  bool cancel_held_prompts(std::uint32_t session, Step& step);
  void answer_cancelled(Pending& pending, bool by_request, Step& step);
  static bool needs_active_session(const rules::MethodFacts& facts) noexcept;
  rules::Loss loss_of(const Pending& pending, bool restarts) const;
  Frame padded_copy(std::string_view text, Step& step);
  Frame scan_kept(std::string_view text, Step& step);

  // Sending, with or without a span replaced.
  void pass_on(LinkId link, const Frame& frame, Step& step);
  struct Splice {
    Member span;
    std::string_view token;
  };
  void pass_on_spliced(LinkId link, const Frame& frame, std::span<Splice> splices, Step& step);
  void send_text(LinkId link, std::string_view text, Step& step);
  bool begin_frame(LinkId link, Step& step);
  void emit(LinkId link, std::string_view bytes, Step& step);
  bool is_reachable(LinkId link) const noexcept;

  // Facts of the frame at hand.
  static rules::Version version_of_token(std::string_view token) noexcept;
  std::string_view decoded(Slot slot, std::string& scratch) const;
  rules::Version version() const noexcept { return version_ == rules::Version::unknown ? asked_ : version_; }
  const rules::MethodFacts& facts_for(rules::Sender sender, rules::MessageKind kind);
  std::uint32_t session_of(const rules::MethodFacts& facts, bool make);
  void note_traffic(std::uint32_t session, Step& step);
  std::string make_own_id();

  const Settings& settings_;
  LinkId client_link_;
  LinkId agent_link_;
  Framer client_framer_;
  Framer agent_framer_;
  EnvelopeScanner scanner_;
  Envelope envelope_;  // of the frame at hand
  Envelope stored_;    // of a stored frame that is looked at beside it
  Fingerprinter fingerprinter_;
  std::vector<rules::MethodFacts> overrides_;  // --rule

  PendingTable from_client_;
  PendingTable from_agent_;
  KeyTable keys_;
  SessionTable sessions_;
  Counters counters_;

  // A frame of the client's that was not looked at yet: it needs what the ledger has of its session.
  struct Deferred {
    std::uint32_t session;
    Instant since;
    std::string frame;
  };
  // A batch on its way to the disk.
  struct Commit {
    std::uint64_t ticket;
    std::uint32_t session;
    std::uint32_t key;                      // row of keys_, or no_row
    std::uint32_t pending;                  // row of from_client_; no_row: nothing waits for it
    LedgerError error = LedgerError::none;  // the batch before it, which should have added the row, failed
  };
  void fail_commit(const Commit& commit, LedgerError error, Step& step);
  std::uint64_t order(LedgerBatch batch, Commit commit, Step& step);
  LedgerUse ledger_ = LedgerUse::none;
  LedgerError ledger_error_ = LedgerError::none;
  std::string agent_name_;  // in the ledger
  std::uint64_t tickets_ = 0;
  std::deque<Commit> commits_;          // the oldest first, as they are reported
  std::vector<std::uint32_t> to_save_;  // sessions with a batch due at the end of the step
  std::deque<Deferred> deferred_;
  std::size_t deferred_bytes_ = 0;
  bool retrying_ = false;
  bool retry_is_due_ = false;  // initialize was answered
  Instant initialize_asked_{};
  bool initialize_passed_ = false;  // it was waited for long enough
  Instant deferred_passed_{};       // of the oldest deferred frame, once others pass it
  Outbox outbox_;
  // Of the frame that is being written to the agent.
  std::uint32_t frame_session_ = SessionTable::none;
  std::uint32_t frame_pending_ = Pending::no_row;
  std::uint64_t frame_ticket_ = 0;
  bool frame_waits_ = false;
  ContentReader content_;

  AgentReach reach_ = AgentReach::open;
  EpochState epoch_state_ = EpochState::ready;
  bool later_epoch_ = false;  // the agent's ids are re-mapped from now on
  std::vector<OwnRequest> own_;
  std::deque<Held> held_;
  std::size_t held_bytes_ = 0;
  std::uint64_t agent_bytes_ = 0;  // sent to the present epoch
  std::size_t stored_bytes_ = 0;
  std::string initialize_params_;        // of the last initialize that succeeded; raw
  std::string initialize_capabilities_;  // what the agent answered; raw
  std::string initialize_result_;        // all of it
  RestoreWays ways_;                     // v1
  std::size_t open_replays_ = 0;         // the client's session/load and session/resume that are not answered
  std::uint32_t repeated_initialize_ = Pending::no_row;  // it goes to the new epoch as its first
  std::string restore_failure_;
  Instant last_sign_of_life_{};
  rules::Version version_ = rules::Version::unknown;  // what the agent's initialize answer fixed
  rules::Version asked_ = rules::Version::unknown;    // what the client asked for, until then
  bool client_gone_ = false;
  bool agent_unreadable_ = false;
  bool answered_gone_ = false;
  bool asked_anything_ = false;
  std::size_t unasked_ = 0;  // rows of from_client_ that nobody waits for: abandoned, or their sender is gone
  bool is_repeated_client_ = false;  // in the place of one that died; it has not initialized yet
  std::uint64_t own_ids_ = 0;
  std::optional<AgentEnd> end_;  // of the agent, once it has ended
  std::string gone_advice_;      // what a person can do about it; begins with a blank
  std::optional<Instant> silence_deadline_;

  // For decoding, one for each thing decoded at a time.
  std::string method_scratch_;
  std::string session_scratch_;
  std::string key_scratch_;
  std::string id_scratch_;
  std::string other_id_scratch_;
  std::string out_;
};

}  // namespace acp
