// A component of somebody's chain that changes nothing: what comes from its predecessor goes to its successor
// in an envelope, what comes in an envelope goes to the predecessor without it, answers go back.
//
// Invariant: method, params, result and error leave as the very bytes that came; only ids and the envelope
// are its own. Every answer goes to the request it belongs to, every cancel names the id of its own hop.
// Lifetime: the process; the wire must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tests/agents/raw_frame.h"
#include "tests/agents/wire.h"

namespace acp::test_agent {

enum class HopIds : std::uint8_t {
  keep,   // a request is passed on under the id that it came with
  fresh,  // under 0, 1, 2 …, so that equal ids are in use in both directions
  text,   // under strings
};

// What a request in the other spelling gets. Released components do all three.
enum class WrongSpelling : std::uint8_t {
  refuse,  // -32601
  pass,    // it goes on to the successor like any other method
  exit,    // the process ends with status 0, without an answer
};

struct HopOptions {
  std::string spelling = "proxy";  // in front of /initialize and /successor
  WrongSpelling wrong = WrongSpelling::refuse;
  bool wrapped_cancels = false;  // cancels what went in an envelope in an envelope, as SDKs before 5 do
  HopIds ids = HopIds::fresh;
  std::string name = "hop";  // part of its string ids
};

class PassThrough {
 public:
  PassThrough(HopOptions options, Wire& wire) : options_(std::move(options)), wire_(wire) {}

  // Takes one line from the conductor and queues what follows from it. A line that is no JSON-RPC message
  // is dropped: no peer of a test sends one without a reason, and the record has it.
  void take(std::string_view line);

 private:
  struct Sent {
    std::string id;  // as written
    bool wrapped = false;
  };
  struct Passed {
    std::string id;      // as the request came, and as its answer must go back
    std::string method;  // the carried one
  };
  void take_answer(std::string_view line, const RawFrame& frame);
  void take_plain(const RawFrame& frame, std::string_view method);
  void take_wrapped(const RawFrame& frame);
  void take_cancel(const RawFrame& frame);
  void take_wrong_spelling(const RawFrame& frame);
  void pass(const RawFrame& frame, std::string_view written_method, std::string_view params, bool wrapped);
  void refuse(const RawFrame& frame, const char* why);
  std::string own_id(std::string_view came);
  std::string with_predecessors_id(std::string_view params) const;

  HopOptions options_;
  Wire& wire_;
  std::uint64_t next_id_ = 0;
  std::unordered_map<std::string, Passed> passed_;  // by our id: requests that are not answered
  std::unordered_map<std::string, Sent> our_ids_;   // the same by the id they came with
};

}  // namespace acp::test_agent
