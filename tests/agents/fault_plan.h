// Faults by count: `--fault POINT[:METHOD]@COUNT[/EPOCH]=ACTION` strikes when the process reaches a point for
// the COUNT-th time. Text orders in a prompt are in orders.h; this is for everything that no prompt can name.
//
// Invariant: counting starts at 0 in every process; only `times` looks further, through a file in the history
// directory that is written and synced before the fault strikes. Lifetime: the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acp::test_agent {

enum class FaultPoint : std::uint8_t {
  start,     // before the first byte is read
  input,     // after COUNT bytes were read, nothing of the frame that they end is acted on
  read,      // the COUNT-th frame was read and is not acted on
  acted,     // the COUNT-th frame was acted on; its answer may wait in the queue, unwritten
  insert,    // before the COUNT-th insertion of a prompt
  inserted,  // after it, durable
  answer,    // before the first byte of the COUNT-th answer is written
  answered,  // after its last byte
  write,     // as `answer`, counted over all frames
  written,   // as `answered`, counted over all frames
  output,    // after COUNT bytes of output
};

struct FaultAction {
  enum class Kind : std::uint8_t { exit, kill, stall, close_stdout, close_stdin, shoot };
  Kind kind = Kind::exit;
  int value = 0;            // exit code, or signal number
  std::string record = {};  // shoot: names the other process in its last line "= PID …"
};

// Carries out an action. Returns only for close_stdout and close_stdin (the peer sees the end of that pipe,
// the descriptor itself becomes /dev/null) and for shoot (the other process is dead then, of SIGKILL). A
// stalled process keeps its descriptors, reads and writes nothing, and dies of SIGTERM.
void perform(const FaultAction& action);

// An action as `exit CODE`, `kill SIG`, `stall`, `close_stdout`, `close_stdin`, `shoot RECORD`. SIG is a
// number, KILL, TERM, SEGV or ABRT.
std::optional<FaultAction> parse_action(std::string_view text);

class FaultPlan {
 public:
  // Adds one `POINT[:METHOD]@COUNT[/EPOCH]=ACTION`. False: not of that form.
  bool add(std::string_view spec);

  // How often each fault may strike over all processes that share `path`. 0: without limit.
  void limit(std::size_t times, std::string path);
  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

  // Counts one passage of a point and strikes what is due.
  void reach(FaultPoint point, std::string_view method = {});

  // Whether a fault closed stdin. Its end is no end of the client then.
  bool stdin_closed() const { return stdin_closed_; }

  // How many of `wanted` bytes may be moved before the next byte fault of that point is due.
  std::size_t allowance(FaultPoint point, std::size_t wanted) const;
  // Counts moved bytes and strikes if a fault is due exactly now.
  void moved(FaultPoint point, std::size_t bytes);

 private:
  struct Fault {
    std::string spec;
    FaultPoint point = FaultPoint::start;
    std::string method;           // empty: every method
    std::uint64_t count = 1;      // strikes at this passage
    std::uint64_t epoch_min = 0;  // and only from this start of the agent on
    FaultAction action;
    std::uint64_t passed = 0;
    bool spent = false;
  };
  void strike(Fault& fault);

  std::vector<Fault> faults_;
  std::size_t times_ = 0;
  std::string path_;
  std::uint64_t epoch_ = 1;
  bool stdin_closed_ = false;
};

}  // namespace acp::test_agent
