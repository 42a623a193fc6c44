// Pipes and waiting for the tests of the shell.
//
// Every wait ends by an event (bytes, end of file, a process's end); the time limit is only there so that a
// failing test ends too. Lifetime: values.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sstream>
#include <stdlib.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "proxy/shell/handle.h"

namespace acp::test {

using shell::Descriptor;

inline constexpr int patience_ms = 20000;

struct Pipe {
  Descriptor reading;
  Descriptor writing;
};

inline Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ::abort();
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

inline bool is_nonblocking(int number) { return (::fcntl(number, F_GETFL) & O_NONBLOCK) != 0; }

inline bool wait_readable(int number) {
  pollfd asked{number, POLLIN, 0};
  return ::poll(&asked, 1, patience_ms) == 1;
}

// Everything up to the end of file.
inline std::string read_all(int number) {
  std::string all;
  char bytes[65536];
  while (wait_readable(number)) {
    const ssize_t size = ::read(number, bytes, sizeof bytes);
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) return all;
    all.append(bytes, static_cast<std::size_t>(size));
  }
  return all + "<no end of file>";
}

// Up to and without the next LF.
inline std::string read_line(int number) {
  std::string line;
  char byte = 0;
  while (wait_readable(number) && ::read(number, &byte, 1) == 1) {
    if (byte == '\n') return line;
    line += byte;
  }
  return line + "<no line>";
}

inline void write_all(int number, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(number, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// Whether a process runs (a zombie does not).
inline bool runs(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close != std::string::npos && close + 2 < stat.size() && stat[close + 2] != 'Z' &&
         stat[close + 2] != 'X';
}

// A directory that goes with the object, for the FIFOs by which the tests know who lives.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char pattern[] = "/tmp/keyhop-test-XXXXXX";
    if (::mkdtemp(pattern) == nullptr) ::abort();
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { [[maybe_unused]] const int status = ::system(("rm -rf '" + path_ + "'").c_str()); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A FIFO whose reading end sees the end of file when the last process that opened it for writing is gone.
class LifeSign {
 public:
  explicit LifeSign(std::string path) : path_(std::move(path)) {
    if (::mkfifo(path_.c_str(), 0600) != 0) ::abort();
    reading_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  const std::string& path() const { return path_; }
  int number() const { return reading_.number(); }
  // One line somebody wrote, for instance its pid.
  std::string line() const { return read_line(reading_.number()); }
  // Waits until nobody holds it any more; false if somebody still does after the time limit.
  bool all_gone() const { return read_all(reading_.number()).find("<no end") == std::string::npos; }

 private:
  std::string path_;
  Descriptor reading_;
};

}  // namespace acp::test
