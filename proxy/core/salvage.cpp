#include "proxy/core/salvage.h"

#include "proxy/core/beginning.h"
#include "proxy/core/limits.h"

namespace acp {

std::optional<Salvage::Piece> Salvage::next(Envelope& envelope) {
  if (done_ == line_.size()) return std::nullopt;
  if (message_end_ > done_) {
    const std::string_view text = line_.substr(done_, message_end_ - done_);
    scanner_.scan(text, envelope);
    done_ = message_end_;
    return Piece{true, text};
  }
  for (std::size_t at = line_.find('{', done_);
       at != std::string_view::npos && attempts_ < limits::salvage_attempts_max;
       at = line_.find('{', at + 1)) {
    ++attempts_;
    const std::size_t end = balanced_end(line_, at);
    if (end == std::string_view::npos) continue;
    const std::string_view text = line_.substr(at, end - at);
    scanner_.scan(text, envelope);
    if (envelope.fault != FrameFault::none) {
      // One broken message: what stands whole inside it was never meant to stand alone.
      if (read_beginning(text).is_message()) at = end - 1;
      continue;
    }
    if (!envelope.has(Slot::jsonrpc) || envelope.shape() == Shape::nothing) {
      at = end - 1;  // JSON of another kind: what it quotes inside is not meant for the client
      continue;
    }
    const std::size_t noise_begin = done_;
    if (at == noise_begin) {
      done_ = end;
      return Piece{true, text};
    }
    done_ = at;
    message_end_ = end;
    return Piece{false, line_.substr(noise_begin, at - noise_begin)};
  }
  const std::string_view rest = line_.substr(done_);
  done_ = line_.size();
  return Piece{false, rest};
}

}  // namespace acp
