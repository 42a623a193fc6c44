// The generator of the simulation: xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain).
//
// Not std::mt19937 with std:: distributions: those differ between libraries, and a seed must mean one history
// everywhere. Lifetime: one for each history.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tests/sim/script.h"

namespace acp::sim {

class Prng {
 public:
  // `tape`: what is drawn is kept there, or comes from there; it outlives the generator. Null: neither.
  explicit Prng(std::uint64_t seed, Tape* tape = nullptr) : seed_(seed), tape_(tape) {
    this->seed(seed);
    begin_event(0);
  }

  // Draws belong to that event from now on. Without a tape nothing changes.
  void begin_event(std::size_t event) {
    if (tape_ == nullptr) return;
    tape_->event = event;
    tape_->next = 0;
    if (tape_->events.size() <= event) tape_->events.resize(event + 1);
    if (!tape_->records) seed(seed_ ^ (event + 1) * 0xD1B54A32D192ED03U);
  }

  std::uint64_t next() { return tape_ == nullptr ? draw() : draw_with_tape(); }

  // 0..limit-1; limit > 0.
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>((next() >> 32) * limit >> 32); }
  bool chance(unsigned percent) { return below(100) < percent; }
  // One of a range's elements; not empty.
  template <class Range>
  auto& pick(Range& range) {
    return range[below(range.size())];
  }
  template <class T, std::size_t size>
  const T& pick(const T (&choices)[size]) {
    return choices[below(size)];
  }

 private:
  void seed(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15U;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
      mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
      word = mixed ^ (mixed >> 31);
    }
  }

  std::uint64_t draw() noexcept {
    const std::uint64_t result = rotated(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotated(state_[3], 45);
    return result;
  }

  std::uint64_t draw_with_tape() {
    std::vector<std::uint64_t>& drawn = tape_->events[tape_->event];
    if (tape_->records) return drawn.emplace_back(draw());
    return tape_->next < drawn.size() ? drawn[tape_->next++] : draw();
  }

  static constexpr std::uint64_t rotated(std::uint64_t word, int by) noexcept {
    return (word << by) | (word >> (64 - by));
  }
  std::array<std::uint64_t, 4> state_{};
  std::uint64_t seed_;
  Tape* tape_;
};

}  // namespace acp::sim
