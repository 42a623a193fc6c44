#include "proxy/shell/process_tree.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/shell/handle.h"
#include "proxy/shell/launcher.h"

namespace acp::shell {
namespace {

constexpr int depth_max = 4096;  // of a walk to the ancestors, in case the snapshot is torn

// The n-th blank-separated field of `text`, from 0.
std::string_view field(std::string_view text, int index) {
  for (; index > 0; --index) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return {};
    text.remove_prefix(blank + 1);
  }
  return text.substr(0, text.find(' '));
}

// A leader that is a zombie is gone: what is left in its session, and is no descendant, is a daemon.
bool leads(const ProcessInfo& process) { return process.alive && process.session == process.pid; }

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data();
}

}  // namespace

bool parse_process_stat(const char* line, std::size_t size, ProcessInfo& info) {
  const std::string_view text(line, size);
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return false;
  if (close + 2 >= text.size()) return false;
  // proc(5): after the name come state, ppid, pgrp, session, ...; num_threads is field 20, starttime
  // field 22.
  const std::string_view rest = text.substr(close + 2);
  long threads = 0;
  if (!parse(text.substr(0, open), info.pid) || !parse(field(rest, 1), info.parent) ||
      !parse(field(rest, 3), info.session) || !parse(field(rest, 17), threads) ||
      !parse(field(rest, 19), info.started)) {
    return false;
  }
  // A process whose first thread ended is shown as a zombie while its other threads run.
  const char state = rest.front();
  info.alive = (state != 'Z' && state != 'X' && state != 'x') || threads > 1;
  const std::string_view name = text.substr(open + 1, close - open - 1).substr(0, sizeof info.name - 1);
  std::memset(info.name, 0, sizeof info.name);
  std::memcpy(info.name, name.data(), name.size());
  return true;
}

namespace {

enum class Sight : std::uint8_t { there, gone, unreadable };

Sight look_once(pid_t pid, ProcessInfo& info) {
  const auto failed = [] { return errno == ENOENT || errno == ESRCH ? Sight::gone : Sight::unreadable; };
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.open()) return failed();
  char line[1024];
  ssize_t size = 0;
  do {
    size = ::read(file.number(), line, sizeof line);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return failed();
  return parse_process_stat(line, static_cast<std::size_t>(size), info) ? Sight::there : Sight::gone;
}

// No descriptor or memory for a moment does not make a process that lives look gone.
Sight look(pid_t pid, ProcessInfo& info) {
  constexpr int looks_max = 3;
  Sight sight = Sight::unreadable;
  for (int looks = 0; looks < looks_max && sight == Sight::unreadable; ++looks) sight = look_once(pid, info);
  // Where /proc hides the processes of others (hidepid), these are no concern of ours.
  const bool is_hidden = sight == Sight::unreadable && (errno == EACCES || errno == EPERM);
  return is_hidden ? Sight::gone : sight;
}

}  // namespace

bool read_process(pid_t pid, ProcessInfo& info) { return look(pid, info) == Sight::there; }

// Without opendir(), which allocates.
bool read_processes(ProcessList& all) {
  all.clear();
  const Descriptor directory(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.open()) return false;
  alignas(dirent64) char entries[4096];
  bool is_whole = true;
  for (;;) {
    const ssize_t size = ::getdents64(directory.number(), entries, sizeof entries);
    if (size < 0) return false;
    if (size == 0) break;
    for (ssize_t at = 0; at < size;) {
      const auto& entry = *reinterpret_cast<const dirent64*>(entries + at);
      at += entry.d_reclen;
      pid_t pid = 0;
      if (!parse(entry.d_name, pid)) continue;
      ProcessInfo info;
      const Sight sight = look(pid, info);
      if (sight == Sight::there) all.push_back(info);
      is_whole = is_whole && sight != Sight::unreadable;
    }
  }
  std::sort(all.begin(), all.end(), [](const ProcessInfo& a, const ProcessInfo& b) { return a.pid < b.pid; });
  return is_whole && !all.empty();
}

bool signal_process(const ProcessInfo& process, int signal) {
  // The descriptor names one process for good; only then is the start time compared.
  const Descriptor file(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!file.open() && errno == ESRCH) return false;
  ProcessInfo present;
  const Sight sight = look(process.pid, present);
  // Where /proc gives nothing any more its session tells that it is the same: numbers of sessions last.
  const bool is_same = sight == Sight::there
                           ? present.started == process.started
                           : sight == Sight::unreadable && ::getsid(process.pid) == process.session;
  if (!is_same) {
    errno = ESRCH;
    return false;
  }
  if (!file.open()) return ::kill(process.pid, signal) == 0;  // a kernel before 5.3, or no descriptor left
  return ::syscall(SYS_pidfd_send_signal, file.number(), signal, nullptr, 0) == 0;
}

const ProcessInfo* ProcessTree::find(const ProcessList& all, pid_t pid) const {
  const auto place = std::lower_bound(
      all.begin(), all.end(), pid, [](const ProcessInfo& info, pid_t wanted) { return info.pid < wanted; });
  return place != all.end() && place->pid == pid ? &*place : nullptr;
}

bool ProcessTree::below_reaper(const ProcessList& all, const ProcessInfo& process) const {
  // It died itself (its parent may reap it late): where orphans went cannot be told.
  const ProcessInfo* reaper = find(all, roots_.reaper);
  if (reaper == nullptr || !reaper->alive) return true;
  const ProcessInfo* at = &process;
  for (int depth = 0; at != nullptr && depth < depth_max; ++depth) {
    if (at->parent == roots_.reaper) return true;
    at = find(all, at->parent);
  }
  return false;
}

bool ProcessTree::is_orphan(const ProcessInfo& process) const {
  if (process.pid == roots_.agent) return false;
  if (roots_.former_reaper != 0 && process.parent == roots_.former_reaper) return true;
  if (process.parent != roots_.reaper) return false;
  if (!roots_.reaper_is_shared) return true;
  return process.started >= roots_.agent_started && process.pid != ::getpid() &&
         std::strcmp(process.name, watchdog_name) != 0;
}

bool ProcessTree::was_member(const ProcessInfo& process) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return member.pid == process.pid && member.started == process.started;
  });
}

bool ProcessTree::leads_here(pid_t session) const {
  return std::find(sessions_.begin(), sessions_.end(), session) != sessions_.end();
}

// Belongs by itself, not through another member.
bool ProcessTree::is_root(const ProcessList& all, const ProcessInfo& process) const {
  if (was_member(process)) return true;
  if (process.pid == roots_.agent) {
    return roots_.agent_started == 0 || process.started == roots_.agent_started;
  }
  if (!agent_session_gone_ && process.session == roots_.agent) return below_reaper(all, process);
  return is_orphan(process) && leads(process);
}

// The kernel keeps the number of a session while it has a process; once it has none, the number may come
// again.
void ProcessTree::watch_agent_session(const ProcessList& all) {
  const ProcessInfo* agent = find(all, roots_.agent);
  if (agent != nullptr && roots_.agent_started != 0 && agent->started != roots_.agent_started) {
    agent_session_gone_ = true;
  }
  const bool populated = std::any_of(
      all.begin(), all.end(), [&](const ProcessInfo& process) { return process.session == roots_.agent; });
  // Before its setsid() the agent is in no session of its own, but it is there.
  if (!populated && agent == nullptr) agent_session_gone_ = true;
}

// To the descendants and sessions of members, until nothing is added.
void ProcessTree::spread(const ProcessList& all) {
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t index = 0; index < all.size(); ++index) {
      const ProcessInfo& process = all[index];
      if (belongs_[index] != 0) continue;
      const ProcessInfo* parent = find(all, process.parent);
      const bool child = parent != nullptr && belongs_[static_cast<std::size_t>(parent - all.data())] != 0;
      const bool same_session = leads_here(process.session) && below_reaper(all, process);
      if (!child && !same_session) continue;
      belongs_[index] = 1;
      grown = true;
      if (leads(process)) sessions_.push_back(process.pid);
    }
  }
}

void ProcessTree::update(const ProcessList& all) {
  watch_agent_session(all);
  // A session number of which nothing is left is forgotten.
  std::erase_if(sessions_, [&](pid_t session) {
    return std::none_of(all.begin(), all.end(),
                        [&](const ProcessInfo& process) { return process.session == session; });
  });
  belongs_.assign(all.size(), 0);
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (!is_root(all, all[index])) continue;
    belongs_[index] = 1;
    if (all[index].session == all[index].pid && !leads_here(all[index].pid))
      sessions_.push_back(all[index].pid);
  }
  spread(all);
  members_.clear();
  living_.clear();
  daemons_.clear();
  for (std::size_t index = 0; index < all.size(); ++index) {
    const ProcessInfo& process = all[index];
    if (belongs_[index] != 0) {
      members_.push_back({process.pid, process.started});
      if (process.alive) living_.push_back(process);
    } else if (process.alive && is_orphan(process)) {
      daemons_.push_back(process);
    }
  }
}

}  // namespace acp::shell
