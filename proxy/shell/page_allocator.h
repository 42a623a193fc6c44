// Memory for the watchdog, straight from the kernel.
//
// The watchdog is a fork of a process that has threads, and never executes another program. Whatever lock a
// thread held in that moment stays locked in it: also one of the allocator's, unless the allocator cares
// about forks, which glibc's does and many that people preload do not. So what runs in the watchdog uses no
// malloc. Invariant: each block is its own mapping, so few and long-lived blocks only. Lifetime: no state.
#pragma once

#include <cstddef>
#include <exception>
#include <sys/mman.h>
#include <vector>

namespace acp::shell {

template <class Type>
struct PageAllocator {
  using value_type = Type;

  PageAllocator() noexcept = default;
  template <class Other>
  PageAllocator(const PageAllocator<Other>&) noexcept {}

  // Ends the process if there is no memory: nothing is above it to be told.
  Type* allocate(std::size_t count) {
    void* const pages =
        ::mmap(nullptr, count * sizeof(Type), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) std::terminate();
    return static_cast<Type*>(pages);
  }
  void deallocate(Type* pages, std::size_t count) noexcept { ::munmap(pages, count * sizeof(Type)); }

  friend bool operator==(const PageAllocator&, const PageAllocator&) noexcept { return true; }
};

// Grows by a mapping each time: keep it and use its memory again.
template <class Type>
using PageVector = std::vector<Type, PageAllocator<Type>>;

}  // namespace acp::shell
