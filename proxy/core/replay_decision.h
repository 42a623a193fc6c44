// What became of prompts whose answer was lost, read from the history that the agent shows afterwards.
//
// One pure decision. A prompt can only be claimed inserted by a message that appeared after it was sent, that
// no answer gave to another prompt, and that says the same; it is absent only if the history proves that
// nothing unexplained is in it. Everything else is unknown: a wrong "absent" would run work twice, a wrong
// "inserted" would lose it. Lifetime: pure functions over the caller's values.
//
// Why it holds: ACP v2, "a retained message keeps its ID on replay", and a replay is in the order of the
// conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "proxy/core/salted_hash.h"
#include "proxy/core/saved.h"

namespace acp {

// A user message that keyhop saw: in an answer, in an update, in a replay.
struct SeenMessage {
  Fingerprint id;
  Fingerprint content{};
  bool is_content_known = false;
  bool is_given = false;      // an answer gave it to a prompt: it is no other prompt's
  std::uint64_t seen_at = 0;  // its place in the session's order of messages and prompts
  Saved saved = {};
};

// The user messages of a replay, in their order.
struct ReplayedMessage {
  Fingerprint id;
  Fingerprint content{};  // all zero: it is not known what the message says
  std::string token;      // the id, raw
};
struct Replay {
  // The agent showed that it had finished (a state_update or replay_complete before its answer).
  bool is_finished = false;
  bool is_cut = false;  // a part is missing: it was too long to keep, or could not be read
  bool proves() const noexcept { return is_finished && !is_cut; }
  std::vector<ReplayedMessage> messages;
  std::uint64_t begun_at = UINT64_MAX;  // the last place in the order when it began to be read
};

enum class PromptFate : std::uint8_t { unknown, inserted, absent };

struct LostPrompt {
  Fingerprint content{};
  std::uint64_t sent_at = 0;
  bool is_command = false;  // run and not stored by many agents: its absence proves nothing
  // It was cancelled, or is of an earlier epoch than others: they may have been taken in without it.
  bool may_be_skipped = false;
  // Its answer may still come: a message may be its, so it takes part in the matching; of itself nothing is
  // decided.
  bool is_live = false;
  PromptFate fate = PromptFate::unknown;
  std::size_t message = 0;  // inserted: which of the replay's
};

// What the session's messages are known to be. `seen` in the order of seen_at; `is_complete`: there are no
// others.
struct BaseLine {
  std::span<const SeenMessage> seen;
  bool is_complete = false;
};

// Decides every prompt; `prompts` in the order in which they were sent.
void decide_prompts(const BaseLine& base, const Replay& replay, std::span<LostPrompt> prompts);

// Whether a message that an answer once named is still there.
enum class MessageFate : std::uint8_t {
  there,
  gone,     // the agent has forgotten it: so may everyone
  unknown,  // not there, but the replay proves nothing, or an unexplained message says the same
};
// Judges message ids one by one against one replay, which must outlive it.
class MessageJudge {
 public:
  // `prompts`: as decide_prompts() left them.
  MessageJudge(const BaseLine& base, const Replay& replay, std::span<const LostPrompt> prompts);
  // `content`: what the message says.
  MessageFate judge(const Fingerprint& id, const Fingerprint& content) const;

 private:
  bool proves_;
  std::set<Fingerprint> there_;
  std::set<Fingerprint> unexplained_;  // contents of messages that nobody's answer named
};

}  // namespace acp
