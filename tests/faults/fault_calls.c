// The functions that a faulted keyhop calls instead of the system's.
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/fault_plan.h"

// ---- Memory: no dlsym, which allocates ----

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return call_fails(operation_memory, CALLER) ? NULL : __libc_malloc(size); }

void* calloc(size_t count, size_t size) {
  return call_fails(operation_memory, CALLER) ? NULL : __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  return call_fails(operation_memory, CALLER) ? NULL : __libc_realloc(old, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return call_fails(operation_memory, CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void** place, size_t alignment, size_t size) {
  if (call_fails(operation_memory, CALLER)) return ENOMEM;
  *place = __libc_memalign(alignment, size);
  return *place == NULL ? ENOMEM : 0;
}

void* mmap(void* wanted, size_t size, int protection, int flags, int file, off_t offset) {
  if (call_fails(operation_map, CALLER)) return MAP_FAILED;
  return REAL(mmap)(wanted, size, protection, flags, file, offset);
}

void* mmap64(void* wanted, size_t size, int protection, int flags, int file, off64_t offset) {
  if (call_fails(operation_map, CALLER)) return MAP_FAILED;
  return REAL(mmap64)(wanted, size, protection, flags, file, offset);
}

// ---- Bytes ----

ssize_t read(int file, void* into, size_t size) {
  if (call_fails(operation_read, CALLER)) return -1;
  return REAL(read)(file, into, fault_size_of(size, CALLER));
}

ssize_t pread(int file, void* into, size_t size, off_t offset) {
  if (call_fails(operation_read, CALLER)) return -1;
  return REAL(pread)(file, into, size, offset);
}

ssize_t pread64(int file, void* into, size_t size, off64_t offset) {
  if (call_fails(operation_read, CALLER)) return -1;
  return REAL(pread64)(file, into, fault_size_of(size, CALLER), offset);
}

ssize_t preadv2(int file, const struct iovec* parts, int count, off_t offset, int flags) {
  if (call_fails(operation_read, CALLER)) return -1;
  return REAL(preadv2)(file, parts, count, offset, flags);
}

ssize_t write(int file, const void* from, size_t size) {
  if (call_fails(operation_write, CALLER)) return -1;
  return REAL(write)(file, from, fault_size_of(size, CALLER));
}

ssize_t pwrite64(int file, const void* from, size_t size, off64_t offset) {
  if (call_fails(operation_write, CALLER)) return -1;
  return REAL(pwrite64)(file, from, fault_size_of(size, CALLER), offset);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  if (call_fails(operation_write, CALLER)) return -1;
  if (count > 0 && fault_is_short(CALLER)) {
    const struct iovec one = {parts[0].iov_base, parts[0].iov_len > 1 ? 1 : parts[0].iov_len};
    return REAL(writev)(file, &one, 1);
  }
  return REAL(writev)(file, parts, count);
}

ssize_t pwritev2(int file, const struct iovec* parts, int count, off_t offset, int flags) {
  if (call_fails(operation_write, CALLER)) return -1;
  return REAL(pwritev2)(file, parts, count, offset, flags);
}

ssize_t send(int socket, const void* from, size_t size, int flags) {
  return call_fails(operation_send, CALLER) ? -1 : REAL(send)(socket, from, size, flags);
}

ssize_t sendmsg(int socket, const struct msghdr* message, int flags) {
  return call_fails(operation_send, CALLER) ? -1 : REAL(sendmsg)(socket, message, flags);
}

ssize_t recv(int socket, void* into, size_t size, int flags) {
  return call_fails(operation_receive, CALLER) ? -1 : REAL(recv)(socket, into, size, flags);
}

ssize_t recvmsg(int socket, struct msghdr* message, int flags) {
  return call_fails(operation_receive, CALLER) ? -1 : REAL(recvmsg)(socket, message, flags);
}

// ---- Descriptors ----

#define DEFINE_OPEN(name)                                                           \
  int name(const char* path, int flags, ...) {                                      \
    va_list rest;                                                                   \
    va_start(rest, flags);                                                          \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                   \
    return call_fails(operation_open, CALLER) ? -1 : REAL(name)(path, flags, mode); \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

DIR* opendir(const char* path) { return call_fails(operation_open, CALLER) ? NULL : REAL(opendir)(path); }

int pipe2(int ends[2], int flags) {
  return call_fails(operation_pipe, CALLER) ? -1 : REAL(pipe2)(ends, flags);
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
  return call_fails(operation_pipe, CALLER) ? -1 : REAL(socketpair)(domain, type, protocol, ends);
}

static bool is_lock(int command) {
  return command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
         command == F_OFD_SETLKW || command == F_OFD_GETLK;
}

#define DEFINE_FCNTL(name)                                                                 \
  int name(int file, int command, ...) {                                                   \
    va_list rest;                                                                          \
    va_start(rest, command);                                                               \
    void* const argument = va_arg(rest, void*);                                            \
    va_end(rest);                                                                          \
    if (call_fails(is_lock(command) ? operation_lock : operation_mode, CALLER)) return -1; \
    return REAL(name)(file, command, argument);                                            \
  }
DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)

int fsync(int file) { return call_fails(operation_sync, CALLER) ? -1 : REAL(fsync)(file); }

int fdatasync(int file) { return call_fails(operation_sync, CALLER) ? -1 : REAL(fdatasync)(file); }

int ftruncate64(int file, off64_t size) {
  return call_fails(operation_alter, CALLER) ? -1 : REAL(ftruncate64)(file, size);
}

int mkdir(const char* path, mode_t mode) {
  return call_fails(operation_alter, CALLER) ? -1 : REAL(mkdir)(path, mode);
}

int rename(const char* from, const char* to) {
  return call_fails(operation_alter, CALLER) ? -1 : REAL(rename)(from, to);
}

int unlink(const char* path) { return call_fails(operation_alter, CALLER) ? -1 : REAL(unlink)(path); }

int fchmod(int file, mode_t mode) {
  return call_fails(operation_alter, CALLER) ? -1 : REAL(fchmod)(file, mode);
}

int stat(const char* path, struct stat* into) {
  return call_fails(operation_look, CALLER) ? -1 : REAL(stat)(path, into);
}

int stat64(const char* path, struct stat64* into) {
  return call_fails(operation_look, CALLER) ? -1 : REAL(stat64)(path, into);
}

int fstat(int file, struct stat* into) {
  return call_fails(operation_look, CALLER) ? -1 : REAL(fstat)(file, into);
}

int fstat64(int file, struct stat64* into) {
  return call_fails(operation_look, CALLER) ? -1 : REAL(fstat64)(file, into);
}

int lstat(const char* path, struct stat* into) {
  return call_fails(operation_look, CALLER) ? -1 : REAL(lstat)(path, into);
}

int statfs(const char* path, struct statfs* into) {
  return call_fails(operation_look, CALLER) ? -1 : REAL(statfs)(path, into);
}

// ---- Waiting ----

int poll(struct pollfd* asked, nfds_t count, int timeout) {
  return call_fails(operation_poll, CALLER) ? -1 : REAL(poll)(asked, count, timeout);
}

int epoll_wait(int set, struct epoll_event* events, int most, int timeout) {
  return call_fails(operation_poll, CALLER) ? -1 : REAL(epoll_wait)(set, events, most, timeout);
}

int epoll_pwait(int set, struct epoll_event* events, int most, int timeout, const sigset_t* mask) {
  return call_fails(operation_poll, CALLER) ? -1 : REAL(epoll_pwait)(set, events, most, timeout, mask);
}

int epoll_create1(int flags) { return call_fails(operation_watch, CALLER) ? -1 : REAL(epoll_create1)(flags); }

int epoll_ctl(int set, int operation, int file, struct epoll_event* event) {
  // Taking away cannot fail.
  if (operation != EPOLL_CTL_DEL && call_fails(operation_watch, CALLER)) return -1;
  return REAL(epoll_ctl)(set, operation, file, event);
}

int eventfd(unsigned value, int flags) {
  return call_fails(operation_watch, CALLER) ? -1 : REAL(eventfd)(value, flags);
}

int signalfd(int file, const sigset_t* mask, int flags) {
  return call_fails(operation_signal, CALLER) ? -1 : REAL(signalfd)(file, mask, flags);
}

int clock_gettime(clockid_t number, struct timespec* into) {
  const int result = REAL(clock_gettime)(number, into);
  if (fault_page == NULL) return result;
  const uint64_t call = fault_counted(operation_clock, caller_own);
  const bool is_coarse = number == CLOCK_MONOTONIC_COARSE && fault_page->error == CLOCK_MONOTONIC;
  if (fault_page->mode != mode_clock || fault_page->role != fault_role || call < fault_page->first)
    return result;
  if (number != fault_page->error && !is_coarse) return result;
  into->tv_sec += fault_page->step_ns / 1000000000;
  __atomic_add_fetch(&fault_page->struck, 1, __ATOMIC_RELAXED);
  return result;
}

// ---- Processes, threads, randomness ----

pid_t fork(void) {
  if (call_fails(operation_fork, CALLER)) return -1;
  const pid_t pid = REAL(fork)();
  if (pid == 0) fault_role = role_watchdog;
  return pid;
}

pid_t _Fork(void) {
  if (call_fails(operation_fork, CALLER)) return -1;
  const pid_t pid = REAL(_Fork)();
  if (pid == 0) fault_role = fault_role == role_watchdog ? role_starter : role_watchdog;
  return pid;
}

pid_t waitpid(pid_t pid, int* status, int flags) {
  return call_fails(operation_wait, CALLER) ? -1 : REAL(waitpid)(pid, status, flags);
}

int waitid(idtype_t kind, id_t id, siginfo_t* seen, int flags) {
  return call_fails(operation_wait, CALLER) ? -1 : REAL(waitid)(kind, id, seen, flags);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  if (call_fails(operation_thread, CALLER)) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, run, argument);
}

ssize_t getrandom(void* into, size_t size, unsigned flags) {
  return call_fails(operation_random, CALLER) ? -1 : REAL(getrandom)(into, size, flags);
}

// ---- SQLite, as keyhop calls it ----

struct sqlite3;
struct sqlite3_stmt;
typedef int (*row_callback)(void*, int, char**, char**);
int sqlite3_open_v2(const char* name, struct sqlite3** made, int flags, const char* system);
int sqlite3_prepare_v3(struct sqlite3* database, const char* text, int size, unsigned flags,
                       struct sqlite3_stmt** made, const char** rest);
int sqlite3_step(struct sqlite3_stmt* statement);
int sqlite3_exec(struct sqlite3* database, const char* text, row_callback row, void* argument, char** words);

int sqlite3_open_v2(const char* name, struct sqlite3** made, int flags, const char* system) {
  *made = NULL;
  return database_fails(CALLER) ? fault_page->error : REAL(sqlite3_open_v2)(name, made, flags, system);
}

int sqlite3_prepare_v3(struct sqlite3* database, const char* text, int size, unsigned flags,
                       struct sqlite3_stmt** made, const char** rest) {
  *made = NULL;
  if (database_fails(CALLER)) return fault_page->error;
  return REAL(sqlite3_prepare_v3)(database, text, size, flags, made, rest);
}

int sqlite3_step(struct sqlite3_stmt* statement) {
  if (!database_fails(CALLER)) return REAL(sqlite3_step)(statement);
  if (fault_page->mode == mode_fail_after) REAL(sqlite3_step)(statement);
  return fault_page->error;
}

int sqlite3_exec(struct sqlite3* database, const char* text, row_callback row, void* argument, char** words) {
  if (!database_fails(CALLER)) return REAL(sqlite3_exec)(database, text, row, argument, words);
  if (fault_page->mode == mode_fail_after) REAL(sqlite3_exec)(database, text, row, argument, words);
  return fault_page->error;
}
