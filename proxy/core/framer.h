// Bytes to frames: one frame a line.
//
// Region map of the input: [rest of the frame begun in earlier reads][whole frames of this read][beginning of
// the next]. Frames that lie whole in one read are views into it, nothing is copied; only a frame that spans
// reads is gathered in a buffer of the framer's. Invariant: any split of a byte stream gives the same frames.
// LF ends a frame; a CR before it, a BOM at a frame's start and blank lines are dropped. Lifetime: a Frame's
// views are valid until the next feed(); `limits::padding_bytes` are readable behind them if they were behind
// the fed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace acp {

enum class FrameKind : std::uint8_t {
  whole,
  unterminated,  // the rest at the end of the stream: a frame if it parses
  oversize,      // longer than the limit; `text` is its beginning only, the rest is skipped to its LF
};

struct Frame {
  FrameKind kind;
  std::string_view text;  // without CR and LF
  std::string_view line;  // the text with its LF, where both stand side by side in memory; else empty
};

class Framer {
 public:
  // `frame_bytes_max`: the longest text of a frame, limits::frame_bytes_min..frame_bytes_max.
  explicit Framer(std::size_t frame_bytes_max) noexcept : frame_bytes_max_(frame_bytes_max) {}

  // Begins a new read. All frames of the last one must have been taken.
  void feed(std::string_view bytes);
  // The next frame, or nothing until more is fed.
  std::optional<Frame> next();
  // The end of the stream: what is left, if it is more than blanks. Ends the framer.
  std::optional<Frame> finish();

  // Bytes held of a frame that is not complete.
  std::size_t held_bytes() const noexcept { return rest_.used; }

 private:
  // Bytes of one frame that spans reads. Two of them take turns: one may still be shown while the other
  // gathers.
  struct Rest {
    std::unique_ptr<char[]> bytes;
    std::size_t size = 0;
    std::size_t used = 0;
    std::size_t idle = 0;  // clears since it was last large
    std::string_view view() const noexcept { return {bytes.get(), used}; }
    void append(std::string_view more);
    void clear() noexcept;
  };

  // `text` is followed by its LF in memory. Nothing if it is blank.
  std::optional<Frame> to_frame(std::string_view text) const noexcept;
  Frame show_beginning(std::string_view text) const noexcept;

  std::size_t frame_bytes_max_;
  std::string_view input_;
  Rest rest_;
  Rest shown_;
  bool skipping_ = false;  // within a frame over the limit
};

}  // namespace acp
