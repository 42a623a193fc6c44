#include "proxy/shell/stderr_writer.h"

#include <algorithm>
#include <cstdio>

#include "proxy/core/limits.h"

namespace acp::shell {

StderrWriter::StderrWriter(uv_loop_t* loop, int number)
    : writer_(loop, {[this](std::size_t bytes) { on_backlog(bytes); }, nullptr, nullptr}) {
  writer_.open_inherited(number);
}

// The part of `bytes` that there is room for; the rest is counted. Once something was dropped, everything is
// until half of the room is free, so that there are few gaps and each one is said.
std::string_view StderrWriter::admit(std::string_view bytes) {
  const std::size_t kept = writer_.backlog() + waiting_;
  const std::size_t room =
      dropped_ > 0 ? 0 : limits::stderr_backlog_bytes_max - std::min(kept, limits::stderr_backlog_bytes_max);
  const std::string_view taken = bytes.substr(0, room);
  dropped_ += bytes.size() - taken.size();
  if (!taken.empty()) at_line_start_ = taken.back() == '\n';
  waiting_ += taken.size();
  return taken;
}

void StderrWriter::pass(std::string_view bytes) { writer_.send(admit(bytes)); }

void StderrWriter::line(std::string_view text) {
  if (!at_line_start_) writer_.send(admit("\n"));
  writer_.send(admit(text));
  flush();
}

void StderrWriter::flush() {
  waiting_ = 0;
  writer_.flush();
}

void StderrWriter::on_backlog(std::size_t bytes) {
  if (dropped_ > 0 && bytes < limits::stderr_backlog_bytes_max / 2) say_dropped();
}

void StderrWriter::say_dropped() {
  char text[96];
  const int size = std::snprintf(text, sizeof text, "%skeyhop: %llu bytes of stderr dropped\n",
                                 at_line_start_ ? "" : "\n", static_cast<unsigned long long>(dropped_));
  dropped_ = 0;
  at_line_start_ = true;
  writer_.send({text, static_cast<std::size_t>(size)});
  writer_.flush();
}

}  // namespace acp::shell
