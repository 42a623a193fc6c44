#include "tests/agents/wire.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <unistd.h>

namespace acp::test_agent {
namespace {

constexpr std::size_t read_bytes = 64 * 1024;

// A kill may cut the last entry off: what follows begins a line all the same.
void end_line(int log_file) {
  const off_t size = ::lseek(log_file, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(log_file, &last, 1, size - 1) != 1) return;
  if (last != '\n' && ::write(log_file, "\n", 1) != 1) return;
}

}  // namespace

Wire::Wire(FaultPlan& faults, const std::string& log_path, bool clocked)
    : faults_(faults), clocked_(clocked) {
  if (!log_path.empty()) log_file_ = ::open(log_path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log_file_ >= 0) end_line(log_file_);
  output_flags_ = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (output_flags_ >= 0) ::fcntl(STDOUT_FILENO, F_SETFL, output_flags_ | O_NONBLOCK);
  faults_.reach(FaultPoint::start);
  faults_.moved(FaultPoint::input, 0);
  faults_.moved(FaultPoint::output, 0);
}

Wire::~Wire() {
  if (output_flags_ >= 0) ::fcntl(STDOUT_FILENO, F_SETFL, output_flags_);
  if (log_file_ >= 0) ::close(log_file_);
}

void Wire::log(char direction, std::string_view line) {
  if (log_file_ < 0) return;
  std::string entry(1, direction);
  if (clocked_) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    entry += std::to_string(std::chrono::nanoseconds(now).count()) + ' ';
  }
  entry.append(line).push_back('\n');
  for (std::size_t done = 0; done < entry.size();) {
    const ssize_t count = ::write(log_file_, entry.data() + done, entry.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

void Wire::send(std::string line, std::string answered) {
  if (output_broken_) return;
  line.push_back('\n');
  backlog_ += line.size();
  queue_.push_back(Frame{std::move(line), std::move(answered)});
}

void Wire::send_part(std::string bytes) {
  if (output_broken_ || bytes.empty()) return;
  backlog_ += bytes.size();
  const bool whole = bytes.back() == '\n';
  queue_.push_back(Frame{std::move(bytes), {}, 0, false, whole});
}

void Wire::read(std::vector<std::string>& lines) {
  const std::size_t wanted = std::max<std::size_t>(1, faults_.allowance(FaultPoint::input, read_bytes));
  char buffer[read_bytes];
  const ssize_t count = ::read(STDIN_FILENO, buffer, wanted);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    at_end_ = true;
    if (!rest_.empty()) {
      log('<', rest_);
      lines.push_back(std::move(rest_));
    }
    return;
  }
  faults_.moved(FaultPoint::input, static_cast<std::size_t>(count));
  std::string_view bytes(buffer, static_cast<std::size_t>(count));
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    rest_.append(bytes.substr(0, end));
    log('<', rest_);
    lines.push_back(std::move(rest_));
    rest_.clear();
    bytes.remove_prefix(end + 1);
  }
  rest_.append(bytes);
}

void Wire::begin_frame(const Frame& frame) {
  faults_.reach(FaultPoint::write);
  if (!frame.answered.empty()) faults_.reach(FaultPoint::answer, frame.answered);
}

void Wire::end_frame(const Frame& frame) {
  if (log_file_ >= 0 && frame.whole) {
    std::string_view lines(frame.bytes);
    while (!lines.empty()) {
      const std::size_t end = lines.find('\n');
      log('>', lines.substr(0, end));
      lines.remove_prefix(end + 1);
    }
  }
  faults_.reach(FaultPoint::written);
  if (!frame.answered.empty()) faults_.reach(FaultPoint::answered, frame.answered);
}

void Wire::flush() {
  while (!queue_.empty()) {
    Frame& frame = queue_.front();
    if (!frame.begun) begin_frame(frame);
    frame.begun = true;
    const std::size_t left = frame.bytes.size() - frame.written;
    const std::size_t wanted = std::max<std::size_t>(1, faults_.allowance(FaultPoint::output, left));
    const ssize_t count = ::write(STDOUT_FILENO, frame.bytes.data() + frame.written, wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) {
      output_broken_ = true;
      queue_.clear();
      backlog_ = 0;
      return;
    }
    frame.written += static_cast<std::size_t>(count);
    backlog_ -= static_cast<std::size_t>(count);
    faults_.moved(FaultPoint::output, static_cast<std::size_t>(count));
    if (frame.written < frame.bytes.size()) continue;
    const Frame done = std::move(queue_.front());
    queue_.pop_front();
    end_frame(done);
  }
}

void Wire::close_input() {
  perform(FaultAction{FaultAction::Kind::close_stdin, 0});
  input_closed_ = true;
}

void Wire::close_output() { perform(FaultAction{FaultAction::Kind::close_stdout, 0}); }

}  // namespace acp::test_agent
