// The world of one history of many lives: a clock, a client, the production Relay, and one process of the
// agent after another over one disk.
//
// Safety phase: events by chance, by the plan's faults; every history has at least one. Then faults stop, and
// everything must come to rest: answered, drained, exited. Invariant: what the relay does goes through its
// actions and what it knows through its events, as in the shell; one seed gives one history. Lifetime: one
// history.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/core/relay.h"
#include "tests/sim/lives_checker.h"
#include "tests/sim/lives_client.h"
#include "tests/sim/lives_plan.h"
#include "tests/sim/outcome.h"

namespace acp::sim {

class LivesWorld {
 public:
  // `trace`: where the history is told, or null. `script`: what is left out, or null; it outlives the world.
  LivesWorld(std::uint64_t seed, std::FILE* trace, Script* script = nullptr);
  LivesWorld(const LivesWorld&) = delete;
  LivesWorld& operator=(const LivesWorld&) = delete;
  Outcome run();
  // The kinds that this history may hold, in the order of kind_names().
  Kinds kinds() const { return Kinds(plan_.faults.to_ullong()); }
  static std::span<const std::string_view> kind_names() noexcept { return LivesPlan::kind_names(); }

 private:
  // One process of the agent, and its pipes.
  struct Process {
    Process(const Personality& person, Disk& disk, Epoch which, LinkId to, Prng* random)
        : life(person, disk, which.value, random), epoch(which), link(to) {}
    AgentLife life;
    Epoch epoch;
    LinkId link;
    std::string backlog;  // accepted by the shell, not taken by the pipe
    struct Mark {
      int attempt;
      std::size_t size;
      bool taken;
    };
    std::deque<Mark> marks;  // the lines in it
    std::size_t backlog_told = 0;
    std::string pipe;         // taken by the pipe, not read by the process
    std::deque<int> in_pipe;  // attempts of its lines, in order
    std::string words;        // written by the process, not read by the relay
    std::string sent;         // of the line that is being sent
    bool ordered = true;      // not started yet
    bool alive = false;
    bool listens = true;  // its stdin is open at its end
    bool deaf_told = false;
    bool stdin_closed = false;  // by the shell, once the backlog is taken
    bool stdout_open = false;
    bool stdout_done = false;  // its end was told
    bool finish_reading = false;
    bool end_ordered = false;
    bool ended_told = false;
    bool exit_told = false;
    std::optional<ExitStatus> exit;
    std::optional<Instant> kill_at;
    std::optional<Instant> leave_at;
    std::optional<Instant> start_at;
    std::string half;  // of a line of its words that the relay has read a part of
  };

  void begin();
  void safety_step();
  void maybe_fault();
  void fault() noexcept { ++outcome_.faults; }
  void fault_for_all();
  void fault_of_process();
  void client_fault();
  void stale_news();
  bool rest_step();
  void rest();

  // lives_process.cpp
  bool process_step();
  void start_process();
  void end_process(ExitStatus status);
  void die(ExitStatus status);
  bool agent_reads(std::size_t size);
  void agent_works();
  void collect_words();
  bool read_agent(std::size_t size);
  void flush();
  bool may_fault() const noexcept { return faults_; }

  void step(const Event& event);
  void carry_out(const Action& action, Phase before);
  void sent_to_agent(const Send& send);
  void pass_time(Duration duration);
  void client_says(Said said);
  bool read_client(std::size_t size);
  void tell(std::string_view what, std::string_view text = {});

  Script* script_;
  Prng random_;
  LivesPlan plan_;
  Findings findings_;
  Disk disk_;
  Book book_;
  LivesClient client_;
  LivesChecker checker_;
  Relay relay_;
  Actions actions_;
  Instant now_{std::chrono::seconds(1)};  // not zero, which an unset instant is
  std::FILE* trace_;
  Outcome outcome_;
  TraceHash hash_;

  std::optional<Process> process_;
  LinkId former_link_{0};
  std::deque<Said> from_client_;
  std::size_t client_taken_ = 0;  // bytes of the first one
  std::string read_buffer_;
  std::string to_client_;    // of the line that is being sent
  std::size_t waiting_ = 0;  // actions to carry out

  bool faults_ = true;
  bool stepping_ = false;
  bool client_open_ = true;
  bool client_done_ = false;
  bool client_listens_ = true;
  bool client_paused_ = false;
  bool agent_paused_ = false;
};

}  // namespace acp::sim
