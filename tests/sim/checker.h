// What a relay owes for every event: a second, slow and simple reading of the rules, held against the first.
//
// For each message that a peer wrote the checker knows what must come out, where and in which order, and
// every byte that comes out must be one that was due. What it holds the relay to is in invariants.h.
//
// Not here: that one seed gives one history (sim_main compares two runs), and what the peers see themselves
// (peers.h). Lifetime: one history.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/relay.h"
#include "tests/sim/frames.h"
#include "tests/sim/peers.h"
#include "tests/sim/plan.h"

namespace acp::sim {

class Checker {
 public:
  Checker(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings) {}

  // Before a step: what the relay is about to be told. `frames`: the messages that this read completes.
  void about_to(const Event& event, const std::vector<Frame>& frames, Instant now);
  // During it, for each action in order.
  void done(const Action& action);
  // After it.
  void after(const Relay& relay);

  bool over() const noexcept { return exited_; }
  std::size_t open_requests() const noexcept;
  // Whether a peer may be read (the world obeys).
  bool is_paused(LinkId link) const noexcept { return link == client_link ? client_paused_ : agent_paused_; }

 private:
  enum class State : std::uint8_t { sent, cancelling, waiting, held, abandoned };
  struct Request {  // of the client's
    bool alive = true;
    State state = State::sent;
    Id sender;
    Id wire;  // unusable: not on the wire
    Method method = Method::future;
    int session = no_session;
    int row = -1;  // of rows_, if it is the first of its key
    std::size_t first = 0;
    std::vector<std::size_t> waiters;
    std::uint64_t updates = 0;
    bool guarded = false;
    bool v1 = false;
  };
  struct Ask {  // a request of the agent's
    bool alive = true;
    bool cancelling = false;
    Id sender;
    Id wire;
    int session = no_session;
  };
  struct Row {
    bool alive = true;
    enum class State : std::uint8_t { pending, inserted, unknown } state = State::pending;
    int session = no_session;
    int key = no_key;
    int print = 0;
    std::size_t first = 0;
    std::string message_id;
  };
  struct Session {
    int name = no_session;
    enum class State : std::uint8_t { mentioned, active, inactive } state = State::mentioned;
    std::uint64_t updates = 0;
    Instant last_traffic{};
  };
  enum class Reach : std::uint8_t { open, ending, gone };

  // What must come out next on a link.
  struct Due {
    enum class What : std::uint8_t { line, request, ask, error } what = What::line;
    std::string text;         // line: as it must be. request, ask: as the sender wrote it
    std::string rest;         // request, ask: what stands behind the id
    std::size_t which = 0;    // request, ask: whose id on the wire is decided now
    bool wire_named = false;  // line: the id on the wire of `which` stands between text and rest
    bool of_client = true;    // ... a request of the client's, or one of the agent's
    std::string id;           // error
    int code = 0;
    std::string_view reason;
    std::string_view outcome;
    int progress = -1;
  };

  void client_frame(const Frame& frame);
  void client_request(const Frame& frame);
  bool keyed_request(const Frame& frame, bool v1, int& row);
  bool known_key(const Frame& frame, std::size_t row, bool v1);
  void client_cancel(const Frame& frame);
  void client_answer(const Frame& frame);
  void agent_frame(const Frame& frame);
  void agent_request(const Frame& frame);
  void agent_cancel(const Frame& frame);
  void agent_answer(const Frame& frame);
  void take_effect(const Request& request, const Frame& frame);
  void settle_key(Request& request, const Frame& frame);
  void lose_key(Request& request, bool unknown);
  void fail(std::size_t which, int code, std::string_view reason, std::string_view outcome);
  void remove(std::size_t which) { requests_[which].alive = false; }
  void silence();
  void epoch_over();

  void owe(LinkId link, Due due);
  void owe_line(LinkId link, std::string text);
  void owe_spliced(LinkId link, const Frame& frame, Span span, std::string_view token);
  void owe_named(LinkId link, const Frame& frame, Span span, std::size_t which, bool of_client);
  void owe_error(LinkId link, std::string_view id, int code, std::string_view reason,
                 std::string_view outcome = {}, int progress = -1);
  void got(LinkId link, std::string_view line);
  void got_request(const Due& due, std::string_view line);
  void got_error(const Due& due, std::string_view line);
  void check_secrets(std::string_view text, std::string_view where);
  void check_pressure(const Relay& relay);
  void check_phase(const Relay& relay);
  std::uint32_t known_keys() const;

  bool is_v1() const noexcept { return (version_ != 0 ? version_ : asked_version_) == 1; }
  Session* session(int name, bool make);
  void traffic(int name);
  Request* by_wire(const Id& id, std::size_t& which);
  int progress_of(const Request& request);
  int expected_status() const;

  const Plan& plan_;
  Findings& findings_;
  Instant now_{};
  std::vector<Request> requests_;
  std::vector<Ask> asks_;
  std::vector<Row> rows_;
  std::deque<Session> sessions_;
  std::array<std::deque<Due>, 2> due_;
  std::array<std::string, 2> partial_;

  int version_ = 0;
  int asked_version_ = 0;
  Reach reach_ = Reach::open;
  bool client_gone_ = false;
  bool client_ended_ = false;
  bool was_asked_ = false;
  bool agent_ended_ = false;
  bool stdout_ended_ = false;
  bool settled_ = false;
  bool start_failed_ = false;
  bool closed_ = false;  // the agent's stdin
  bool end_ordered_ = false;
  bool ended_by_keyhop_ = false;
  bool deadline_ = false;  // this step is one
  bool stderr_step_ = false;
  bool exit_due_ = false;
  bool exited_ = false;
  bool unreadable_ = false;
  int signal_ = 0;
  std::optional<ExitStatus> status_;
  Phase phase_ = Phase::starting;
  std::array<std::size_t, 2> backlog_{};
  bool backlog_told_ = false;
  bool client_paused_ = false;
  bool agent_paused_ = false;
  std::uint32_t keys_before_ = 0;
};

}  // namespace acp::sim
