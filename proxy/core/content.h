// What a user message says, as one hash: the same for the prompt that was sent and for the message that an
// agent shows later, whole or in chunks.
//
// `_meta` and null members do not count, neighbouring plain text blocks are one text (an agent may store them
// so), everything else counts as a JSON value, in its order. Invariant: the hash of a whole array and of its
// blocks one by one is the same. Lifetime: a Content is a plain value (some 400 bytes) that belongs to one
// message; a ContentReader only keeps memory for the next call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/fingerprint.h"
#include "proxy/core/salted_hash.h"
#include "proxy/core/structural_index.h"

namespace acp {

class Content {
 public:
  explicit Content(const Salt& salt) noexcept : hash_(salt, 'b') {}
  // More of a text that stands alone in its block.
  void add_text(std::string_view decoded) noexcept;
  // A block of any other kind.
  void add_block(const Fingerprint& print) noexcept;
  // Of what was added so far.
  Fingerprint print() const noexcept;

 private:
  void end_text() noexcept;

  SaltedHash hash_;
  std::uint64_t text_bytes_ = 0;  // of the text at hand
};

class ContentReader {
 public:
  // `raw`: one block, or an array of blocks; checked JSON with limits::padding_bytes readable behind it.
  void add(std::string_view raw, Fingerprinter& prints, Content& content);
  // The message of a `session/prompt`: its content, and whether its text begins with `/` (agents run such
  // prompts as commands).
  struct Message {
    Fingerprint content;
    bool is_command = false;
  };
  Message of_prompt(std::string_view raw, Fingerprinter& prints);

 private:
  struct Block {
    std::string_view raw;
    std::string_view text;  // raw token; only of plain text
    bool is_text = false;   // `type` is "text"
    bool is_plain = true;   // nothing but type and text
  };
  class Finder;
  void find_blocks(std::string_view raw);
  static std::string_view plain_text(const Block& block) noexcept;

  StructuralIndex index_;
  std::vector<Block> blocks_;
  std::string scratch_;
};

}  // namespace acp
