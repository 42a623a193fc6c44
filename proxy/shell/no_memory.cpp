#include "proxy/shell/no_memory.h"

#include <csignal>
#include <cstdlib>
#include <new>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <uv.h>

namespace acp::shell {
namespace {

constexpr int exit_internal = 70;  // EX_SOFTWARE of sysexits

// Straight to the descriptor: this needs no memory and no lock. A stderr that nobody reads is not waited for.
[[noreturn]] void end(std::string_view words) noexcept {
  pollfd errors{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&errors, 1, 0) == 1) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, words.data(), words.size());
  }
  ::_exit(exit_internal);
}

[[noreturn]] void end_without_memory() noexcept { end("keyhop: out of memory\n"); }

[[noreturn]] void end_aborted(int) noexcept { end("keyhop: internal error: a library gave up\n"); }

void* checked(void* memory) noexcept {
  if (memory == nullptr) end_without_memory();
  return memory;
}

}  // namespace

NoMemory::NoMemory() noexcept {
  std::set_new_handler(end_without_memory);
  // Never asked for nothing, so null always means that there is none.
  uv_replace_allocator([](std::size_t size) { return checked(std::malloc(size)); },
                       [](void* old, std::size_t size) { return checked(std::realloc(old, size)); },
                       [](std::size_t count, std::size_t size) { return checked(std::calloc(count, size)); },
                       std::free);
  std::signal(SIGABRT, end_aborted);
}

}  // namespace acp::shell
