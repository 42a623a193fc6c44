// Every request of the retry table, lost at every point: how often the agent acted, by its own record, and
// that exactly one answer came.
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "rules/methods.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/lives_agent.h"

namespace acp::sim {
namespace {

using rules::RetryClass;

constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};
constexpr int tag = 40;

enum class Loss : std::uint8_t {
  held,       // the agent was gone when it came
  unwritten,  // passed on, but not a byte was taken
  unheard,    // taken, and the agent died before it acted
  acted,      // ... after it acted
  cancelled,  // taken, cancelled, and the agent died before it acted
  acted_cancelled,
  cancelled_late,  // taken and lost, then cancelled
};
constexpr Loss all_losses[] = {Loss::held,      Loss::unwritten,       Loss::unheard,       Loss::acted,
                               Loss::cancelled, Loss::acted_cancelled, Loss::cancelled_late};

struct Case {
  std::string method;
  int version;
  RetryClass retry_class;
  bool keyed;
  KeyMode mode;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int version : {1, 2}) {
    for (const rules::MethodFacts& row : rules::methods()) {
      const bool by_client =
          row.direction == rules::Direction::client_to_agent || row.direction == rules::Direction::both;
      const auto stability = version == 1 ? row.v1 : row.v2;
      if (!by_client || row.kind != rules::MessageKind::request || stability == rules::Stability::absent)
        continue;
      const std::string method = row.method == "_*" ? "_ext/do" : std::string(row.method);
      cases.push_back({method, version, row.retry_class, false, KeyMode::guard});
      if (row.effect != rules::SessionEffect::prompts) continue;
      cases.push_back({method, version, row.retry_class, true, KeyMode::guard});
      cases.push_back({method, version, row.retry_class, true, KeyMode::forward});
    }
  }
  return cases;
}

// keyhop between a client and one process of the agent after another, each of which answers at once.
class Bench {
 public:
  explicit Bench(const Case& which) : case_(which), talk_(settings(which)) {
    person_.version = person_.later_version = which.version;
    person_.honours_keys = true;
    life_ = std::make_unique<AgentLife>(person_, disk_, 1, nullptr);
    talk_.client(request_line("1", "initialize", fmt::format(R"({{"protocolVersion":{}}})", which.version)));
    work();
    talk_.client(request_line("2", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
    work();
    hear();
    answers_ = 0;
  }

  void ask() { talk_.client(line()); }
  void cancel() { talk_.client(cancel_line("7")); }
  // Not a byte of what was passed on was taken.
  void take_nothing() {
    std::size_t bytes = 0;
    for (const std::string& unread : talk_.take_agent()) bytes += unread.size() + 1;
    talk_.happen(LinkBacklog{talk_.link(), bytes});
  }
  // The agent hears what it was sent, and acts, and does not answer.
  void act() {
    for (const std::string& heard : talk_.take_agent()) life_->hear(heard);
  }
  void die() { talk_.agent_dies(killed); }
  // Another process, to the end of all.
  void live_on() {
    talk_.take_agent();  // what was in the pipe is lost
    life_ = std::make_unique<AgentLife>(person_, disk_, 2, nullptr);
    talk_.agent_starts();
    work();
    hear();
  }

  std::size_t acts() const { return disk_.times_acted(tag); }
  int answers() const { return answers_; }
  const std::string& answer() const { return answer_; }
  bool success() const { return !answer_.empty() && member(answer_, "error").empty(); }
  std::string code() const { return std::string(member(answer_, "error", "code")); }
  std::string outcome() const {
    return std::string(unquoted(member(member(answer_, "error", "data"), "outcome")));
  }
  bool wrong() const { return !life_->wrong().empty(); }
  std::size_t open() { return talk_.relay().edge().open_requests(); }

 private:
  static Settings settings(const Case& which) {
    Settings made;
    made.restarts = true;
    made.keys = which.mode;
    return made;
  }

  std::string line() const {
    std::string more =
        fmt::format(R"("tag":{},"sessionId":"s0","prompt":[{{"type":"text","text":"T"}}])", tag);
    more += R"(,"cwd":"/w","mcpServers":[],"modeId":"m1","configId":"c0","value":"v1","protocolVersion":)";
    more += std::to_string(case_.version);
    if (case_.keyed) more += R"(,"idempotencyKey":"k")";
    return request_line("7", case_.method, "{" + more + "}");
  }

  void work() {
    for (std::vector<std::string> lines = talk_.take_agent(); !lines.empty(); lines = talk_.take_agent()) {
      for (const std::string& heard : lines) life_->hear(heard);
      while (life_->held() > 0) life_->answer(0);
      talk_.agent_bytes(life_->take_said());
    }
  }
  void hear() {
    for (const std::string& heard : talk_.take_client()) {
      const bool answers = member(heard, "method").empty() && member(heard, "id") == "7";
      if (!answers) continue;
      ++answers_;
      answer_ = heard;
    }
  }

  Case case_;
  Personality person_;
  Disk disk_;
  Dialogue talk_;
  std::unique_ptr<AgentLife> life_;
  std::string answer_;
  int answers_ = 0;
};

void lose(Bench& bench, Loss loss) {
  if (loss == Loss::held) {
    bench.die();
    bench.ask();
    return bench.live_on();
  }
  bench.ask();
  if (loss == Loss::unwritten) bench.take_nothing();
  if (loss == Loss::acted || loss == Loss::acted_cancelled || loss == Loss::cancelled_late) bench.act();
  if (loss == Loss::cancelled || loss == Loss::acted_cancelled) bench.cancel();
  bench.die();
  if (loss == Loss::cancelled_late) bench.cancel();
  bench.live_on();
}

// What the RFD's classes allow, in the agent's own count.
void judge(const Bench& bench, const Case& which, Loss loss) {
  const bool again = which.retry_class == RetryClass::idempotent ||
                     which.retry_class == RetryClass::duplicating || which.method == "initialize";
  const bool keyed = which.keyed && which.retry_class == RetryClass::keyed;
  const bool guarded = keyed && which.mode == KeyMode::guard;
  switch (loss) {
    case Loss::held:
    case Loss::unwritten:
      CHECK(bench.acts() == 1);
      CHECK(bench.success());
      return;
    case Loss::unheard:
      if (guarded) {
        CHECK(bench.acts() == (bench.success() ? 1 : 0));  // unknown, or proven absent and sent
        return;
      }
      CHECK(bench.acts() == (again || keyed ? 1 : 0));
      CHECK(bench.success() == (again || keyed));
      return;
    case Loss::acted:
      CHECK(bench.acts() == (again ? 2 : 1));
      if (!guarded) CHECK(bench.success() == (again || keyed));
      if (!bench.success()) CHECK(bench.outcome() == "unknown");
      return;
    case Loss::cancelled:
      CHECK(bench.acts() == 0);
      CHECK(bench.code() == "-32800");
      return;
    case Loss::acted_cancelled:
    case Loss::cancelled_late:
      CHECK(bench.acts() == 1);
      if (!guarded || !bench.success()) CHECK(bench.code() == "-32800");
      return;
  }
}

TEST_CASE("every row of the retry table at every loss point: acts and answers", "[lives][table]") {
  std::size_t runs = 0;
  for (const Case& which : all_cases()) {
    for (const Loss loss : all_losses) {
      const auto point = static_cast<int>(loss);
      CAPTURE(which.method, which.version, which.keyed, static_cast<int>(which.mode), point);
      Bench bench(which);
      lose(bench, loss);
      CAPTURE(bench.answer());
      CHECK(bench.answers() == 1);
      CHECK(bench.open() == 0);
      CHECK_FALSE(bench.wrong());
      judge(bench, which, loss);
      ++runs;
    }
  }
  CHECK(runs > 390);
}

}  // namespace
}  // namespace acp::sim
