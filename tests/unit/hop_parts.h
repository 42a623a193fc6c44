// What the tests of a hop share: one link, lines in and words out.
//
// Invariant: the bytes of every call are overwritten by the next one, so that a view kept too long shows.
// Lifetime: of one hop.
#pragma once

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "proxy/core/hop.h"
#include "proxy/core/limits.h"

namespace acp::test {

class HopLink {
 public:
  explicit HopLink(HopEnd end, Spelling spelling = Spelling::current) : hop(end, "own-", spelling) {}

  // What becomes of a line of the peer's: "plain LINE", "wrapped LINE", "answered LINE", "dropped",
  // "misasked"; "plain oversize LINE" where only a beginning is passed on.
  std::string take(std::string_view line, FrameKind kind = FrameKind::whole) {
    const Hop::Taken taken = hop.take(frame_of(line, kind));
    if (taken.fate == Hop::Fate::dropped) return "dropped";
    if (taken.fate == Hop::Fate::misasked) return "misasked";
    const bool is_oversize = taken.frame.kind == FrameKind::oversize;
    std::string text(taken.frame.text);
    if (!is_oversize || !taken.frame.line.empty()) CHECK(taken.frame.line == text + "\n");
    if (taken.fate == Hop::Fate::answered) return "answered " + text;
    return fmt::format("{}{} {}", taken.course == Course::plain ? "plain" : "wrapped",
                       is_oversize ? " oversize" : "", text);
  }
  // What an edge's line is on the link, without its LF; empty if it has no business there.
  std::string give(Course course, std::string_view line) {
    return without_end(hop.give(course, frame_of(line, FrameKind::whole)));
  }
  std::string give_plain(std::string_view line) { return give(Course::plain, line); }
  std::string give_wrapped(std::string_view line) { return give(Course::wrapped, line); }

  Hop hop;

 private:
  Frame frame_of(std::string_view line, FrameKind kind) {
    bytes_.assign(line).append("\n").append(limits::padding_bytes, '"');
    const std::string_view all(bytes_);
    const bool has_end = kind == FrameKind::whole;
    return {kind, all.substr(0, line.size()), has_end ? all.substr(0, line.size() + 1) : std::string_view{}};
  }
  static std::string without_end(std::string_view line) {
    if (line.empty()) return {};
    CHECK(line.back() == '\n');
    return std::string(line.substr(0, line.size() - 1));
  }

  std::string bytes_;
};

// What an envelope of a successor's message is: `inner` as it stands in params.
inline std::string successor_line(std::string_view id, std::string_view inner,
                                  std::string_view method = "proxy/successor") {
  return fmt::format(R"({{"jsonrpc":"2.0"{}{},"method":"{}","params":{{{}}}}})",
                     id.empty() ? "" : ",\"id\":", id, method, inner);
}

}  // namespace acp::test
