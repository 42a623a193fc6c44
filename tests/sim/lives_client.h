// The client of a history of many lives: it sends methods of every class, keyed and unkeyed prompts,
// duplicates, cancels and answers, and knows only what it has read.
//
// What it sent is written down in a Book, which the checker reads. Every request and notification bears its
// attempt's number in `params._meta.a` and the number of its logical operation in `params.tag`; duplicates
// share the tag. Lifetime: one history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/methods.h"
#include "tests/sim/lives_plan.h"

namespace acp::sim {

inline constexpr int unset = -1;

// One request or notification of the client's, as it was sent.
struct Attempt {
  std::string line;  // without LF
  std::string id;    // raw; empty: a notification
  std::size_t id_begin = 0;
  const rules::MethodFacts* facts = nullptr;
  int tag = unset;
  int session = unset;
  std::string value;  // what it sets: the raw modeId or option value
  int option = unset;
  bool keyed = false;

  // For the checker.
  bool read = false;  // by the relay
  int order = 0;      // of reading
  bool answered = false;
  bool cancelled = false;
  std::size_t cancelled_in = 0;  // the step that told so
  int cancels = 0;
  bool session_cancelled = false;  // session/cancel came after it
  int sends = 0;
  std::uint32_t sent_epoch = 0;  // the last one that was sent it
  int taken = 0;                 // epochs that took at least a byte of it
  bool newer_change = false;
  bool replay_seen = false;
  bool replay_possible = false;  // the news that may be its replay came in the step that sent it
  std::size_t news_in = 0;       // the last step with such news
};

// A request of an agent's, as the client sees it.
struct ClientAsk {
  std::string id;
  int nonce = 0;
  bool answered = false;
  bool withdrawn = false;
};

struct Book {
  std::vector<Attempt> attempts;
  std::vector<ClientAsk> asks;
  std::vector<int> sessions;  // that the client was told of
  bool initialized = false;   // it has the answer
};

// A line of the client's on its way.
struct Said {
  enum class What : std::uint8_t { attempt, cancel, session_cancel, answer };
  What what = What::attempt;
  int target = unset;  // attempt, session or ask
  std::string line;    // with LF
};

class LivesClient {
 public:
  // `script`: how many sessions and keys it may talk about, or null.
  LivesClient(const LivesPlan& plan, Prng& random, Book& book, const Script* script = nullptr)
      : plan_(plan), random_(random), book_(book), script_(script) {}

  Said say_initialize();
  Said say_new_session();
  // Whatever it likes next.
  Said speak();
  // At rest: an answer to one more request of the agent's.
  std::optional<Said> answer_one();

 private:
  Said request(std::string_view method, int session, std::string_view more, bool notification = false);
  Said repeat_of(const Attempt& attempt);
  Said say_prompt();
  Said say_set();
  Said say_any_method();
  Said say_cancel();
  Said say_answer(std::size_t ask);
  int any_session();
  rules::Version version() const noexcept {
    return plan_.person.version == 1 ? rules::Version::v1 : rules::Version::v2;
  }

  const LivesPlan& plan_;
  Prng& random_;
  Book& book_;
  const Script* script_;
  int next_tag_ = 0;
  std::size_t keys_ = 0;  // made up
};

}  // namespace acp::sim
