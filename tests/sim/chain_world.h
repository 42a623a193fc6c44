// The world of one history of a chain: a client, keyhop as the conductor, proxies and an agent, each of which
// may end at any point between two events.
//
// Bytes travel through pipes that are read in pieces; a process that dies leaves unread what it was sent and
// says no more than what is in its pipe. Then faults stop, everything comes to rest, the client says its last
// words and goes. Invariant: one seed gives one history. Lifetime: one history.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/chain.h"
#include "tests/sim/chain_peers.h"
#include "tests/sim/chain_plan.h"
#include "tests/sim/chain_wire.h"
#include "tests/sim/outcome.h"
#include "tests/sim/prng.h"

namespace acp::sim {

class ChainWorld {
 public:
  // `trace`: where the history is told, or null. `script`: what is left out, or null; it outlives the world.
  ChainWorld(std::uint64_t seed, std::FILE* trace, Script* script = nullptr);
  ChainWorld(const ChainWorld&) = delete;
  ChainWorld& operator=(const ChainWorld&) = delete;
  Outcome run();
  // What this history may hold, in the order of kind_names().
  Kinds kinds() { return plan_.kinds(); }
  static std::span<const std::string_view> kind_names() noexcept { return ChainsPlan::kind_names(); }

 private:
  // What the client asked for. Its number is its id and its tag.
  struct Ask {
    enum class Kind : std::uint8_t { initialize, create, resume, prompt, echo };
    Kind kind = Kind::initialize;
    std::string session = {}, key = {}, text = {};
    std::string params = {};
    bool read = false;  // keyhop knows of it
    bool open = true;
    bool cancelled = false;
    bool disturbed = false;  // a component ended while it was open
    bool succeeded = false;
    bool alone = true;  // while it was open, no other prompt of its session was
  };
  struct Key {
    std::string session, key, text;
  };
  // Bytes on their way from one end to the other, and the line that is begun where they are read.
  struct Stream {
    std::string bytes;
    std::string rest;
  };
  struct Process {
    std::size_t component;
    Epoch epoch;
    LinkId link;
    std::unique_ptr<ChainPeer> peer;
    Stream in = {};              // keyhop's to it
    Stream out = {};             // its to keyhop
    std::string cut = {};        // of what keyhop wrote: the line that is begun
    std::string unwritten = {};  // the agent's: what its full pipe did not take
    ChainWire wire = {};
    ExitStatus status = {ExitStatus::Kind::exited, 0};
    std::size_t told_backlog = 0;
    bool started = false;
    bool failed = false;  // it could not be started
    bool alive = true;
    bool listens = true;  // its stdin is open at its end
    bool stdin_closed = false;
    bool stalls = false;  // it reads nothing for a while, its pipe is full
    bool doomed = false;  // keyhop ends it
    bool holds_stdout = false;
    bool finishes = false;  // FinishReading
    bool paused = false;
    bool has_reason = false;   // to be ended
    bool again = false;        // another one was initialized in its place before
    bool initialized = false;  // if so: it has answered
    std::string initialize_id = {};
    bool deaf_told = false, exit_told = false, eof_told = false, ended_told = false;
  };

  // chain_world.cpp: the phases, keyhop
  void safety_step();
  void fault_for_all();
  void rest();
  bool rest_step();
  void last_words();
  void end_client();
  void check_rest();
  void pass_time(Duration duration);
  void step(const Event& event);
  void carry_out(const Action& action);
  void start(const StartAgent& order);
  void end(const EndAgent& order);
  void sent(const Send& order);
  void set_paused(LinkId link, bool paused);
  bool is_agent(std::size_t component) const noexcept {
    return !plan_.chain.is_component && component + 1 == processes_.size();
  }
  Process* of(LinkId link);
  Process* of(Epoch epoch);
  void fail(Invariant invariant, std::string text);
  void report(const std::optional<ChainFinding>& finding);
  void fault() noexcept { ++outcome_.faults; }
  void tell(std::string_view what, std::string_view text = {});
  void tell(std::string_view what, std::size_t number, std::string_view text = {});
  void check_own_request(std::size_t component, std::string_view line);
  bool waits_for_spent() const;

  // chain_checks.cpp: what no single line shows
  void check_first(Process& process, std::string_view line);
  void note_initialized(Process& process, std::string_view line);
  void check_waiting(const Process& behind, std::size_t bytes);
  bool flood();
  bool cancel_held();
  bool release_orphans();
  void check_cancelled();
  ChainAgent* present_agent() const;
  void note_broken(const Process& process);
  void check_told_to_go();
  void check_status();

  // chain_faults.cpp: processes and their pipes, and what goes wrong with them
  bool process_works(Process& process);
  bool process_reads(Process& process);
  bool process_is_read(Process& process);
  bool process_news(Process& process);
  bool tell_backlog(Process& process);
  void flush_agent();
  void say_junk(Process& process);
  void break_stdin(Process& process);
  void note_death(const Process& process);
  bool client_is_read();
  bool tell_client_backlog();
  void read(LinkId link, std::string_view bytes);
  void go_wrong();
  void go_wrong_with_client();
  void kill(Process& process);
  void die(Process& process, ExitStatus status);
  Process* pick_process();
  void check_pressure(std::size_t component, std::size_t bytes);

  // chain_conductor.cpp: keyhop as a component
  void conduct(std::string_view line);
  bool agent_behind_works();

  // chain_client.cpp: the client, and what it is owed
  void speak();
  void say(Ask::Kind kind, std::string_view method, std::string params, Ask ask);
  void say_line(std::string_view line);
  void say_initialize();
  void say_echo();
  void say_prompt(const std::string& session, const std::string& key, const std::string& text);
  void say_new_prompt();
  void say_resume(const std::string& session, bool replay);
  void say_cancel();
  bool answer_question();
  void was_read(std::string_view line);
  void hear(std::string_view line);
  void hear_news(std::string_view params);
  void hear_answer(Ask& ask, int id, std::string_view line);
  void hear_error(const Ask& ask, int id, std::string_view line);
  void hear_cancel(std::string_view id);
  void hear_question(std::string_view id, std::string_view method, std::string_view params);
  void hear_prompt_result(const Ask& ask, int id, std::string_view line);
  void check_arrival(std::string_view line);
  bool has_open() const;
  std::string pick_session();

  Script* script_;
  Prng random_;
  ChainsPlan plan_;
  ChainDisk disk_;
  std::FILE* trace_;
  Outcome outcome_;
  TraceHash hash_;
  Actions actions_;
  Instant now_{std::chrono::hours(1)};
  Chain chain_;

  std::vector<std::unique_ptr<Process>> processes_;  // the present one of each component
  std::set<std::uint32_t> links_;                    // that were ever used
  std::unique_ptr<ChainAgent> agent_behind_;         // keyhop's conductor has it, if there is one
  std::set<std::string, std::less<>> asked_behind_;  // what it was asked, by the id on the link
  std::vector<std::size_t> waiting_;                 // by component: bytes for it while it starts
  std::set<int> broken_with_;  // statuses of components that ended before they had initialized
  bool flooded_ = false;
  bool calm_ = false;  // nothing had happened to anybody when the client went
  int lives_ = 0;
  std::size_t deaths_ = 0;
  bool ending_ = false;  // the chain may end: it was told to, or a component went that is not restarted
  bool restart_asked_ = false;
  bool over_ = false;
  int status_ = -1;
  int signal_ = 0;
  bool faults_ = true;

  // The client's.
  Stream from_client_;
  std::string to_client_;  // the line that is begun
  std::size_t client_backlog_ = 0;
  std::size_t told_client_backlog_ = 0;
  ChainWire client_wire_;
  bool client_paused_ = false;
  bool client_done_ = false;
  bool client_end_told_ = false;
  bool client_lost_ = false;
  std::map<int, Ask> asks_;
  int next_id_ = 1;
  int next_text_ = 0;
  int next_junk_ = 0;
  std::vector<Key> keys_;
  std::vector<std::string> sessions_;
  std::deque<std::pair<std::string, int>> questions_;  // id and number of those that wait for the client
  std::set<int> heard_questions_;
  std::map<std::string, int, std::less<>> last_news_;
  std::size_t heard_news_ = 0;
  bool initialized_ = false;
  bool last_ = false;
};

}  // namespace acp::sim
