// What one history is about: its settings, and which kinds of event it may hold ("swarm": each seed switches
// kinds off, so that rare ones are not always drowned by common ones).
//
// Invariant: a plan depends on its seed only. Lifetime: plain value, made before the first event.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/core/settings.h"
#include "tests/sim/prng.h"

namespace acp::sim {

enum class Kind : std::uint8_t {
  client_bad,      // lines of the client's that are no message
  agent_bad,       // noise, batches and broken messages of the agent's
  broken_answers,  // answers that end their request and cannot be used
  stray_answers,   // answers to nothing, second answers
  duplicates,      // the same keyed prompt again
  other_prompts,   // another prompt under a known key
  malformed_keys,  // keys outside the schema
  cancels,         // $/cancel_request both ways
  session_ends,    // close, delete, a new session of an old name
  id_clashes,      // ids that are open already, in any spelling
  agent_requests,  // permissions, elicitations
  agent_errors,    // errors for answers, another keyhop's too
  oversize,        // frames over the limit that can be told
  unreadable,      // frames over the limit that cannot
  splits,          // reads that end anywhere
  slow_readers,    // peers that read little
  cut_lines,       // a last line without its LF
  respelling,      // equal ids and keys written in another way
  stderr_words,    // the agent's stderr, with a key in it
  forward_keys,    // --keys=forward
  silence,         // --silence-timeout
  downgrade,       // the agent answers v1 to v2
  agent_exit,      // its process goes
  agent_eof,       // its stdout ends first
  agent_deaf,      // writing to it fails
  client_eof,      // the client's stream ends early
  client_lost,     // writing to the client fails
  signals,
  start_failure,
  stubborn,  // the agent does not go when its stdin ends
  count_,
};

struct Plan {
  std::bitset<static_cast<std::size_t>(Kind::count_)> kinds;
  int version = 2;
  std::size_t steps = 0;          // of the safety phase
  std::size_t backlog_scale = 1;  // bytes told for each byte that waits, so that small frames fill queues
  Settings settings;

  bool has(Kind kind) const noexcept { return kinds[static_cast<std::size_t>(kind)]; }
  static std::span<const std::string_view> kind_names() noexcept;
  // `off`: kinds that are switched off, whatever was drawn.
  explicit Plan(Prng& random, Kinds off = {});
};

}  // namespace acp::sim
