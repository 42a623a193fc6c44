// BLAKE2b under a salt, piece by piece: what fingerprints, key hashes and content hashes are made of.
//
// A hash tells nothing about what went in without the salt. Invariant: the first piece is a tag that names
// the kind of thing, so that no two kinds can meet. Lifetime: plain value; print() may be taken once, or of a
// copy.
#pragma once

#include <array>
#include <cstdint>
#include <sodium.h>
#include <string_view>

namespace acp {

struct Fingerprint {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Fingerprint&) const = default;
  bool operator<(const Fingerprint& other) const noexcept { return bytes < other.bytes; }
};

using Salt = std::array<std::uint8_t, 32>;

class SaltedHash {
 public:
  explicit SaltedHash(const Salt& salt) noexcept {
    crypto_generichash_init(&state_, salt.data(), salt.size(), sizeof(Fingerprint::bytes));
  }
  SaltedHash(const Salt& salt, char tag) noexcept : SaltedHash(salt) { add_tag(tag); }
  SaltedHash& add_tag(char tag) noexcept { return add(std::string_view(&tag, 1)); }
  SaltedHash& add(std::string_view bytes) noexcept {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    return *this;
  }
  SaltedHash& add(const Fingerprint& print) noexcept {
    crypto_generichash_update(&state_, print.bytes.data(), print.bytes.size());
    return *this;
  }
  SaltedHash& add(std::uint64_t number) noexcept {
    std::array<unsigned char, 8> bytes{};
    for (auto& byte : bytes) {
      byte = static_cast<unsigned char>(number & 0xFF);
      number >>= 8;
    }
    crypto_generichash_update(&state_, bytes.data(), bytes.size());
    return *this;
  }
  Fingerprint print() noexcept {
    Fingerprint result;
    crypto_generichash_final(&state_, result.bytes.data(), result.bytes.size());
    return result;
  }

 private:
  crypto_generichash_state state_;
};

}  // namespace acp
