// What a faulted keyhop and its test share: one page of a file. The test writes the plan, the library counts.
//
// Invariant: the plan does not change while a process has the page; counts only grow, over all processes with
// it. fault_page.py has the same layout. Lifetime: the file's.
#pragma once

#include <stdint.h>

enum fault_role {
  role_keyhop,
  role_watchdog,  // forked by keyhop
  role_starter,   // forked by the watchdog: until it executes the agent
  role_count
};

// Whose call it is.
enum fault_caller { caller_own, caller_libuv, caller_sqlite, caller_count };

enum fault_operation {
  operation_memory,  // malloc, calloc, realloc, … and thereby operator new
  operation_map,     // mmap
  operation_read,
  operation_write,
  operation_send,  // sendmsg, send: datagrams to the watchdog, bytes to a socket
  operation_receive,
  operation_fork,
  operation_pipe,   // pipes and socket pairs
  operation_open,   // files
  operation_sync,   // fsync, fdatasync
  operation_alter,  // ftruncate, mkdir, rename, fchmod, unlink
  operation_look,   // stat and the like
  operation_lock,   // fcntl that sets or asks a lock
  operation_mode,   // other fcntl
  operation_poll,   // poll, epoll_pwait
  operation_watch,  // epoll_create1, epoll_ctl, eventfd
  operation_signal,
  operation_wait,  // waitpid, waitid
  operation_thread,
  operation_random,
  operation_sqlite,  // sqlite3_open_v2, _prepare_v3, _step, _exec
  operation_clock,
  operation_count
};

enum fault_mode {
  mode_count_only,
  mode_fail,        // `count` calls from the `first` on
  mode_fail_after,  // of SQLite: it is done, and then said to have failed
  mode_short,       // every call takes or gives one byte
  mode_interrupt,   // every second call ends with EINTR; all operations for which that is legal
  mode_clock        // from the `first` call on clock number `error` is `step_ns` away
};

enum { fault_frames_max = 16 };

struct fault_page {
  uint32_t mode;
  uint32_t role;
  uint32_t operation;
  uint32_t caller;
  int32_t error;  // errno, SQLite's code, or the clock
  uint32_t unused;
  uint64_t first;  // from 1
  uint64_t count;
  int64_t step_ns;
  // Written by the library.
  uint64_t struck;
  uint64_t program_base;  // addresses of frames count from here
  uint64_t frame_count;
  uint64_t frames[fault_frames_max];
  uint64_t calls[role_count][operation_count][caller_count];
};

_Static_assert(sizeof(struct fault_page) <= 4096, "one page");
