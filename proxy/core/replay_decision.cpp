#include "proxy/core/replay_decision.h"

#include <algorithm>
#include <map>
#include <optional>

namespace acp {
namespace {

using Places = std::map<Fingerprint, std::size_t>;  // where in the replay an id stands

Places places_of(const Replay& replay) {
  Places places;
  for (std::size_t i = 0; i < replay.messages.size(); ++i) places.emplace(replay.messages[i].id, i);
  return places;
}

// What was there before a prompt was sent, found again in the replay.
struct Before {
  bool proves = false;    // enough of it was found to know where the new begins
  std::size_t floor = 0;  // the replay's messages from here on may be new
};

Before before(const BaseLine& base, const Places& places, std::uint64_t sent_at) {
  bool any = false;
  bool recognized = base.seen.empty();
  std::optional<std::size_t> last;
  for (const SeenMessage& seen : base.seen) {
    const auto found = places.find(seen.id);
    recognized = recognized || found != places.end();
    if (seen.seen_at >= sent_at) continue;
    any = true;
    if (found != places.end() && (!last || found->second > *last)) last = found->second;
  }
  // A replay is in order: one message that is known again is enough.
  if (last) return {true, *last + 1};
  // If nothing that is known came, the rest may still come, or all ids are new.
  return {base.is_complete && !any && recognized, 0};
}

// A known message that the replay lacks could be there under another id.
bool may_be_renamed(const BaseLine& base, const Places& places, std::uint64_t sent_at,
                    const Fingerprint& content) {
  return std::any_of(base.seen.begin(), base.seen.end(), [&](const SeenMessage& seen) {
    return (seen.is_given || seen.seen_at < sent_at) && !places.contains(seen.id) &&
           (!seen.is_content_known || seen.content == content);
  });
}

bool is_old_or_given(const BaseLine& base, const Fingerprint& id, std::uint64_t sent_at) {
  return std::any_of(base.seen.begin(), base.seen.end(), [&](const SeenMessage& seen) {
    return seen.id == id && (seen.is_given || seen.seen_at < sent_at);
  });
}

// Of prompts that say the same fewer messages were found than there are prompts. Agents take them in order,
// so the first ones have them; unless one of these may be the missing one.
bool is_doubtful(std::span<const LostPrompt> prompts, const std::vector<Before>& befores, std::size_t which) {
  bool unproven = false;
  bool skippable = false;
  bool missing = false;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    if (prompts[p].content != prompts[which].content) continue;
    const bool found = prompts[p].fate == PromptFate::inserted;
    unproven = unproven || !befores[p].proves;
    skippable = skippable || (found && p <= which && prompts[p].may_be_skipped);
    missing = missing || !found;
  }
  return (unproven && prompts[which].fate == PromptFate::inserted) || (skippable && missing);
}

}  // namespace

void decide_prompts(const BaseLine& base, const Replay& replay, std::span<LostPrompt> prompts) {
  const Places places = places_of(replay);
  std::vector<bool> taken(replay.messages.size());
  std::vector<Before> befores;
  for (LostPrompt& prompt : prompts) {
    prompt.fate = PromptFate::unknown;
    befores.push_back(replay.proves() ? before(base, places, prompt.sent_at) : Before{});
    if (!befores.back().proves) continue;
    for (std::size_t i = befores.back().floor; i < replay.messages.size(); ++i) {
      const ReplayedMessage& message = replay.messages[i];
      if (taken[i] || message.content != prompt.content || is_old_or_given(base, message.id, prompt.sent_at))
        continue;
      if (may_be_renamed(base, places, prompt.sent_at, message.content)) break;
      prompt.fate = PromptFate::inserted;
      prompt.message = i;
      taken[i] = true;
      break;
    }
  }
  std::vector<bool> doubtful(prompts.size());
  for (std::size_t p = 0; p < prompts.size(); ++p) doubtful[p] = is_doubtful(prompts, befores, p);
  for (LostPrompt& prompt : prompts) {
    if (!prompt.is_live || prompt.fate != PromptFate::inserted) continue;
    prompt.fate = PromptFate::unknown;
    taken[prompt.message] = false;  // it explains nothing: the message may as well be another's
  }
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    LostPrompt& prompt = prompts[p];
    if (doubtful[p]) prompt.fate = PromptFate::unknown;
    const bool decided = doubtful[p] || prompt.is_live || prompt.fate == PromptFate::inserted;
    if (decided || !befores[p].proves || prompt.is_command) continue;
    bool unexplained = false;
    for (std::size_t i = befores[p].floor; i < replay.messages.size(); ++i) {
      unexplained =
          unexplained || (!taken[i] && !is_old_or_given(base, replay.messages[i].id, prompt.sent_at));
    }
    if (!unexplained) prompt.fate = PromptFate::absent;
  }
}

MessageJudge::MessageJudge(const BaseLine& base, const Replay& replay, std::span<const LostPrompt> prompts)
    : proves_(replay.proves()) {
  std::vector<bool> explained(replay.messages.size());
  for (const LostPrompt& prompt : prompts) {
    if (prompt.fate == PromptFate::inserted) explained[prompt.message] = true;
  }
  std::set<Fingerprint> given;
  bool recognized = false;
  for (const ReplayedMessage& message : replay.messages) there_.insert(message.id);
  for (const SeenMessage& seen : base.seen) {
    recognized = recognized || there_.contains(seen.id);
    if (seen.is_given) given.insert(seen.id);
  }
  proves_ = proves_ && recognized;
  // What was said to be there while the replay was on its way may be younger than it.
  for (const SeenMessage& seen : base.seen) {
    if (seen.seen_at > replay.begun_at) there_.insert(seen.id);
  }
  // One that was only seen could be the remembered one under an id that the agent gave it when it stored it.
  for (std::size_t i = 0; i < replay.messages.size(); ++i) {
    if (!explained[i] && !given.contains(replay.messages[i].id))
      unexplained_.insert(replay.messages[i].content);
  }
}

MessageFate MessageJudge::judge(const Fingerprint& id, const Fingerprint& content) const {
  if (there_.contains(id)) return MessageFate::there;
  const bool may_be_renamed = unexplained_.contains(content) || unexplained_.contains(Fingerprint{});
  return proves_ && !may_be_renamed ? MessageFate::gone : MessageFate::unknown;
}

}  // namespace acp
