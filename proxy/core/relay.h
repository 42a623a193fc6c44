// The relay: the sans-I/O root of keyhop, and the only mutator of its state.
//
// step() takes one event and the present instant and appends what is to be done. It reads no clock, draws no
// randomness and does no I/O: the same events give the same actions, in production and in the simulator. This
// file is about lives and ends: of the client's stream, of the agent's epochs, of keyhop.
// Frames are Edge's business. Invariant: the phase is changed in set_phase() only, along the edges that it
// knows; one epoch lives at a time; after Exit nothing is done any more. Lifetime: one object a run; actions
// point into it (see event.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/core/actions.h"
#include "proxy/core/edge.h"
#include "proxy/core/event.h"
#include "proxy/core/restart_budget.h"
#include "proxy/core/settings.h"
#include "proxy/core/stderr_tail.h"

namespace acp {

enum class Phase : std::uint8_t {
  starting,   // the agent's command is being executed
  serving,    // frames go both ways
  leaving,    // the agent's stdout has ended or its stdin broke: its exit is awaited for a moment
  lost,       // its epoch is being ended, another one follows
  waiting,    // nothing runs; the next epoch starts in a while
  spent,      // nothing runs; too many restarts: requests get their error at once
  parked,     // nothing runs; the next request starts it
  restoring,  // the new epoch is told what the old one knew
  draining,   // the client's stream has ended, open requests may still be answered
  closing,    // the agent's stdin is closed, it may go by itself
  ending,     // its epoch is being ended for good, its last words are read
  stranded,   // it died before anybody asked for anything: the first request is told why
  over,
};

class Relay {
 public:
  // `settings` must outlive the relay.
  explicit Relay(const Settings& settings);

  // Once, before the first step: orders the agent started.
  void start(Instant now, Actions& actions);
  void step(const Event& event, Instant now, Actions& actions);
  // A frame of one side that a chain has taken from a link of several edges.
  void take(Side from, const Frame& frame, Instant now, Actions& actions);
  // The client died, another takes its place (Edge::replace_client).
  void replace_client(Instant now, Actions& actions);
  // The component did not understand what it is to be (chain.h): it is ended, and started afresh at once, at
  // no cost of the budget and whether agents are restarted or not; its first initialize goes to the next
  // epoch. `bypass`: that one is StartAgent::is_bypass, and all that follow. False where the component is on
  // its way out already: nothing is done then.
  bool start_afresh(bool bypass, Instant now, Actions& actions);
  // When the core wants a DeadlineReached, if at all. Asked after every step.
  std::optional<Instant> next_deadline() const noexcept;

  Phase phase() const noexcept { return phase_; }
  std::string_view component() const noexcept { return settings_.component; }
  Epoch epoch() const noexcept { return epoch_; }
  const Edge& edge() const noexcept { return edge_; }

 private:
  void on(const BytesRead& event, Step& step);
  void on(const LinkEnded& event, Step& step);
  void on(const LinkBacklog& event, Step& step);
  void on(const AgentStarted& event, Step& step);
  void on(const AgentStartFailed& event, Step& step);
  void on(const AgentExited& event, Step& step);
  void on(const AgentEnded& event, Step& step);
  void on(const StderrRead& event, Step& step);
  void on(const SignalReceived& event, Step& step);
  void on(const DeadlineReached& event, Step& step);
  void on(const LedgerOpened& event, Step& step);
  void on(const LedgerCommitted& event, Step& step);
  void on(const LedgerRead& event, Step& step);
  void after_ledger(Step& step);
  void after_step(Step& step);

  // relay.cpp: the client, keyhop
  void on_client_end(Step& step);
  void on_client_lost(Step& step);
  void after_client_frames(Step& step);
  void begin_draining(Step& step);
  void begin_closing(Step& step);
  void exit(Step& step);
  int exit_status() const noexcept;
  void regulate_reading(Step& step);
  void report_counters(Step& step);
  void set_phase(Phase phase);
  void on_person_restart(Step& step);

  // relay_epoch.cpp: the agent's epochs
  void on_agent_stream_end(Step& step);
  void after_agent_frames(Step& step);
  void begin_leaving(Step& step);
  void end_agent(Duration grace, Step& step);
  void end_epoch_if_complete(Step& step);
  void end_epoch(Step& step);
  void end_last_epoch(Step& step);
  void plan_restart(bool served, Step& step);
  void start_epoch(Step& step);
  void begin_restore(Step& step);
  void give_up(Step& step);
  bool start_bypass(Step& step);
  bool may_restart() const noexcept;
  bool is_alive() const noexcept;
  bool is_without_agent() const noexcept;

  const Settings& settings_;
  Epoch epoch_{1};
  LinkId agent_link_{2};  // of the epoch; before edge_, which is made with it
  Edge edge_;
  StderrTail stderr_tail_;
  RestartBudget budget_;
  Phase phase_ = Phase::starting;
  std::optional<Instant> phase_deadline_;

  AgentEnd agent_end_;
  bool agent_ended_ = false;      // nothing of the epoch lives
  bool stdout_ended_ = false;     // everything it said was read
  bool ended_by_keyhop_ = false;  // it did not go by itself within the grace
  bool served_ = false;           // the epoch got as far as serving
  bool starts_afresh_ = false;    // the next epoch is no restart
  bool bypasses_ = false;         // from the next epoch on there is no component
  bool takes_over_ = true;        // a restart makes sense: what ended it was not that it cannot
  Instant lost_at_{};
  bool client_ended_ = false;
  int signal_ = 0;  // the first one that told keyhop to go

  std::size_t client_backlog_ = 0;
  std::size_t agent_backlog_ = 0;
  std::size_t agent_unwritten_ =
      0;  // the last that was heard of it, also once it no longer matters for reading
  bool client_paused_ = true;
  bool agent_paused_ = false;
};

}  // namespace acp
