// Bytes that a peer has not taken yet, in order.
//
// Invariant: kept in blocks of one size; a used-up block goes to a short list of spare ones and is used
// again, so that a stream that is always a little behind allocates nothing. Bounded by its owner (the core
// stops reading the other side, the stderr writer drops). Lifetime: owned by one Writer.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <sys/uio.h>

namespace acp::shell {

class Backlog {
 public:
  Backlog();
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;
  ~Backlog();

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  // Copies the bytes behind all others.
  void append(std::string_view bytes);
  // Describes the first bytes in at most `most` parts; returns how many parts were filled.
  int gather(iovec* parts, int most) const;
  // Forgets the first `count` bytes, at most size().
  void consume(std::size_t count);
  void clear();

 private:
  struct Block;

  std::unique_ptr<Block> take_block();
  void keep_block(std::unique_ptr<Block> block);

  std::unique_ptr<Block> first_;
  Block* last_ = nullptr;
  std::unique_ptr<Block> spare_;
  std::size_t spare_count_ = 0;
  std::size_t size_ = 0;
};

}  // namespace acp::shell
