// The two ends of a simulated relay: they talk at random by the plan, and judge what they are told.
//
// They are witnesses beside the checker: it knows what the relay owes for each line; they know nothing of it,
// only what a peer sees on its own wire. Invariant: a peer uses only what it has read. Lifetime: one history.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/frames.h"
#include "tests/sim/invariants.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/plan.h"

namespace acp::sim {

// The first thing that was wrong.
struct Findings {
  std::optional<Invariant> broken;
  std::string first;  // in words
  bool none() const noexcept { return !broken; }
  void report(Invariant invariant, std::string_view what);
};

class ClientModel {
 public:
  // `script`: how many sessions it may talk about, or null.
  ClientModel(const Plan& plan, Prng& random, Findings& findings, const Script* script = nullptr)
      : plan_(plan),
        random_(random),
        findings_(findings),
        composer_(random, plan.has(Kind::respelling)),
        sessions_(script == nullptr ? 3 : std::min<std::size_t>(3, script->sessions_max)) {}

  // What it says next, if anything. In rest it makes no more faults.
  std::optional<Line> speak();
  // In rest: the answer to one more open request of the agent's.
  std::optional<Line> answer_one();
  // The relay has read this message.
  void sent(const Frame& frame);
  // A line came, without LF.
  void hear(std::string_view line);
  // Requests that it was not answered yet.
  std::size_t open() const noexcept { return open_.size(); }

 private:
  Line begin();
  Line say_prompt();
  Line say_request();
  Line say_cancel();
  Line say_answer();
  Line say_badly();
  Line say_too_much();
  Id fresh_id();
  int any_session() { return static_cast<int>(random_.below(sessions_)); }

  const Plan& plan_;
  Prng& random_;
  Findings& findings_;
  Composer composer_;
  std::size_t sessions_;
  bool begun_ = false;
  bool answered_once_ = false;  // initialize
  std::uint32_t next_id_ = 100;
  std::vector<Id> open_;            // of its own, not answered
  std::vector<Id> asked_;           // of the agent's, not answered
  std::vector<Id> cancelled_asks_;  // withdrawn by the agent
  std::vector<Id> done_asks_;
  std::deque<Id> former_;
};

class AgentModel {
 public:
  AgentModel(const Plan& plan, Prng& random, Findings& findings)
      : plan_(plan), random_(random), findings_(findings), composer_(random, plan.has(Kind::respelling)) {}

  std::optional<Line> speak();
  // In rest: the answer to one more request that it has.
  std::optional<Line> answer_one();
  void sent(const Frame& frame);
  void hear(std::string_view line);
  std::size_t held() const noexcept { return held_.size(); }
  // Something that it might print when it dies.
  std::string last_words();
  void heard_nothing_more() noexcept { held_.clear(); }

 private:
  struct Held {
    Id id;
    std::string method;
    std::string session;
    int key;
    int version;
  };
  Frame answer_to(const Held& held);
  Frame error_for(const Held& held);
  Line say_answer();
  Line say_request();
  Line say_badly();
  Line say_strangely();
  Line say_too_much();
  void hear_request(std::string_view line, const TopLevel& top);

  const Plan& plan_;
  Prng& random_;
  Findings& findings_;
  Composer composer_;
  std::uint32_t next_id_ = 100;
  std::vector<Held> held_;     // requests that it has not answered
  std::vector<Held> on_wire_;  // answered, but the answer was not read yet
  std::vector<Id> asked_;      // its own, not answered
  std::deque<Id> former_;      // answered by it
  std::uint32_t messages_ = 0;
};

}  // namespace acp::sim
