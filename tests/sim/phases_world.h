// The world of one history in which any event comes in any phase that can have it: a client that reads
// little, one agent process after another, a ledger that takes its time, signals, and news of what is over.
//
// The other worlds know more of what keyhop owes; this one is there so that no pair of phase and event is
// left to luck. Safety phase: events by chance, by the plan's kinds; then faults stop, and everything must
// come to rest. Invariant: what the relay is told is what a shell can tell it (event.h); one seed gives one
// history. Lifetime: one history.
#pragma once

#include <bitset>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "proxy/core/relay.h"
#include "tests/sim/guard_agent.h"
#include "tests/sim/memory_ledger.h"
#include "tests/sim/outcome.h"
#include "tests/sim/prng.h"

namespace acp::sim {

enum class Oddity : std::uint8_t {
  death,
  early_death,  // before the client has asked for anything
  early_eof,    // the agent's stdout ends, it lives
  deaf,         // writing to the agent fails
  slow_agent,   // bytes for it wait
  slow_client,
  failed_start,
  lost_watchdog,  // the end of all is told before the exit
  stderr_words,
  stale_news,  // of epochs that are over
  client_end,
  client_loss,
  signals,
  person_restart,  // SIGUSR2
  pauses,          // a minute passes
  small_budget,
  no_ledger,
  late_ledger,  // it takes long to open
  full_disk,
  silence,    // --silence-timeout
  late_pipe,  // what was written to the agent: news of it after the end of all
  count_,
};

class PhasesWorld {
 public:
  // `trace`: where the history is told, or null. `script`: what is left out, or null; it outlives the world.
  PhasesWorld(std::uint64_t seed, std::FILE* trace, Script* script = nullptr);
  PhasesWorld(const PhasesWorld&) = delete;
  PhasesWorld& operator=(const PhasesWorld&) = delete;
  Outcome run();
  // The kinds that this history may hold, in the order of kind_names().
  Kinds kinds() const { return Kinds(oddities_.to_ullong()); }
  static std::span<const std::string_view> kind_names() noexcept;

 private:
  struct Process {
    GuardAgent agent;
    Epoch epoch;
    LinkId link;
    std::deque<std::string> backlog = {};  // accepted by the shell, not taken by the pipe
    std::deque<std::string> pipe = {};     // not read by the process
    bool started = false, failed = false, alive = false;
    bool listens = true;      // its stdin can be written to
    bool stdout_open = true;  // by itself
    bool stdin_closed = false, doomed = false, finish_reading = false;
    bool exit_told = false, ended_told = false, eof_told = false;
  };
  struct LedgerOrder {
    std::optional<LedgerBatch> batch;  // or a reading:
    std::uint64_t ticket = 0;
    std::string agent, session;
  };

  void plan(Kinds off);
  bool has(Oddity oddity) const noexcept { return oddities_[static_cast<std::size_t>(oddity)]; }
  void fault() noexcept { ++outcome_.faults; }

  // phases_events.cpp: what can happen
  void safety_step();
  void odd_event();
  void fault_of_process(Oddity oddity);
  void signal(Signal signal, int number);
  void lose_client();
  void stale_news();
  void speak();
  void say_rubbish();
  bool relay_reads_client();
  bool relay_reads_agent();
  bool agent_reads();
  bool agent_works();
  bool process_news();
  bool ledger_step();
  bool drain_client();
  bool drain_agent();
  bool tell_deaf();
  void die();

  // phases_world.cpp: what comes of it
  void rest();
  bool rest_step();
  void pass_time(Duration duration);
  void read(LinkId link, std::string_view lines);
  void step(const Event& event);
  void tell_queues();
  void carry_out(const Action& action);
  void sent_to_agent(const Send& send);
  void check_row(std::string_view line);
  void hear(std::string_view line);
  void say(std::string_view method, std::string_view params);
  bool has_open() const noexcept;
  void fail(Invariant invariant, std::string text);
  void tell(std::string_view what, std::string_view text = {});

  Script* script_;
  Prng random_;
  std::bitset<static_cast<std::size_t>(Oddity::count_)> oddities_;
  Settings settings_;
  GuardPerson person_;
  GuardDisk disk_;
  MemoryLedger ledger_;
  std::FILE* trace_;
  Outcome outcome_;
  TraceHash hash_;
  Actions actions_;
  Instant now_{std::chrono::hours(1)};
  std::size_t steps_ = 0;

  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Process> process_;
  std::optional<LinkId> former_link_;
  std::deque<LedgerOrder> orders_;
  bool ledger_opened_ = false;
  bool over_ = false;
  bool faults_ = true;
  int signal_ = 0;  // the first that told keyhop to go

  std::map<int, bool> asks_;          // by request id: whether it is open
  std::deque<std::string> said_;      // by the client, not read
  std::deque<std::string> sessions_;  // that the agent has opened
  std::deque<std::string> prompts_;   // params of prompts with a key that it has said
  std::size_t client_backlog_ = 0, client_told_ = 0, agent_told_ = 0;  // bytes
  std::string to_client_, to_agent_;                                   // of the line that is being sent
  int next_id_ = 1, next_key_ = 0;
  int initialize_ = 0;  // its request id; 0: to be said
  bool initialized_ = false;
  int open_rubbish_ = 0;  // lines that are no message and were not refused yet
  bool client_paused_ = false, agent_paused_ = false;
  bool client_open_ = true, client_end_told_ = false, client_lost_ = false;
};

}  // namespace acp::sim
