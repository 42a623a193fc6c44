// A relay between two scripted mouths: lines in, lines out, events by hand. What unit tests and transcripts
// talk through.
//
// Invariant: the bytes of every step are copied into a buffer that is overwritten afterwards, so that a view
// kept too long shows. Lifetime: one relay a dialogue.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/relay.h"
#include "tests/sim/memory_ledger.h"

namespace acp::sim {

// Of the first process.
inline constexpr LinkId agent_link{2};
inline constexpr Epoch agent_epoch{1};

// Settings with --restart never: the agent's end is keyhop's.
Settings one_epoch();

class Dialogue {
 public:
  // `started`: the agent runs already.
  explicit Dialogue(Settings settings = one_epoch(), bool started = true);
  Dialogue(const Dialogue&) = delete;
  Dialogue& operator=(const Dialogue&) = delete;

  // One line of either peer (its LF is added), or bytes as they are.
  void client(std::string_view line);
  void agent(std::string_view line);
  void client_bytes(std::string_view bytes) { read(client_link, bytes); }
  void agent_bytes(std::string_view bytes) { read(link_, bytes); }
  void happen(const Event& event);
  // This is what the relay writes to from now on; `open` tells it so (Settings::ledger must say that there is
  // one). What it orders waits for run_ledger().
  void use_ledger(MemoryLedger& ledger, bool open = true);
  void run_ledger();
  bool has_ledger_orders() const noexcept { return !ledger_orders_.empty(); }
  // Virtual time passes; deadlines that come on the way are told at their instant.
  void pass(Duration duration);

  // initialize, answered with this version; then session/new, answered with "s1". Leaves nothing to take.
  void open(int version = 2);
  // The agent's process ends with this status; everything of it is gone and read. Whole end of an epoch.
  void agent_dies(ExitStatus status);
  // The process that was ordered last runs.
  void agent_starts() { happen(AgentStarted{epoch_, 42}); }
  // It is killed, another one runs. Leaves keyhop's first line to that one to take.
  void agent_restarts();
  // The new one answers keyhop's own initialize, which must be the only line it got.
  void agent_initializes(std::string_view result);
  // The link and the epoch of the process that was ordered last.
  LinkId link() const noexcept { return link_; }
  Epoch epoch() const noexcept { return epoch_; }

  // What was sent since the last call, line by line without LF.
  std::vector<std::string> take_client() { return take(to_client_); }
  std::vector<std::string> take_agent() { return take(to_agent_); }
  // What was ordered since the last call: "start", "pause client", "end agent 1000", "exit 0", …; bytes for a
  // link that is gone are "misdirected".
  std::vector<std::string> take_orders() { return std::move(orders_); }
  const std::string& stderr_text() const noexcept { return stderr_; }
  const std::string& log_text() const noexcept { return log_; }
  std::optional<int> exit_status() const noexcept { return exit_; }
  Relay& relay() noexcept { return relay_; }

 private:
  void read(LinkId link, std::string_view bytes);
  void carry_out();
  void carry_out(const Action& action);
  static std::vector<std::string> take(std::string& bytes);

  Settings settings_;
  Relay relay_;
  Actions actions_;
  Instant now_{std::chrono::hours(1)};  // not zero, which an unset instant is
  LinkId link_ = agent_link;
  Epoch epoch_ = agent_epoch;
  struct LedgerOrder {
    std::optional<LedgerBatch> batch;  // or a reading:
    std::uint64_t ticket = 0;
    std::string agent;
    std::string session;
  };
  MemoryLedger* ledger_ = nullptr;
  std::vector<LedgerOrder> ledger_orders_;
  std::string to_client_;
  std::string to_agent_;
  std::string stderr_;
  std::string log_;
  std::vector<std::string> orders_;
  std::optional<int> exit_;
};

// An error of keyhop's own in a few words: "7 -32603 agent_lost unknown" (id, code, reason, outcome where it
// is told); any other line as it is.
std::string in_short(std::string_view line);
std::vector<std::string> in_short(const std::vector<std::string>& lines);

// Lines of the usual shapes. `id` and `key` are raw JSON tokens; no key: "".
std::string request_line(std::string_view id, std::string_view method, std::string_view params = "{}");
std::string prompt_line(std::string_view id, std::string_view key, std::string_view text = "T",
                        std::string_view session = "s1");
std::string cancel_line(std::string_view request_id);
std::string result_line(std::string_view id, std::string_view result = "{}");
std::string error_line(std::string_view id, int code = -32000, std::string_view message = "no");

}  // namespace acp::sim
