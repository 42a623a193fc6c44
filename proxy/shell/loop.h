// The shell: carries events into the core and its actions out, on one libuv loop.
//
// Invariant: no policy. One event is one step; the actions of a step are carried out in order before the next
// event; events that arise meanwhile wait in a queue. Neighbouring Sends leave in one write. While nothing
// happens nothing wakes up: there is one timer, for the core's deadline (and for giving up at the end).
// Lifetime: one object a process; run() once. The core outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/core/actions.h"
#include "proxy/core/event.h"
#include "proxy/shell/components.h"
#include "proxy/shell/handle.h"
#include "proxy/shell/ledger_thread.h"
#include "proxy/shell/link.h"
#include "proxy/shell/log.h"
#include "proxy/shell/process.h"
#include "proxy/shell/signals.h"
#include "proxy/shell/stderr_writer.h"

namespace acp::shell {

// Who decides: the relay in production, a few lines in the shell's own tests. As proxy/core/relay.h has it.
class Core {
 public:
  Core() = default;
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  virtual ~Core() = default;
  virtual void start(Instant now, Actions& actions) = 0;
  virtual void step(const Event& event, Instant now, Actions& actions) = 0;
  virtual std::optional<Instant> next_deadline() const = 0;
};

struct ShellSettings {
  std::vector<Component> components;  // by their number (component_of); empty where none is ever started
  // TERM to KILL where keyhop is killed without having ordered an end.
  Duration orphan_grace = std::chrono::seconds(1);
  LogSettings log;
  std::vector<std::string> warnings;     // said first
  std::optional<LedgerSettings> ledger;  // none: the core orders nothing of it
};

// At the end: how long a peer that takes nothing is waited for.
inline constexpr Duration client_flush_patience = std::chrono::seconds(30);
inline constexpr Duration stderr_flush_patience = std::chrono::seconds(1);

// Points descriptors 0, 1 and 2 at /dev/null where they are closed, so that nothing else lands there.
void fill_stdio() noexcept;

class Shell {
 public:
  // fill_stdio() came before. Makes the calling process a subreaper.
  Shell(Core& core, ShellSettings settings);
  ~Shell();
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  // Relays until the core orders Exit, everything sent is written and nothing of any epoch lives. Returns the
  // status ordered, or 70 (EX_SOFTWARE) if the system gives not even a loop.
  int run();

 private:
  struct CarryOut;

  void on_event(const Event& event);
  void step(const Event& event);
  void pump();
  void carry_out();
  void flush();
  void arm_deadline();
  void on_timer();
  void on_signal(int number);
  void reap_children();

  void start_ledger();
  void start_agent(const StartAgent& order);
  void on_started(const AgentStarted& started);
  void on_start_failed(const AgentStartFailed& failed);
  void exit(int status);
  void check_patience();
  bool finished();
  void sweep();
  Link* find_link(LinkId id);
  void set_reading(LinkId id, bool reads);
  AgentProcess* find_process(Epoch epoch);

  struct AgentLink {
    Epoch epoch;
    Link link;
    bool is_started = false;  // its start is told: until then it is not read, whatever is ordered
    bool is_paused = false;   // is not to be read then either
  };

  Core& core_;
  ShellSettings settings_;
  uv_loop_t loop_{};
  bool loop_open_ = false;
  ReadBuffer buffer_;
  Handle<uv_timer_t> timer_;
  std::unique_ptr<StderrWriter> stderr_;
  std::unique_ptr<LogWriter> log_;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<Link> client_;
  std::vector<std::unique_ptr<AgentLink>> agent_links_;
  std::vector<std::unique_ptr<AgentProcess>> processes_;

  Descriptor owners_;  // the ledger's locks of this run: every watchdog holds them
  std::unique_ptr<LedgerThread> ledger_;

  Actions actions_;
  std::vector<Event> queue_;  // without byte views
  bool stepping_ = false;
  std::optional<Instant> armed_;  // when the timer fires

  std::optional<int> exit_status_;
  Instant exiting_since_{};
  Instant client_progress_{};  // while exiting: when the client last took something
  std::size_t client_backlog_ = 0;
  bool give_up_flush_ = false;
};

}  // namespace acp::shell
