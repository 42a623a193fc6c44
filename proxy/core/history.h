// The user messages of one session: which are known, and what a replay shows.
//
// Three sources: answers to prompts, live updates, replays. Invariant: one entry for each message id, in the
// order first seen; places in the order are never used twice. Bounded by limits::seen_messages_max (older
// ones are forgotten: a replay is in order, so the youngest are enough to tell old from new). Lifetime: owned
// by a Session; empty ones cost nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/core/content.h"
#include "proxy/core/replay_decision.h"

namespace acp {

class SessionHistory {
 public:
  // What an earlier run knew comes before all that is known here: its places end at `place`.
  void shift(std::uint64_t place) noexcept {
    for (SeenMessage& seen : seen_) seen.seen_at += place;
    last_place_ += place;
    if (replay_) replay_->begun_at += place;
  }
  // The next place in the session's order, for a message or a prompt.
  std::uint64_t next_place() noexcept { return ++last_place_; }

  std::uint64_t last_place() const noexcept { return last_place_; }

  // Whether the messages known are all there are. True from session/new on.
  bool is_complete() const noexcept { return is_complete_; }
  void set_complete(bool complete) noexcept { is_complete_ = complete; }
  BaseLine base_line() const noexcept { return {seen_, is_complete_}; }
  std::vector<SeenMessage>& seen() noexcept { return seen_; }
  // Whether old messages were forgotten since the last call.
  bool take_trimmed() noexcept { return std::exchange(is_trimmed_, false); }

  // A message was seen: new, or known (then more may be known of it now). `content`: null if not known.
  void see(const Fingerprint& id, const Fingerprint* content, bool is_given);
  // Messages that an earlier run knew, the older ones first.
  void add_older(std::vector<SeenMessage> messages);
  // A live chunk of a message, or (whole) its content as it is now.
  void see_content(const Fingerprint& id, std::string_view raw, bool is_chunk, ContentReader& reader,
                   Fingerprinter& prints);
  // A message was seen after that place that no answer gave to a prompt: somebody's prompt was taken in.
  bool has_news_since(std::uint64_t place) const noexcept;

  // ---- a replay ----
  void begin_replay();
  bool is_reading() const noexcept { return replay_ != nullptr; }
  // A part of it could not be read: it proves nothing.
  void note_gap() noexcept {
    if (replay_) replay_->is_cut = true;
  }
  bool is_finished() const noexcept { return replay_ != nullptr && replay_->is_finished; }
  // The agent says how the session stands: nothing of the replay will follow.
  void note_finished() noexcept {
    if (replay_) replay_->is_finished = true;
  }
  void read_content(std::string_view token, const Fingerprint& id, std::string_view raw, bool is_chunk,
                    ContentReader& reader, Fingerprinter& prints);
  // v1, where chunks that follow each other are one message: its beginning (with its id, raw, or none), and
  // its end.
  bool goes_on(std::string_view id) const noexcept { return message_open_ && message_id_ == id; }
  void begin_message(std::string_view id) {
    message_open_ = true;
    message_id_ = id;
    ++ordinal_;
  }
  void end_message() noexcept { message_open_ = false; }
  std::size_t ordinal() const noexcept { return ordinal_; }
  // Ends it; what it showed, if one was being read.
  std::optional<Replay> end_replay();
  // Its messages are known from now on.
  void learn(const Replay& replay);

  // Nothing is known any more: a new session has the id.
  void reset();

 private:
  SeenMessage* find(const Fingerprint& id) noexcept;
  // The content of the message whose chunks come.
  struct Open {
    Fingerprint id;
    Content content;
  };
  Content& open(const Fingerprint& id, bool is_chunk, Fingerprinter& prints);

  std::uint64_t last_place_ = 0;
  bool is_complete_ = false;
  bool is_trimmed_ = false;
  std::vector<SeenMessage> seen_;
  std::unique_ptr<Open> open_;
  std::unique_ptr<Replay> replay_;
  std::map<Fingerprint, std::size_t> shown_;  // where its messages stand
  bool message_open_ = false;                 // v1, of the replay
  std::size_t ordinal_ = 0;
  std::string message_id_;
};

}  // namespace acp
