// What the replaced functions of fault_calls.c ask the plan.
//
// Invariant: nothing of this allocates once the program runs. Lifetime: the process's; forked children have
// it too, in a role of their own.
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/faults/fault_page.h"

// Who called the function that this stands in.
#define CALLER __builtin_return_address(0)
// The function that would have been called; found once.
#define REAL(name)                                                                    \
  __extension__({                                                                     \
    static __typeof__(&name) found;                                                   \
    if (found == NULL) found = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name); \
    found;                                                                            \
  })

// Not for the program to find.
#pragma GCC visibility push(hidden)
extern struct fault_page* fault_page;  // null: nothing is counted
extern enum fault_role fault_role;

// Counts a call. True, with errno set: it fails.
bool call_fails(enum fault_operation operation, const void* caller);
// The same for SQLite: the code to return is in the page.
bool database_fails(const void* caller);
// Counts a call that cannot fail; its number.
uint64_t fault_counted(enum fault_operation operation, enum fault_caller caller);
// Whether to take or give one byte only; and how many bytes, then.
bool fault_is_short(const void* caller);
size_t fault_size_of(size_t size, const void* caller);
#pragma GCC visibility pop
