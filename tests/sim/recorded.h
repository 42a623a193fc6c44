// One recorded dialogue, and one run of it with a death at some byte.
//
// Invariant: the same dialogue with the same death is the same run. Lifetime: a Recorded is read once; a run
// lives in run_recorded().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "proxy/core/settings.h"
#include "tests/sim/lives_agent.h"

namespace acp::sim {

struct RecordedLine {
  bool by_client;
  std::string bytes;  // with its LF
};

struct Recorded {
  std::string name;
  std::vector<std::string> head;  // comments and settings, as they stand
  Personality person;
  Settings settings;
  bool crlf = false;  // the agent's lines end so
  bool bom = false;   // and its first line begins so
  std::vector<RecordedLine> lines;

  // False: a line that is none.
  bool read(const std::filesystem::path& path);
  std::string agents_half() const;
};

// Where the first process dies: after so many bytes of its output, or of its input.
struct Death {
  static constexpr std::size_t never = SIZE_MAX;
  std::size_t written = never;
  std::size_t taken = never;
};

struct RunReport {
  std::string output;  // of the first process
  std::size_t input = 0;
  std::vector<std::string> interleaved;  // every line of the first process, after the client's lines
  std::uint64_t duplicates = 0;
  std::uint64_t wrong_answers = 0;
  std::uint64_t hung = 0;
  std::string failure;  // the first invariant that broke, by its name, and how; empty: none
};

RunReport run_recorded(const Recorded& recorded, const Death& death);

}  // namespace acp::sim
