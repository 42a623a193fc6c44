// The world of one history of keyed prompts: a client, keyhop run after run with one ledger, and an agent
// that may never have heard of keys, process after process over one disk.
//
// Agents, keyhop and the client's connection end at any point between two events. What keyhop had ordered of
// its ledger and not seen done is on the disk up to a point, by chance; what it had sent has reached the
// agent up to a point, and that agent may live on for a while. Then faults stop, everything comes to rest,
// and a last run asks for every key again. Invariant: one seed gives one history. Lifetime: one history.
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

#include "proxy/core/relay.h"
#include "tests/sim/guard_agent.h"
#include "tests/sim/memory_ledger.h"
#include "tests/sim/outcome.h"
#include "tests/sim/prng.h"

namespace acp::sim {

struct GuardPlan {
  // `off`: traits that are switched off, whatever was drawn; in the order of kind_names().
  explicit GuardPlan(Prng& random, Kinds off = {});
  GuardPerson person;
  Settings settings;
  std::size_t steps = 0;
  bool distinct = false;  // no two prompts say the same
  bool cancels = false;
  bool ledger_fails = false;
  bool orphans = false;  // the agent of a killed keyhop goes on for a while
  bool kills_keyhop = false;
  bool kills_agent = false;
  bool ends_client = false;
  bool hasty = false;  // the client waits for nothing
  bool other_texts = false;

  static std::span<const std::string_view> kind_names() noexcept;
  Kinds kinds() const;

 private:
  bool& kind(std::size_t number) noexcept;
};

class GuardWorld {
 public:
  // `trace`: where the history is told, or null. `script`: what is left out, or null; it outlives the world.
  GuardWorld(std::uint64_t seed, std::FILE* trace, Script* script = nullptr);
  GuardWorld(const GuardWorld&) = delete;
  GuardWorld& operator=(const GuardWorld&) = delete;
  Outcome run();
  // What this history may hold, in the order of kind_names().
  Kinds kinds() const { return plan_.kinds(); }
  static std::span<const std::string_view> kind_names() noexcept { return GuardPlan::kind_names(); }

 private:
  // What the client asked for.
  struct Ask {
    enum class Kind : std::uint8_t { initialize, create, resume, prompt } kind;
    std::string session, key, text;
    bool open = true;
    bool cancelled = false;
    bool not_sent = false;  // it was told so
    bool settled = false;   // the agent's answer came
  };
  // A key of a session, and what the client has said under it.
  struct Key {
    std::string session, key, text;
    std::set<std::string> other_texts;
  };
  struct Process {
    GuardAgent agent;
    Epoch epoch;
    LinkId link;
    std::deque<std::string> pipe = {};  // sent to it and not read
    bool started = false;
    bool alive = true;
    bool stdin_closed = false;
    bool doomed = false;  // keyhop ends it
    // An orphan's: prompts without a key that the ledger knew, by session and text.
    std::set<std::pair<std::string, std::string>> recorded = {};
    bool exit_told = false, ended_told = false, eof_told = false;
  };
  struct LedgerOrder {
    std::optional<LedgerBatch> batch;  // or a reading:
    std::uint64_t ticket = 0;
    std::string agent, session;
    std::optional<LedgerError> applied;  // not told yet
  };

  // guard_world.cpp: keyhop, the agent, the ledger
  void begin_run();
  void kill_keyhop();
  void note_recorded(Process& orphan);
  void spare_orphans(std::string_view line);
  void spare_orphans(const LedgerBatch& batch);
  void spare_orphans(const std::string& session, std::string_view text);
  void bury(GuardAgent& agent);
  void safety_step();
  bool process_news();
  bool agent_reads();
  bool relay_reads();
  bool relay_reads_client();
  bool ledger_step();
  bool orphan_step(bool ends);
  void rest();
  void last_run();
  bool rest_step();
  void pass_time(Duration duration);
  void step(const Event& event);
  void carry_out(const Action& action);
  void sent_to_agent(const Send& send);
  void read(LinkId link, std::string_view lines);
  void tell_ledger();
  void fail(Invariant invariant, std::string text);
  void fault() noexcept { ++outcome_.faults; }
  void fault_for_all();
  void tell(std::string_view what, std::string_view text = {});

  // guard_client.cpp: the client, and what it is owed
  void speak();
  void say(std::string line, Ask ask);
  void say_prompt(const std::string& session, const std::string& key, const std::string& text);
  void say_initialize();
  void say_resume(const std::string& session, bool replay);
  void say_known_key();
  void say_new_prompt();
  void say_cancel();
  void hear(std::string_view line);
  void hear_prompt_result(Ask& ask, int id, std::string_view line);
  void hear_prompt_error(Ask& ask, int id, std::string_view line);
  void check_leaving(std::string_view line);
  bool has_open() const;
  std::string pick_session();

  Script* script_;
  Prng random_;
  GuardPlan plan_;
  GuardDisk disk_;
  MemoryLedger ledger_;
  std::FILE* trace_;
  Outcome outcome_;
  TraceHash hash_;
  Actions actions_;
  Instant now_{std::chrono::hours(1)};

  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Process> process_;
  std::vector<std::unique_ptr<Process>> orphans_;
  std::deque<LedgerOrder> orders_;
  bool ledger_opened_ = false;
  bool over_ = false;
  int lives_ = 0;
  std::string to_client_, to_agent_;

  std::map<int, Ask> asks_;  // by request id
  int first_of_run_ = 0;
  int next_id_ = 1;
  int next_key_ = 0;
  int next_text_ = 0;
  std::vector<Key> keys_;
  std::vector<std::string> sessions_;
  std::set<std::string> active_;
  std::set<std::string> blurred_;         // a prompt without a key was under way when a keyhop was killed
  std::set<std::string> decidable_;       // in the last run
  std::deque<std::string> client_lines_;  // said and not read
  bool initialized_ = false;
  bool client_done_ = false;
  bool client_end_told_ = false;
  bool faults_ = true;
  bool last_ = false;
};

}  // namespace acp::sim
