// How one test agent behaves, apart from faults: which protocol it speaks, whether it knows keys, how it
// echoes, stores and replays.
//
// Invariant: fixed after the command line was read, but for the counts of the method rules. Lifetime: the
// process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acp::test_agent {

using Milliseconds = std::chrono::milliseconds;

enum class Keys : std::uint8_t { honour, ignore };
// When the live echo of a user message is sent: before or after the prompt's answer, at the end of the turn,
// never.
enum class Echo : std::uint8_t { before, after, late, none };

// Ways in which an agent that honours keys gets it wrong, one for each duty that a conformance check looks
// at.
struct KeyFlaws {
  bool memory = false;      // keys are not stored: forgotten at a restart
  bool global = false;      // a key of one session is recognized in another
  bool lenient = false;     // a malformed key is treated as absent
  bool bytes = false;       // the length limit counts bytes, not characters
  bool no_join = false;     // a held prompt with the same key is held again and inserted twice
  bool no_compare = false;  // the same key with another prompt is answered as a retry (which ACP allows)
  bool sticky = false;      // an error answer uses the key up: the retry gets the same error
  bool leak = false;        // updates carry the key in `_meta`
  bool fork = false;        // a fork inherits the keys of its source
};

// METHOD[@TIMES][/EPOCH]: applies to the first TIMES requests of the method in this process (0: to all), in
// the starts of the agent from EPOCH on.
struct MethodRule {
  std::string method;
  int code = 0;
  std::uint64_t times = 0;
  std::uint64_t epoch_min = 0;
  std::uint64_t applied = 0;
};
std::optional<MethodRule> parse_method_rule(std::string_view text, bool with_code);
// The first rule that applies to this request, counted as applied; or null.
MethodRule* applying_rule(std::vector<MethodRule>& rules, std::string_view method, std::uint64_t epoch);

struct Personality {
  std::string name = "keyhop-test-agent";
  bool speaks_v1 = true;
  bool speaks_v2 = true;
  Keys keys = Keys::ignore;
  KeyFlaws flaws;
  Echo echo = Echo::after;
  bool chunked_echo = false;
  bool can_replay = true;
  bool forget_unsaved = false;
  bool forget_settings = false;
  bool rewrite_content = false;
  bool replay_complete = false;
  bool v1_message_ids = false;
  bool can_resume = true;
  bool can_load = true;
  bool needs_login = false;
  bool null_results = false;
  bool refuse_during_work = false;
  bool string_ids = false;
  bool ignore_cancel = false;
  bool ignore_eof = false;
  bool ignore_term = false;
  std::string fixed_session;  // every session/new returns this id
  std::uint64_t chunks = 1;
  Milliseconds slow_start{0};
  Milliseconds insert_delay{0};
  Milliseconds turn{0};
  Milliseconds linger{0};
  std::uint64_t stderr_noise_bytes = 0;
  std::uint64_t offspring_seconds = 120;
  std::vector<MethodRule> refused;
  std::vector<MethodRule> left_open;
};

}  // namespace acp::test_agent
