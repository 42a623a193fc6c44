// A simple agent and what keyhop sees of it, at random: is what a replay is taken to prove ever wrong?
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/replay_decision.h"
#include "tests/unit/random_json.h"

namespace acp {
namespace {

Fingerprint print_of(std::uint64_t number) {
  Fingerprint print;
  for (std::size_t i = 0; i < 8; ++i) print.bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return print;
}

constexpr std::size_t nobody = SIZE_MAX;

// What may go wrong in a run.
struct Troubles {
  bool foreign = false;      // somebody else's messages, too
  bool resembling = false;   // which may say what a prompt says
  bool forgets = false;      // the agent loses the newest messages that were seen
  bool renames = false;      // all ids are new after a crash
  bool stores_anew = false;  // messages get another id once, when they are stored
  bool cancels = false;      // prompts may be passed over
  bool withholds = false;    // a replay may end in the middle, or come late
  bool begins_late = false;  // the session has messages that keyhop never saw
  bool overlaps = false;     // answers are still awaited when a replay is read
};

// Takes in what it is sent, in order; answers or shows some of it; crashes. Prompts and messages live as long
// as the session.
class Session {
 public:
  Session(std::uint64_t seed, const Troubles& troubles)
      : random_(seed), troubles_(troubles), texts_(1 + random_.below(3)) {
    if (!troubles_.begins_late || random_.one_in(3)) return;
    base_complete_ = false;
    const std::size_t known = random_.below(3);  // of the youngest
    for (std::size_t n = known + random_.below(3); n > 0; --n) {
      insert(nobody, text());
      messages_.back().is_stored = true;
      if (n <= known) see(messages_.back(), false);
    }
  }

  void run() {
    for (std::size_t epoch = 1 + random_.below(4); epoch > 0; --epoch) {
      for (std::size_t steps = random_.below(10); steps > 0; --steps) act();
      crash();
      replay();
    }
  }

  std::size_t decided = 0;
  std::size_t undecided = 0;
  std::string wrong;

 private:
  struct Prompt {
    Fingerprint content;
    std::uint64_t sent_at;
    bool is_open = true;        // no answer came, and no replay has decided
    bool is_with_agent = true;  // it may still be taken in
    bool may_be_skipped = false;
  };
  struct Message {
    Fingerprint id;
    Fingerprint content;
    std::size_t owner;  // a prompt, or nobody
    bool is_stored = false;
    bool is_seen = false;
  };
  struct Answered {
    std::size_t prompt;
    Fingerprint id;
  };

  Fingerprint text() { return print_of(1 + random_.below(texts_)); }
  void insert(std::size_t owner, const Fingerprint& content) {
    messages_.push_back({print_of(1000 + ++ids_), content, owner});
  }
  void see(Message& message, bool is_given) {
    message.is_seen = true;
    see(message.id, message.content, is_given);
  }
  void see(const Fingerprint& id, const Fingerprint& content, bool is_given) {
    auto known = std::find_if(seen_.begin(), seen_.end(), [&](const SeenMessage& m) { return m.id == id; });
    if (known == seen_.end()) {
      seen_.push_back({.id = id, .seen_at = ++place_});
      known = seen_.end() - 1;
    }
    known->content = content;
    known->is_content_known = true;
    known->is_given = known->is_given || is_given;
  }

  void act() {
    switch (random_.below(troubles_.foreign ? 6 : 5)) {
      case 0:
      case 1: prompts_.push_back({text(), ++place_}); break;
      case 2: take_in(); break;
      case 3: answer(); break;
      case 4:
        if (!messages_.empty()) see(messages_.back(), false);
        break;
      default: insert(nobody, troubles_.resembling ? text() : print_of(99)); break;
    }
    if (!troubles_.cancels || prompts_.empty() || !random_.one_in(6)) return;
    Prompt& prompt = prompts_[random_.below(prompts_.size())];
    if (!prompt.is_with_agent || !prompt.is_open) return;
    prompt.may_be_skipped = true;
    if (random_.one_in(2)) prompt.is_with_agent = false;
  }
  void take_in() {
    for (std::size_t p = 0; p < prompts_.size(); ++p) {
      if (!prompts_[p].is_with_agent) continue;
      prompts_[p].is_with_agent = false;
      return insert(p, prompts_[p].content);
    }
  }
  void answer() {
    for (Message& message : messages_) {
      const bool owes = message.owner != nobody && prompts_[message.owner].is_open && !message.is_stored;
      if (!owes || random_.one_in(3)) continue;
      prompts_[message.owner].is_open = false;
      answered_.push_back({message.owner, message.id});
      return see(message, true);
    }
  }

  void crash() {
    for (Prompt& prompt : prompts_) prompt.is_with_agent = false;
    while (!messages_.empty() && !messages_.back().is_stored && random_.one_in(2)) {
      if (!troubles_.forgets && messages_.back().is_seen) break;
      messages_.pop_back();
    }
    const bool rename = troubles_.renames && random_.one_in(2);
    for (Message& message : messages_) {
      if (rename || (troubles_.stores_anew && !message.is_stored)) message.id = print_of(1000 + ++ids_);
      message.is_stored = true;
    }
  }

  bool is_there(std::size_t owner) const {
    return std::any_of(messages_.begin(), messages_.end(),
                       [&](const Message& message) { return message.owner == owner; });
  }

  void withhold(Replay& shown) {
    shown.is_finished = true;
    auto& messages = shown.messages;
    const auto at = messages.begin() + static_cast<std::ptrdiff_t>(random_.below(messages.size() + 1));
    switch (troubles_.withholds ? random_.below(6) : 5) {
      case 0:  // it ended in the middle
        shown.is_finished = false;
        messages.erase(at, messages.end());
        break;
      case 1:  // it was too long
        shown.is_cut = true;
        messages.erase(messages.begin(), at);
        break;
      case 2:  // it comes later; told by what was known before
        if (!seen_.empty()) messages.clear();
        break;
      default: break;
    }
  }

  void replay() {
    Replay shown;
    for (const Message& message : messages_) shown.messages.push_back({message.id, message.content, {}});
    withhold(shown);
    std::vector<LostPrompt> lost;
    std::vector<std::size_t> whose;
    for (std::size_t p = 0; p < prompts_.size(); ++p) {
      if (!prompts_[p].is_open) continue;
      const bool is_live = troubles_.overlaps && random_.one_in(4);
      lost.push_back({.content = prompts_[p].content,
                      .sent_at = prompts_[p].sent_at,
                      .may_be_skipped = prompts_[p].may_be_skipped || is_live,
                      .is_live = is_live});
      whose.push_back(p);
    }
    const BaseLine base{seen_, base_complete_};
    decide_prompts(base, shown, lost);
    for (std::size_t i = 0; i < lost.size(); ++i) judge(lost[i], whose[i]);
    for (const Answered& answered : answered_) {
      const MessageFate fate =
          MessageJudge(base, shown, lost).judge(answered.id, prompts_[answered.prompt].content);
      if (fate == MessageFate::gone && is_there(answered.prompt)) wrong += " gone, but there;";
    }
    for (const ReplayedMessage& message : shown.messages) see(message.id, message.content, false);
    for (std::size_t i = 0; i < lost.size(); ++i) {
      Prompt& prompt = prompts_[whose[i]];
      prompt.is_open = lost[i].fate == PromptFate::unknown;
      prompt.may_be_skipped = true;
      if (lost[i].fate == PromptFate::inserted) see(messages_[lost[i].message].id, lost[i].content, true);
    }
  }

  void judge(const LostPrompt& prompt, std::size_t number) {
    ++(prompt.fate == PromptFate::unknown ? undecided : decided);
    if (prompt.fate == PromptFate::absent && is_there(number)) wrong += " absent, but there;";
    if (prompt.is_live && prompt.fate != PromptFate::unknown) wrong += " decided while its answer may come;";
    if (prompt.fate != PromptFate::inserted) return;
    const Message& message = messages_[prompt.message];  // shown whole, or nothing is proven
    if (message.content != prompt.content) wrong += " another text;";
    // Somebody else's message of the same text cannot be told from its own.
    if (message.owner != number && !troubles_.resembling) wrong += " another prompt's;";
  }

  test::Random random_;
  Troubles troubles_;
  std::size_t texts_;
  std::vector<Prompt> prompts_;
  std::vector<Message> messages_;
  std::vector<Answered> answered_;
  std::vector<SeenMessage> seen_;
  std::uint64_t ids_ = 0;
  std::uint64_t place_ = 0;
  bool base_complete_ = true;
};

// The runs of one kind; how many prompts were decided and how many not.
struct Tally {
  std::size_t decided = 0;
  std::size_t undecided = 0;
};
Tally run_all(const Troubles& troubles, std::uint64_t seeds) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Session session(seed, troubles);
    session.run();
    if (!session.wrong.empty()) FAIL("seed " << seed << ":" << session.wrong);
    tally.decided += session.decided;
    tally.undecided += session.undecided;
  }
  return tally;
}

constexpr std::uint64_t seeds_of_each = 4000;

}  // namespace

TEST_CASE("an honest agent is always decided, and rightly", "[replay_decision]") {
  const Tally tally = run_all({}, 3 * seeds_of_each);
  CHECK(tally.undecided == 0);
  CHECK(tally.decided > 5 * seeds_of_each);
}

TEST_CASE("an agent with any troubles is never decided wrongly", "[replay_decision]") {
  Tally all;
  for (unsigned which = 1; which < 512; ++which) {
    const auto has = [which](unsigned bit) { return (which >> bit & 1U) != 0; };
    CAPTURE(which);
    const Tally tally = run_all({.foreign = has(0),
                                 .resembling = has(1),
                                 .forgets = has(2),
                                 .renames = has(3),
                                 .stores_anew = has(4),
                                 .cancels = has(5),
                                 .withholds = has(6),
                                 .begins_late = has(7),
                                 .overlaps = has(8)},
                                seeds_of_each / 16);
    all.decided += tally.decided;
    all.undecided += tally.undecided;
  }
  CHECK(all.decided > all.undecided / 4);
}

}  // namespace acp
