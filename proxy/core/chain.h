// A chain of components: one Relay for each pair of neighbours, and a Hop where two of them share a link.
//
//   client ── [edge 0] ── proxy 0 ── [edge 1] ── proxy 1 ── [edge 2] ── agent
//
// keyhop is the conductor: it starts every component and speaks to each over one link, which carries the edge
// before it (plain) and the edge behind it (inside `proxy/successor`). Each edge has the ids, restarts and
// budget of its own; the last one has the guard. keyhop as a component of another conductor is the same chain
// whose last edge ends in that conductor instead of a process (ACP proxy chains, nesting).
// Invariant: sans-I/O as relay.h; a component's end touches no other process; links and epochs are numbered
// by component (types.h), those of an edge's own are the low bits. Lifetime: one object a run; the settings
// outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/actions.h"
#include "proxy/core/envelope.h"
#include "proxy/core/framer.h"
#include "proxy/core/hop.h"
#include "proxy/core/relay.h"
#include "proxy/core/settings.h"

namespace acp {

// One edge of the chain and the component at its end.
struct ChainEdge {
  Settings settings;
  std::string label;  // of the component, for a person: "proxy 1"
};

struct ChainPlan {
  std::vector<ChainEdge> edges;  // at least one, in the order from the client
  bool is_component = false;     // the last edge ends in the conductor that started keyhop, not in a process
};

class Chain {
 public:
  // `plan` must outlive the chain.
  explicit Chain(const ChainPlan& plan);

  // As Relay has them.
  void start(Instant now, Actions& actions);
  void step(const Event& event, Instant now, Actions& actions);
  std::optional<Instant> next_deadline() const noexcept;

  std::size_t size() const noexcept { return stations_.size(); }
  const Relay& relay(std::size_t edge) const noexcept { return stations_[edge].relay; }

 private:
  // One edge, and the link to the component at its end.
  struct Station {
    explicit Station(const ChainEdge& edge);
    Relay relay;
    std::string_view label;
    Actions actions;                  // what its relay ordered in this step
    std::size_t carried = 0;          // how many of them were dealt with
    std::optional<Hop> hop;           // where the component is a proxy
    std::size_t backlog = 0;          // not yet written to the component, as the shell said last
    std::size_t told_waiting = 0;     // what waited in the hop when its edges were told last
    Framer framer;                    // of what a proxy writes
    LinkId link{2};                   // its present one, as the edge numbers it
    std::uint32_t replaced = 0;       // the last epoch of which the next edge knows that it is over
    bool agent_side_pauses = false;   // the edge wants the component's link paused
    bool client_side_pauses = false;  // the next edge does
    bool paused = false;
    bool is_closed = false;  // its stdin is: what still comes for it is lost
    bool can_be_bypassed;
    bool is_bypassed = false;  // no process: what its edge writes is the next edge's to read
    bool is_spent = false;     // too many restarts: nothing runs for a while
    std::string to_client;     // the beginning of a frame that was ordered in parts
    std::string to_agent;
    std::optional<int> exit_status;
  };

  // Where it goes on is decided by type.
  void on(const BytesRead& event);
  void on(const LinkEnded& event);
  void on(const LinkBacklog& event);
  void on(const AgentStarted& event);
  void on(const AgentExited& event);
  void on(const SignalReceived& event);
  void on(const DeadlineReached& event);
  template <class OfEpoch>
  void on_epoch(OfEpoch event) {
    const std::size_t edge = component_of(event.epoch);
    event.epoch = inside(event.epoch);
    tell(edge, event);
  }
  template <class OfLedger>
  void on_ledger(const OfLedger& event);
  void on(const AgentStartFailed& event);
  void on(const AgentEnded& event);
  void on(const StderrRead& event) { on_epoch(event); }
  void on(const LedgerOpened& event) { on_ledger(event); }
  void on(const LedgerCommitted& event) { on_ledger(event); }
  void on(const LedgerRead& event) { on_ledger(event); }

  void tell(std::size_t edge, const Event& event);
  void tell_own();
  void take(std::size_t edge, Side from, const Frame& frame);
  void read_component(std::size_t edge, const Frame& frame);
  void read_conductor(const Frame& frame);
  void tell_waiting(std::size_t edge);
  void forget_backlog(std::size_t edge);
  void tell_client_backlog(std::size_t edge, std::size_t bytes);
  void tell_agent_backlog(std::size_t edge, LinkId link, std::size_t bytes);
  // chain_failures.cpp
  void note_end(std::size_t edge);
  bool refuse_no_proxy(std::size_t edge);
  void start_afresh(std::size_t edge, bool bypass);
  void begin_bypass(std::size_t edge);
  void note_spent(std::size_t edge);
  void refuse_spent(std::size_t edge);
  void refuse_gone(Hop& hop, LinkId link, Course course, const Frame& frame);
  void end_without_process(std::size_t edge);
  void note_lost_epoch(std::size_t edge);
  void on_over(std::size_t edge, int status);

  void carry_out(std::size_t edge);
  void carry(std::size_t edge, const Action& action);
  void send(std::size_t edge, const Send& order);
  void pause(std::size_t edge, LinkId link, bool pauses);
  void start_component(std::size_t edge, const StartAgent& order);
  void cross(std::size_t edge, Side from, std::string& rest, std::string_view bytes);
  void give(Hop& hop, LinkId link, Course course, std::string& rest, std::string_view bytes);
  void write(LinkId link, std::string_view line);
  void flush_hop(std::size_t edge);
  void apply_pause(std::size_t edge);
  void apply_client_pause();
  void close_writing(std::size_t edge, LinkId link);
  void report(std::size_t edge);

  bool is_last(std::size_t edge) const noexcept { return edge + 1 == stations_.size(); }
  bool has_process(std::size_t edge) const noexcept { return !is_component_ || !is_last(edge); }
  bool runs_process(std::size_t edge) const noexcept {
    return has_process(edge) && !stations_[edge].is_bypassed;
  }
  bool is_proxy(std::size_t edge) const noexcept { return has_process(edge) && !is_last(edge); }
  static constexpr std::uint32_t own_bits = (1U << component_shift) - 1;
  static LinkId inside(LinkId link) noexcept { return {link.value & own_bits}; }
  static Epoch inside(Epoch epoch) noexcept { return {epoch.value & own_bits}; }
  static LinkId outside(std::size_t edge, LinkId link) noexcept;
  static Epoch outside(std::size_t edge, Epoch epoch) noexcept;
  Frame padded(std::string_view text);

  bool is_component_;
  std::size_t frame_bytes_max_;
  std::deque<Station> stations_;  // addresses stay
  std::optional<Hop> outer_;      // to the conductor that started keyhop
  Framer outer_framer_;
  bool conductor_side_pauses_ = false;  // the last edge wants the client's link paused
  bool client_side_pauses_ = false;
  bool client_paused_ = false;
  std::deque<std::pair<std::size_t, Event>> queue_;  // for an edge, of the chain's own
  // A frame that one edge wrote and its neighbour reads, where nothing stands between them.
  struct Crossing {
    std::size_t edge;
    Side from;
    std::string text;
  };
  std::deque<Crossing> crossings_;
  bool ending_ = false;  // somebody told keyhop to go
  int signal_ = 0;
  std::optional<int> broken_status_;  // of the component whose end ended the chain
  bool over_ = false;

  Actions* actions_ = nullptr;  // of the step at hand
  Instant now_{};
  std::string scratch_;
  EnvelopeScanner scanner_;  // of what nobody reads any more
  Envelope envelope_;
};

}  // namespace acp
