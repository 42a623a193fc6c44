// The agent's stdin and stdout: lines in, frames out, never blocking, so that a full pipe on one side does
// not stop the other. Fault points of bytes and frames are counted here.
//
// Invariant: frames leave in the order of send(), whole, unless a fault or send_part() cuts one.
// Lifetime: the process; stdout gets its blocking mode back in the destructor.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tests/agents/fault_plan.h"

namespace acp::test_agent {

class Wire {
 public:
  // `log_path`: every line as it came or went; empty for none. `clocked`: with the moment, see --help.
  Wire(FaultPlan& faults, const std::string& log_path, bool clocked);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Queues one frame and its line feed. `answered`: the method that this frame answers, if it is an answer.
  void send(std::string line, std::string answered = {});
  // Queues bytes as they are, without a line feed.
  void send_part(std::string bytes);

  // Reads what is there and appends whole lines, without LF, to `lines`. At the end of input an unterminated
  // rest is a line too, and at_end() becomes true.
  void read(std::vector<std::string>& lines);
  // Writes as much as the pipe takes.
  void flush();

  // A line that read() gave out is about to be acted on, or was acted on.
  void reach_frame(FaultPoint point, std::string_view method) { faults_.reach(point, method); }

  std::size_t backlog() const { return backlog_; }
  // The client closed our stdin.
  bool at_end() const { return at_end_; }
  bool reads() const { return !at_end_ && !input_closed_ && !faults_.stdin_closed(); }
  // The client does not read any more: what is sent goes nowhere.
  bool output_broken() const { return output_broken_; }
  // The agent's own doing: the client sees a closed pipe, the agent lives on.
  void close_input();
  void close_output();

 private:
  struct Frame {
    std::string bytes;
    std::string answered;
    std::size_t written = 0;
    bool begun = false;
    bool whole = true;  // ends with its line feed
  };
  void log(char direction, std::string_view line);
  void begin_frame(const Frame& frame);
  void end_frame(const Frame& frame);

  FaultPlan& faults_;
  std::deque<Frame> queue_;
  std::string rest_;  // input after the last LF
  std::size_t backlog_ = 0;
  int log_file_ = -1;
  bool clocked_ = false;
  int output_flags_ = -1;
  bool at_end_ = false;
  bool input_closed_ = false;
  bool output_broken_ = false;
};

}  // namespace acp::test_agent
