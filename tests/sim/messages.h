// Generated messages across a relay, byte for byte.
//
// Messages with unknown members, numbers of any size and spelling, escapes, lone surrogates, from empty to
// very large, as requests, answers and notifications, both ways, in reads of any size. Where an id must
// differ, the span of the id is all that may. Lifetime: none.
#pragma once

#include <cstdint>
#include <string>

namespace acp::sim {

struct MessageReport {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::string failure;  // empty: all crossed
};

// Sends `count` messages, half of them each way, seeded by `seed`. One in a few thousand is of 1 to 8 MiB,
// and each call begins with one of 64 MiB less a little each way.
MessageReport cross_messages(std::uint64_t count, std::uint64_t seed);

}  // namespace acp::sim
