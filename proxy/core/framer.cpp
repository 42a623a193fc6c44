#include "proxy/core/framer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

constexpr std::string_view bom = "\xEF\xBB\xBF";
constexpr std::size_t rest_first_bytes = 4 * limits::kib;
constexpr std::size_t rest_usual_bytes = 256 * limits::kib;
constexpr std::size_t rest_large_bytes = 4 * limits::mib;
constexpr std::size_t rest_idle_max = 256;
constexpr std::size_t dropped_bytes_max = 4;  // BOM and CR do not count for the limit

bool is_blank(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::string_view without_bom(std::string_view text) noexcept {
  return text.starts_with(bom) ? text.substr(bom.size()) : text;
}

}  // namespace

void Framer::Rest::append(std::string_view more) {
  const std::size_t needed = used + more.size() + limits::padding_bytes;
  if (needed > size) {
    const std::size_t grown = std::max({needed, size * 2, rest_first_bytes});
    std::unique_ptr<char[]> larger(new char[grown]);
    if (used > 0) std::memcpy(larger.get(), bytes.get(), used);
    std::memset(larger.get() + grown - limits::padding_bytes, 0, limits::padding_bytes);
    bytes = std::move(larger);
    size = grown;
  }
  std::memcpy(bytes.get() + used, more.data(), more.size());
  used += more.size();
}

// Memory is kept while frames of its size keep coming, given back once they do not, and at once after a
// giant.
void Framer::Rest::clear() noexcept {
  idle = used > rest_usual_bytes ? 0 : idle + 1;
  used = 0;
  if (size <= rest_usual_bytes || (size <= rest_large_bytes && idle < rest_idle_max)) return;
  bytes.reset();
  size = 0;
}

// `text` without its BOM. As much of it as is there at every split of the stream.
Frame Framer::show_beginning(std::string_view text) const noexcept {
  return {FrameKind::oversize, text.substr(0, std::min(limits::frame_beginning_bytes, frame_bytes_max_)), {}};
}

void Framer::feed(std::string_view bytes) {
  INVARIANT(input_.empty());
  shown_.clear();
  input_ = bytes;
}

std::optional<Frame> Framer::next() {
  while (!input_.empty()) {
    const void* found = std::memchr(input_.data(), '\n', input_.size());
    if (found == nullptr) break;
    const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - input_.data());
    const std::string_view line = input_.substr(0, length + 1);
    input_.remove_prefix(length + 1);
    if (skipping_) {
      skipping_ = false;
      continue;
    }
    std::string_view whole = line;
    if (rest_.used > 0) {
      rest_.append(line);
      std::swap(rest_, shown_);  // at most once a read: later lines of it lie in the input
      whole = shown_.view();
    }
    if (auto frame = to_frame(whole.substr(0, whole.size() - 1))) return frame;
  }
  const std::string_view begun = std::exchange(input_, {});
  if (skipping_ || begun.empty()) return std::nullopt;
  // A frame over the limit is shown as soon as that is known; the rest of it is skipped as it comes.
  skipping_ = rest_.used + begun.size() > frame_bytes_max_ + dropped_bytes_max;
  if (skipping_ && rest_.used == 0) return show_beginning(without_bom(begun));  // shown_ may still be in use
  rest_.append(begun);
  if (!skipping_) return std::nullopt;
  std::swap(rest_, shown_);
  return show_beginning(without_bom(shown_.view()));
}

std::optional<Frame> Framer::finish() {
  INVARIANT(input_.empty());
  if (rest_.used == 0) return std::nullopt;
  std::swap(rest_, shown_);
  rest_.clear();        // told once, also where a stream is ended twice
  shown_.append("\n");  // only LF-terminated lines are written
  std::optional<Frame> frame = to_frame(shown_.view().substr(0, shown_.used - 1));
  if (frame && frame->kind == FrameKind::whole) frame->kind = FrameKind::unterminated;
  return frame;
}

std::optional<Frame> Framer::to_frame(std::string_view text) const noexcept {
  text = without_bom(text);
  const bool carriage_return = !text.empty() && text.back() == '\r';
  if (carriage_return) text.remove_suffix(1);
  // Before the look for blanks: of a line that is read in pieces the end is not known yet.
  if (text.size() > frame_bytes_max_) return show_beginning(text);
  if (is_blank(text)) return std::nullopt;
  const std::string_view line =
      carriage_return ? std::string_view{} : std::string_view{text.data(), text.size() + 1};
  return Frame{FrameKind::whole, text, line};
}

}  // namespace acp
