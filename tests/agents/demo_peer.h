// The client's end of one child process that speaks ACP on its stdio: frames out, frames in, a clean end.
//
// Invariant: every wait ends, by what is waited for, by the child's end or at the deadline (never by a pause
// of a fixed length). Lifetime: the destructor ends and reaps a child that is still there.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "tests/agents/raw_frame.h"

namespace acp::demo {

using test_agent::Json;

class Peer {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Starts a command, its stderr going to a file, with these environment variables added.
  Peer(const std::vector<std::string>& command, const std::string& stderr_path, const Variables& environment);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Writes one frame and its line feed.
  void send(const Json& frame);
  // The next frame, or nothing: the child closed its output, or said nothing for `patience`.
  std::optional<Json> receive(std::chrono::milliseconds patience = std::chrono::seconds(15));
  // Whether a frame is there already.
  bool has_frame();
  // Closes the child's stdin and waits for its end. Its exit status (128 + signal), or nothing: still there
  // at the deadline.
  std::optional<int> finish(std::chrono::milliseconds patience = std::chrono::seconds(15));

 private:
  bool fill(int timeout_ms);

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string rest_;
};

// Makes this process the one that orphaned descendants come to, so that none can hide.
void adopt_orphans();
// Reaps whatever descends from this process until nothing is left. The pids still alive at the deadline.
std::vector<pid_t> remaining_processes(std::chrono::milliseconds patience);

}  // namespace acp::demo
