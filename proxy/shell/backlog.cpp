#include "proxy/shell/backlog.h"

#include <algorithm>
#include <cstring>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp::shell {
namespace {

constexpr std::size_t block_bytes = 64 * limits::kib;
// As many as fill up before the other side is paused.
constexpr std::size_t spare_blocks_max = limits::backlog_bytes_high / block_bytes;

}  // namespace

struct Backlog::Block {
  std::unique_ptr<Block> next;
  std::size_t begin = 0;
  std::size_t end = 0;
  char bytes[block_bytes];
};

Backlog::Backlog() = default;

Backlog::~Backlog() {
  clear();
  // One by one: the default would recurse once a block.
  while (spare_) spare_ = std::move(spare_->next);
}

std::unique_ptr<Backlog::Block> Backlog::take_block() {
  if (!spare_) return std::unique_ptr<Block>(new Block);
  std::unique_ptr<Block> block = std::move(spare_);
  spare_ = std::move(block->next);
  --spare_count_;
  block->begin = block->end = 0;
  return block;
}

void Backlog::keep_block(std::unique_ptr<Block> block) {
  if (spare_count_ == spare_blocks_max) return;
  block->next = std::move(spare_);
  spare_ = std::move(block);
  ++spare_count_;
}

void Backlog::append(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (last_ == nullptr || last_->end == block_bytes) {
      std::unique_ptr<Block>& place = last_ == nullptr ? first_ : last_->next;
      place = take_block();
      last_ = place.get();
    }
    const std::size_t part = std::min(bytes.size(), block_bytes - last_->end);
    std::memcpy(last_->bytes + last_->end, bytes.data(), part);
    last_->end += part;
    bytes.remove_prefix(part);
  }
}

int Backlog::gather(iovec* parts, int most) const {
  int count = 0;
  for (Block* block = first_.get(); block != nullptr && count < most; block = block->next.get()) {
    parts[count++] = {block->bytes + block->begin, block->end - block->begin};
  }
  return count;
}

void Backlog::consume(std::size_t count) {
  INVARIANT(count <= size_);
  size_ -= count;
  while (count > 0) {
    const std::size_t part = std::min(count, first_->end - first_->begin);
    first_->begin += part;
    count -= part;
    if (first_->begin < first_->end) return;
    std::unique_ptr<Block> used = std::move(first_);
    first_ = std::move(used->next);
    if (!first_) last_ = nullptr;
    keep_block(std::move(used));
  }
}

void Backlog::clear() { consume(size_); }

}  // namespace acp::shell
