#include "proxy/core/history.h"

#include <algorithm>
#include <utility>

#include "proxy/core/limits.h"

namespace acp {

SeenMessage* SessionHistory::find(const Fingerprint& id) noexcept {
  const auto found =
      std::find_if(seen_.rbegin(), seen_.rend(), [&](const SeenMessage& seen) { return seen.id == id; });
  return found == seen_.rend() ? nullptr : &*found;
}

void SessionHistory::add_older(std::vector<SeenMessage> messages) {
  messages.insert(messages.end(), seen_.begin(), seen_.end());
  seen_ = std::move(messages);
}

void SessionHistory::see(const Fingerprint& id, const Fingerprint* content, bool is_given) {
  SeenMessage* message = find(id);
  if (message == nullptr) {
    if (seen_.size() >= limits::seen_messages_max) {
      seen_.erase(seen_.begin(), seen_.begin() + limits::seen_messages_max / 2);
      is_complete_ = false;
      is_trimmed_ = true;
    }
    seen_.push_back({.id = id, .seen_at = next_place()});
    message = &seen_.back();
  }
  const bool tells_content =
      content != nullptr && !(message->is_content_known && message->content == *content);
  if (!tells_content && message->is_given >= is_given) return;
  message->saved.change();
  message->is_given = message->is_given || is_given;
  if (!tells_content) return;
  message->content = *content;
  message->is_content_known = true;
}

Content& SessionHistory::open(const Fingerprint& id, bool is_chunk, Fingerprinter& prints) {
  const bool goes_on = is_chunk && open_ != nullptr && open_->id == id;
  if (!goes_on) open_ = std::make_unique<Open>(Open{id, Content(prints.salt())});
  return open_->content;
}

void SessionHistory::see_content(const Fingerprint& id, std::string_view raw, bool is_chunk,
                                 ContentReader& reader, Fingerprinter& prints) {
  const SeenMessage* known = find(id);
  const bool begins = is_chunk && (open_ == nullptr || open_->id != id);
  // More of a message whose beginning was not seen, or whose content an answer told: no more is learned. The
  // message before it is over: its next chunk is another showing of it.
  if (begins) open_.reset();
  const bool is_told = known != nullptr && (begins || (is_chunk && known->is_given));
  if (raw.empty() || is_told) return see(id, nullptr, false);
  Content& content = open(id, is_chunk, prints);
  reader.add(raw, prints, content);
  const Fingerprint print = content.print();
  see(id, &print, false);
}

bool SessionHistory::has_news_since(std::uint64_t place) const noexcept {
  return std::any_of(seen_.begin(), seen_.end(),
                     [place](const SeenMessage& seen) { return seen.seen_at > place && !seen.is_given; });
}

void SessionHistory::begin_replay() {
  replay_ = std::make_unique<Replay>();
  shown_.clear();
  replay_->begun_at = last_place_;
  message_open_ = false;
  ordinal_ = 0;
  open_.reset();
}

void SessionHistory::read_content(std::string_view token, const Fingerprint& id, std::string_view raw,
                                  bool is_chunk, ContentReader& reader, Fingerprinter& prints) {
  auto& messages = replay_->messages;
  auto place = shown_.find(id);
  const bool is_new = place == shown_.end();
  if (is_new && messages.size() >= limits::replayed_messages_max) {
    messages.erase(messages.begin(), messages.begin() + limits::replayed_messages_max / 2);
    replay_->is_cut = true;
    shown_.clear();
    for (std::size_t i = 0; i < messages.size(); ++i) shown_.emplace(messages[i].id, i);
  }
  if (is_new) {
    messages.push_back({id, {}, std::string(token)});
    place = shown_.emplace(id, messages.size() - 1).first;
  }
  ReplayedMessage* const message = &messages[place->second];
  if (raw.empty()) return;
  if (is_chunk && !is_new && (open_ == nullptr || open_->id != id)) {
    message->content = {};  // its beginning is let go: no longer known what it says
    open_.reset();          // nor does the message before it go on
    return;
  }
  Content& content = open(id, is_chunk, prints);
  reader.add(raw, prints, content);
  message->content = content.print();
}

std::optional<Replay> SessionHistory::end_replay() {
  open_.reset();
  shown_.clear();
  if (replay_ == nullptr) return std::nullopt;
  return std::move(*std::exchange(replay_, nullptr));
}

void SessionHistory::learn(const Replay& replay) {
  for (const ReplayedMessage& message : replay.messages) {
    const bool tells = message.content != Fingerprint{};
    if (SeenMessage* seen = tells ? find(message.id) : nullptr;
        seen != nullptr && seen->is_given && seen->is_content_known && seen->content != message.content) {
      // Its prompt said otherwise: rewritten, or shown live and again in one go. Not known until told again.
      seen->saved.change();
      seen->is_content_known = false;
      continue;
    }
    see(message.id, tells ? &message.content : nullptr, false);
  }
}

void SessionHistory::reset() {
  const std::uint64_t place = last_place_;
  *this = SessionHistory{};
  last_place_ = place;
}

}  // namespace acp
