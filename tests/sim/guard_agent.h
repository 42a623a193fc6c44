// The agent of the guard's histories: it inserts prompts into a history on its disk and shows that history
// when a session is resumed.
//
// The disk knows the truth: which request, with which key, each message was inserted for. Invariant: a
// process takes prompts in the order in which it read them. Lifetime: a disk for a whole history, an agent
// for one process.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/prng.h"

namespace acp::sim {

// How an agent differs from one that ignores keys and shows its whole history as it was.
struct GuardPerson {
  bool honours_keys = false;
  bool refuses_replay = false;
  bool rewrites = false;  // shows other words than those it was sent
  bool forgets = false;   // loses the newest messages at its death unless they were saved
  bool echoes_late = false;
  bool echoes_nothing = false;
  bool chunks = false;
  bool renames = false;          // a message gets another id when its process dies, once
  bool replays_late = false;     // after its answer
  bool hides_state = false;      // no state_update behind a replay
  bool gives_no_id = false;      // in the answers to prompts
  bool refuses_prompts = false;  // some, without inserting them

  std::string in_words() const;
  // What it has inserted stays and can be found again.
  bool is_readable() const noexcept {
    return !refuses_replay && !rewrites && !forgets && !renames && !replays_late && !hides_state &&
           !gives_no_id;
  }
};

struct GuardMessage {
  std::string session;
  std::string live_id;
  std::string stored_id;  // what a replay calls it
  std::string text;
  std::string key;  // decoded; empty: none
  int request = 0;  // the id of the client's request that it was inserted for
  int life = 0;     // the process that inserted it
  bool saved = false;
  bool gone = false;
};

// Of one agent, over all of its processes.
struct GuardDisk {
  std::map<std::string, std::vector<std::size_t>> sessions;  // places in `log`, in order
  std::vector<GuardMessage> log;                             // everything that was ever inserted
  int next_session = 0;
  int next_message = 0;
  std::string failure;  // the first second insertion

  const GuardMessage* find(std::string_view id) const;
  const GuardMessage* find_key(std::string_view session, std::string_view key) const;
  std::size_t insert(GuardMessage message);
  // What the death of a process does to what it inserted.
  void bury(int life, const GuardPerson& person, Prng& random);
};

class GuardAgent {
 public:
  GuardAgent(const GuardPerson& person, GuardDisk& disk, int life, Prng& random)
      : person_(person), disk_(disk), life_(life), random_(random) {}

  // A whole line, without LF.
  void take(std::string_view line);
  // One step of its own, if there is one to do: inserts a prompt, or says something.
  bool work();
  // Has not inserted, and will not insert, prompts without a key of that text. A limit of what can be known
  // is left out of the model so: see GuardWorld::spare_orphans().
  void forget_unkeyed(std::string_view session, std::string_view text);
  bool is_busy() const noexcept { return !prompts_.empty() || !tasks_.empty(); }
  int life() const noexcept { return life_; }
  // Said and not read.
  std::deque<std::string>& words() noexcept { return words_; }

 private:
  struct Prompt {
    std::string id, session, text, key;
  };
  struct Task {
    std::vector<std::string> lines;
    bool late = false;
  };
  void resume(std::string_view line, std::string_view id, std::string_view session);
  void take_prompt(std::string_view line, std::string_view id, std::string_view session);
  void cancel(std::string_view line, std::string_view method);
  void insert();
  void show(const GuardMessage& message, std::string_view id, bool whole, std::vector<std::string>& lines);
  void say(std::string line) { words_.push_back(std::move(line)); }

  const GuardPerson& person_;
  GuardDisk& disk_;
  int life_;
  Prng& random_;
  std::vector<std::string> active_;
  std::deque<Prompt> prompts_;
  std::deque<Task> tasks_;
  std::deque<std::string> words_;
};

}  // namespace acp::sim
