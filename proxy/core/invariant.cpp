#include "proxy/core/invariant.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace acp {

void invariant_failed(const char* condition, const char* file, int line) noexcept {
  char text[512];
  const int length = std::snprintf(text, sizeof text, "keyhop: internal error: %s does not hold (%s:%d)\n",
                                   condition, file, line);
  if (length > 0) {
    // Straight to the descriptor: whatever broke, this needs no buffer and no lock.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, static_cast<size_t>(length));
  }
  ::_exit(70);
}

}  // namespace acp
