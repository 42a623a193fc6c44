// What the simulated peers write: lines with a label that says what a relay owes for each message in them.
//
// The label comes from whoever made the line, not from reading it, so that the checker needs no parser for
// its expectations. Invariant: `id_span` and `ref_span` are the only bytes that a relay may change. Lifetime:
// plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/prng.h"

namespace acp::sim {

// A JSON-RPC id as written, and its class: equal classes are one id, whatever the spelling.
struct Id {
  std::string token;
  std::uint32_t id_class = 0;  // 0: no usable id
  bool usable() const noexcept { return id_class != 0; }
};
// Reads a token that any of the peers or the relay may have written.
Id id_of(std::string_view token);
Id plain_id(std::uint32_t number);
Id null_id();
// The same id in another spelling, if there is one.
Id respelled(const Id& id, Prng& random);
// One of a few ids with several spellings and types.
Id odd_id(Prng& random, bool integers_only);

enum class Method : std::uint8_t {
  initialize,
  session_new,
  session_resume,
  session_load,
  session_close,
  session_delete,
  session_list,
  set_config,
  prompt,
  extension,
  future,
  proxy_initialize,
  session_cancel,
  permission,
  elicitation,
  read_file,
  update,
  count_,
};
std::string_view name_of(Method method) noexcept;

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

inline constexpr int no_session = -1;
inline constexpr int no_key = -1;
inline constexpr int malformed_key = -2;

struct Frame {
  enum class Label : std::uint8_t {
    request,
    notification,
    cancel,  // $/cancel_request
    answer,
    refused,     // gets an error and goes nowhere
    nothing,     // goes nowhere
    unreadable,  // the agent's: its epoch cannot go on
  };
  Label label = Label::nothing;
  std::string text;
  Span id_span;
  Span ref_span;
  Id id;
  Id ref;  // $/cancel_request and elicitation/create: the request named
  Method method = Method::future;
  int session = no_session;
  int key = no_key;
  int print = 0;  // which prompt it is

  bool sound = true;    // of an answer
  bool success = true;  // of a sound answer
  int opened = no_session;
  std::string message_id;  // raw token
  int version = 0;
  bool keeps_key = false;  // an error of another keyhop's whose outcome is not `not_sent`

  int code = 0;  // of a refusal; of an answer: -32700 if it is no JSON
  std::string_view reason;
};

// One line as it is written, with LF.
struct Line {
  std::string bytes;
  std::vector<Frame> frames;  // in order
  bool oversize = false;
};

// Puts messages together: members in any order, blanks, members that no one knows.
class Composer {
 public:
  explicit Composer(Prng& random, bool respells) : random_(random), respells_(respells) {}

  Frame request(Method method, const Id& id, int session, int key = no_key, int print = 0);
  Frame initialize(const Id& id, int version);
  Frame notification(Method method, int session);
  Frame cancel(const Id& named, bool usable);
  Frame elicitation(const Id& id, const Id& named);
  // `result` raw; an error has no result and a code.
  Frame answer(const Id& id, std::string_view result);
  Frame error_answer(const Id& id, int code, std::string_view data);
  Frame broken_answer(const Id& id);

  // The frame as a line: sometimes with CR, BOM or blank lines around it.
  Line line(Frame frame);
  static Line raw_line(std::string_view text, std::vector<Frame> frames);

  std::string session_token(int session);
  std::string key_token(int key);

 private:
  struct Piece {
    std::string text;
    Span id;
    Span ref;
  };
  static Piece piece(std::string_view name, std::string_view value);
  Piece params(std::vector<Piece> members);
  void put(Frame& frame, std::vector<Piece> members);
  void join(std::vector<Piece>& members, Piece& out);

  Prng& random_;
  bool respells_;
  std::uint32_t serial_ = 0;
};

}  // namespace acp::sim
