// What every world does alike when it drives a relay: time passes, and bytes become lines.
//
// Invariant: none of their own. Lifetime: functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "proxy/core/relay.h"

namespace acp::sim {

// `duration` passes. Each deadline of the relay's in it is reached at its own instant, while `goes_on()`.
template <class GoesOn, class Reach>
void pass_time(const Relay& relay, Instant& now, Duration duration, GoesOn goes_on, Reach reach) {
  const Instant end = now + duration;
  while (goes_on()) {
    const auto deadline = relay.next_deadline();
    if (!deadline || *deadline > end) break;
    now = std::max(now, *deadline);
    reach();
  }
  now = end;
}

// Calls `visit(line)` for each line that is whole with the bytes behind `rest`; what is begun stays in it.
template <class Visit>
void for_each_line(std::string& rest, std::string_view bytes, Visit visit) {
  rest += bytes;
  std::size_t done = 0;
  for (std::size_t lf = rest.find('\n'); lf != std::string::npos; lf = rest.find('\n', done)) {
    visit(std::string_view(rest).substr(done, lf - done));
    done = lf + 1;
  }
  rest.erase(0, done);
}

}  // namespace acp::sim
