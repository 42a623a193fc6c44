// Any split of a stream gives the same frames. The first byte seeds the splits.
#include <algorithm>
#include <string>
#include <vector>

#include "proxy/core/framer.h"
#include "proxy/core/limits.h"
#include "tests/fuzz/input.h"
#include "tests/unit/random_json.h"

namespace {

namespace fuzz = acp::fuzz;
namespace limits = acp::limits;
namespace test = acp::test;
using acp::Frame;
using acp::FrameKind;
using acp::Framer;

struct Seen {
  FrameKind kind;
  std::string text;
  bool operator==(const Seen&) const = default;
};

// `piece` is followed by the padding, or by what comes next.
void read(Framer& framer, std::string_view piece, std::vector<Seen>& seen) {
  framer.feed(piece);
  std::vector<Frame> frames;
  while (const auto frame = framer.next()) frames.push_back(*frame);
  for (const Frame& frame : frames) {
    seen.push_back({frame.kind, std::string(frame.text)});
    fuzz::check(frame.line.empty() || frame.line == std::string(frame.text) + "\n");
  }
}

std::vector<Seen> frames_of(std::string_view stream, std::size_t piece_max, std::uint64_t seed) {
  Framer framer(limits::frame_bytes_min);
  test::Random random(seed);
  std::vector<Seen> seen;
  while (!stream.empty()) {
    const std::size_t size = std::min(stream.size(), 1 + random.below(piece_max));
    read(framer, stream.substr(0, size), seen);
    stream.remove_prefix(size);
  }
  if (const auto frame = framer.finish()) seen.push_back({frame->kind, std::string(frame->text)});
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view all = fuzz::view_of(bytes, size);
  const std::uint64_t seed = bytes[0];
  // A short input repeated crosses the limit too.
  std::string repeated(all.substr(1));
  if (seed % 4 == 0) {
    while (repeated.size() < 3 * limits::frame_bytes_min) repeated += repeated;
  }
  const test::Padded padded(repeated);
  const std::string_view stream = padded.view();
  Framer framer(limits::frame_bytes_min);
  std::vector<Seen> whole;
  read(framer, stream, whole);
  if (const auto frame = framer.finish()) whole.push_back({frame->kind, std::string(frame->text)});
  fuzz::check(frames_of(stream, 1, seed) == whole);
  fuzz::check(frames_of(stream, 64, seed) == whole);
  fuzz::check(frames_of(stream, 4096, seed) == whole);
  return 0;
}
