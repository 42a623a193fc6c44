// What the core costs by itself: nanoseconds and heap allocations per forwarded frame, by size and kind of
// frame.
//
// No process, no pipe: bytes are handed to Relay::step as the shell would, actions are thrown away. Prints a
// table, or JSON lines with --json. Allocations are counted by this program's operator new over the measured
// part, after a warm-up.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/relay.h"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace std::string_literals;

constexpr acp::LinkId agent_link{2};

std::string update(std::size_t bytes) {
  const std::string head =
      R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_abc123","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":")";
  const std::string tail = R"("}}}})"s + "\n";
  return head + std::string(bytes > head.size() + tail.size() ? bytes - head.size() - tail.size() : 1, 'x') +
         tail;
}

// A relay that has been through initialize and session/new.
class Bench {
 public:
  explicit Bench(acp::KeyMode keys) {
    settings_.keys = keys;
    relay_.start(now_, actions_);
    relay_.step(acp::AgentStarted{acp::Epoch{1}, 1}, now_, actions_);
    client(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}})"s + "\n");
    agent(R"({"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}})"s + "\n");
    client(R"({"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}})"s + "\n");
    agent(R"({"jsonrpc":"2.0","id":1,"result":{"sessionId":"sess_abc123"}})"s + "\n");
  }
  void client(std::string_view bytes) { feed(acp::client_link, bytes); }
  void agent(std::string_view bytes) { feed(agent_link, bytes); }

 private:
  void feed(acp::LinkId link, std::string_view bytes) {
    // As the shell reads: pieces of at most read_bytes, padding behind them.
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, acp::limits::read_bytes);
      std::memcpy(buffer_.data(), piece.data(), piece.size());
      relay_.step(acp::BytesRead{link, {buffer_.data(), piece.size()}}, now_, actions_);
      actions_.clear();
      bytes.remove_prefix(piece.size());
    }
  }

  acp::Settings settings_;
  acp::Relay relay_{settings_};
  acp::Actions actions_;
  acp::Instant now_{};
  std::vector<char> buffer_ = std::vector<char>(acp::limits::read_bytes + acp::limits::padding_bytes);
};

struct Result {
  std::string name;
  double ns_per_frame;
  double allocations_per_frame;
  double mib_per_second;
};

template <class Round>
Result measure(std::string name, std::size_t frames_per_round, std::size_t bytes_per_round, Round round) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 20; ++i) round();
  double best = 1e300;
  std::size_t rounds = 0;
  const std::size_t before = allocations;
  const auto end = Clock::now() + std::chrono::milliseconds(400);
  while (Clock::now() < end) {
    const auto start = Clock::now();
    round();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    best = std::min(best, took.count());
    ++rounds;
  }
  const double allocated = static_cast<double>(allocations - before);
  return {std::move(name), best / static_cast<double>(frames_per_round),
          allocated / static_cast<double>(rounds * frames_per_round),
          static_cast<double>(bytes_per_round) / best * 1e9 / (1024.0 * 1024.0)};
}

Result stream(std::size_t size) {
  Bench bench(acp::KeyMode::guard);
  const std::string frame = update(size);
  const std::size_t count = std::max<std::size_t>(1, acp::limits::read_bytes / frame.size());
  std::string batch;
  for (std::size_t i = 0; i < count; ++i) batch += frame;
  return measure(fmt::format("update {} B, as many as a read holds", frame.size()), count, batch.size(),
                 [&] { bench.agent(batch); });
}

Result round_trip(bool keyed, acp::KeyMode keys) {
  Bench bench(keys);
  const std::string key = keyed ? R"("idempotencyKey":"0b6f3c1e-8d2a-4c57-9a41-5e2f7d90c3ab",)" : "";
  const std::string request =
      R"({"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"sess_abc123",)" + key +
      R"("prompt":[{"type":"text","text":")" + std::string(150, 'x') + R"("}]}})" + "\n";
  const std::string answer = R"({"jsonrpc":"2.0","id":7,"result":{"messageId":"msg_user_8f7a1"}})"s + "\n";
  return measure(keyed ? "keyed prompt and its answer (keys=forward)" : "prompt without key and its answer",
                 2, request.size() + answer.size(), [&] {
                   bench.client(request);
                   bench.agent(answer);
                 });
}

}  // namespace

int main(int count, char** words) {
  const bool json = count > 1 && std::string_view(words[1]) == "--json";
  std::vector<Result> results;
  for (const std::size_t size : {300UL, 4096UL, 65536UL, 1048576UL}) results.push_back(stream(size));
  results.push_back(round_trip(false, acp::KeyMode::guard));
  results.push_back(round_trip(true, acp::KeyMode::forward));
  if (!json) fmt::print("{:<48} {:>12} {:>14} {:>10}\n", "core alone", "ns/frame", "allocs/frame", "MiB/s");
  for (const Result& result : results) {
    if (json) {
      fmt::print(
          "{{\"case\":\"{}\",\"ns_per_frame\":{:.1f},\"allocations_per_frame\":{:.6f},\"mib_per_second\":{:."
          "0f}}}\n",
          result.name, result.ns_per_frame, result.allocations_per_frame, result.mib_per_second);
    } else {
      fmt::print("{:<48} {:>12.1f} {:>14.6f} {:>10.0f}\n", result.name, result.ns_per_frame,
                 result.allocations_per_frame, result.mib_per_second);
    }
  }
  return 0;
}
