// Bytes made during one step (errors, spliced spans), in blocks that never move while the step's actions are
// carried out.
//
// Invariant: a view returned by add() stays valid until reset(). Blocks of the usual size are kept for the
// next step, so that the steady state allocates nothing. Lifetime: owned by Actions.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "proxy/core/limits.h"

namespace acp {

class Arena {
 public:
  // Copies `bytes`; the view returned is stable until reset().
  std::string_view add(std::string_view bytes) {
    char* place = reserve(bytes.size());
    if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
    return {place, bytes.size()};
  }

  // Forgets all views; keeps at most one block.
  void reset() noexcept {
    if (blocks_.size() > 1) blocks_.resize(1);
    if (!blocks_.empty() && blocks_.front().size > block_bytes) blocks_.clear();
    used_ = 0;
  }

 private:
  struct Block {
    std::unique_ptr<char[]> bytes;
    std::size_t size;
  };
  static constexpr std::size_t block_bytes = 64 * limits::kib;

  char* reserve(std::size_t size) {
    if (blocks_.empty() || blocks_.back().size - used_ < size) {
      const std::size_t block_size = size > block_bytes ? size : block_bytes;
      blocks_.push_back({std::unique_ptr<char[]>(new char[block_size]), block_size});
      used_ = 0;
    }
    char* place = blocks_.back().bytes.get() + used_;
    used_ += size;
    return place;
  }

  std::vector<Block> blocks_;
  std::size_t used_ = 0;
};

}  // namespace acp
