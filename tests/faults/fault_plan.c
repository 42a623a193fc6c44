// Preloaded into keyhop: counts what it asks of the system, and lets the call fail that the plan names.
//
// The plan is in the file that FAULT_PAGE names (fault_page.h). Only a program named keyhop is touched, and
// its watchdogs; the agent's environment has neither this library nor the page. In a forked child the role
// changes, the counts go on. Only errors that the real call could have had may be planned: the plan's maker
// knows them.
#define _GNU_SOURCE

#include "tests/faults/fault_plan.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fault_page* fault_page;
enum fault_role fault_role = role_keyhop;

struct range {
  uintptr_t begin;
  uintptr_t end;
};
static struct range ranges[caller_count];
static uintptr_t program_base;

static enum fault_caller caller_of(const void* address) {
  for (int caller = caller_libuv; caller < caller_count; ++caller) {
    if ((uintptr_t)address >= ranges[caller].begin && (uintptr_t)address < ranges[caller].end) return caller;
  }
  return caller_own;
}

static void remember_place(void) {
  void* frames[fault_frames_max];
  const int count = backtrace(frames, fault_frames_max);
  fault_page->program_base = program_base;
  for (int index = 0; index < count; ++index) fault_page->frames[index] = (uintptr_t)frames[index];
  fault_page->frame_count = (uint64_t)count;
}

static bool may_be_interrupted(enum fault_operation operation) {
  switch (operation) {
    case operation_read:
    case operation_write:
    case operation_send:
    case operation_receive:
    case operation_poll:
    case operation_wait: return true;
    default: return false;
  }
}

// Counts the call. True: it is the one that the plan names.
static bool is_struck(enum fault_operation operation, enum fault_caller caller, uint64_t number) {
  if (fault_page->role != fault_role || fault_page->operation != operation || fault_page->caller != caller)
    return false;
  if (number < fault_page->first || number - fault_page->first >= fault_page->count) return false;
  if (__atomic_add_fetch(&fault_page->struck, 1, __ATOMIC_RELAXED) == 1) remember_place();
  return true;
}

uint64_t fault_counted(enum fault_operation operation, enum fault_caller caller) {
  return __atomic_add_fetch(&fault_page->calls[fault_role][operation][caller], 1, __ATOMIC_RELAXED);
}

// Counts the call. True, with errno set: it fails.
bool call_fails(enum fault_operation operation, const void* address) {
  if (fault_page == NULL) return false;
  const enum fault_caller caller = caller_of(address);
  const uint64_t number = fault_counted(operation, caller);
  if (fault_page->mode == mode_interrupt) {
    if (fault_page->role != fault_role || !may_be_interrupted(operation) || number % 2 == 0) return false;
    __atomic_add_fetch(&fault_page->struck, 1, __ATOMIC_RELAXED);
    errno = EINTR;
    return true;
  }
  if (fault_page->mode != mode_fail || !is_struck(operation, caller, number)) return false;
  errno = fault_page->error;
  return true;
}

bool fault_is_short(const void* address) {
  if (fault_page == NULL || fault_page->mode != mode_short || fault_page->role != fault_role) return false;
  if (caller_of(address) == caller_libuv) return false;  // its own pipes carry records
  __atomic_add_fetch(&fault_page->struck, 1, __ATOMIC_RELAXED);
  return true;
}

size_t fault_size_of(size_t size, const void* address) {
  return size > 1 && fault_is_short(address) ? 1 : size;
}

bool database_fails(const void* address) {
  if (fault_page == NULL || caller_of(address) != caller_own) return false;
  const uint64_t number = fault_counted(operation_sqlite, caller_own);
  if (fault_page->mode != mode_fail && fault_page->mode != mode_fail_after) return false;
  return is_struck(operation_sqlite, caller_own, number);
}

// ---- The beginning ----

static int find_ranges(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size;
  (void)unused;
  if (info->dlpi_name[0] == '\0' && program_base == 0) program_base = info->dlpi_addr;
  enum fault_caller caller = caller_own;
  if (strstr(info->dlpi_name, "/libuv.") != NULL) caller = caller_libuv;
  if (strstr(info->dlpi_name, "/libsqlite3.") != NULL) caller = caller_sqlite;
  if (caller == caller_own) return 0;
  for (int index = 0; index < info->dlpi_phnum; ++index) {
    const ElfW(Phdr)* const part = &info->dlpi_phdr[index];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    ranges[caller].begin = info->dlpi_addr + part->p_vaddr;
    ranges[caller].end = ranges[caller].begin + part->p_memsz;
  }
  return 0;
}

static void begin(void) {
  const char* const name = getenv("FAULT_PAGE");
  if (name == NULL || strcmp(program_invocation_short_name, "keyhop") != 0) return;
  dl_iterate_phdr(find_ranges, NULL);
  void* frame = NULL;
  backtrace(&frame, 1);  // loads what it needs
  const int file = REAL(open)(name, O_RDWR | O_CLOEXEC);
  if (file < 0) abort();
  void* const memory = REAL(mmap)(NULL, sizeof *fault_page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) abort();
  close(file);
  unsetenv("FAULT_PAGE");
  unsetenv("LD_PRELOAD");
  fault_page = memory;
}

// The libraries have been made ready, the program itself has not.
int __libc_start_main(int (*program)(int, char**, char**), int count, char** words, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end);
int __libc_start_main(int (*program)(int, char**, char**), int count, char** words, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  begin();
  return REAL(__libc_start_main)(program, count, words, init, fini, rtld_fini, stack_end);
}
