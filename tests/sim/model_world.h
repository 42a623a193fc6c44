// The world of the exhaustive model: clients that ask for keyed prompts, each through a keyhop of its own, an
// agent with one history, one ledger. Everything that can happen next is a choice; nothing is left to chance.
//
// Two clients are two editors on one machine: two keyhops that live side by side over one ledger file, each
// with its own process of the same agent. A client whose keyhop dies comes again: another connection, another
// run of keyhop, another process; the orphaned one goes on for a while. What the choices leave out, because
// nobody could tell the difference (each is a pair of events that commute, or one that nothing sees):
//   - how long a client's line lies in its pipe: it is said and read at once; reads take all that was said;
//   - when a prompt or a cancel is taken by the agent: at once, only its insertion is seen (a resume, whose
//     replay shows the history as it is then, is taken by choice);
//   - a batch that is on the disk and not told yet: told at once, unless keyhop dies, and then any number of
//     the batches that were on their way is on the disk;
//   - when the agent saves what it has inserted: at its end, any number of its messages is saved.
// And what they leave out by decision: the end of a process is told as one chain (its last words, the end of
// its stdout, its exit, nothing of it lives, the next one runs and has answered initialize); a new keyhop has
// opened the ledger and is initialized; at most `asks_max` requests of a client are open; keys and sessions
// are used in the order of their numbers, since their names mean nothing.
//
// Merging states. state() is a hash over the agent's disk, every process (its pipe, prompts, unsaved
// messages, words nobody has read), the ledger's sessions, each keyhop's orders that are not carried out,
// each client's requests and what it was told, the budget of faults, and each core's print (model_core.h),
// which stands for all that this run of keyhop was told, with the instants. Nothing else decides what can
// follow, so two equal states have equal futures: nothing is missed by going on from one of them. Not in it,
// since a future never asks: what earlier runs were told, numbers of runs and processes. Cores that came to
// the same state over different events are taken for different: that costs time, not truth. Once a keyhop has
// died its history counts no longer, and the histories of the others' pipes and disks never did. Invariant:
// the same choices give the same state. Lifetime: plain value, copied at each branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/invariants.h"
#include "tests/sim/memory_ledger.h"
#include "tests/sim/model_agent.h"
#include "tests/sim/model_core.h"

namespace acp::sim {

// How large the world is. All from the command line.
struct ModelScope {
  std::size_t clients = 2;
  std::size_t keys = 2;
  std::size_t sessions = 2;
  std::size_t deaths = 3;    // of agents and of keyhops, together
  std::size_t failures = 1;  // commits that fail
  std::size_t cancels = 1;
  std::size_t timers = 2;    // that fire before they must
  std::size_t prompts = 4;   // asked for, retries included
  std::size_t asks_max = 3;  // open requests of one client
  bool same_text = false;    // the prompts of a session all say the same
};

// One thing that can happen.
struct Choice {
  enum class Kind : std::uint8_t {
    prompt,  // a new key, or an earlier one again
    cancel,
    resume,
    commit,  // the oldest order of keyhop's to the ledger is carried out
    commit_fails,
    read,   // keyhop reads what its agent has said
    learn,  // keyhop is told that its agent has ended, or that it runs
    timer,
    take,  // the agent takes the oldest line of its pipe
    insert,
    answer,
    agent_ends,  // keyhop has ordered it
    agent_dies,
    keyhop_dies,
    orphan_takes,
    orphan_inserts,
    orphan_ends,
  };
  Kind kind{};
  std::uint8_t who = 0;    // client, or orphan
  std::uint8_t what = 0;   // session; cancel: the request's place; an end: how much is saved
  std::uint8_t which = 0;  // key
  auto operator<=>(const Choice&) const = default;
};

class ModelWorld {
 public:
  // Everything runs, each client has all sessions active, and nothing was asked.
  explicit ModelWorld(const ModelScope& scope);

  // In an order that the state decides. Empty once an invariant is broken.
  std::vector<Choice> choices() const;
  void make(const Choice& choice);
  // The choice that brings the world nearer to rest, of those that are no timer; null: there is none. It
  // depends on the state alone.
  std::optional<Choice> straight_on() const;
  // Faults stop. Everything comes to rest; then nothing of the earlier runs lives, and another run asks for
  // every key again, twice. `known`: asked with a hash of what the last run begins with; true: it ended well
  // before.
  template <class Known>
  void rest(Known known) {
    come_to_rest();
    if (is_broken()) return;
    end_all_runs();
    if (!known(last_state())) last_run();
  }

  // For the model's own test: the agent inserts what nobody asked for.
  void insert_unasked(ModelWork work) { disk_.messages.push_back({work}); }

  bool is_broken() const noexcept { return broken_.has_value(); }
  std::optional<Invariant> broken() const noexcept { return broken_; }
  const std::string& failure() const noexcept { return failure_; }
  Fingerprint state() const;
  std::string in_words(const Choice& choice) const;
  // Where it tells what happens from now on; null: nowhere.
  void trace(std::FILE* file) noexcept { trace_ = file; }
  void tell(std::string_view what, std::string_view text = {}) const;

 private:
  struct Ask {
    enum class Kind : std::uint8_t { other, resume, prompt } kind;
    ModelWork work;
    bool open = true;
    bool cancelled = false;
    bool sent = false;
    std::size_t message = ModelPrompt::not_inserted;  // that was last inserted for it
    bool is_final = false;  // cancelled, and not waiting to be sent: it is not sent again
  };
  struct Order {
    std::optional<LedgerBatch> batch;  // or a reading:
    std::uint64_t ticket = 0;
    std::string session;
  };
  // A client, its keyhop and that one's agent.
  struct Side {
    explicit Side(const Settings& settings) : core(settings) {}
    ModelCore core;
    Instant now{};
    std::uint64_t run = 0;
    bool over = false;  // keyhop has left by itself
    std::optional<ModelProcess> process;
    std::deque<Order> orders;
    std::vector<Ask> asks;             // request n is named n + 1
    std::vector<std::uint8_t> active;  // by session, as the client was told
    std::string to_client, to_agent;   // lines that are not whole
  };
  struct Orphan {
    std::uint64_t run;
    ModelProcess process;
  };

  // model_choices.cpp
  void add_client_choices(std::size_t who, std::vector<Choice>& list) const;
  void add_agent_choices(std::size_t who, std::vector<Choice>& list) const;
  static void add_ends(Choice::Kind kind, std::size_t who, const ModelProcess& process,
                       std::vector<Choice>& list);
  void add_faults(std::size_t who, std::vector<Choice>& list) const;
  void add_orphan_choices(std::vector<Choice>& list) const;
  std::vector<Choice> steps_without_fault() const;
  bool was_asked(ModelWork work) const { return asked_[place_of(work)]; }
  std::size_t place_of(ModelWork work) const noexcept { return work.session * scope_->keys + work.key; }

  // model_world.cpp
  static const Settings& settings_of_all();
  void begin_run(std::size_t who);
  void start_process(std::size_t who);
  void learn(std::size_t who);
  void kill_keyhop(std::size_t who, std::size_t on_the_disk);
  void insert(ModelProcess& process, std::size_t session, Side* side);
  void make_orphans(const Choice& choice);
  void run_ledger(std::size_t who, bool fails);
  void ask_prompt(std::size_t who, ModelWork work);
  void ask_resume(std::size_t who, std::size_t session);
  void cancel(std::size_t who, std::size_t request);
  void say(std::size_t who, std::string line);
  bool owner_lives(std::uint64_t run, const LedgerSession& session) const;
  void tell_core(std::size_t who, const Event& event);
  void carry_out(std::size_t who, const Actions& actions);
  void fail(Invariant invariant, std::string text);

  // model_checks.cpp
  void check_leaving(std::size_t who, std::string_view line);
  void hear(std::size_t who, std::string_view line);
  void hear_prompt_result(const Ask& ask, std::string_view line);
  void hear_prompt_error(const Ask& ask, std::string_view line);

  // model_rest.cpp
  void come_to_rest();
  void end_all_runs();
  void last_run();
  bool has_open() const;
  Fingerprint last_state() const;
  void tell_disk_and_ledger(std::string& out) const;

  std::shared_ptr<const ModelScope> scope_;
  ModelDisk disk_;
  mutable MemoryLedger ledger_;  // a reading sorts it
  std::vector<Side> sides_;
  std::vector<Orphan> orphans_;
  std::vector<std::uint8_t> asked_;  // by place_of()
  std::uint64_t runs_ = 0;
  ModelScope left_;  // of what is limited over the whole path
  // Of what the agent's history decides: see last_run().
  bool is_doubtful_ = false;
  bool rests_ = false;
  std::vector<std::uint8_t> decidable_;  // by session; empty until the last run
  std::optional<Invariant> broken_;
  std::string failure_;
  std::FILE* trace_ = nullptr;
};

}  // namespace acp::sim
