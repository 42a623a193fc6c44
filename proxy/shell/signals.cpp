#include "proxy/shell/signals.h"

#include <signal.h>

namespace acp::shell {
namespace {

constexpr std::array<int, 6> watched = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};

bool stays_ignored(int number) {
  if (number != SIGINT && number != SIGHUP) return false;
  struct sigaction present {};
  return ::sigaction(number, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals(uv_loop_t* loop, std::function<void(int)> received) : received_(std::move(received)) {
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, nullptr);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (std::size_t index = 0; index < watched.size(); ++index) {
    const int number = watched[index];
    ::sigaddset(&wanted, number);
    if (stays_ignored(number)) continue;
    const int status =
        handles_[index].open(this, [&](uv_signal_t* handle) { return uv_signal_init(loop, handle); });
    if (status < 0) continue;
    uv_signal_start(
        handles_[index].get(),
        [](uv_signal_t* handle, int which) noexcept {
          static_cast<Signals*>(handle->data)->received_(which);
        },
        number);
  }
  // Whoever started keyhop may have blocked them.
  ::sigprocmask(SIG_UNBLOCK, &wanted, nullptr);
}

}  // namespace acp::shell
