// What a simulated agent leaves behind when its process dies: sessions, their history, and everything it ever
// did.
//
// Invariant: only a living AgentLife writes to it; `acts` is the record that counts for "how often did it
// act", not what was sent. Lifetime: one history, over all its epochs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace acp::sim {

inline constexpr int modes_count = 4;
inline constexpr int options_count = 2;

struct DiskMessage {
  int number;           // its messageId is "m<number>"
  std::string content;  // the prompt, raw
};

struct DiskSession {
  bool exists = true;
  int mode = 0;
  std::array<int, options_count> options{};
  std::vector<DiskMessage> messages;
  std::vector<std::pair<std::string, int>> keys;  // honoured ones: raw token, message
};

struct Disk {
  std::vector<DiskSession> sessions;             // "s<index>"
  std::vector<std::vector<std::uint32_t>> acts;  // by tag: the epoch of each time it acted
  int next_message = 0;
  int next_serial = 0;  // of updates and of what is asked of the client, over all epochs
  bool logged_in = true;

  std::size_t times_acted(int tag) const noexcept {
    const auto at = static_cast<std::size_t>(tag);
    return tag >= 0 && at < acts.size() ? acts[at].size() : 0;
  }
  void act(int tag, std::uint32_t epoch) {
    if (tag < 0) return;
    const auto at = static_cast<std::size_t>(tag);
    if (acts.size() <= at) acts.resize(at + 1);
    acts[at].push_back(epoch);
  }
};

}  // namespace acp::sim
