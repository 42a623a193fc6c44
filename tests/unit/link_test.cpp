#include "proxy/shell/link.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <pty.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <variant>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/descriptors.h"

namespace acp::shell {
namespace {

using test::is_nonblocking;
using test::make_pipe;
using test::Pipe;

// A loop with one link, and what the link told.
class LinkBench {
 public:
  LinkBench() {
    uv_loop_init(&loop_);
    // So that a failing test ends instead of waiting for ever.
    limit_.open(this, [&](uv_timer_t* timer) { return uv_timer_init(&loop_, timer); });
    uv_timer_start(
        limit_.get(), [](uv_timer_t* timer) { static_cast<LinkBench*>(timer->data)->late_ = true; },
        test::patience_ms, 0);
    link_ =
        std::make_unique<Link>(LinkId{7}, &loop_, buffer_, [this](const Event& event) { on_event(event); });
  }
  LinkBench(const LinkBench&) = delete;
  LinkBench& operator=(const LinkBench&) = delete;
  ~LinkBench() {
    link_.reset();
    limit_.reset();
    while (uv_run(&loop_, UV_RUN_NOWAIT) != 0) {
    }
    uv_loop_close(&loop_);
  }

  Link& link() { return *link_; }
  // Turns the loop until the condition holds.
  bool until(const std::function<bool()>& condition) {
    while (!condition() && !late_) uv_run(&loop_, UV_RUN_ONCE);
    return condition();
  }
  bool until_ended(LinkEnd how) {
    return until([&] { return ended(how); });
  }
  bool ended(LinkEnd how) const {
    return std::any_of(ends.begin(), ends.end(), [&](const LinkEnded& end) { return end.end == how; });
  }
  // One turn that does not wait.
  void turn() { uv_run(&loop_, UV_RUN_NOWAIT); }

  std::string bytes;
  std::vector<std::size_t> reads;
  std::vector<std::size_t> backlogs;
  std::vector<LinkEnded> ends;
  std::function<void()> on_bytes;

 private:
  void on_event(const Event& event) {
    if (const auto* read = std::get_if<BytesRead>(&event)) {
      // What follows the view is readable: the sanitizers watch this copy.
      const std::string with_padding(read->bytes.data(), read->bytes.size() + limits::padding_bytes);
      CHECK(with_padding.size() == read->bytes.size() + limits::padding_bytes);
      CHECK(!read->bytes.empty());
      bytes += read->bytes;
      reads.push_back(read->bytes.size());
      if (on_bytes) on_bytes();
    } else if (const auto* backlog = std::get_if<LinkBacklog>(&event)) {
      backlogs.push_back(backlog->bytes);
    } else if (const auto* end = std::get_if<LinkEnded>(&event)) {
      ends.push_back(*end);
    }
  }

  uv_loop_t loop_{};
  Handle<uv_timer_t> limit_;
  ReadBuffer buffer_;
  std::unique_ptr<Link> link_;
  bool late_ = false;
};

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t index = 0; index < size; ++index)
    text[index] = static_cast<char>('a' + (index * 7 + index / 251) % 26);
  return text;
}

// Reads from `number` while the bench turns, until `size` bytes came.
std::string read_while_turning(LinkBench& bench, int number, std::size_t size) {
  std::string all;
  ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) | O_NONBLOCK);
  bench.until([&] {
    char part[65536];
    ssize_t got = 0;
    while ((got = ::read(number, part, sizeof part)) > 0) all.append(part, static_cast<std::size_t>(got));
    return all.size() >= size || bench.ended(LinkEnd::write_failed);
  });
  return all;
}

// How an end of a stream gets to keyhop.
struct Ends {
  Descriptor ours;
  Descriptor peers;
};

Ends make_ends(const std::string& kind, bool keyhop_reads) {
  if (kind == "pipe") {
    Pipe pipe = make_pipe();
    if (keyhop_reads) return {std::move(pipe.reading), std::move(pipe.writing)};
    return {std::move(pipe.writing), std::move(pipe.reading)};
  }
  int ends[2];
  if (kind == "socket") {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) ::abort();
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }
  termios raw{};
  ::cfmakeraw(&raw);
  if (::openpty(&ends[0], &ends[1], nullptr, &raw, nullptr) != 0) ::abort();
  if (kind == "terminal") return {Descriptor(ends[1]), Descriptor(ends[0])};
  return {Descriptor(ends[0]), Descriptor(ends[1])};  // "pty master": cannot be opened anew
}

}  // namespace

TEST_CASE("a link reads what comes, in one piece a read, and reports the end once") {
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().reader().open_own(std::move(pipe.reading));
  bench.link().reader().resume();
  test::write_all(pipe.writing.number(), "abc");
  REQUIRE(bench.until([&] { return bench.bytes == "abc"; }));
  test::write_all(pipe.writing.number(), "de");
  pipe.writing.reset();
  REQUIRE(bench.until_ended(LinkEnd::eof));
  CHECK(bench.bytes == "abcde");
  CHECK(bench.reads == std::vector<std::size_t>{3, 2});
  bench.turn();
  CHECK(bench.ends.size() == 1);
  CHECK(bench.ends[0].error == 0);
}

TEST_CASE("a paused link reads nothing until it is resumed") {
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().reader().open_own(std::move(pipe.reading));
  test::write_all(pipe.writing.number(), "first");
  bench.turn();
  CHECK(bench.bytes.empty());  // links start paused
  bench.on_bytes = [&] { bench.link().pause(); };
  bench.link().reader().resume();
  REQUIRE(bench.until([&] { return bench.bytes == "first"; }));
  test::write_all(pipe.writing.number(), "second");
  pipe.writing.reset();
  bench.turn();
  bench.turn();
  CHECK(bench.bytes == "first");
  CHECK(bench.ends.empty());
  bench.on_bytes = nullptr;
  bench.link().reader().resume();
  REQUIRE(bench.until_ended(LinkEnd::eof));
  CHECK(bench.bytes == "firstsecond");
}

TEST_CASE("finish reads what is there and reports the end though somebody holds the pipe open") {
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().reader().open_own(std::move(pipe.reading));
  test::write_all(pipe.writing.number(), pattern(60000));
  bench.link().reader().finish();
  bench.turn();
  CHECK(bench.ends.empty());  // still paused: back-pressure holds to the last
  bench.link().reader().resume();
  REQUIRE(bench.until_ended(LinkEnd::eof));
  CHECK((bench.bytes == pattern(60000)));
}

TEST_CASE("all sends of a step leave in one write") {
  LinkBench bench;
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const Descriptor peer(ends[1]);
  bench.link().writer().open_own(Descriptor(ends[0]));
  for (const char* part : {"one ", "two ", "three"}) bench.link().writer().send(part);
  bench.link().writer().flush();
  char record[64];
  REQUIRE(test::wait_readable(peer.number()));
  const ssize_t size = ::read(peer.number(), record, sizeof record);
  CHECK(std::string(record, static_cast<std::size_t>(std::max<ssize_t>(size, 0))) == "one two three");
  CHECK(bench.backlogs.empty());
}

TEST_CASE("more parts than one writev takes are written in order") {
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().writer().open_own(std::move(pipe.writing));
  const std::string text = pattern(5000);
  for (std::size_t index = 0; index < text.size(); ++index)
    bench.link().writer().send({text.data() + index, 1});
  bench.link().writer().flush();
  CHECK((read_while_turning(bench, pipe.reading.number(), text.size()) == text));
}

TEST_CASE("what a peer does not take waits in order, is told, and goes before the close") {
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().writer().open_own(std::move(pipe.writing));
  const std::string text = pattern(3 * limits::mib + 17);
  Writer& writer = bench.link().writer();
  writer.send({text.data(), 2 * limits::mib});
  writer.flush();
  REQUIRE(bench.backlogs.size() == 1);
  const std::size_t first = bench.backlogs[0];
  CHECK(first > 0);
  CHECK(first < 2 * limits::mib);
  writer.send({text.data() + 2 * limits::mib, text.size() - 2 * limits::mib});
  writer.flush();
  CHECK(bench.backlogs.back() == first + text.size() - 2 * limits::mib);
  writer.close();
  writer.send("too late");
  writer.flush();
  CHECK(!writer.ended());
  CHECK((read_while_turning(bench, pipe.reading.number(), text.size()) == text));
  REQUIRE(bench.until([&] { return writer.ended(); }));
  CHECK(bench.backlogs.back() == 0);
  CHECK(test::read_all(pipe.reading.number()).empty());
  CHECK(bench.ends.empty());
}

TEST_CASE("a failed write tells what was not taken, then the failure, then nothing") {
  ::signal(SIGPIPE, SIG_IGN);
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().writer().open_own(std::move(pipe.writing));
  pipe.reading.reset();
  bench.link().writer().send("nobody reads this");
  bench.link().writer().flush();
  CHECK(bench.backlogs == std::vector<std::size_t>{17});
  REQUIRE(bench.ends.size() == 1);
  CHECK(bench.ends[0].end == LinkEnd::write_failed);
  CHECK(bench.ends[0].error == EPIPE);
  bench.link().writer().send("nor this");
  bench.link().writer().flush();
  CHECK(bench.ends.size() == 1);
}

TEST_CASE("a peer that goes away while bytes wait for it is a failed write") {
  ::signal(SIGPIPE, SIG_IGN);
  LinkBench bench;
  Pipe pipe = make_pipe();
  bench.link().writer().open_own(std::move(pipe.writing));
  const std::string text = pattern(limits::mib);
  bench.link().writer().send(text);
  bench.link().writer().flush();
  pipe.reading.reset();
  REQUIRE(bench.until_ended(LinkEnd::write_failed));
  CHECK(bench.backlogs.back() > 0);
}

TEST_CASE("inherited streams: every kind is read and written without a change to its flags") {
  const auto kind = GENERATE(as<std::string>(), "pipe", "socket", "terminal", "pty master");
  CAPTURE(kind);
  {
    LinkBench bench;
    Ends ends = make_ends(kind, true);
    bench.link().reader().open_inherited(ends.ours.number());
    bench.link().reader().resume();
    bench.turn();
    CHECK(!is_nonblocking(ends.ours.number()));
    test::write_all(ends.peers.number(), "hello");
    REQUIRE(bench.until([&] { return bench.bytes == "hello"; }));
    bench.turn();  // nothing there: must not block
    CHECK(!is_nonblocking(ends.ours.number()));
    ends.peers.reset();
    REQUIRE(bench.until([&] { return !bench.ends.empty(); }));
    // A terminal without its other side gives EIO to its controller.
    CHECK(bench.ends[0].end == (kind == "pty master" ? LinkEnd::read_failed : LinkEnd::eof));
  }
  LinkBench bench;
  const Ends ends = make_ends(kind, false);
  bench.link().writer().open_inherited(ends.ours.number());
  const std::string text = pattern(2 * limits::mib);
  bench.link().writer().send(text);
  bench.link().writer().flush();  // more than fits: must not block
  CHECK(bench.link().writer().backlog() > 0);
  CHECK(!is_nonblocking(ends.ours.number()));
  CHECK((read_while_turning(bench, ends.peers.number(), text.size()) == text));
  CHECK(!is_nonblocking(ends.ours.number()));
  REQUIRE(bench.until([&] { return bench.link().writer().backlog() == 0; }));
}

TEST_CASE("an inherited descriptor that is non-blocking stays so") {
  LinkBench bench;
  const Ends ends = make_ends("pipe", true);
  ::fcntl(ends.ours.number(), F_SETFL, O_NONBLOCK);
  bench.link().reader().open_inherited(ends.ours.number());
  bench.link().reader().resume();
  test::write_all(ends.peers.number(), "x");
  REQUIRE(bench.until([&] { return bench.bytes == "x"; }));
  CHECK(is_nonblocking(ends.ours.number()));
}

TEST_CASE("regular files are read to their end, with pauses, and written") {
  const test::TemporaryDirectory directory;
  const std::string text = pattern(300000);
  {
    const Descriptor made(::open(directory.file("in").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    test::write_all(made.number(), text);
  }
  LinkBench bench;
  const Descriptor in(::open(directory.file("in").c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor out(::open(directory.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  bench.link().reader().open_inherited(in.number());
  bench.link().writer().open_inherited(out.number());
  bench.on_bytes = [&] { bench.link().pause(); };
  bench.link().reader().resume();
  REQUIRE(bench.until([&] { return !bench.bytes.empty(); }));
  bench.turn();
  CHECK(bench.bytes.size() == limits::read_bytes);
  bench.on_bytes = nullptr;
  bench.link().reader().resume();
  REQUIRE(bench.until_ended(LinkEnd::eof));
  CHECK((bench.bytes == text));
  bench.link().writer().send(text);
  bench.link().writer().flush();
  CHECK(bench.backlogs.empty());
  CHECK((test::read_file(directory.file("out")) == text));
}

TEST_CASE("/dev/null is an empty input and takes every output") {
  LinkBench bench;
  const Descriptor in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  bench.link().reader().open_inherited(in.number());
  bench.link().writer().open_inherited(out.number());
  bench.link().writer().notice_disconnect(true);
  bench.link().reader().resume();
  REQUIRE(bench.until_ended(LinkEnd::eof));
  const std::string text = pattern(2 * limits::mib);
  bench.link().writer().send(text);
  bench.link().writer().flush();
  CHECK(bench.backlogs.empty());
  CHECK(bench.ends.size() == 1);
}

TEST_CASE("errors of the descriptor are values") {
  LinkBench bench;
  const Descriptor directory(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  bench.link().reader().open_inherited(directory.number());
  bench.link().reader().resume();
  REQUIRE(bench.until_ended(LinkEnd::read_failed));
  CHECK(bench.ends[0].error == EISDIR);
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  bench.link().writer().open_inherited(full.number());
  bench.link().writer().send("x");
  bench.link().writer().flush();
  REQUIRE(bench.ended(LinkEnd::write_failed));
  CHECK(bench.ends[1].error == ENOSPC);
}

TEST_CASE("a client that closes its reading end is noticed while nothing is written") {
  const auto kind = GENERATE(as<std::string>(), "pipe", "socket");
  CAPTURE(kind);
  LinkBench bench;
  Ends in = make_ends("pipe", true);
  Ends out = make_ends(kind, false);
  bench.link().reader().open_inherited(in.ours.number());
  bench.link().writer().open_inherited(out.ours.number());
  bench.link().writer().notice_disconnect(true);
  bench.link().reader().resume();
  bench.turn();
  CHECK(bench.ends.empty());
  out.peers.reset();
  REQUIRE(bench.until_ended(LinkEnd::write_failed));
  CHECK(bench.ends.size() == 1);
  CHECK(bench.ends[0].error == EPIPE);
}

TEST_CASE("a client that wrote and closed everything is read to its end before it counts as gone") {
  const auto kind = GENERATE(as<std::string>(), "pipes", "one socket");
  CAPTURE(kind);
  LinkBench bench;
  Ends in = make_ends(kind == "pipes" ? "pipe" : "socket", true);
  Ends out = make_ends("pipe", false);
  const Descriptor same(::fcntl(in.ours.number(), F_DUPFD_CLOEXEC, 3));
  const std::string text = pattern(kind == "pipes" ? 65536 : 100000);
  test::write_all(in.peers.number(), text);
  bench.link().reader().open_inherited(in.ours.number());
  bench.link().writer().open_inherited(kind == "pipes" ? out.ours.number() : same.number());
  bench.link().writer().notice_disconnect(true);
  in.peers.reset();
  out.peers.reset();
  bench.link().reader().resume();
  REQUIRE(bench.until_ended(LinkEnd::write_failed));
  CHECK((bench.bytes == text));
  REQUIRE(bench.ends.size() == 2);
  CHECK(bench.ends[0].end == LinkEnd::eof);
}

TEST_CASE("a socket peer that only ends its writing can still be written to") {
  LinkBench bench;
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Descriptor ours(ends[0]);
  const Descriptor same(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
  const Descriptor peer(ends[1]);
  bench.link().reader().open_inherited(ours.number());
  bench.link().writer().open_inherited(same.number());
  bench.link().writer().notice_disconnect(true);
  bench.link().reader().resume();
  ::shutdown(peer.number(), SHUT_WR);
  REQUIRE(bench.until_ended(LinkEnd::eof));
  bench.turn();
  CHECK(bench.ends.size() == 1);
  bench.link().writer().send("answer\n");
  bench.link().writer().flush();
  CHECK(test::read_line(peer.number()) == "answer");
}

}  // namespace acp::shell
