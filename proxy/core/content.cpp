#include "proxy/core/content.h"

#include <array>

#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/json_walk.h"

namespace acp {
namespace {

// Behind the white space that agents cut off before they look for a command: that of JavaScript's trim(), the
// widest of them.
std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 25> spaces{
      " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\xC2\xA0", "\u1680", "\u2000",
      "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",   "\u2008", "\u2009",
      "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000", "\uFEFF"};
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view space : spaces) {
      if (!text.starts_with(space)) continue;
      text.remove_prefix(space.size());
      cut = true;
    }
  }
  return text;
}

constexpr char text_tag = 't';
constexpr char end_tag = 'e';
constexpr char block_tag = 'v';

}  // namespace

void Content::add_text(std::string_view decoded) noexcept {
  if (decoded.empty()) return;
  if (text_bytes_ == 0) hash_.add_tag(text_tag);
  hash_.add(decoded);
  text_bytes_ += decoded.size();
}

// Its length ends a text: what follows cannot be taken for more of it.
void Content::end_text() noexcept {
  if (text_bytes_ == 0) return;
  hash_.add_tag(end_tag).add(text_bytes_);
  text_bytes_ = 0;
}

void Content::add_block(const Fingerprint& print) noexcept {
  end_text();
  hash_.add_tag(block_tag).add(print);
}

Fingerprint Content::print() const noexcept {
  Content copy = *this;
  copy.end_text();
  return copy.hash_.print();
}

// Finds the blocks in an array, or the one block that stands alone.
class ContentReader::Finder {
 public:
  Finder(std::string_view text, std::vector<Block>& blocks) noexcept : text_(text), blocks_(blocks) {}

  void open(std::size_t at, bool object, std::size_t depth) noexcept {
    if (depth == 1) is_array_ = !object;
    if (depth == block_depth()) begin_ = at;
    if (depth == block_depth()) block_ = Block{};
    if (depth == block_depth() && !object) block_.is_plain = false;
    if (depth > block_depth() && member_ != Member::meta) block_.is_plain = false;
  }
  void close(std::size_t end, std::size_t depth) noexcept {
    if (depth != block_depth()) return;
    block_.raw = text_.substr(begin_, end - begin_);
    blocks_.push_back(block_);
  }
  void key(std::string_view token, bool /*escaped*/, std::size_t depth) noexcept {
    if (depth != block_depth()) return;
    const std::string_view name = decode_string(token, scratch_);
    member_ = name == "type"    ? Member::type
              : name == "text"  ? Member::text
              : name == "_meta" ? Member::meta
                                : Member::other;
  }
  void value(std::string_view token, bool /*escaped*/, std::size_t depth) noexcept {
    if (is_array_ && depth == 1) {  // no block, but it counts
      blocks_.push_back({.raw = token, .text = {}, .is_text = false, .is_plain = false});
      return;
    }
    if (depth != block_depth() || token == "null" || member_ == Member::meta) return;
    const bool is_string = token.front() == '"';
    if (member_ == Member::type && is_string) {
      block_.is_text = decode_string(token, scratch_) == "text";
    } else if (member_ == Member::text && is_string && block_.text.empty()) {
      block_.text = token;
    } else {
      block_.is_plain = false;
    }
  }

 private:
  enum class Member : std::uint8_t { type, text, meta, other };
  std::size_t block_depth() const noexcept { return is_array_ ? 2 : 1; }

  std::string_view text_;
  std::vector<Block>& blocks_;
  Block block_;
  Member member_ = Member::other;
  std::size_t begin_ = 0;
  bool is_array_ = false;
  std::string scratch_;
};

void ContentReader::find_blocks(std::string_view raw) {
  blocks_.clear();
  if (raw.empty()) return;
  const IndexFault fault = index_.index(raw);
  INVARIANT(fault == IndexFault::none);  // the frame around it was checked before
  Finder finder(raw, blocks_);
  const WalkFault walked = walk_json(raw, index_, finder);
  INVARIANT(walked == WalkFault::none);
}

std::string_view ContentReader::plain_text(const Block& block) noexcept {
  return block.is_text && block.is_plain ? block.text : std::string_view{};
}

void ContentReader::add(std::string_view raw, Fingerprinter& prints, Content& content) {
  find_blocks(raw);
  for (const Block& block : blocks_) {
    const std::string_view text = plain_text(block);
    if (text.empty()) {
      content.add_block(prints.of_content(block.raw));
    } else {
      content.add_text(decode_string(text, scratch_));
    }
  }
}

ContentReader::Message ContentReader::of_prompt(std::string_view raw, Fingerprinter& prints) {
  Content content(prints.salt());
  add(raw, prints, content);
  Message message{.content = content.print()};
  for (const Block& block : blocks_) {
    const std::string_view token = block.is_text ? block.text : std::string_view{};
    if (token.empty()) continue;
    const std::string_view text = trimmed(decode_string(token, scratch_));
    if (text.empty()) continue;
    message.is_command = text.front() == '/';
    break;
  }
  return message;
}

}  // namespace acp
