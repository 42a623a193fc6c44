// Framing: the same bytes give the same frames, however they are split.
#include "proxy/core/framer.h"

#include <catch2/catch.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"

namespace acp {

namespace {

// For Catch's messages.
const char* name_of(FrameKind kind) {
  return kind == FrameKind::whole ? "whole" : kind == FrameKind::unterminated ? "unterminated" : "oversize";
}

constexpr std::size_t limit = limits::frame_bytes_min;

struct Seen {
  FrameKind kind;
  std::string text;
  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << name_of(seen.kind) << " of " << seen.text.size() << ": " << seen.text.substr(0, 60);
}

// Feeds pieces and looks at the frames of a read only after all of them were taken, as the shell does.
class Reader {
 public:
  explicit Reader(std::size_t frame_bytes_max = limit) : framer_(frame_bytes_max) {}

  void read(std::string_view piece) {
    if (piece.empty()) return;
    const test::Padded padded(piece);
    framer_.feed(padded.view());
    std::vector<Frame> frames;
    while (const auto frame = framer_.next()) frames.push_back(*frame);
    for (const Frame& frame : frames) take(frame);
  }
  std::vector<Seen> finish() {
    if (const auto frame = framer_.finish()) take(*frame);
    return seen_;
  }
  const Framer& framer() const { return framer_; }
  const std::vector<Seen>& seen() const { return seen_; }

 private:
  void take(const Frame& frame) {
    seen_.push_back({frame.kind, std::string(frame.text)});
    if (frame.line.empty()) return;
    CHECK(frame.line.data() == frame.text.data());
    CHECK(frame.line == std::string(frame.text) + "\n");
  }

  Framer framer_;
  std::vector<Seen> seen_;
};

std::vector<Seen> read_all(std::string_view input, const std::vector<std::size_t>& splits,
                           std::size_t frame_bytes_max = limit) {
  Reader reader(frame_bytes_max);
  std::size_t done = 0;
  for (const std::size_t split : splits) {
    reader.read(input.substr(done, split - done));
    done = split;
  }
  reader.read(input.substr(done));
  return reader.finish();
}

std::vector<Seen> read_bytewise(std::string_view input) {
  Reader reader;
  for (std::size_t i = 0; i < input.size(); ++i) reader.read(input.substr(i, 1));
  return reader.finish();
}

Seen whole(std::string text) { return {FrameKind::whole, std::move(text)}; }
Seen rest(std::string text) { return {FrameKind::unterminated, std::move(text)}; }
Seen beginning(std::string text) { return {FrameKind::oversize, std::move(text)}; }

const std::string bom = "\xEF\xBB\xBF";
const std::string nul(1, '\0');
const std::string full(limit, 'x');
const std::string spaces(limit + 10, ' ');

struct Case {
  const char* name;
  std::string input;
  std::vector<Seen> frames;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"nothing", "", {}},
      {"one", "{}\n", {whole("{}")}},
      {"several", "{\"a\":1}\n[2]\n3\n", {whole("{\"a\":1}"), whole("[2]"), whole("3")}},
      {"CRLF", "{}\r\n[]\r\n", {whole("{}"), whole("[]")}},
      {"only one CR is dropped", "{}\r\r\n", {whole("{}\r")}},
      {"lone CR inside", "{\r}\n\r{}\n", {whole("{\r}"), whole("\r{}")}},
      {"BOM", bom + "{}\n", {whole("{}")}},
      {"BOM at a later frame", "1\n" + bom + "{}\n", {whole("1"), whole("{}")}},
      {"BOM inside stays", "{" + bom + "}\n", {whole("{" + bom + "}")}},
      {"only one BOM is dropped", bom + bom + "{}\n", {whole(bom + "{}")}},
      {"half a BOM stays", "\xEF\xBB{}\n", {whole("\xEF\xBB{}")}},
      {"BOM and nothing", bom + "\n" + bom + "\r\n", {}},
      {"blank lines", "\n\r\n \n\t\t\r\n{}\n\n\n", {whole("{}")}},
      {"white space around stays", "  {} \t\n", {whole("  {} \t")}},
      {"multi-byte characters", "\"é漢😀\"\n\"\xC3\"\n", {whole("\"é漢😀\""), whole("\"\xC3\"")}},
      {"NUL bytes", nul + "{" + nul + "}\n" + nul + "\n", {whole(nul + "{" + nul + "}"), whole(nul)}},
      {"unterminated rest", "1\n{\"a\":", {whole("1"), rest("{\"a\":")}},
      {"unterminated rest with CR", "{}\r", {rest("{}")}},
      {"unterminated rest with BOM", bom + "{}", {rest("{}")}},
      {"unterminated blanks", "1\n  \r", {whole("1")}},
      {"unterminated BOM", bom, {}},
      {"exactly the limit", full + "\n", {whole(full)}},
      {"exactly the limit, CRLF", full + "\r\n2\n", {whole(full), whole("2")}},
      {"exactly the limit, BOM", bom + full + "\n2\n", {whole(full), whole("2")}},
      {"exactly the limit, BOM and CRLF", bom + full + "\r\n2\n", {whole(full), whole("2")}},
      {"exactly the limit, unterminated", full, {rest(full)}},
      {"one over", full + "y\n{}\n", {beginning(full), whole("{}")}},
      {"one over, CRLF", full + "y\r\n{}\n", {beginning(full), whole("{}")}},
      {"one over, BOM", bom + full + "y\n{}\n", {beginning(full), whole("{}")}},
      {"one over, BOM and CRLF", bom + full + "y\r\n{}\n", {beginning(full), whole("{}")}},
      {"one over, unterminated", full + "y", {beginning(full)}},
      {"CR at the limit", full + "\r\r\n{}\n", {beginning(full), whole("{}")}},
      {"one over, two BOMs",
       bom + bom + full + "y\n{}\n",
       {beginning((bom + full).substr(0, limit)), whole("{}")}},
      {"far over",
       full + full + full + "\n1\n" + full + full + "\n2\n",
       {beginning(full), whole("1"), beginning(full), whole("2")}},
      {"far over, unterminated", "1\n" + full + full + "z", {whole("1"), beginning(full)}},
      {"blanks over the limit", spaces + "\n1\n", {beginning(spaces.substr(0, limit)), whole("1")}},
      {"LF only at the end of a skipped one", full + full + "\n\n\n3\n", {beginning(full), whole("3")}},
  };
  return all;
}

}  // namespace

TEST_CASE("frames are the same at every split point", "[framer]") {
  for (const Case& one : cases()) {
    INFO(one.name);
    REQUIRE(read_all(one.input, {}) == one.frames);
    for (std::size_t at = 1; at < one.input.size(); ++at) {
      INFO("split at " << at);
      REQUIRE(read_all(one.input, {at}) == one.frames);
    }
    REQUIRE(read_bytewise(one.input) == one.frames);
  }
}

TEST_CASE("frames are the same at every pair of split points", "[framer]") {
  constexpr std::size_t short_bytes = 48;
  for (const Case& one : cases()) {
    if (one.input.size() > short_bytes) continue;
    INFO(one.name);
    for (std::size_t first = 1; first < one.input.size(); ++first) {
      for (std::size_t second = first + 1; second < one.input.size(); ++second) {
        INFO("split at " << first << " and " << second);
        REQUIRE(read_all(one.input, {first, second}) == one.frames);
      }
    }
  }
}

TEST_CASE("frames near the limit are the same at every pair of split points near it", "[framer]") {
  for (const Case& one : cases()) {
    if (one.input.size() < limit || one.input.size() > limit + 16) continue;
    INFO(one.name);
    for (std::size_t first = limit - 2; first < one.input.size(); ++first) {
      for (std::size_t second = first + 1; second < one.input.size(); ++second) {
        INFO("split at " << first << " and " << second);
        REQUIRE(read_all(one.input, {first, second}) == one.frames);
      }
    }
  }
}

TEST_CASE("all cases one after another, in pieces of every small size", "[framer]") {
  std::string input;
  std::vector<Seen> frames;
  for (const Case& one : cases()) {
    const bool ends = one.input.empty() || one.input.back() == '\n';
    if (!ends) continue;
    input += one.input;
    frames.insert(frames.end(), one.frames.begin(), one.frames.end());
  }
  for (std::size_t size = 1; size < 200; size += 3) {
    std::vector<std::size_t> splits;
    for (std::size_t at = size; at < input.size(); at += size) splits.push_back(at);
    INFO("pieces of " << size);
    REQUIRE(read_all(input, splits) == frames);
  }
}

TEST_CASE("the beginning of a frame over a large limit is bounded", "[framer]") {
  const std::size_t large = 4 * limits::frame_beginning_bytes;
  const std::string input = "{" + std::string(large, 'x') + "}\n{}\n";
  const std::vector<Seen> expected{beginning(input.substr(0, limits::frame_beginning_bytes)), whole("{}")};
  CHECK(read_all(input, {}, large) == expected);
  CHECK(read_all(input, {1000, large + 1}, large) == expected);
  CHECK(read_all(input, {large + 2}, large) == expected);
}

TEST_CASE("a frame that spans reads stays readable beside all later frames of its read", "[framer]") {
  // Larger than what the framer keeps between frames, so that memory would really be given back.
  const std::size_t large = 1 * limits::mib;
  const std::string first(large - 2, 'a');
  for (const std::size_t tail : {std::size_t{10}, large, large + 5, 2 * large + 5}) {
    INFO("a tail of " << tail);
    Framer framer(large);
    const test::Padded begin("1\n" + first);
    const test::Padded end("b\n2\n" + std::string(tail, 'c'));
    framer.feed(begin.view());
    REQUIRE(framer.next()->text == "1");
    REQUIRE_FALSE(framer.next().has_value());
    CHECK(framer.held_bytes() == first.size());
    framer.feed(end.view());
    const auto spanning = framer.next();
    const auto second = framer.next();
    const auto third = framer.next();
    REQUIRE(spanning.has_value());
    REQUIRE(second.has_value());
    CHECK(third.has_value() == (tail > large + 4));
    CHECK_FALSE(framer.next().has_value());
    // Not as operands: Catch would be slow to print a mebibyte.
    CHECK((spanning->text == first + "b"));
    CHECK((spanning->line == first + "b\n"));
    CHECK(second->text == "2");
    framer.feed("\n3\n");
    if (third.has_value()) {
      CHECK(third->kind == FrameKind::oversize);
    } else {
      CHECK(framer.next()->text.size() == tail);
    }
    CHECK(framer.next()->text == "3");
    CHECK_FALSE(framer.next().has_value());
  }
}

TEST_CASE("memory of a skipped frame is not held", "[framer]") {
  Framer framer(limit);
  const test::Padded flood(std::string(10 * limit, 'x'));
  for (int i = 0; i < 100; ++i) {
    framer.feed(flood.view());
    std::size_t frames = 0;
    while (framer.next()) ++frames;
    CHECK(frames == (i == 0 ? 1 : 0));
    CHECK(framer.held_bytes() == 0);
  }
  CHECK_FALSE(framer.finish().has_value());
}

TEST_CASE("a stream that is ended twice tells its last line once, and none before it again", "[framer]") {
  Reader reader;
  reader.read("begun");
  reader.read(" and ended\nlast");
  const std::vector<Seen> all{{FrameKind::whole, "begun and ended"}, {FrameKind::unterminated, "last"}};
  CHECK(reader.finish() == all);
  CHECK(reader.finish() == all);
}

TEST_CASE("the padding is readable behind a frame that spans reads", "[framer]") {
  // The address sanitizer sees a read that is not.
  Framer framer(limit);
  for (std::size_t length = 1; length < limit; length += 17) {
    const test::Padded begin(std::string(length, 'a'));
    const test::Padded end("b\n");
    framer.feed(begin.view());
    REQUIRE_FALSE(framer.next().has_value());
    framer.feed(end.view());
    const auto frame = framer.next();
    REQUIRE(frame.has_value());
    unsigned sum = 0;
    for (std::size_t i = 0; i < limits::padding_bytes; ++i) {
      const volatile char byte = *(frame->text.data() + frame->text.size() + i);
      sum += static_cast<unsigned char>(byte);
    }
    CHECK(sum < 256 * limits::padding_bytes);
    REQUIRE_FALSE(framer.next().has_value());
  }
}

}  // namespace acp
