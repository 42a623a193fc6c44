// One process of a simulated agent: it hears lines, acts on its disk, and says lines. It follows ACP.
//
// Every client request carries `params.tag`; each time the agent acts on one it writes that to the disk. What
// it says is tagged too: updates and requests of its own bear a serial `n`, and what it replays because
// keyhop (not the client) asked bears `"replay":"own"`. Invariant: the same lines, answered in the same
// order, give the same lines. Lifetime: one epoch; the disk outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/json_scan.h"
#include "tests/sim/lives_disk.h"
#include "tests/sim/prng.h"

namespace acp::sim {

enum class ResultStyle : std::uint8_t { null, empty, full };

struct Personality {
  int version = 2;
  int later_version = 2;  // what epochs after the first answer to initialize
  bool resumes = true;    // v1: advertises session/resume
  bool loads = true;      // v1: advertises session/load
  bool later_loads_only = false;
  bool honours_keys = false;
  bool acts_late = false;           // when it answers, not when it hears
  bool forgets_values = false;      // a fresh process begins with its own mode and options
  bool replays = true;              // v2: honours replayFrom
  bool refuses_initialize = false;  // in later epochs
  int restore_error = 0;            // what later epochs answer to keyhop's restore: 0, -32000, -32002, -32603
  bool never_restores = false;      // later epochs do not answer keyhop's restore
  bool refuses_values = false;      // keyhop's set_* in later epochs
  ResultStyle style = ResultStyle::full;
  std::string own_prefix = "\"keyhop";  // how the raw ids of keyhop's own requests begin
};

class AgentLife {
 public:
  // `random`: what it fails and asks by chance; null: nothing by chance.
  AgentLife(const Personality& person, Disk& disk, std::uint32_t epoch, Prng* random)
      : person_(person), disk_(disk), epoch_(epoch), random_(random) {}

  void hear(std::string_view line);
  // Requests that it has and has not answered.
  std::size_t held() const noexcept { return held_.size(); }
  void answer(std::size_t which);
  // Scripted work before an answer, by words in the prompt's text: `ask`, `elicit`, `big`, `change`, `hold`.
  // False: its answer has to wait, for the client's answer or for a cancel.
  bool prepare(std::size_t which);
  // What was held is answered from now on.
  void stop_holding() noexcept { holds_ = false; }
  // Its own: an update, a changed mode, a request to the client, a cancel of one.
  void chatter();
  // It asks the client something for that session.
  void ask(int session, bool elicitation);
  void update(int session, std::string_view kind, std::string_view more = {});
  // A change of its own that it tells.
  void change_value(int session, bool mode, int value);

  // Takes the lines it said since the last call, each with its LF.
  std::string take_said() { return std::move(said_); }
  bool has_said() const noexcept { return !said_.empty(); }
  // What it heard and no agent may ever hear; empty: nothing.
  const std::string& wrong() const noexcept { return wrong_; }
  int mode_of(int session) const { return at(session).mode; }
  int option_of(int session, int option) const {
    return at(session).options[static_cast<std::size_t>(option)];
  }
  // It changed a value by itself in this life.
  bool changed_by_itself() const noexcept { return changed_by_itself_; }

 private:
  struct Held {
    std::string id;
    std::string method;
    std::string line;
    int session = -1;
    int tag = -1;
    bool own = false;  // keyhop's
    bool acted = false;
    bool stopped = false;  // session/cancel ended it
    bool prepared = false;
    int message = -1;
    std::string failure;  // an error object instead of a result
  };
  struct Ask {
    std::string id;
    int nonce;
  };

  DiskSession& at(int session) const { return disk_.sessions[static_cast<std::size_t>(session)]; }
  bool knows(int session) const {
    return session >= 0 && static_cast<std::size_t>(session) < disk_.sessions.size() && at(session).exists;
  }
  bool is_active(int session) const;
  void hear_answer(std::string_view id, std::string_view line);
  void hear_cancel(std::string_view line, std::string_view params);
  void hear_request(const TopLevel& top, std::string_view line);
  std::string failure_of(const Held& held, std::string_view params);
  void act(Held& held);
  void act_on_session(Held& held, std::string_view params);
  void activate(int session, bool fresh);
  std::string result_of(const Held& held);
  std::string initialize_result(const Held& held) const;
  std::string values_of(int session) const;
  void replay(const Held& held);
  void say_answer(std::string_view id, std::string_view member, std::string_view value);

  const Personality& person_;
  Disk& disk_;
  std::uint32_t epoch_;
  Prng* random_;
  std::vector<Held> held_;
  std::vector<Ask> asks_;
  std::vector<bool> active_;
  std::string said_;
  std::string wrong_;
  int next_id_ = 0;
  int restore_tries_ = 0;
  bool changed_by_itself_ = false;
  bool initialized_ = false;
  bool holds_ = true;
};

// The number at the end of a raw token such as "s12" or 12; -1 if there is none.
int number_in(std::string_view token) noexcept;

}  // namespace acp::sim
