#include "tests/sim/world.h"

namespace acp::sim {

void Pipe::write(Line line) {
  const std::size_t begin = bytes_.size();
  bytes_ += line.bytes;
  marks_.push_back({begin, bytes_.size(), std::move(line)});
}

void Pipe::write_unended(const Line& line, bool whole) {
  const Frame& frame = line.frames.front();
  if (whole) {
    bytes_ += frame.text;
    last_ = line.frames;
  } else {
    bytes_ += frame.text.substr(0, frame.text.size() / 2);
  }
}

std::string_view Pipe::take(std::size_t size, std::size_t frame_bytes_max, std::vector<Frame>& completed) {
  constexpr std::size_t dropped_bytes = 4;  // BOM and CR
  const std::string_view bytes = std::string_view(bytes_).substr(taken_, size);
  taken_ += bytes.size();
  while (!marks_.empty()) {
    Mark& mark = marks_.front();
    const bool whole = mark.end <= taken_;
    const bool too_long = mark.line.oversize && taken_ > mark.begin + frame_bytes_max + dropped_bytes;
    if (whole || too_long) {
      for (Frame& frame : mark.line.frames) completed.push_back(std::move(frame));
      mark.line.frames.clear();
    }
    if (!whole) break;
    marks_.pop_front();
  }
  return bytes;
}

std::vector<Frame> Pipe::take_last() { return std::move(last_); }

}  // namespace acp::sim
