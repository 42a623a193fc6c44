// One client and one agent, and everything between them: the relay of frames, ids, keys and answers (design
// §4, §5).
//
// An Edge knows two links and no process: who starts and ends the agent is Relay's business. A conductor has
// one edge for each pair of neighbours. Invariant: every request that was read gets exactly one answer under
// its own id, unless its sender is gone; frames of one direction keep their order; bytes outside the spans
// that must change are passed on as they came. Lifetime: as long as the relay; the agent's link may be
// replaced by that of a later epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/actions.h"
#include "proxy/core/beginning.h"
#include "proxy/core/envelope.h"
#include "proxy/core/fingerprint.h"
#include "proxy/core/framer.h"
#include "proxy/core/keys.h"
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

// Can a request be written to the agent now?
enum class AgentReach : std::uint8_t {
  open,    // yes
  ending,  // its epoch is being ended: requests wait for the end's facts, then they are answered
  gone,    // it has ended: requests are answered at once
};

// What happened, in numbers (SIGUSR1 prints them).
struct Counters {
  std::uint64_t frames_from_client = 0;
  std::uint64_t frames_from_agent = 0;
  std::uint64_t bytes_from_client = 0;
  std::uint64_t bytes_from_agent = 0;
  std::uint64_t refused = 0;     // bad frames of the client's
  std::uint64_t noise = 0;       // lines of the agent's that are no message
  std::uint64_t dropped = 0;     // answers nobody asked for, cancels of nothing
  std::uint64_t joined = 0;      // duplicates that got the answer of a pending request
  std::uint64_t remembered = 0;  // duplicates answered from memory
};

class Edge {
 public:
  Edge(const Settings& settings, LinkId client, LinkId agent);

  // Bytes of either peer. Frames that are complete are dealt with, the rest is kept.
  void read_client(std::string_view bytes, Step& step);
  void read_agent(std::string_view bytes, Step& step);
  // The end of either stream: an unterminated last frame counts if it parses.
  void finish_client(Step& step);
  void finish_agent(Step& step);

  // The agent's epoch is ending: nothing more is written to it.
  void close_agent() noexcept { reach_ = AgentReach::ending; }
  // It has ended: every open request of the client's is settled, every open request of the agent's is
  // cancelled.
  void settle_lost(const AgentEnd& end, Step& step);
  // The client reads no more: nobody is owed an answer.
  void lose_client() noexcept { client_gone_ = true; }

  // Requests of the client's that still wait for an answer.
  std::size_t open_requests() const noexcept { return from_client_.size() - abandoned_; }
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

 private:
  // edge_client.cpp: client -> agent
  void on_client_frame(const Frame& frame, Step& step);
  void on_client_request(const Frame& frame, Step& step);
  void on_client_notification(const Frame& frame, Step& step);
  void on_client_answer(const Frame& frame, Step& step);
  void fail_clients_answer(Pending& pending, Step& step);
  void fail_broken_answer(const Beginning& beginning, Step& step);
  void cancel_client_request(const Frame& frame, Step& step);
  bool refuse_misshapen(Step& step);
  bool refuse_role(const rules::MethodFacts& facts, Step& step);
  void refuse(std::string_view id_token, int error_code, std::string_view reason, std::string_view message,
              Step& step);
  void refuse_unsent(std::string_view id_token, std::string_view reason, std::string_view message,
                     Step& step);
  void refuse_oversize(const Frame& frame, Step& step);
  Pending& open_request(const rules::MethodFacts& facts, std::uint32_t session);
  void send_request(Pending& pending, const Frame& frame, Step& step);

  // edge_keys.cpp: one key, one answer
  enum class Keyed : std::uint8_t {
    no,
    done,
    first
  };  // not a keyed request; dealt with; the first of its key
  struct KeyedRequest {
    Keyed keyed;
    KeyTable::Scope scope;
    Fingerprint print;
  };
  KeyedRequest on_keyed_request(const rules::MethodFacts& facts, std::uint32_t session, Step& step);
  Keyed answer_known_key(KeyRow& row, const KeyTable::Scope& scope, const Fingerprint& print, Step& step);
  void answer_remembered(const KeyRow& row, Step& step);
  void join(const KeyRow& row, const KeyTable::Scope& scope);
  void settle_key_answered(Pending& pending);
  void settle_key_lost(Pending& pending, rules::Outcome outcome);
  bool guards(const rules::MethodFacts& facts) const noexcept;

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
  void take_effect(const Pending& pending);
  void settle_one(Pending& pending, const AgentEnd& end, Step& step);
  void fail_silent_prompts(std::uint32_t session, Step& step);
  void give_up(Pending& pending, Step& step);
  void cancel_open_agent_requests(Step& step);
  void remove_request(Pending& pending) noexcept;
  bool has_progress(const Pending& pending) noexcept;

  // Sending, with or without a span replaced.
  void pass_on(LinkId link, const Frame& frame, Step& step);
  struct Splice {
    Member span;
    std::string_view token;
  };
  void pass_on_spliced(LinkId link, const Frame& frame, std::span<Splice> splices, Step& step);
  void send_text(LinkId link, std::string_view text, Step& step);
  bool is_reachable(LinkId link) const noexcept;

  // Facts of the frame at hand.
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
  Fingerprinter fingerprinter_;
  std::vector<rules::MethodFacts> overrides_;  // --rule

  PendingTable from_client_;
  PendingTable from_agent_;
  KeyTable keys_;
  SessionTable sessions_;
  Counters counters_;

  AgentReach reach_ = AgentReach::open;
  rules::Version version_ = rules::Version::unknown;  // what the agent's initialize answer fixed
  rules::Version asked_ = rules::Version::unknown;    // what the client asked for, until then
  bool client_gone_ = false;
  bool agent_unreadable_ = false;
  bool answered_gone_ = false;
  bool asked_anything_ = false;
  std::size_t abandoned_ = 0;  // rows of from_client_ whose sender has its error already
  std::uint64_t own_ids_ = 0;
  std::optional<AgentEnd> end_;  // of the agent, once it has ended
  std::optional<Instant> silence_deadline_;

  // Memory for decoding, one for each thing decoded at a time.
  std::string method_scratch_;
  std::string session_scratch_;
  std::string key_scratch_;
  std::string id_scratch_;
  std::string other_id_scratch_;
  std::string out_;
};

}  // namespace acp
