// The components of the chain's histories: proxies that change nothing but ids and envelopes, and an agent
// that inserts prompts, tells about them and asks questions.
//
// The disk knows the truth over all processes: what was inserted for which request, what was said and asked.
// Invariant: a peer takes lines in the order in which they came, and says what follows in that order.
// Lifetime: a disk for a whole history, a peer for one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/prng.h"

namespace acp::sim {

class ChainPeer {
 public:
  ChainPeer() = default;
  ChainPeer(const ChainPeer&) = delete;
  ChainPeer& operator=(const ChainPeer&) = delete;
  virtual ~ChainPeer() = default;

  // A whole line, without LF.
  virtual void take(std::string_view line) = 0;
  // One step of its own; false: there is none.
  virtual bool work() { return false; }
  virtual bool is_busy() const noexcept { return false; }
  // It has decided to go, with status 0.
  bool exits() const noexcept { return exits_; }
  // It was asked in a spelling that it does not know.
  bool was_misasked() const noexcept { return misasked_; }
  // Said and not written.
  std::deque<std::string>& words() noexcept { return words_; }

 protected:
  void say(std::string line) { words_.push_back(std::move(line)); }
  bool exits_ = false;
  bool misasked_ = false;

 private:
  std::deque<std::string> words_;
};

// How a proxy writes the ids of what it passes on.
enum class ChainIds : std::uint8_t { keep, fresh, text };
// What it does about the spelling that it does not know.
enum class ChainWrong : std::uint8_t { refuse, pass, exit };

struct ProxyPerson {
  bool prefixed = false;  // `_proxy/…`
  ChainWrong wrong = ChainWrong::refuse;
  ChainIds ids = ChainIds::fresh;
  bool wraps_cancels = false;
  bool is_none = false;  // it knows neither spelling
};

class ChainProxy : public ChainPeer {
 public:
  ChainProxy(const ProxyPerson& person, std::size_t component) : person_(person), component_(component) {}
  void take(std::string_view line) override;
  // A request of its own, once it has initialized: of its successor, or of its predecessor.
  void ask(bool successor);

 private:
  struct Sent {
    std::string id;
    bool wrapped = false;
  };
  void take_answer(std::string_view line, std::string_view id);
  void take_cancel(std::string_view params);
  void take_wrong_spelling(std::string_view id, std::string_view method, std::string_view params);
  void pass(std::string_view id, std::string_view method, std::string_view params, bool wrapped);
  std::string spelled(std::string_view word) const;

  const ProxyPerson& person_;
  std::size_t component_;
  int next_id_ = 0;
  bool ready_ = false;
  std::string initialize_id_;
  std::map<std::string, std::string, std::less<>> passed_;  // by the id it gave: the one that came
  std::map<std::string, Sent, std::less<>> sent_;           // by the one that came
};

struct AgentPerson {
  bool honours_keys = false;
  bool asks = false;   // questions of its own
  bool talks = false;  // many updates
  bool refuses_prompts = false;
  int version = 2;
  int first_id = 0;     // of its questions: not far from those that others give
  bool resumes = true;  // version 1: it offers session/resume, and not session/load alone
};

struct ChainMessage {
  std::string session;
  std::string id;
  std::string text;
  std::string key;
  int tag = 0;  // of the client's request that it was inserted for
};

// What the agent asked of the client.
struct ChainQuestion {
  std::string id;
  int life = 0;
  int about = 0;       // the client's request that it names
  std::string params;  // without the id that it names
  bool answered = false;
  bool holds = false;  // nobody answers it; it is cancelled in the end
  bool cancelled = false;
};

// What the agent told on its own account.
struct ChainNews {
  std::string session;
  std::string params;
  int life = 0;
  bool replayed = false;
};

struct ChainDisk {
  std::map<std::string, std::vector<std::size_t>, std::less<>> sessions;  // places in `log`, in order
  std::vector<ChainMessage> log;
  std::vector<ChainNews> news;
  std::vector<ChainQuestion> questions;
  std::set<int> echoed;   // tags of requests without a session that were done
  std::string failure;    // the first second insertion
  std::string misanswer;  // an answer that its question did not deserve

  const ChainMessage* find(std::string_view id) const;
  const ChainMessage* find_key(std::string_view session, std::string_view key) const;
  std::size_t insert(ChainMessage message);
};

class ChainAgent : public ChainPeer {
 public:
  ChainAgent(const AgentPerson& person, ChainDisk& disk, int life, Prng& random)
      : person_(person), disk_(disk), life_(life), random_(random), next_id_(person.first_id) {}
  void take(std::string_view line) override;
  bool work() override;
  // It gives up on prompts that it holds, by the number of the client's request.
  bool release(const std::function<bool(int)>& is_wanted);
  // Numbers of the client's requests that it holds.
  std::vector<int> held() const;
  // It says very much.
  void flood(std::string_view session);
  bool is_busy() const noexcept override { return !prompts_.empty() || !tasks_.empty(); }

 private:
  struct Prompt {
    std::string id, session, text, key;
    int tag = 0;
  };
  void take_request(std::string_view id, std::string_view method, std::string_view params);
  void take_answer(std::string_view line, std::string_view id);
  void take_prompt(std::string_view id, std::string_view params);
  void resume(std::string_view id, std::string_view params, bool loads);
  void cancel(std::string_view method, std::string_view params);
  bool cancel_question();
  void insert();
  void ask(const Prompt& prompt);
  std::string update(std::string_view session, std::string_view what, bool replayed = false);
  std::string shown(const ChainMessage& message, bool replayed);

  const AgentPerson& person_;
  ChainDisk& disk_;
  int life_;
  Prng& random_;
  int next_id_;
  std::set<std::string, std::less<>> active_;
  std::deque<Prompt> prompts_;
  std::deque<Prompt> held_;  // until they are cancelled
  bool initialized_ = false;
  bool was_asked_ = false;  // anything else since
  std::deque<std::string> tasks_;
};

// The number behind `"_meta":{"NAME":`, or -1.
int number_in_meta(std::string_view params, std::string_view name) noexcept;
int number_of(std::string_view token) noexcept;

}  // namespace acp::sim
