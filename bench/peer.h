// The two ends of a relay that is measured: a load that starts it, and the agent behind it.
//
// Invariant: every line that is asked gets one answer; a peer stops by itself when its relay ends. Lifetime:
// a Peer owns its process.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace acp::bench {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

[[noreturn]] inline void fail(std::string_view what) {
  std::fprintf(stderr, "bench: %.*s failed: %s\n", static_cast<int>(what.size()), what.data(),
               std::strerror(errno));
  std::exit(1);
}

// This process and all that it starts.
inline void pin_to_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity");
}

inline void write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to, bytes.data(), bytes.size());
    if (written <= 0) fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Lines from a descriptor; empty at its end.
class Lines {
 public:
  explicit Lines(int from) : from_(from), bytes_(1 << 20) {}
  std::string_view next() {
    for (;;) {
      if (const void* found = std::memchr(bytes_.data() + begin_, '\n', end_ - begin_)) {
        const auto length =
            static_cast<std::size_t>(static_cast<const char*>(found) - bytes_.data()) - begin_ + 1;
        const std::string_view line(bytes_.data() + begin_, length);
        begin_ += length;
        return line;
      }
      if (begin_ > 0) {
        std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
      }
      if (end_ == bytes_.size()) bytes_.resize(bytes_.size() * 2);
      const ssize_t size = ::read(from_, bytes_.data() + end_, bytes_.size() - end_);
      if (size <= 0) return {};
      end_ += static_cast<std::size_t>(size);
    }
  }

 private:
  int from_;
  std::vector<char> bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

inline std::string padded(std::string head, std::string_view tail, std::size_t bytes) {
  const std::size_t used = head.size() + tail.size() + 1;
  if (bytes > used) head.append(bytes - used, 'x');
  head += tail;
  head += '\n';
  return head;
}

inline std::string update(std::size_t bytes) {
  return padded(
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_abc123","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":")",
      R"("}}}})", bytes);
}

// ---- the agent's role ----

// "method":"stream" with frames, size, batch: that many updates, `batch` bytes a write at most (0: one write
// a frame); else an answer.
inline int run_agent() {
  Lines lines(0);
  for (std::string_view line = lines.next(); !line.empty(); line = lines.next()) {
    const std::size_t id_at = line.find("\"id\":");
    const std::string id(line.substr(id_at + 5, line.find(',', id_at) - id_at - 5));
    unsigned long frames = 0, size = 0, batch = 0;
    const std::size_t order = line.find("\"_stream\":\"");
    if (order != std::string_view::npos && std::sscanf(std::string(line.substr(order + 11, 80)).c_str(),
                                                       "%lu %lu %lu", &frames, &size, &batch) == 3) {
      const std::string frame = update(size);
      std::string out;
      for (unsigned long i = 0; i < frames; ++i) {
        out += frame;
        if (out.size() + frame.size() <= batch) continue;
        write_all(1, out);
        out.clear();
      }
      if (!out.empty()) write_all(1, out);
    }
    const bool initialize = line.find("\"initialize\"") != std::string_view::npos;
    const bool fresh = line.find("\"session/new\"") != std::string_view::npos;
    write_all(
        1,
        fmt::format(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{{}}}}}\n", id,
            initialize
                ? R"("protocolVersion":2,"info":{"name":"bench","version":"1"},"capabilities":{"session":{}})"
            : fresh ? R"("sessionId":"sess_abc123")"
                    : R"("messageId":"msg_user_8f7a1")"));
  }
  return 0;
}

// ---- the load's role ----

class Peer {
 public:
  explicit Peer(const Words& words) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) fail("pipe");
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      std::vector<char*> pointers;
      for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
      pointers.push_back(nullptr);
      ::execvp(pointers[0], pointers.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    lines_.emplace_back(from_);
    ask(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"load","version":"1"}}})");
    ask(R"({"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}})");
  }
  ~Peer() {
    ::close(to_);
    while (!lines_.front().next().empty()) {
    }
    ::close(from_);
    ::waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void ask(std::string line) {
    line += '\n';
    write_all(to_, line);
    if (lines_.front().next().empty()) fail("the relay ended: read");
  }

  // Nanoseconds of each of `count` round trips of 300 B requests with a key of their own.
  std::vector<double> round_trips(std::size_t count) {
    std::vector<double> result;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string line = prompt();
      const auto start = Clock::now();
      write_all(to_, line);
      if (lines_.front().next().empty()) fail("the relay ended: read");
      result.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
    }
    return result;
  }

  // Requests per second with `outstanding` of them open at a time.
  double pipelined(std::size_t count, std::size_t outstanding) {
    std::size_t sent = 0;
    const auto start = Clock::now();
    for (; sent < outstanding; ++sent) write_all(to_, prompt());
    for (std::size_t answered = 0; answered < count; ++answered) {
      if (lines_.front().next().empty()) fail("the relay ended: read");
      if (sent++ < count) write_all(to_, prompt());
    }
    return static_cast<double>(count) / std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Frames per second of a stream.
  double stream(unsigned long frames, unsigned long size, unsigned long batch) {
    const auto start = Clock::now();
    write_all(to_, fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"_bench/"
                               "stream\",\"params\":{{\"_stream\":\"{} {} {} \"}}}}\n",
                               ++id_, frames, size, batch));
    for (unsigned long i = 0; i <= frames; ++i) {
      if (lines_.front().next().empty()) fail("the relay ended: read");
    }
    return static_cast<double>(frames) / std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Seconds until `count` prompts that are written at once are answered.
  double together(std::size_t count) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += prompt();
    const auto start = Clock::now();
    write_all(to_, all);
    for (std::size_t i = 0; i < count; ++i) {
      if (lines_.front().next().empty()) fail("the relay ended: read");
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Frames per second of a stream of 300 B updates, beside which `prompts` come in.
  double stream_beside(unsigned long frames, std::size_t prompts) {
    std::string all = fmt::format(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"_bench/"
        "stream\",\"params\":{{\"_stream\":\"{} 300 0 \"}}}}\n",
        ++id_, frames);
    for (std::size_t i = 0; i < prompts; ++i) all += prompt();
    const auto start = Clock::now();
    write_all(to_, all);
    for (unsigned long i = 0; i <= frames; ++i) {
      if (lines_.front().next().empty()) fail("the relay ended: read");
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    for (std::size_t i = 0; i < prompts; ++i) {
      if (lines_.front().next().empty()) fail("the relay ended: read");
    }
    return static_cast<double>(frames) / seconds;
  }

 private:
  std::string prompt() {
    ++id_;
    return padded(fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"session/"
                              "prompt\",\"params\":{{\"sessionId\":\"sess_abc123\",\"idempotencyKey\":\"key-{"
                              ":012}\",\"prompt\":[{{\"type\":\"text\",\"text\":\"",
                              id_, id_),
                  R"("}]}})", 300);
  }

  pid_t pid_ = 0;
  int to_ = -1;
  int from_ = -1;
  std::size_t id_ = 10;
  std::vector<Lines> lines_;
};

inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

// The path of this program, which is the agent too.
inline std::string own_path() {
  std::string own(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", own.data(), own.size());
  if (length <= 0) fail("readlink");
  own.resize(static_cast<std::size_t>(length));
  return own;
}

}  // namespace acp::bench
