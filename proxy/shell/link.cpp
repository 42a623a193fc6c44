#include "proxy/shell/link.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp::shell {
namespace {

constexpr std::size_t parts_per_write = 64;  // blocks of backlog gathered into one writev
constexpr std::size_t parts_reserved = 64;
static_assert(parts_per_write <= IOV_MAX);

}  // namespace

ReadBuffer::ReadBuffer() : bytes_(new char[limits::read_bytes + limits::padding_bytes]()) {}

// ---- Reader ----

Reader::Reader(uv_loop_t* loop, ReadBuffer& buffer, Callbacks callbacks)
    : channel_(loop, Channel::Direction::read, {[this] { read_once(); }, nullptr}),
      buffer_(buffer),
      callbacks_(std::move(callbacks)) {}

void Reader::open_inherited(int number) { open_error_ = channel_.open_inherited(number); }

void Reader::open_own(Descriptor descriptor) { open_error_ = channel_.open_own(std::move(descriptor)); }

void Reader::pause() {
  paused_ = true;
  update();
}

void Reader::resume() {
  paused_ = false;
  update();
}

void Reader::finish() {
  finishing_ = true;
  update();
}

void Reader::stop() {
  ended_ = true;
  channel_.close();
}

void Reader::drain() {
  for (std::size_t left = limits::backlog_bytes_high / limits::read_bytes; left > 0; --left) {
    if (ended_ || !read_once()) return;
  }
}

void Reader::update() {
  if (ended_ || paused_) {
    channel_.want(Channel::Interest::none);
  } else {
    channel_.want(finishing_ || open_error_ != 0 ? Channel::Interest::immediate : Channel::Interest::ready);
  }
}

// One read; true if bytes came. The callback comes last, it may do anything but destroy this.
bool Reader::read_once() {
  const long result = open_error_ != 0 ? -open_error_ : channel_.read(buffer_.bytes(), limits::read_bytes);
  if (result > 0) {
    callbacks_.bytes({buffer_.bytes(), static_cast<std::size_t>(result)});
    return true;
  }
  if (result == 0) {
    end(LinkEnd::eof, 0);
  } else if (result != -EAGAIN) {
    end(LinkEnd::read_failed, static_cast<int>(-result));
  } else if (finishing_) {
    end(LinkEnd::eof, 0);
  }
  return false;
}

void Reader::end(LinkEnd how, int error) {
  stop();
  callbacks_.ended(how, error);
}

// ---- Writer ----

Writer::Writer(uv_loop_t* loop, Callbacks callbacks)
    : channel_(loop, Channel::Direction::write,
               {[this] { drain(); },
                [this] {
                  if (callbacks_.disconnected) callbacks_.disconnected();
                }}),
      callbacks_(std::move(callbacks)) {
  parts_.reserve(parts_reserved);
}

void Writer::open_inherited(int number) {
  open_error_ = channel_.open_inherited(number);
  update();
}

void Writer::open_own(Descriptor descriptor) {
  open_error_ = channel_.open_own(std::move(descriptor));
  update();
}

void Writer::send(std::string_view bytes) {
  if (state_ != State::open || bytes.empty()) return;
  parts_.push_back({const_cast<char*>(bytes.data()), bytes.size()});
}

void Writer::flush() {
  if (parts_.empty()) return;
  if (backlog_.empty()) {
    write_parts();
  } else {
    for (const iovec& part : parts_) backlog_.append({static_cast<char*>(part.iov_base), part.iov_len});
  }
  parts_.clear();
  if (state_ != State::ended) {
    tell();
    update();
  }
}

// Straight from the step's own memory; only the rest is copied.
void Writer::write_parts() {
  iovec* next = parts_.data();
  iovec* const end = next + parts_.size();
  int error = 0;
  while (next != end) {
    const int count = static_cast<int>(std::min<std::ptrdiff_t>(end - next, IOV_MAX));
    const long result = open_error_ != 0 ? -open_error_ : channel_.write(next, count);
    if (result < 0) {
      error = static_cast<int>(-result);
      break;
    }
    auto taken = static_cast<std::size_t>(result);
    while (next != end && taken >= next->iov_len) taken -= (next++)->iov_len;
    if (next == end) return;
    next->iov_base = static_cast<char*>(next->iov_base) + taken;
    next->iov_len -= taken;
  }
  for (; next != end; ++next) backlog_.append({static_cast<char*>(next->iov_base), next->iov_len});
  if (error != EAGAIN) fail(error);
}

// The channel may take more.
void Writer::drain() {
  while (!backlog_.empty()) {
    iovec parts[parts_per_write];
    const int count = backlog_.gather(parts, static_cast<int>(parts_per_write));
    const long result = open_error_ != 0 ? -open_error_ : channel_.write(parts, count);
    if (result < 0) {
      if (result != -EAGAIN) {
        fail(static_cast<int>(-result));
        return;
      }
      break;
    }
    backlog_.consume(static_cast<std::size_t>(result));
  }
  update();
  tell();
}

void Writer::tell() {
  if (told_ == backlog_.size()) return;
  told_ = backlog_.size();
  if (callbacks_.backlog) callbacks_.backlog(told_);
}

void Writer::update() {
  if (state_ == State::ended) return;
  if (!backlog_.empty()) {
    channel_.want(Channel::Interest::ready);
  } else if (state_ == State::closing) {
    state_ = State::ended;
    channel_.close();
  } else {
    channel_.want(notice_disconnect_ ? Channel::Interest::disconnect : Channel::Interest::none);
  }
}

void Writer::close() {
  flush();
  if (state_ != State::open) return;
  state_ = State::closing;
  update();
}

void Writer::notice_disconnect(bool on) {
  notice_disconnect_ = on;
  update();
}

void Writer::fail(int error) {
  if (state_ == State::ended) return;
  state_ = State::ended;
  tell();
  backlog_.clear();
  channel_.close();
  if (callbacks_.failed) callbacks_.failed(error);
}

// ---- Link ----

Link::Link(LinkId id, uv_loop_t* loop, ReadBuffer& buffer, Feed feed)
    : id_(id),
      feed_(std::move(feed)),
      reader_(loop, buffer,
              {[this](std::string_view bytes) {
                 feed_(BytesRead{id_, bytes});
                 if (disconnected_) report_disconnect();
               },
               [this](LinkEnd how, int error) {
                 feed_(LinkEnded{id_, how, error});
                 if (disconnected_) report_disconnect();
               }}),
      writer_(loop, {[this](std::size_t bytes) {
                       feed_(LinkBacklog{id_, bytes});
                     },
                     [this](int error) {
                       feed_(LinkEnded{id_, LinkEnd::write_failed, error});
                     },
                     [this] { on_disconnected(); }}) {}

void Link::pause() {
  reader_.pause();
  if (disconnected_) report_disconnect();
}

void Link::on_disconnected() {
  disconnected_ = true;
  writer_.notice_disconnect(false);
  report_disconnect();
}

// A client that closed both ends at once is first read to its end.
void Link::report_disconnect() {
  if (!reader_.paused() && reader_.ready_now()) return;
  disconnected_ = false;
  writer_.fail(EPIPE);
}

}  // namespace acp::shell
