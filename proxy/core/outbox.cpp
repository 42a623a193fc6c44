#include "proxy/core/outbox.h"

#include <algorithm>
#include <utility>

#include "proxy/core/limits.h"

namespace acp {

void Outbox::confirm(std::uint64_t ticket) noexcept {
  for (Frame& frame : frames_) {
    if (frame.ticket == ticket) frame.ticket = 0;
  }
}

bool Outbox::waits_for(std::uint64_t ticket) const noexcept {
  return std::any_of(frames_.begin(), frames_.end(),
                     [&](const Frame& frame) { return frame.ticket == ticket; });
}

std::optional<Outbox::Frame> Outbox::take_free(Instant now) {
  const bool others_pass = !frames_.empty() && now >= frames_.front().since + limits::commit_patience;
  if (others_pass) passed_ = frames_.front().since;
  std::vector<std::uint32_t> blocked;
  for (auto frame = frames_.begin(); frame != frames_.end(); ++frame) {
    const bool waits =
        frame->ticket != 0 || std::find(blocked.begin(), blocked.end(), frame->session) != blocked.end();
    if (!waits) {
      Frame taken = std::move(*frame);
      frames_.erase(frame);
      bytes_ -= taken.bytes.size();
      return taken;
    }
    if (!others_pass) return std::nullopt;
    blocked.push_back(frame->session);
  }
  return std::nullopt;
}

void Outbox::drop(std::uint32_t pending) noexcept {
  std::erase_if(frames_, [&](const Frame& frame) {
    if (frame.pending != pending) return false;
    bytes_ -= frame.bytes.size();
    return true;
  });
}

std::optional<Instant> Outbox::patience_ends() const noexcept {
  if (frames_.empty() || is_slow()) return std::nullopt;
  return frames_.front().since + limits::commit_patience;
}

std::vector<std::uint32_t> Outbox::requests_of(std::uint32_t session) const {
  std::vector<std::uint32_t> requests;
  for (const Frame& frame : frames_) {
    if (frame.session == session && frame.pending != Pending::no_row) requests.push_back(frame.pending);
  }
  return requests;
}

void Outbox::clear() noexcept {
  frames_.clear();
  bytes_ = 0;
}

}  // namespace acp
