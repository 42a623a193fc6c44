// What one history came to.
//
// Invariant: it depends on the seed (and the script) only. Lifetime: plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "tests/sim/coverage.h"
#include "tests/sim/invariants.h"

namespace acp::sim {

// Eight bytes at a time: it is there to tell two histories apart.
class TraceHash {
 public:
  void mix(std::string_view bytes) noexcept {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;
    std::uint64_t hash = hash_ ^ bytes.size();
    while (!bytes.empty()) {
      std::uint64_t word = 0;
      const std::size_t size = bytes.size() < sizeof word ? bytes.size() : sizeof word;
      std::memcpy(&word, bytes.data(), size);
      hash = (hash ^ word) * odd;
      hash ^= hash >> 29;
      bytes.remove_prefix(size);
    }
    hash_ = hash;
  }
  template <class Number>
  void mix_number(const Number& number) noexcept {
    mix({reinterpret_cast<const char*>(&number), sizeof number});
  }
  std::uint64_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

struct Outcome {
  std::optional<Invariant> broken;
  std::string failure;  // in words; empty: all invariants held
  std::uint64_t trace_hash = 0;
  std::size_t events = 0;
  std::size_t messages = 0;
  std::size_t steps = 0;   // of the safety phase
  std::size_t faults = 0;  // what went wrong in it, of both ends and the disk
  Reached reached;
};

}  // namespace acp::sim
