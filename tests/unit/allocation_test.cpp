// A program of its own: it counts every `new`, and shows that the steady state of the relay makes none.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/framer.h"
#include "proxy/core/limits.h"
#include "proxy/core/relay.h"
#include "tests/unit/padded.h"

namespace {

std::size_t allocations = 0;
bool out_of_memory = false;  // for those who ask without exceptions

void* allocate(std::size_t size) {
  ++allocations;
  void* place = std::malloc(size == 0 ? 1 : size);
  if (place == nullptr) std::abort();
  return place;
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto bytes = static_cast<std::size_t>(alignment);
  void* place = std::aligned_alloc(bytes, (size + bytes - 1) / bytes * bytes);
  if (place == nullptr) std::abort();
  return place;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return out_of_memory ? nullptr : allocate(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return out_of_memory ? nullptr : allocate(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
void operator delete(void* place) noexcept { std::free(place); }
void operator delete[](void* place) noexcept { std::free(place); }
void operator delete(void* place, std::size_t) noexcept { std::free(place); }
void operator delete[](void* place, std::size_t) noexcept { std::free(place); }
void operator delete(void* place, std::align_val_t) noexcept { std::free(place); }
void operator delete[](void* place, std::align_val_t) noexcept { std::free(place); }
void operator delete(void* place, std::size_t, std::align_val_t) noexcept { std::free(place); }
void operator delete[](void* place, std::size_t, std::align_val_t) noexcept { std::free(place); }

namespace acp {
namespace {

constexpr LinkId agent_link{2};

// A relay that serves, with events prepared beforehand.
class Bench {
 public:
  explicit Bench(KeyMode keys) {
    settings_.keys = keys;
    relay_ = std::make_unique<Relay>(settings_);
    relay_->start({}, actions_);
    feed(AgentStarted{Epoch{1}, 1});
    exchange(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}})",
             R"({"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}})");
    exchange(R"({"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}})",
             R"({"jsonrpc":"2.0","id":1,"result":{"sessionId":"a-session-id-that-is-not-short"}})");
  }

  void read(LinkId link, std::string_view bytes) { feed(BytesRead{link, bytes}); }
  void exchange(std::string_view request, std::string_view answer) {
    const test::Padded ask(std::string(request) + "\n");
    const test::Padded reply(std::string(answer) + "\n");
    read(client_link, ask.view());
    read(agent_link, reply.view());
  }
  std::size_t sent_bytes() const { return sent_bytes_; }
  // What one read made the relay send to that link.
  std::string sent_for(LinkId from, std::string_view line, LinkId to) {
    const test::Padded bytes(std::string(line) + "\n");
    read(from, bytes.view());
    std::string sent;
    for (const Action& action : actions_.list()) {
      const auto* send = std::get_if<Send>(&action);
      if (send != nullptr && send->link == to) sent += send->bytes;
    }
    return sent;
  }
  std::size_t open_requests() const { return relay_->edge().open_requests(); }

 private:
  void feed(const Event& event) {
    actions_.clear();
    relay_->step(event, {}, actions_);
    for (const Action& action : actions_.list()) {
      if (const auto* send = std::get_if<Send>(&action)) sent_bytes_ += send->bytes.size();
    }
  }

  Settings settings_;
  std::unique_ptr<Relay> relay_;
  Actions actions_;
  std::size_t sent_bytes_ = 0;
};

struct Read {
  LinkId link;
  test::Padded bytes;
};

// Feeds `reads` twice to warm up, then counts: `new` calls of one further round.
std::size_t count_steady(Bench& bench, const std::vector<Read>& reads) {
  constexpr int warm_up = 2;
  for (int i = 0; i < warm_up; ++i) {
    for (const Read& one : reads) bench.read(one.link, one.bytes.view());
  }
  const std::size_t sent_before = bench.sent_bytes();
  const std::size_t before = allocations;
  for (const Read& one : reads) bench.read(one.link, one.bytes.view());
  const std::size_t made = allocations - before;
  REQUIRE(bench.sent_bytes() > sent_before);
  return made;
}

std::string update(std::size_t text_bytes) {
  return R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"a-session-id-that-is-not-short",)"
         R"("update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":")" +
         std::string(text_bytes, 'x') + "\\n\"}}}}\n";
}

std::string prompt(const std::string& id, const std::string& key) {
  return R"({"jsonrpc":"2.0","id":)" + id +
         R"(,"method":"session/prompt","params":{"sessionId":"a-session-id-that-is-not-short","prompt":)"
         R"([{"type":"text","text":"Some text \"with\" escapes, 1.50 \u00e9"}],"n":1.25e3)" +
         (key.empty() ? "" : ",\"idempotencyKey\":\"" + key + "\"") + "}}\n";
}

std::string answer(const std::string& id) {
  return R"({"jsonrpc":"2.0","id":)" + id +
         R"(,"result":{"messageId":"a-message-id-that-is-not-short"}})"
         "\n";
}

std::vector<Read> pairs(bool keyed, bool long_ids) {
  std::vector<Read> reads;
  for (int i = 10; i < 60; ++i) {
    const std::string number = std::to_string(i);
    const std::string id = long_ids ? "\"a-request-id-that-is-not-short-" + number + "\"" : number;
    reads.push_back(
        {client_link, test::Padded(prompt(id, keyed ? "key-that-is-not-short-at-all-" + number : ""))});
    reads.push_back({agent_link, test::Padded(update(80))});
    reads.push_back({agent_link, test::Padded(answer(id))});
  }
  return reads;
}

}  // namespace

TEST_CASE("the counter counts", "[allocation]") {
  const std::size_t before = allocations;
  auto made = std::make_unique<std::string>(100, 'x');
  CHECK(allocations - before == 2);
}

TEST_CASE("updates cross without an allocation", "[allocation]") {
  Bench bench(KeyMode::guard);
  std::vector<Read> reads;
  for (std::size_t size : {0U, 10U, 100U, 1000U, 50'000U})
    reads.push_back({agent_link, test::Padded(update(size))});
  reads.push_back({agent_link, test::Padded(update(5) + update(50) + update(500))});
  CHECK(count_steady(bench, reads) == 0);
}

TEST_CASE("frames that span reads cross without an allocation", "[allocation]") {
  Bench bench(KeyMode::guard);
  std::vector<Read> reads;
  const std::string bytes = update(3000) + update(20) + update(40'000);
  for (std::size_t at = 0; at < bytes.size(); at += 1024) {
    reads.push_back({agent_link, test::Padded(std::string_view(bytes).substr(at, 1024))});
  }
  CHECK(count_steady(bench, reads) == 0);
}

TEST_CASE("requests and their answers cross without an allocation", "[allocation]") {
  const bool long_ids = GENERATE(false, true);
  CAPTURE(long_ids);
  Bench bench(KeyMode::guard);
  CHECK(count_steady(bench, pairs(false, long_ids)) == 0);
  CHECK(bench.open_requests() == 0);
}

TEST_CASE("keyed prompts in forward mode cross without an allocation", "[allocation]") {
  const bool long_ids = GENERATE(false, true);
  CAPTURE(long_ids);
  Bench bench(KeyMode::forward);
  CHECK(count_steady(bench, pairs(true, long_ids)) == 0);
  CHECK(bench.open_requests() == 0);
}

TEST_CASE("duplicates of a pending key are answered without an allocation", "[allocation]") {
  Bench bench(KeyMode::forward);
  std::vector<Read> reads;
  for (int i = 0; i < 20; ++i)
    reads.push_back({client_link, test::Padded(prompt(std::to_string(100 + i), "one"))});
  reads.push_back({agent_link, test::Padded(answer("100"))});
  CHECK(count_steady(bench, reads) == 0);
  CHECK(bench.open_requests() == 0);
}

TEST_CASE("the agent's requests and their answers cross without an allocation", "[allocation]") {
  Bench bench(KeyMode::guard);
  std::vector<Read> reads;
  for (int i = 0; i < 20; ++i) {
    const std::string id = std::to_string(i);
    reads.push_back(
        {agent_link, test::Padded(R"({"jsonrpc":"2.0","id":)" + id +
                                  R"(,"method":"session/request_permission","params":{"sessionId":)"
                                  R"("a-session-id-that-is-not-short","options":[]}})"
                                  "\n")});
    reads.push_back({client_link, test::Padded(R"({"jsonrpc":"2.0","id":)" + id +
                                               R"(,"result":{"outcome":{"outcome":"cancelled"}}})"
                                               "\n")});
  }
  CHECK(count_steady(bench, reads) == 0);
}

TEST_CASE("no memory to read a line: it is refused or kept off, and the next line works", "[allocation]") {
  const std::string large =
      R"({"jsonrpc":"2.0","id":7,"method":"x","params":")" + std::string(limits::mib, 'x') + "\"}";
  const std::string small = R"({"jsonrpc":"2.0","id":8,"method":"x"})";
  Bench bench(KeyMode::guard);
  out_of_memory = true;
  const std::string refusal = bench.sent_for(client_link, large, client_link);
  const std::string noise = bench.sent_for(agent_link, large, client_link);
  out_of_memory = false;
  CHECK(refusal.find(R"("code":-32603)") != std::string::npos);
  CHECK(refusal.find(R"("reason":"no_memory")") != std::string::npos);
  CHECK(noise.empty());
  CHECK(bench.sent_for(client_link, small, agent_link) == small + "\n");
  CHECK(bench.sent_for(client_link, large, agent_link) == large + "\n");
}

TEST_CASE("memory for cut frames is kept while large ones come, and given back after many small ones",
          "[allocation]") {
  Framer framer(limits::frame_bytes_default);
  const std::string large(limits::mib, 'x');
  const auto cross = [&](std::string_view text) {
    const std::size_t before = allocations;
    framer.feed(text);
    CHECK_FALSE(framer.next().has_value());
    framer.feed("\n");
    const auto frame = framer.next();
    REQUIRE(frame.has_value());
    CHECK(frame->text == text);
    CHECK_FALSE(framer.next().has_value());
    return allocations - before;
  };
  for (int i = 0; i < 3; ++i) cross(large);
  CHECK(cross(large) == 0);
  for (int i = 0; i < 200; ++i) cross("small");
  CHECK(cross(large) == 0);
  for (int i = 0; i < 600; ++i) cross("small");
  CHECK(cross(large) > 0);
}

}  // namespace acp
