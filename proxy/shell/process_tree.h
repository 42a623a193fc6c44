// Which processes belong to an agent's epoch, read from /proc.
//
// Rule: what lives in the agent's POSIX session, its descendants, and orphans of it that lead a
// session of their own (helpers started detached), with their sessions and descendants. An orphan whose
// session leader is gone is a daemon on purpose: left alone and named. Zombies do not count. Invariant: a
// process is known by pid and start time, so a reused pid is another process; who once belonged belongs until
// it is gone. All of it runs in the watchdog, so no memory comes from malloc (page_allocator.h). Lifetime:
// read_processes() has no state; a ProcessTree lives as long as one ending.
#pragma once

#include <cstdint>
#include <sys/types.h>

#include "proxy/shell/page_allocator.h"

namespace acp::shell {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  std::uint64_t started = 0;  // clock ticks since boot
  bool alive = false;         // neither zombie nor dead
  char name[16] = {};         // as the process calls itself, cut to 15 bytes
};

using ProcessList = PageVector<ProcessInfo>;

// Every visible process, sorted by pid. False if /proc cannot be read, or one of them: somebody may be
// missing. Reuses the vector's memory.
bool read_processes(ProcessList& all);
// One process; false if it is not there.
bool read_process(pid_t pid, ProcessInfo& info);
// Takes one line of /proc/PID/stat apart (the name may hold any byte); false if it is not one.
bool parse_process_stat(const char* line, std::size_t size, ProcessInfo& info);

// Sends a signal to exactly that process: never to another one that got its pid. False if it could not be
// sent, with errno (ESRCH: it is gone; EPERM: it is not ours to end).
bool signal_process(const ProcessInfo& process, int signal);

class ProcessTree {
 public:
  struct Roots {
    pid_t agent = 0;
    std::uint64_t agent_started = 0;  // 0: not known
    pid_t reaper = 0;                 // whose children the epoch's orphans become
    // Other things than this epoch's are children of the reaper too (after a watchdog was killed, keyhop is
    // the reaper): only what started after the agent and is no watchdog counts.
    bool reaper_is_shared = false;
    // The watchdog that was killed: its end can be seen before its orphans have gone to the reaper.
    pid_t former_reaper = 0;
  };

  explicit ProcessTree(const Roots& roots) : roots_(roots) {}

  // Judges a snapshot as read_processes() gives it.
  void update(const ProcessList& all);
  // What is to be ended, as of the last update.
  const ProcessList& living() const noexcept { return living_; }
  // What is left alone on purpose, as of the last update.
  const ProcessList& daemons() const noexcept { return daemons_; }

 private:
  struct Member {
    pid_t pid;
    std::uint64_t started;
  };

  const ProcessInfo* find(const ProcessList& all, pid_t pid) const;
  bool below_reaper(const ProcessList& all, const ProcessInfo& process) const;
  bool is_orphan(const ProcessInfo& process) const;
  bool is_root(const ProcessList& all, const ProcessInfo& process) const;
  bool was_member(const ProcessInfo& process) const;
  bool leads_here(pid_t session) const;
  void watch_agent_session(const ProcessList& all);
  void spread(const ProcessList& all);

  Roots roots_;
  bool agent_session_gone_ = false;  // its number may name somebody else's session from now on
  PageVector<Member> members_;
  PageVector<pid_t> sessions_;  // led by members
  PageVector<char> belongs_;    // parallel to the snapshot
  ProcessList living_;
  ProcessList daemons_;
};

}  // namespace acp::shell
