// Signals to keyhop, as calls from its loop.
//
// Invariant: SIGPIPE never kills; SIGINT and SIGHUP stay ignored where they were ignored at the start (nohup,
// a shell's background jobs); no handler does more than wake the loop. Lifetime: as long as the loop turns;
// one object a process.
#pragma once

#include <array>
#include <functional>

#include "proxy/shell/handle.h"

namespace acp::shell {

class Signals {
 public:
  // `received` gets the signal's number: INT, TERM, HUP, USR1, USR2 or CHLD.
  Signals(uv_loop_t* loop, std::function<void(int number)> received);
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  std::function<void(int)> received_;
  std::array<Handle<uv_signal_t>, 6> handles_;
};

}  // namespace acp::shell
