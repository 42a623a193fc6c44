// The last lines that an agent wrote to its stderr: what its death is explained with.
//
// Invariant: at most limits::stderr_tail_lines_max lines of limits::stderr_tail_line_bytes_max bytes are
// held, whatever comes. Lifetime: one for each epoch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "proxy/core/limits.h"

namespace acp {

class StderrTail {
 public:
  // `lines_max`: 0 (nothing is kept) to limits::stderr_tail_lines_max; more counts as that.
  explicit StderrTail(std::size_t lines_max) noexcept
      : lines_max_(std::min(lines_max, limits::stderr_tail_lines_max)) {}

  void add(std::string_view bytes);
  // The lines held, oldest first, joined by LF; terminal control sequences are cut out.
  std::string text() const;
  void clear() noexcept {
    lines_.clear();
    open_.clear();
  }

 private:
  void end_line();

  std::size_t lines_max_;
  std::deque<std::string> lines_;
  std::string open_;  // the line that has no LF yet
};

}  // namespace acp
