#include "proxy/core/stderr_tail.h"

#include <algorithm>

#include "proxy/core/limits.h"

namespace acp {
namespace {

// Without escape sequences (ESC [ … letter, ESC x) and other control characters but tabs.
std::string printable(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\x1B') {
      if (i + 1 < line.size() && line[i + 1] == '[') {
        ++i;
        while (i + 1 < line.size() && (line[i + 1] < '@' || line[i + 1] > '~')) ++i;
      }
      ++i;
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

void StderrTail::add(std::string_view bytes) {
  if (lines_max_ == 0) return;
  while (!bytes.empty()) {
    const std::size_t length = std::min(bytes.find('\n'), bytes.size());
    const std::size_t room =
        limits::stderr_tail_line_bytes_max - std::min(open_.size(), limits::stderr_tail_line_bytes_max);
    open_.append(bytes.substr(0, std::min(length, room)));
    if (length == bytes.size()) return;
    end_line();
    bytes.remove_prefix(length + 1);
  }
}

void StderrTail::end_line() {
  if (open_.find_first_not_of(" \t\r") == std::string::npos) {
    open_.clear();
    return;
  }
  if (lines_.size() == lines_max_) {
    // Reuse the oldest line's memory for the newest.
    lines_.front().swap(open_);
    lines_.push_back(std::move(lines_.front()));
    lines_.pop_front();
  } else {
    lines_.push_back(open_);
  }
  open_.clear();
}

std::string StderrTail::text() const {
  std::string out;
  const bool has_open = open_.find_first_not_of(" \t\r") != std::string::npos;
  const std::size_t skipped = lines_.size() + (has_open ? 1 : 0) > lines_max_ ? 1 : 0;
  const auto append = [&out](std::string_view line) {
    if (!out.empty()) out.push_back('\n');
    out += printable(line);
  };
  for (std::size_t i = skipped; i < lines_.size(); ++i) append(lines_[i]);
  if (has_open) append(open_);
  return out;
}

}  // namespace acp
