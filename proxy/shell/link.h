// One peer's byte stream: a Reader and a Writer over two channels, and the Link that turns what they see into
// events.
//
// Invariant: one read of at most limits::read_bytes makes one event; all Sends of one step leave in one
// write; what the peer does not take at once is kept in order and written when it can be. In the steady state
// a frame costs epoll_wait, read and writev, and no allocation. Nothing here blocks. Lifetime: pinned; owned
// by the Shell (the stderr reader by its AgentProcess) and destroyed only between two turns of the loop,
// never inside a callback.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <sys/uio.h>
#include <vector>

#include "proxy/core/event.h"
#include "proxy/shell/backlog.h"
#include "proxy/shell/channel.h"

namespace acp::shell {

// The buffer every reader reads into: a step is over before the next read. limits::padding_bytes readable
// bytes follow.
class ReadBuffer {
 public:
  ReadBuffer();
  char* bytes() noexcept { return bytes_.get(); }

 private:
  std::unique_ptr<char[]> bytes_;
};

// The reading half. Starts paused.
class Reader {
 public:
  struct Callbacks {
    std::function<void(std::string_view)> bytes;    // never empty; padded; valid during the call
    std::function<void(LinkEnd, int error)> ended;  // once
  };
  Reader(uv_loop_t* loop, ReadBuffer& buffer, Callbacks callbacks);

  // Takes the descriptor; an errno value is reported through `ended` at the next turn of the loop.
  void open_inherited(int number);
  void open_own(Descriptor descriptor);

  void pause();
  void resume();
  // Nobody writes any more: read until nothing is there (as far as not paused), then report the end.
  void finish();
  // Reads what is there now, up to limits::backlog_bytes_high, whether paused or not.
  void drain();
  // Stops for good, without a report.
  void stop();

  bool ended() const noexcept { return ended_; }
  bool paused() const noexcept { return paused_; }
  bool ready_now() const { return !ended_ && channel_.ready_now(); }

 private:
  bool read_once();
  void end(LinkEnd how, int error);
  void update();

  Channel channel_;
  ReadBuffer& buffer_;
  Callbacks callbacks_;
  int open_error_ = 0;
  bool paused_ = true;
  bool finishing_ = false;
  bool ended_ = false;
};

// The writing half.
class Writer {
 public:
  struct Callbacks {
    std::function<void(std::size_t bytes)> backlog;  // after a flush that changed it
    std::function<void(int error)> failed;  // once; the backlog callback told before what was not taken
    std::function<void()> disconnected;     // the peer reads no more; asked for with notice_disconnect()
  };
  Writer(uv_loop_t* loop, Callbacks callbacks);

  // As for Reader; an error is reported through `failed` by the first flush or turn of the loop.
  void open_inherited(int number);
  void open_own(Descriptor descriptor);

  // Adds bytes to the present step's write; they must stay valid until flush(). Dropped once failed or
  // closing.
  void send(std::string_view bytes);
  // Writes what was added, keeps what is not taken.
  void flush();
  // Whether send() was called since the last flush().
  bool dirty() const noexcept { return !parts_.empty(); }
  // Closes once everything is written.
  void close();
  void notice_disconnect(bool on);
  // The peer is known to read no more.
  void fail(int error);

  std::size_t backlog() const noexcept { return backlog_.size(); }
  // Nothing can be written any more, by failure or by a finished close().
  bool ended() const noexcept { return state_ == State::ended; }

 private:
  enum class State : std::uint8_t { open, closing, ended };

  void write_parts();
  void drain();
  void tell();
  void update();

  Channel channel_;
  Callbacks callbacks_;
  std::vector<iovec> parts_;
  Backlog backlog_;
  std::size_t told_ = 0;
  int open_error_ = 0;
  State state_ = State::open;
  bool notice_disconnect_ = false;
};

// Both halves of one peer, with the peer's name in the events.
class Link {
 public:
  // `feed` gets every event; byte views in it are valid during the call.
  using Feed = std::function<void(const Event&)>;
  Link(LinkId id, uv_loop_t* loop, ReadBuffer& buffer, Feed feed);

  LinkId id() const noexcept { return id_; }
  Reader& reader() noexcept { return reader_; }
  Writer& writer() noexcept { return writer_; }
  void pause();

 private:
  void on_disconnected();
  void report_disconnect();

  LinkId id_;
  Feed feed_;
  Reader reader_;
  Writer writer_;
  bool disconnected_ = false;  // noticed, not yet reported: what the peer said before comes first
};

}  // namespace acp::shell
