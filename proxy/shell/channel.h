// One direction of one byte stream: a descriptor that is read or written without ever blocking, and the wish
// to be told when that is possible.
//
// Invariant: O_NONBLOCK lives in the open file description, which an inherited descriptor shares with other
// processes, so it is never set on one of those. A pipe or terminal is opened anew through /proc and the new
// description is ours; sockets are used with MSG_DONTWAIT; the rest with RWF_NOWAIT, or poll() and small
// pieces. What epoll refuses (regular files, /dev/null) is always ready. Since libuv sets O_NONBLOCK on all
// it polls, a shared descriptor is watched through an epoll set of its own. Lifetime: pinned, since libuv
// handles point back at it; dies before its loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <sys/uio.h>

#include "proxy/shell/handle.h"

namespace acp::shell {

class Channel {
 public:
  enum class Direction : std::uint8_t { read, write };
  // What to be called for: nothing; the peer's going away (writing only); possible progress; the next turn of
  // the loop whatever the descriptor says.
  enum class Interest : std::uint8_t { none, disconnect, ready, immediate };
  struct Callbacks {
    std::function<void()> ready;         // may be spurious; the channel is not touched after it
    std::function<void()> disconnected;  // only with Interest::disconnect
  };

  Channel(uv_loop_t* loop, Direction direction, Callbacks callbacks);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Uses a descriptor that other processes may share. Its flags stay as they are. Returns 0 or an errno
  // value.
  int open_inherited(int number);
  // Takes over a descriptor whose open file description is ours alone; makes it non-blocking. 0 or an errno
  // value.
  int open_own(Descriptor descriptor);

  // As read(2) and writev(2), but never blocking and never interrupted: a count (0 is the end of file), or a
  // negative errno value, -EAGAIN where nothing can be done now. `count` is at most IOV_MAX.
  long read(char* buffer, std::size_t size);
  long write(const iovec* parts, int count);

  // Idempotent and cheap where nothing changes.
  void want(Interest interest);
  // Whether a read would give something (bytes, end, error) at this moment.
  bool ready_now() const;
  bool is_open() const noexcept { return number_ >= 0; }
  // Closes it, so that the peer notices; an inherited number is pointed at /dev/null to keep it taken.
  void close();

 private:
  enum class Access : std::uint8_t { own, socket, shared, direct };

  int watch(bool through_set);
  int watch_through_set();
  int watch_number(int number);
  long read_shared(char* buffer, std::size_t size);
  long write_shared(const iovec* parts, int count);
  short poll_now(short events) const;
  std::uint32_t poll_events(Interest interest) const;
  void start_poll(Interest interest);
  void on_poll(int status);

  uv_loop_t* loop_;
  Direction direction_;
  Access access_ = Access::direct;
  Interest interest_ = Interest::none;
  bool inherited_ = false;
  bool nowait_works_ = true;  // RWF_NOWAIT, until the kernel says otherwise
  int number_ = -1;           // what is read or written
  int inherited_number_ = -1;
  Descriptor own_;
  Descriptor set_;  // epoll set around a shared descriptor
  Handle<uv_poll_t> poll_;
  Handle<uv_idle_t> idle_;
  Callbacks callbacks_;
};

}  // namespace acp::shell
