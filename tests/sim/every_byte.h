// Recorded dialogues, killed at every byte: of what the agent writes and of what it is sent.
//
// A dialogue is a file of lines: `set …` (the agent, keyhop's settings), then `C> LINE` and `A> LINE` in the
// order of the recording. For every n the first process writes n bytes of its recorded output (or takes n
// bytes of its input) and dies; another process of the same agent goes on over the same disk. Counted are the
// three zeros: what acted twice and must not, answers lost or doubled, requests that hang. Lifetime: none.
#pragma once

#include <cstdint>
#include <string>

namespace acp::sim {

struct ByteReport {
  std::uint64_t dialogues = 0;
  std::uint64_t output_bytes = 0;  // deaths after so many bytes written, summed over the dialogues
  std::uint64_t input_bytes = 0;   // ... taken
  std::uint64_t duplicates = 0;
  std::uint64_t wrong_answers = 0;
  std::uint64_t hung = 0;
  std::string failure;  // the first one, in words; empty: none
};

// Runs every dialogue of the directory on `jobs` threads.
ByteReport kill_at_every_byte(const std::string& directory, unsigned jobs);

// Writes the agent's half of every dialogue there anew, from what the simulated agent says.
bool record_dialogues(const std::string& directory);

}  // namespace acp::sim
