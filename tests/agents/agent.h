// The test agent: an ACP agent (v1 and v2) on stdio with a durable history, a personality and faults on
// order.
//
// Invariant: one thread; an effect is in the history before anything that follows from it is sent; per
// session at most one turn runs and later prompts are held in their order. Lifetime: the process.
//
// agent.cpp           the loop, frames in, answers out
// agent_methods.cpp   which method is what; initialize, login, lists, extensions
// agent_sessions.cpp  sessions: new, load, resume, fork, close, delete, settings
// agent_prompts.cpp   prompts: keys, holding, cancelling
// agent_turns.cpp     what a turn consists of, step by step
// agent_orders.cpp    the steps that come from orders in the text
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/agents/history.h"
#include "tests/agents/options.h"
#include "tests/agents/orders.h"
#include "tests/agents/raw_frame.h"
#include "tests/agents/wire.h"

namespace acp::test_agent {

using Clock = std::chrono::steady_clock;

struct Request {
  std::string id;  // as written; empty: a notification
  std::string method;
  std::string raw_params;
  Json params;
};

struct Prompt {
  std::vector<std::string> ids;  // every request that waits for this prompt's answer
  std::string key;               // empty: none
  Json content;
  std::string sent;  // the content as one line
  std::vector<Order> orders;
  bool is_command = false;  // runs, is not stored
};

struct Turn {
  enum class Blocked : std::uint8_t { no, until_due, until_peer, until_release, until_drained, until_room };
  std::uint64_t serial = 0;
  Prompt prompt;
  std::deque<Order> steps;
  Blocked blocked = Blocked::no;
  Clock::time_point due;
  std::string first_id;          // the first request of the prompt, also when it is answered
  std::string message_id;        // of the user message
  std::string agent_message_id;  // of what the agent says
  std::string said;
  std::uint64_t sent_updates = 0;  // of the step that runs
  bool inserted = false;
  bool answered = false;
  bool unsaved = false;  // inserted, and only in memory so far
  bool answer_withheld = false;
};

struct LiveSession {
  StoredSession stored;
  bool active = false;
  std::deque<Prompt> held;
  std::optional<Turn> turn;
  std::map<std::string, StoredMessage> live_keys;  // of messages that are not stored
  std::map<std::string, int> failed_keys;          // flaw "sticky": key -> error code
};

class Agent {
 public:
  Agent(Options options, HistoryStore& history);

  // Runs until the client closes stdin. The process's exit status.
  int run();

 private:
  using Method = void (Agent::*)(const Request&);
  struct MethodRow;
  struct Asked {  // a request of ours that the client has not answered
    std::string id;
    std::string method;
    std::string session;
    std::uint64_t turn = 0;
  };
  enum class Step : std::uint8_t { done, again };

  // agent.cpp
  void receive(const std::string& line);
  void receive_answer(const RawFrame& frame);
  void dispatch(const Request& request);
  void send(const Json& frame) { wire_.send(to_line(frame)); }
  void answer(const std::string& id, const std::string& method, const std::string& result);
  void answer(const Request& request, const Json& result) {
    answer(request.id, request.method, to_line(result));
  }
  void refuse(const std::string& id, const std::string& method, int code, const std::string& message,
              const Json& data = nullptr);
  void refuse(const Request& request, int code, const std::string& message, const Json& data = nullptr) {
    refuse(request.id, request.method, code, message, data);
  }
  std::string ask(const LiveSession& session, const std::string& method, const std::string& params);
  void update(const std::string& session, Json what);
  void record(const std::string& effect, const std::string& method, Json more = Json::object());
  int poll_timeout() const;
  void poll_once();

  // agent_methods.cpp
  static const MethodRow* find_method(const std::string& name);
  void call(const MethodRow& row, const Request& request);
  void initialize(const Request& request);
  void login(const Request& request);
  void list_sessions(const Request& request);
  void read_nothing(const Request& request);
  void set_something(const Request& request);
  void on_session(const Request& request);
  void extension(const Request& request);
  void emit(const Request& request);
  void take_orders(const Request& request);
  std::string initialize_result(int version) const;

  // agent_sessions.cpp
  void new_session(const Request& request);
  void load_session(const Request& request);
  void resume_session(const Request& request);
  void fork_session(const Request& request);
  void close_session(const Request& request);
  void delete_session(const Request& request);
  void set_config(const Request& request);
  void set_mode(const Request& request);
  LiveSession* active_session(const Request& request);
  LiveSession* reopen(const Request& request);
  Json settings(const StoredSession& session) const;
  Json config_options(const StoredSession& session) const;
  bool store_config(LiveSession& session, const std::string& id, const std::string& value);
  void store_mode(LiveSession& session, const std::string& mode);
  void replay(const LiveSession& session);
  void show_user_message(const std::string& session, const StoredMessage& message, bool in_chunks);
  void show_state(const LiveSession& session);

  // agent_prompts.cpp
  void prompt(const Request& request);
  bool take_key(const Request& request, Prompt& prompt);
  bool answer_known_key(LiveSession& session, const Request& request, const Prompt& prompt);
  bool join_pending(LiveSession& session, const Request& request, const Prompt& prompt);
  void cancel_session(const Request& request);
  void cancel_request(const Request& request);
  void stop_work(LiveSession& session);
  void end_prompt(Prompt& prompt, int code, const std::string& message);
  void answer_prompt(Turn& turn, const std::string& stop_reason);
  void answer_cancelled(Prompt& prompt);
  void release(LiveSession& session);

  // agent_turns.cpp
  void begin_next(LiveSession& session);
  void plan_insertion(Turn& turn);
  void plan_work(Turn& turn);
  bool advance(LiveSession& session);
  Step run_step(LiveSession& session, const Order& order);
  void insert(LiveSession& session);
  Step give_answer(LiveSession& session);
  void say(LiveSession& session, const std::string& text);
  void finish(LiveSession& session);
  void end_turn(LiveSession& session);
  void cancel_asked(const LiveSession& session);
  bool runnable(const LiveSession& session) const;

  // agent_orders.cpp
  bool obeys(const LiveSession& session, const Order& order);
  Step run_order(LiveSession& session, const Order& order);
  Step run_ending(LiveSession& session, const Order& order);
  Step send_updates(LiveSession& session, const Order& order);
  Step flood(LiveSession& session, const Order& order);
  void ask_permission(LiveSession& session);
  void permission_answered(LiveSession& session, const Json& result);
  void ask_elicitation(LiveSession& session);
  void run_tool(LiveSession& session, const std::string& name);
  void write_garbage(LiveSession& session, const Order& order);
  void write_stderr(const Order& order);

  Options options_;
  Personality& person_;
  HistoryStore& history_;
  Wire wire_;
  std::map<std::string, LiveSession> sessions_;
  LiveSession control_;  // carries out _test/order
  std::map<std::string, Asked> asked_;
  std::map<std::string, std::pair<std::string, std::string>> left_open_;  // id_name -> id as written, method
  std::set<std::string> cancelled_late_;  // id_names of requests whose cancel came after their insertion
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  std::uint64_t next_request_ = 0;
  std::uint64_t next_turn_ = 1;
  int version_ = 0;  // 0: not initialized
  bool initializing_ = false;
  bool used_ = false;  // a request other than initialize came
  bool logged_in_ = false;
};

}  // namespace acp::test_agent
