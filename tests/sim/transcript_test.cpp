// Runs the readable dialogues in transcripts/ against the core.
//
// A line is what somebody does or what must then come out, in order; everything that comes out must be named:
//   C> LINE, A> LINE       the client, the agent writes a line
//   >C LINE, >A LINE       ... is sent this line
//   >C error ID CODE REASON [OUTCOME]     ... this error of keyhop's own
//   >C data NAME VALUE     the last error's data has this member (raw)
//   >exit STATUS           keyhop ends
//   [agent exits N] [agent is killed by N] [agent's stdout ends] [agent cannot start] [agent starts]
//   [client closes] [client is gone] [signal N] [wait MS] [stderr TEXT]
//   set keys forward, set silence MS, set restarts on     before anything else
//   # comment
#include <catch2/catch.hpp>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

int number_in(std::string_view text) {
  int number = -1;
  const std::size_t at = text.find_last_of(' ') + 1;
  std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

class Transcript {
 public:
  void run(const std::filesystem::path& path) {
    std::ifstream file(path);
    REQUIRE(file);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty() || line[0] == '#') continue;
      INFO(path.filename().string() << ":" << number << ": " << line);
      take(line);
    }
    INFO(path.filename().string() << ": at the end");
    expect_nothing();
    CHECK(steps_ > 0);
  }

 private:
  void take(std::string_view line) {
    ++steps_;
    const std::string_view rest = line.substr(std::min<std::size_t>(3, line.size()));
    if (line.starts_with("set ")) return set(line);
    if (line.starts_with(">C data ")) return expect_data(line.substr(8));
    if (line.starts_with(">C ")) return expect(to_client_, rest);
    if (line.starts_with(">A ")) return expect(to_agent_, rest);
    if (line.starts_with(">exit ")) {
      exit_seen_ = true;
      expect_nothing();
      CHECK(talk().exit_status() == number_in(line));
      return;
    }
    expect_nothing();
    if (line.starts_with("C> ")) {
      talk().client(rest);
    } else if (line.starts_with("A> ")) {
      talk().agent(rest);
    } else if (line.front() == '[' && line.back() == ']') {
      happen(line.substr(1, line.size() - 2));
    } else {
      FAIL("what is this line?");
    }
    collect();
  }

  void set(std::string_view line) {
    REQUIRE(talk_ == nullptr);
    if (line == "set keys forward") {
      settings_.keys = KeyMode::forward;
    } else if (line == "set restarts on") {
      settings_.restarts = true;
    } else if (line.starts_with("set silence ")) {
      settings_.silence_timeout = std::chrono::milliseconds(number_in(line));
    } else {
      FAIL("what setting is this?");
    }
  }

  void happen(std::string_view what) {
    if (what == "agent cannot start") {
      talk_ = std::make_unique<Dialogue>(settings_, false);
      return talk().happen(AgentStartFailed{agent_epoch, ENOENT});
    }
    if (what == "agent starts") return talk().agent_starts();
    if (what.starts_with("agent exits "))
      return talk().agent_dies({ExitStatus::Kind::exited, number_in(what)});
    if (what.starts_with("agent is killed by "))
      return talk().agent_dies({ExitStatus::Kind::signalled, number_in(what)});
    if (what == "agent's stdout ends") return talk().happen(LinkEnded{agent_link, LinkEnd::eof, 0});
    if (what == "client closes") return talk().happen(LinkEnded{client_link, LinkEnd::eof, 0});
    if (what == "client is gone") return talk().happen(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
    if (what.starts_with("signal ")) return talk().happen(SignalReceived{Signal::terminate, number_in(what)});
    if (what.starts_with("wait ")) return talk().pass(std::chrono::milliseconds(number_in(what)));
    if (what.starts_with("stderr ")) {
      const std::string text = std::string(what.substr(7)) + "\n";
      return talk().happen(StderrRead{agent_epoch, text});
    }
    FAIL("what event is this?");
  }

  void expect(std::vector<std::string>& lines, std::string_view expected) {
    REQUIRE_FALSE(lines.empty());
    last_ = lines.front();
    lines.erase(lines.begin());
    if (expected.starts_with("error ")) {
      CHECK(in_short(last_) == expected.substr(6));
    } else {
      CHECK(last_ == expected);
    }
  }

  void expect_data(std::string_view rest) {
    const std::size_t space = rest.find(' ');
    const std::string_view name = rest.substr(0, space);
    CHECK(member(member(last_, "error"), "data", name) == rest.substr(space + 1));
  }

  // Nothing came that the transcript does not name.
  void expect_nothing() {
    CHECK(to_client_ == std::vector<std::string>{});
    CHECK(to_agent_ == std::vector<std::string>{});
    CHECK(talk().exit_status().has_value() == exit_seen_);
  }

  void collect() {
    for (std::string& line : talk().take_client()) to_client_.push_back(std::move(line));
    for (std::string& line : talk().take_agent()) to_agent_.push_back(std::move(line));
  }

  Dialogue& talk() {
    if (talk_ == nullptr) talk_ = std::make_unique<Dialogue>(settings_);
    return *talk_;
  }

  Settings settings_ = one_epoch();
  std::unique_ptr<Dialogue> talk_;
  std::vector<std::string> to_client_;
  std::vector<std::string> to_agent_;
  std::string last_;
  int steps_ = 0;
  bool exit_seen_ = false;
};

TEST_CASE("transcripts", "[transcript]") {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KEYHOP_TRANSCRIPTS)) {
    if (entry.path().extension() != ".txt") continue;
    ++count;
    Transcript().run(entry.path());
  }
  CHECK(count >= 10);
}

}  // namespace
}  // namespace acp::sim
