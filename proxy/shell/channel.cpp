#include "proxy/shell/channel.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "proxy/core/invariant.h"

namespace acp::shell {
namespace {

// A terminal may block in the middle of a large write although poll() called it writable; this much it takes.
constexpr std::size_t small_piece_bytes = 256;

template <class Call>
long without_interruption(Call call) {
  for (;;) {
    const long result = call();
    if (result >= 0) return result;
    if (errno != EINTR) return errno == EWOULDBLOCK ? -EAGAIN : -errno;
  }
}

// The controlling side of a pseudo-terminal: opened anew it would be another pseudo-terminal.
bool is_pty_master(int number) {
  unsigned index = 0;
  return ::ioctl(number, TIOCGPTN, &index) == 0;
}

// An open file description of our own for the same pipe or terminal, non-blocking; none where the system
// refuses.
Descriptor open_anew(int number, Channel::Direction direction) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", number);
  const int access = direction == Channel::Direction::read ? O_RDONLY : O_WRONLY;
  return Descriptor(::open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

Channel::Channel(uv_loop_t* loop, Direction direction, Callbacks callbacks)
    : loop_(loop), direction_(direction), callbacks_(std::move(callbacks)) {
  idle_.open(this, [&](uv_idle_t* idle) { return uv_idle_init(loop_, idle); });
}

int Channel::open_inherited(int number) {
  INVARIANT(!is_open());
  inherited_ = true;
  inherited_number_ = number;
  number_ = number;
  struct stat status;
  if (::fstat(number, &status) != 0) return errno;
  if (S_ISSOCK(status.st_mode)) {
    access_ = Access::socket;
    return watch(true);
  }
  // Regular files keep their shared offset, so they are never opened anew.
  if (S_ISFIFO(status.st_mode) ||
      (S_ISCHR(status.st_mode) && ::isatty(number) == 1 && !is_pty_master(number))) {
    own_ = open_anew(number, direction_);
    if (own_.open()) {
      access_ = Access::own;
      number_ = own_.number();
      return watch(false);
    }
  }
  access_ = Access::shared;
  return watch(true);
}

int Channel::open_own(Descriptor descriptor) {
  INVARIANT(!is_open());
  own_ = std::move(descriptor);
  number_ = own_.number();
  const int flags = ::fcntl(number_, F_GETFL);
  if (flags < 0 || ::fcntl(number_, F_SETFL, flags | O_NONBLOCK) != 0) return errno;
  access_ = Access::own;
  return watch(false);
}

int Channel::watch(bool through_set) {
  const int error = through_set ? watch_through_set() : watch_number(number_);
  if (error == 0) return 0;
  // Always ready: that is right for what cannot be polled, and lets the owner tell any other error.
  access_ = Access::direct;
  return error == EPERM ? 0 : error;
}

int Channel::watch_through_set() {
  set_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!set_.open()) return errno;
  epoll_event none{};
  if (::epoll_ctl(set_.number(), EPOLL_CTL_ADD, number_, &none) != 0) {
    const int error = errno;
    set_.reset();
    return error;
  }
  return watch_number(set_.number());
}

int Channel::watch_number(int number) {
  return -poll_.open(this, [&](uv_poll_t* poll) { return uv_poll_init(loop_, poll, number); });
}

long Channel::read(char* buffer, std::size_t size) {
  switch (access_) {
    case Access::own:
    case Access::direct: return without_interruption([&] { return ::read(number_, buffer, size); });
    case Access::socket:
      return without_interruption([&] { return ::recv(number_, buffer, size, MSG_DONTWAIT); });
    case Access::shared: return read_shared(buffer, size);
  }
  return -EBADF;
}

long Channel::write(const iovec* parts, int count) {
  switch (access_) {
    case Access::own:
    case Access::direct: return without_interruption([&] { return ::writev(number_, parts, count); });
    case Access::socket: {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(parts);
      message.msg_iovlen = static_cast<std::size_t>(count);
      return without_interruption([&] { return ::sendmsg(number_, &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
    }
    case Access::shared: return write_shared(parts, count);
  }
  return -EBADF;
}

long Channel::read_shared(char* buffer, std::size_t size) {
  if (nowait_works_) {
    const iovec part{buffer, size};
    const long result = without_interruption([&] { return ::preadv2(number_, &part, 1, -1, RWF_NOWAIT); });
    if (result != -EOPNOTSUPP && result != -ENOSYS && result != -EINVAL && result != -ESPIPE) return result;
    nowait_works_ = false;
  }
  if (poll_now(POLLIN) == 0) return -EAGAIN;
  return without_interruption([&] { return ::read(number_, buffer, size); });
}

long Channel::write_shared(const iovec* parts, int count) {
  if (nowait_works_) {
    const long result =
        without_interruption([&] { return ::pwritev2(number_, parts, count, -1, RWF_NOWAIT); });
    if (result != -EOPNOTSUPP && result != -ENOSYS && result != -EINVAL && result != -ESPIPE) return result;
    nowait_works_ = false;
  }
  if (poll_now(POLLOUT) == 0) return -EAGAIN;
  const std::size_t most = ::isatty(number_) == 1 ? small_piece_bytes : PIPE_BUF;
  return without_interruption(
      [&] { return ::write(number_, parts->iov_base, std::min(parts->iov_len, most)); });
}

short Channel::poll_now(short events) const {
  pollfd asked{number_, events, 0};
  return ::poll(&asked, 1, 0) == 1 ? asked.revents : short{0};
}

bool Channel::ready_now() const {
  if (!is_open()) return false;
  if (access_ == Access::direct) return true;
  return poll_now(direction_ == Direction::read ? POLLIN : POLLOUT) != 0;
}

std::uint32_t Channel::poll_events(Interest interest) const {
  // An empty set of events still reports EPOLLERR and EPOLLHUP.
  if (interest != Interest::ready) return 0;
  return direction_ == Direction::read ? EPOLLIN : EPOLLOUT;
}

void Channel::start_poll(Interest interest) {
  if (set_.open()) {
    epoll_event events{};
    events.events = poll_events(interest);
    ::epoll_ctl(set_.number(), EPOLL_CTL_MOD, number_, &events);
  }
  int wanted = UV_READABLE;
  if (!set_.open()) {
    if (interest == Interest::disconnect) {
      wanted = UV_DISCONNECT;
    } else {
      wanted = direction_ == Direction::read ? UV_READABLE : UV_WRITABLE;
    }
  }
  uv_poll_start(poll_.get(), wanted, [](uv_poll_t* poll, int status, int) noexcept {
    static_cast<Channel*>(poll->data)->on_poll(status);
  });
}

void Channel::want(Interest interest) {
  if (access_ == Access::direct) {
    if (interest == Interest::ready) interest = Interest::immediate;
    if (interest == Interest::disconnect) interest = Interest::none;
  }
  if (!is_open() || interest == interest_) return;
  if (interest_ == Interest::immediate) uv_idle_stop(idle_.get());
  const bool polled = interest_ == Interest::ready || interest_ == Interest::disconnect;
  interest_ = interest;
  switch (interest) {
    case Interest::none:
      if (polled) uv_poll_stop(poll_.get());
      return;
    case Interest::disconnect:
    case Interest::ready: start_poll(interest); return;
    case Interest::immediate:
      if (polled) uv_poll_stop(poll_.get());
      uv_idle_start(idle_.get(),
                    [](uv_idle_t* idle) noexcept { static_cast<Channel*>(idle->data)->callbacks_.ready(); });
      return;
  }
}

void Channel::on_poll(int status) {
  const Interest asked = interest_;
  if (status < 0) {
    // libuv stopped polling because of EPOLLERR; the read or write that follows tells which error.
    interest_ = Interest::none;
    if (asked != Interest::disconnect) want(asked);
  }
  if (asked != Interest::disconnect) {
    callbacks_.ready();
    return;
  }
  if (poll_now(0) != 0) {
    callbacks_.disconnected();
    return;
  }
  want(asked);
}

void Channel::close() {
  if (!is_open()) return;
  want(Interest::none);
  poll_.reset();
  idle_.reset();
  set_.reset();
  own_.reset();
  if (inherited_) {
    const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (nothing.open()) ::dup3(nothing.number(), inherited_number_, O_CLOEXEC);
  }
  number_ = -1;
}

}  // namespace acp::shell
