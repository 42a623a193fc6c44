// The command line of the test agent.
//
// Invariant: what parse_options() returns is complete and consistent; a wrong line is refused with words that
// name the option. Lifetime: plain values.
#pragma once

#include <string>
#include <vector>

#include "tests/agents/fault_plan.h"
#include "tests/agents/personality.h"

namespace acp::test_agent {

struct Options {
  Personality personality;
  FaultPlan faults;
  std::size_t fault_times = 0;  // 0: every process anew
  std::string history;          // directory; empty: memory only
  std::string wire;             // file; empty: none
  bool wire_clock = false;
  bool sync = true;  // fsync before an effect is acknowledged
  bool help = false;
};

// Reads the arguments behind the program's name. On a mistake `error` says what is wrong with which option.
Options parse_options(const std::vector<std::string>& arguments, std::string& error);

// The text of --help: every option, order, point and extension method.
const char* help_text();

}  // namespace acp::test_agent
