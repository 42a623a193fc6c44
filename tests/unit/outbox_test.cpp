// Frames leave once, after every earlier one of their session, and never before their commit.
#include "proxy/core/outbox.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/random_json.h"

namespace acp {
namespace {

using std::chrono::milliseconds;

constexpr Instant start{std::chrono::hours(1)};
constexpr Duration patience = limits::commit_patience;
constexpr std::uint32_t no_session = Pending::no_row;

void add(Outbox& outbox, std::uint64_t ticket, std::uint32_t session, std::string_view bytes,
         Instant since = start, std::uint32_t pending = Pending::no_row) {
  outbox.begin({.ticket = ticket, .session = session, .pending = pending, .since = since});
  outbox.append(bytes.substr(0, 1));
  outbox.append(bytes.substr(1));
}

// Everything that may leave now, with a blank between.
std::string leave(Outbox& outbox, Instant now = start) {
  std::string out;
  while (const auto frame = outbox.take_free(now)) out += (out.empty() ? "" : " ") + frame->bytes;
  return out;
}

}  // namespace

TEST_CASE("outbox: a frame waits for its commit, the others behind it", "[outbox]") {
  Outbox outbox;
  CHECK(outbox.empty());
  CHECK_FALSE(outbox.take_free(start));
  add(outbox, 0, 1, "a");
  add(outbox, 7, 1, "b");
  add(outbox, 0, 2, "c");
  add(outbox, 9, 2, "d");
  add(outbox, 0, no_session, "e");
  CHECK(leave(outbox) == "a");
  CHECK(outbox.waits_for(7));
  CHECK(outbox.waits_for(9));
  CHECK_FALSE(outbox.waits_for(8));
  outbox.confirm(9);
  CHECK(leave(outbox).empty());
  CHECK_FALSE(outbox.waits_for(9));
  outbox.confirm(8);
  CHECK(leave(outbox).empty());
  outbox.confirm(7);
  CHECK(leave(outbox) == "b c d e");
  CHECK(outbox.empty());
}

TEST_CASE("outbox: frames that wait for one commit", "[outbox]") {
  Outbox outbox;
  add(outbox, 7, 1, "a");
  add(outbox, 7, 2, "b");
  add(outbox, 8, 3, "c");
  outbox.confirm(7);
  CHECK(leave(outbox) == "a b");
}

TEST_CASE("outbox: what a frame is comes out with it", "[outbox]") {
  Outbox outbox;
  outbox.begin({.ticket = 0, .session = 4, .pending = 5, .since = start});
  CHECK(outbox.bytes() == 0);
  outbox.append("one");
  outbox.append("");
  outbox.append(" two");
  CHECK(outbox.bytes() == 7);
  const auto frame = outbox.take_free(start);
  REQUIRE(frame);
  CHECK(frame->bytes == "one two");
  CHECK(frame->session == 4);
  CHECK(frame->pending == 5);
  CHECK(outbox.bytes() == 0);
}

TEST_CASE("outbox: others pass once a commit takes long", "[outbox]") {
  Outbox outbox;
  add(outbox, 7, 1, "a");
  add(outbox, 0, 2, "b");
  add(outbox, 0, 1, "c");
  add(outbox, 8, 3, "d");
  add(outbox, 0, no_session, "e");
  add(outbox, 0, 3, "f");
  add(outbox, 0, 2, "g");
  CHECK(leave(outbox, start + patience - milliseconds(1)).empty());
  CHECK(leave(outbox, start + patience) == "b e g");
  CHECK(outbox.bytes() == 4);
  outbox.confirm(8);
  CHECK(leave(outbox, start + patience) == "d f");
  outbox.confirm(7);
  CHECK(leave(outbox, start + patience) == "a c");
}

TEST_CASE("outbox: frames without a session keep their order", "[outbox]") {
  Outbox outbox;
  add(outbox, 7, no_session, "a");
  add(outbox, 0, no_session, "b");
  add(outbox, 0, 1, "c");
  CHECK(leave(outbox, start + patience) == "c");
}

TEST_CASE("outbox: patience ends for the oldest, once", "[outbox]") {
  Outbox outbox;
  CHECK_FALSE(outbox.patience_ends());
  add(outbox, 7, 1, "a", start);
  add(outbox, 8, 2, "b", start + milliseconds(30));
  CHECK(outbox.patience_ends() == start + patience);
  CHECK(leave(outbox, start + milliseconds(50)).empty());
  CHECK(outbox.patience_ends() == start + patience);
  CHECK(leave(outbox, start + patience).empty());
  // They pass from now on: no deadline that is over, or its owner would spin.
  CHECK_FALSE(outbox.patience_ends());
  add(outbox, 0, 3, "c", start + patience + milliseconds(5));
  CHECK(leave(outbox, start + patience + milliseconds(5)) == "c");
  CHECK_FALSE(outbox.patience_ends());
  // The next one is the oldest, with a patience of its own.
  outbox.confirm(7);
  CHECK(leave(outbox, start + patience + milliseconds(6)) == "a");
  CHECK(outbox.patience_ends() == start + milliseconds(30) + patience);
  CHECK(leave(outbox, start + milliseconds(30) + patience).empty());
  CHECK_FALSE(outbox.patience_ends());
  outbox.clear();
  add(outbox, 9, 1, "d", start + milliseconds(500));
  CHECK(outbox.patience_ends() == start + milliseconds(500) + patience);
}

TEST_CASE("outbox: a deadline that was served is not given again, whatever waits", "[outbox]") {
  // As the loop does it: at every deadline everything that may leave is taken.
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    test::Random random(seed);
    Outbox outbox;
    Instant now = start;
    std::uint64_t ticket = 0;
    for (int step = 0; step < 40; ++step) {
      now += milliseconds(random.below(60));
      while (const auto ends = outbox.patience_ends()) {
        if (*ends > now) break;
        leave(outbox, now);
        if (outbox.patience_ends() == ends) FAIL("seed " << seed << ": the same deadline again");
      }
      if (random.one_in(2)) add(outbox, ++ticket, static_cast<std::uint32_t>(random.below(3)), "x", now);
      if (random.one_in(4)) outbox.confirm(1 + random.below(ticket + 1));
    }
  }
  SUCCEED();
}

TEST_CASE("outbox: frames taken out", "[outbox]") {
  Outbox outbox;
  add(outbox, 7, 1, "aaa", start, 10);
  add(outbox, 0, 1, "bb", start, 11);
  add(outbox, 0, 1, "c");
  add(outbox, 0, 2, "dd", start, 12);
  CHECK(outbox.requests_of(1) == std::vector<std::uint32_t>{10, 11});
  CHECK(outbox.requests_of(2) == std::vector<std::uint32_t>{12});
  CHECK(outbox.requests_of(3).empty());
  outbox.drop(99);
  CHECK(outbox.bytes() == 8);
  outbox.drop(11);
  CHECK(outbox.bytes() == 6);
  CHECK(leave(outbox).empty());
  outbox.drop(10);
  CHECK_FALSE(outbox.waits_for(7));
  CHECK(leave(outbox) == "c dd");
  CHECK(outbox.bytes() == 0);

  add(outbox, 8, 1, "eeee", start, 13);
  outbox.clear();
  CHECK(outbox.empty());
  CHECK(outbox.bytes() == 0);
  CHECK_FALSE(outbox.patience_ends());
}

TEST_CASE("outbox: whether others pass", "[outbox]") {
  Outbox outbox;
  CHECK_FALSE(outbox.is_slow());
  add(outbox, 7, 1, "a", start, 10);
  add(outbox, 0, 2, "b", start, 11);
  add(outbox, 0, 1, "d", start, 12);
  CHECK_FALSE(outbox.is_slow());
  CHECK(leave(outbox, start + patience) == "b");
  CHECK(outbox.is_slow());
  outbox.confirm(7);
  CHECK(leave(outbox, start + patience) == "a d");
  CHECK_FALSE(outbox.is_slow());
}

namespace {

// What the outbox is, said simply.
struct Model {
  struct Frame {
    std::string bytes;
    std::uint64_t ticket;
    std::uint32_t session;
    std::uint32_t pending;
    Instant since;
  };
  std::vector<Frame> frames;
  std::set<std::uint64_t> confirmed;

  bool waits(const Frame& frame) const { return frame.ticket != 0 && !confirmed.contains(frame.ticket); }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Frame& frame : frames) sum += frame.bytes.size();
    return sum;
  }
  std::string leave(Instant now) {
    std::string out;
    for (std::size_t at = 0; at < frames.size();) {
      const bool passes = now >= frames.front().since + patience;
      bool blocked = waits(frames[at]);
      for (std::size_t i = 0; i < at; ++i)
        blocked = blocked || !passes || frames[i].session == frames[at].session;
      if (blocked) {
        ++at;
        continue;
      }
      out += (out.empty() ? "" : " ") + frames[at].bytes;
      frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(at));
      at = 0;
    }
    return out;
  }
};

}  // namespace

TEST_CASE("outbox: as a simple one does it", "[outbox]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    test::Random random(seed);
    Outbox outbox;
    Model model;
    Instant now = start;
    std::uint64_t ticket = 0;
    std::uint32_t pending = 0;
    CAPTURE(seed);
    for (int step = 0; step < 60; ++step) {
      switch (random.below(8)) {
        case 0:
        case 1:
        case 2: {
          const std::uint64_t waits_for = random.one_in(2) ? ++ticket : 0;
          const auto session = random.one_in(5) ? no_session : static_cast<std::uint32_t>(random.below(3));
          const std::string bytes = std::to_string(++pending) + std::string(random.below(5), '.');
          add(outbox, waits_for, session, bytes, now, pending);
          model.frames.push_back({bytes, waits_for, session, pending, now});
          break;
        }
        case 3:
        case 4: {
          const std::uint64_t which = 1 + random.below(ticket + 1);
          if (which > ticket) break;
          outbox.confirm(which);
          model.confirmed.insert(which);
          break;
        }
        case 5: {
          const auto which = static_cast<std::uint32_t>(random.below(pending + 1));
          outbox.drop(which);
          std::erase_if(model.frames, [&](const Model::Frame& frame) { return frame.pending == which; });
          break;
        }
        case 6: now += milliseconds(random.below(120)); break;
        default:
          if (!random.one_in(20)) break;
          outbox.clear();
          model.frames.clear();
          break;
      }
      if (random.one_in(2)) REQUIRE(leave(outbox, now) == model.leave(now));
      REQUIRE(outbox.bytes() == model.bytes());
      REQUIRE(outbox.empty() == model.frames.empty());
    }
  }
}

}  // namespace acp
