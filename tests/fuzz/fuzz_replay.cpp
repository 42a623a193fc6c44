// What a replay proves: no message stands for two prompts, none for a prompt that says something else or was
// sent later, and nothing is absent where the replay proves nothing.
#include <set>

#include "proxy/core/replay_decision.h"
#include "tests/fuzz/input.h"

namespace {

namespace fuzz = acp::fuzz;

class Bytes {
 public:
  Bytes(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  std::size_t below(std::size_t bound) { return at_ < size_ ? bytes_[at_++] % bound : 0; }
  bool flag() { return below(2) == 1; }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_;
  std::size_t at_ = 0;
};

acp::Fingerprint print_of(std::size_t number) {
  acp::Fingerprint print{};
  print.bytes[0] = static_cast<std::uint8_t>(number + 1);
  return print;
}

struct Case {
  std::vector<acp::SeenMessage> seen;
  bool is_complete;
  acp::Replay replay;
  std::vector<acp::LostPrompt> prompts;
};

// Few contents and ids, so that they meet.
Case read_case(Bytes bytes) {
  Case made;
  std::uint64_t place = 0;
  made.is_complete = bytes.flag();
  std::set<std::size_t> known;
  for (std::size_t count = bytes.below(12); count > 0; --count) {
    ++place;
    if (bytes.flag()) {
      made.prompts.push_back({.content = print_of(bytes.below(3)),
                              .sent_at = place,
                              .is_command = bytes.below(8) == 0,
                              .may_be_skipped = bytes.flag(),
                              .is_live = bytes.below(8) == 1});
      continue;
    }
    const std::size_t id = bytes.below(8);
    if (!known.insert(id).second) continue;
    made.seen.push_back({.id = print_of(id),
                         .content = print_of(bytes.below(3)),
                         .is_content_known = bytes.flag(),
                         .is_given = bytes.flag(),
                         .seen_at = place});
  }
  made.replay.is_finished = bytes.below(4) != 0;
  made.replay.is_cut = bytes.below(8) == 0;
  std::set<std::size_t> shown;
  for (std::size_t count = bytes.below(10); count > 0; --count) {
    const std::size_t id = bytes.below(8);
    if (!shown.insert(id).second) continue;
    made.replay.messages.push_back({print_of(id), print_of(bytes.below(3)), "\"m\""});
  }
  return made;
}

const acp::SeenMessage* find(const Case& made, const acp::Fingerprint& id) {
  for (const acp::SeenMessage& seen : made.seen) {
    if (seen.id == id) return &seen;
  }
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Case made = read_case({bytes, size});
  const acp::BaseLine base{made.seen, made.is_complete};
  acp::decide_prompts(base, made.replay, made.prompts);
  std::set<std::size_t> taken;
  for (const acp::LostPrompt& prompt : made.prompts) {
    if (prompt.fate == acp::PromptFate::absent) fuzz::check(made.replay.proves() && !prompt.is_command);
    if (prompt.fate != acp::PromptFate::inserted) continue;
    fuzz::check(made.replay.proves() && prompt.message < made.replay.messages.size());
    fuzz::check(taken.insert(prompt.message).second);
    const acp::ReplayedMessage& message = made.replay.messages[prompt.message];
    fuzz::check(message.content == prompt.content);
    const acp::SeenMessage* const seen = find(made, message.id);
    fuzz::check(seen == nullptr || (!seen->is_given && seen->seen_at > prompt.sent_at));
  }
  const acp::MessageJudge judge(base, made.replay, made.prompts);
  for (const acp::SeenMessage& seen : made.seen) {
    bool there = false;
    for (const acp::ReplayedMessage& message : made.replay.messages) there = there || message.id == seen.id;
    const acp::MessageFate fate = judge.judge(seen.id, seen.content);
    fuzz::check((fate == acp::MessageFate::there) == there);
    if (fate == acp::MessageFate::gone) fuzz::check(made.replay.proves());
  }
  return 0;
}
