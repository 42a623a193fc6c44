// The world of one simulated history: a clock, two pipes, a process, and the production Relay between them.
//
// Safety phase: events by chance, by the plan's kinds. Then faults stop, and everything must come to rest:
// answered, drained, exited. Invariant: what the relay does goes through its actions and what it knows
// through its events, as in the shell; one seed gives one history. Lifetime: one history.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "proxy/core/relay.h"
#include "tests/sim/checker.h"
#include "tests/sim/outcome.h"
#include "tests/sim/peers.h"
#include "tests/sim/plan.h"

namespace acp::sim {

// What a peer wrote and the relay has not read.
class Pipe {
 public:
  void write(Line line);
  // The last line without its LF; a whole message counts at the end, a part of one is none.
  void write_unended(const Line& line, bool whole);
  std::size_t waiting() const noexcept { return bytes_.size() - taken_; }
  // The next bytes, at most `size`; appends the messages that they complete. Over the limit counts at once.
  std::string_view take(std::size_t size, std::size_t frame_bytes_max, std::vector<Frame>& completed);
  // The message that the end of the stream completes.
  std::vector<Frame> take_last();

 private:
  struct Mark {
    std::size_t begin;
    std::size_t end;
    Line line;
  };
  std::string bytes_;
  std::size_t taken_ = 0;
  std::deque<Mark> marks_;
  std::vector<Frame> last_;
};

class World {
 public:
  // `trace`: where the history is told, or null. `script`: what is left out, or null; it outlives the world.
  World(std::uint64_t seed, std::FILE* trace, Script* script = nullptr);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  Outcome run();
  // The kinds that this history may hold, in the order of kind_names().
  Kinds kinds() const { return Kinds(plan_.kinds.to_ullong()); }
  static std::span<const std::string_view> kind_names() noexcept { return Plan::kind_names(); }

 private:
  void begin();
  void safety_step();
  void maybe_fault();
  void fault() noexcept { ++outcome_.faults; }
  void process_step();
  bool rest_step();
  void rest();

  void step(const Event& event, const std::vector<Frame>& completed);
  void carry_out(const Action& action);
  void pass_time(Duration duration);
  bool read_from(LinkId link, std::size_t size);
  void end_stream(LinkId link, LinkEnd end);
  void hear(LinkId link, std::size_t size);
  void tell_backlog(LinkId link);
  void agent_exits(ExitStatus status);
  void say(LinkId link, std::optional<Line> line);
  void tell(std::string_view what, std::string_view text = {});

  Script* script_;
  Prng random_;
  Plan plan_;
  Findings findings_;
  ClientModel client_;
  AgentModel agent_;
  Checker checker_;
  Relay relay_;
  Actions actions_;
  Instant now_{std::chrono::seconds(1)};  // not zero, which an unset instant is
  std::FILE* trace_;
  Outcome outcome_;
  TraceHash hash_;

  Pipe from_client_;
  Pipe from_agent_;
  std::string to_client_;  // accepted by the shell, not read by the peer
  std::string to_agent_;
  std::string heard_client_;  // read, without LF yet
  std::string heard_agent_;
  std::string read_buffer_;
  std::vector<Frame> completed_;
  bool client_backlog_stale_ = false;
  bool agent_backlog_stale_ = false;

  bool resting_ = false;      // no more faults
  bool client_open_ = true;   // its stream
  bool client_done_ = false;  // its end was told
  bool client_cut_ = false;   // its last line
  bool client_listens_ = true;
  bool agent_listens_ = true;
  bool stdin_closed_ = false;
  bool agent_alive_ = false;
  bool stdout_open_ = false;  // somebody holds it
  bool stdout_done_ = false;  // its end was told
  bool finish_reading_ = false;
  std::optional<ExitStatus> exit_;
  bool exit_told_ = false;
  std::optional<Instant> kill_at_;
  bool end_ordered_ = false;
  bool ended_told_ = false;
  std::optional<Instant> leave_at_;  // its stdin ended: when it goes by itself
};

}  // namespace acp::sim
