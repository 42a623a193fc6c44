// Where the tokens of one JSON text stand: simdjson's first stage, and nothing after it.
//
// Why only the first stage: it finds every bracket, comma, colon and the first byte of every string and
// scalar at memory speed, and proves UTF-8 and closed strings on the way. Its DOM refuses texts that must
// cross a relay (numbers beyond a double, lone surrogates), its On-Demand front end skips tokens without
// checking them. json_walk.h puts the grammar on top. Invariant: positions are ascending, and
// position(count()) is the text's length. Lifetime: positions are valid until the next index(); the memory
// (four bytes for each byte of the largest text of late) is kept, and given back after a giant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace simdjson::internal {
class dom_parser_implementation;
}

namespace acp {

enum class IndexFault : std::uint8_t {
  none,
  empty,          // nothing but white space
  not_utf8,       // bytes that are no UTF-8
  broken_string,  // an unclosed string, or a raw control character in one
  no_memory,
};

class StructuralIndex {
 public:
  StructuralIndex();
  ~StructuralIndex();
  StructuralIndex(const StructuralIndex&) = delete;
  StructuralIndex& operator=(const StructuralIndex&) = delete;

  // Indexes `text` (at most limits::frame_bytes_max bytes).
  IndexFault index(std::string_view text) noexcept;

  std::uint32_t count() const noexcept { return count_; }
  const std::uint32_t* positions() const noexcept { return positions_; }

 private:
  bool reserve(std::size_t bytes) noexcept;

  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser_;
  const std::uint32_t* positions_ = nullptr;
  std::uint32_t count_ = 0;
  std::size_t idle_ = 0;  // texts since the last large one
};

}  // namespace acp
