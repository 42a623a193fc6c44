// keyhop's stderr: the agent's words as they come, keyhop's own by the line, never waited for.
//
// Invariant: at most limits::stderr_backlog_bytes_max are kept for a reader that is slow; what does not fit
// is dropped and counted, and the count is said once there is room again. Write errors are silent: there is
// nowhere to tell them. Lifetime: owned by the Shell; dies before its loop.
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/shell/link.h"

namespace acp::shell {

class StderrWriter {
 public:
  // `number`: a descriptor that is shared with other processes.
  StderrWriter(uv_loop_t* loop, int number);

  // Raw bytes, valid until flush().
  void pass(std::string_view bytes);
  // One line of keyhop's own, with its LF; begins on a new line. Written (or kept) before this returns.
  void line(std::string_view text);
  void flush();

  std::size_t backlog() const noexcept { return writer_.backlog(); }
  bool ended() const noexcept { return writer_.ended(); }

 private:
  void on_backlog(std::size_t bytes);
  std::string_view admit(std::string_view bytes);
  void say_dropped();

  Writer writer_;
  std::size_t waiting_ = 0;  // given to the writer since the last flush
  std::uint64_t dropped_ = 0;
  bool at_line_start_ = true;
};

}  // namespace acp::shell
