// What keyhop owes over many lives of an agent, held against what both ends see and what the agent did.
//
// No model of keyhop: each invariant (invariants.h) is a sentence about what may be seen from outside.
// Lifetime: one history.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/relay.h"
#include "tests/sim/lives_client.h"
#include "tests/sim/peers.h"

namespace acp::sim {

class LivesChecker {
 public:
  LivesChecker(const LivesPlan& plan, Book& book, const Disk& disk, Findings& findings)
      : plan_(plan), book_(book), disk_(disk), findings_(findings) {}

  // ---- what the relay is told ----
  void client_said(const Said& said, Phase phase);
  // A whole line of the present epoch's.
  void agent_said(std::string_view line, Instant now);
  void client_lost() noexcept { client_lost_ = true; }
  void client_ended() noexcept { client_ended_ = true; }
  void signalled(int number) { signal_ = signal_ == 0 ? number : signal_; }
  void person_restarts() noexcept { by_person_ = true; }
  void started() noexcept {}
  void start_failed() noexcept;
  void exited(ExitStatus status) { exit_ = status; }
  // Nothing of the epoch lives / its stdout was read to the end.
  void ended() noexcept { ended_ = true; }
  void stdout_ended() noexcept { stdout_ended_ = true; }

  // ---- what the relay does ----
  void to_client(std::string_view line, Instant now);
  // Returns the attempt that the line is, or `unset`.
  int to_agent(LinkId link, std::string_view line, Instant now);
  void start_ordered(const StartAgent& order, Phase before, Instant now);
  void end_ordered() noexcept { end_ordered_ = true; }
  void exit_ordered(int status, Phase before);
  void after_step(Phase phase, Instant now);

  // ---- what happens at the agent ----
  void taken(int attempt) { ++book_.attempts[static_cast<std::size_t>(attempt)].taken; }
  // It is about to hear that attempt.
  void about_to_hear(int attempt, const AgentLife& life);
  // All is at rest.
  void at_rest();
  void no_rest();

  bool over() const noexcept { return exits_ > 0; }
  std::size_t open_requests() const noexcept { return open_; }
  std::uint32_t epoch() const noexcept { return epoch_; }

 private:
  enum class Back : std::uint8_t { none, due, asked, late, done, refused };
  struct Value {
    std::string raw;
    bool firm = false;
  };
  struct KnownSession {
    bool active = false;
    int params_of = unset;  // the attempt whose params count
    Back back = Back::none;
    bool asks_replay = false;  // keyhop's restore of it does
    std::string own_id;        // of keyhop's request that is open for it
    bool overdue = false;      // ... for longer than --restore-timeout
    bool reads = false;        // ... to read the history before the client's own resume
    bool closed_here = false;  // this process heard a close, archive or delete of it
    Instant alive{};
    Value mode;
    std::vector<Value> options = std::vector<Value>(options_count);
    bool compare_values = false;
    std::string refusal;
  };
  struct Ask {
    std::uint32_t epoch;
    std::string agent_id;
    std::string client_id;
    bool open = true;        // at the client
    bool withdrawn = false;  // by the agent
    int moot = 0;
  };
  enum class DueKind : std::uint8_t { news, question, withdrawal, answer };
  static constexpr int optional = -2;  // a Due's target: it may come or not
  struct Due {
    DueKind kind;
    int target;
    std::string line;
  };

  Attempt& at(int attempt) { return book_.attempts[static_cast<std::size_t>(attempt)]; }
  KnownSession& session(int number);
  void fail(Invariant invariant, std::string_view what) { findings_.report(invariant, what); }
  bool is_lost_between(Phase phase) const;

  void agent_answered(std::string_view id, std::string_view line, std::string_view error, Instant now);
  void own_answered(std::string_view id, std::string_view line, bool success, Instant now);
  void agent_told(std::string_view line, std::string_view params, Instant now);
  void agent_asked(std::string_view id, std::string_view line, std::string_view params);
  void take_effect(Attempt& attempt, int number, std::string_view result);
  void learn_values(KnownSession& known, std::string_view holder, bool in_update);
  void close_epoch(Instant now);
  void skip_optional(std::string_view line);
  bool is_beside(const TopLevel& top) const;

  void client_hears_answer(std::string_view line, const TopLevel& top);
  void client_hears_error(Attempt& attempt, std::string_view line, std::string_view error);
  void check_agents_answer(int number, std::string_view line);
  void client_hears_question(std::string_view line, const TopLevel& top);
  void client_hears_withdrawal(std::string_view line, std::string_view id);
  int attempt_of(std::string_view line) const;
  int client_line_sent(int number, std::string_view line, Instant now);
  void check_repeat(const Attempt& attempt);
  void check_session_ready(const Attempt& attempt, Instant now);
  // The client's resume of it that was read and has not left; or unset.
  int waiting_resume(int session) const;
  void check_own_request(const TopLevel& top, std::string_view line, Instant now);
  void settled(Attempt& attempt);
  void cancel(Attempt& attempt) noexcept;
  std::size_t acts_of(const Attempt& attempt) const { return disk_.times_acted(attempt.tag); }
  int attempts_of(int tag) const;
  bool was_cancelled(int tag) const;

  const LivesPlan& plan_;
  Book& book_;
  const Disk& disk_;
  Findings& findings_;

  std::map<std::string, int, std::less<>> by_id_;
  std::deque<KnownSession> sessions_;
  std::map<int, Ask> asks_;  // by nonce
  std::deque<Due> due_;
  std::string answer_;  // the agent's, of this step
  int answered_ = unset;
  std::vector<std::string> lost_again_;   // failed in this step, though they may be repeated
  std::vector<std::string> called_lost_;  // in this step, though no process took a byte of them
  std::size_t open_ = 0;
  int next_order_ = 0;

  std::uint32_t epoch_ = 1;
  LinkId link_{2};
  std::string own_initialize_;  // raw id of what this epoch's first line asked
  bool heard_first_ = true;
  bool initialized_ = true;  // this epoch may be sent all
  bool takes_over_ = true;
  std::map<int, int> last_order_;  // by session
  bool ended_ = false;
  bool stdout_ended_ = false;
  bool closed_ = false;
  bool end_ordered_ = false;
  bool served_ = true;
  bool start_failed_ = false;
  bool client_lost_ = false;
  bool client_ended_ = false;
  bool ever_initialized_ = false;
  bool v1_resumes_ = true;
  bool v1_loads_ = true;
  int signal_ = 0;
  std::optional<ExitStatus> exit_;
  bool by_person_ = false;
  int exits_ = 0;
  std::deque<Instant> restarts_;
  std::uint32_t failures_ = 0;
  Instant closed_at_{};
  Phase phase_ = Phase::starting;
  std::size_t step_ = 1;
};

}  // namespace acp::sim
