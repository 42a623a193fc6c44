// Is this the same prompt? A 128-bit hash of a request's params as a JSON *value*.
//
// Member order, white space, escapes and number spelling do not matter; duplicate members all count, in their
// order. Left out are params' own `idempotencyKey` and `_meta` (trace ids change on every attempt). BLAKE2b
// keyed with a salt, so that a stored print tells nothing about the text. Streaming: no tree is built, memory
// is bounded by nesting and by limits::fingerprint_members_max (members beyond that many open ones count in
// order). Invariant: equal values give equal prints; different ones differ but for a 2^-128 chance. Lifetime:
// prints are values; the object only keeps memory for the next call.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/structural_index.h"

namespace acp {

struct Fingerprint {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Fingerprint&) const = default;
};

using Salt = std::array<std::uint8_t, 32>;

class Fingerprinter {
 public:
  explicit Fingerprinter(const Salt& salt) noexcept;
  ~Fingerprinter();
  Fingerprinter(const Fingerprinter&) = delete;
  Fingerprinter& operator=(const Fingerprinter&) = delete;

  // `params`: one checked JSON value with limits::padding_bytes readable behind it. An empty view (no params)
  // has a print too.
  Fingerprint of(std::string_view params) noexcept;

 private:
  class Fold;
  class Hash;
  // A container that is still open.
  struct Open;
  struct MemberPrint {
    std::uint64_t name;      // of the member: equal names are found by it
    std::uint64_t position;  // in its object
    Fingerprint print;       // of name and value
  };

  Salt salt_;
  StructuralIndex index_;
  std::vector<Open> open_;
  std::vector<MemberPrint> members_;
  std::string scratch_;
};

}  // namespace acp
