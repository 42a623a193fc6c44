// What the shell owns of the system: libuv handles and descriptors.
//
// Invariant: libuv may touch a handle's memory until its close callback ran, so Handle<T> keeps it on the
// heap: the destructor starts the close, the close callback deletes. A Descriptor is closed exactly once.
// Lifetime: a Handle must go before its loop is closed, and the loop must run once more after it.
#pragma once

#include <unistd.h>
#include <utility>
#include <uv.h>

namespace acp::shell {

// An open file descriptor, or none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int number() const noexcept { return number_; }
  bool open() const noexcept { return number_ >= 0; }
  // Closes it now. Linux frees the number even where close() reports an error, so it is never tried twice.
  void reset() noexcept {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

// A libuv handle of type T (uv_poll_t, uv_timer_t, ...) on the heap.
template <class T>
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  // Makes the handle: `init` is called with the memory and returns libuv's status. Sets `data` to `owner`,
  // which callbacks get back. Returns 0 or a negative libuv error; nothing is owned then.
  template <class Init>
  int open(void* owner, Init init) {
    reset();
    T* made = new T;
    const int status = init(made);
    if (status < 0) {
      delete made;
      return status;
    }
    made->data = owner;
    handle_ = made;
    return 0;
  }

  T* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

  // Starts the close: no callback of this handle runs any more.
  void reset() noexcept {
    if (handle_ == nullptr) return;
    handle_->data = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(handle_),
             [](uv_handle_t* closed) noexcept { delete reinterpret_cast<T*>(closed); });
    handle_ = nullptr;
  }

 private:
  T* handle_ = nullptr;
};

}  // namespace acp::shell
