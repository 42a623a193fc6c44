// What every fuzz target shares: a check that ends the program, and bytes with the padding the core asks for.
//
// Lifetime: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/unit/padded.h"

namespace acp::fuzz {

// A failed check is a crash, which libFuzzer reports with its input.
inline void check(bool holds) {
  if (!holds) std::abort();
}

inline std::string_view view_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace acp::fuzz
