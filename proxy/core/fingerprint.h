// Is this the same prompt? A 128-bit hash of a request's params as a JSON *value*.
//
// Member order, white space, escapes and number spelling do not matter; duplicate members all count, in their
// order. Left out are params' own `idempotencyKey` and `_meta` (trace ids change on every attempt). BLAKE2b
// keyed with a salt, so that a stored print tells nothing about the text. Streaming: no tree is built, memory
// is bounded by nesting and by limits::fingerprint_members_max (members beyond that many open ones count in
// order). Invariant: equal values give equal prints; different ones differ but for a 2^-128 chance. Lifetime:
// prints are values; the object only keeps memory for the next call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/salted_hash.h"
#include "proxy/core/structural_index.h"

namespace acp {

class Fingerprinter {
 public:
  explicit Fingerprinter(const Salt& salt) noexcept;
  ~Fingerprinter();
  Fingerprinter(const Fingerprinter&) = delete;
  Fingerprinter& operator=(const Fingerprinter&) = delete;

  // `params`: one checked JSON value with limits::padding_bytes readable behind it. An empty view (no params)
  // has a print too.
  Fingerprint of(std::string_view params) noexcept;
  // Of a value as an agent may give it back: no member is `idempotencyKey`, but members that are null and
  // `_meta` are left out wherever they stand.
  Fingerprint of_content(std::string_view value) noexcept;

  // All prints from now on are under this salt.
  void set_salt(const Salt& salt) noexcept {
    salt_ = salt;
    salted_ = SaltedHash(salt);
  }
  const Salt& salt() const noexcept { return salt_; }

 private:
  enum class Leaves : std::uint8_t { out_key_and_meta, out_meta_and_null };
  Fingerprint fold(std::string_view text, Leaves leaves) noexcept;
  class Fold;
  // A container that is still open.
  struct Open;
  struct MemberPrint {
    std::uint64_t name;      // of the member: equal names are found by it
    std::uint64_t position;  // in its object
    Fingerprint print;       // of name and value
  };

  Salt salt_;
  SaltedHash salted_;  // nothing but the salt, to be copied
  StructuralIndex index_;
  std::vector<Open> open_;
  std::vector<MemberPrint> members_;
  std::string scratch_;
};

}  // namespace acp
