// A line of an agent that is no JSON: find the good objects in it.
//
// Agents print banners and terminal control sequences before their first answer, or two objects on one line.
// What is a complete JSON-RPC object is used, everything else is noise for stderr. Invariant: the pieces
// shown, joined, are the line; at most limits::salvage_attempts_max objects are tried, so that a hostile line
// costs linear time. Lifetime: views into the line; one object a line.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "proxy/core/envelope.h"

namespace acp {

class Salvage {
 public:
  struct Piece {
    bool message;  // one object that says it is JSON-RPC; else noise
    std::string_view text;
  };

  Salvage(std::string_view line, EnvelopeScanner& scanner) noexcept : line_(line), scanner_(scanner) {}

  // The next piece, in order; nothing at the end. A message's envelope is left in `envelope`.
  std::optional<Piece> next(Envelope& envelope);

 private:
  std::string_view line_;
  EnvelopeScanner& scanner_;
  std::size_t done_ = 0;  // shown up to here
  std::size_t message_end_ =
      0;  // a message stands at done_ (its noise before it was just shown) and ends here
  std::size_t attempts_ = 0;
};

}  // namespace acp
