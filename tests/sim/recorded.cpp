#include "tests/sim/recorded.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <optional>

#include "rules/methods.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/invariants.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};

class Run {
 public:
  Run(const Recorded& recorded, const Death& death)
      : recorded_(recorded), death_(death), talk_(recorded.settings) {
    life_ = std::make_unique<AgentLife>(recorded_.person, disk_, 1, nullptr);
  }

  RunReport run() {
    for (const RecordedLine& line : recorded_.lines) {
      if (!line.by_client) continue;
      report_.interleaved.emplace_back();
      say(line.bytes);
      move();
      // Of two deaths one is told at once, the other when the client has said more.
      const bool starts = is_even() || said_since_death_++ > 0;
      if (ordered_ && starts) start();
    }
    finish();
    judge();
    return std::move(report_);
  }

 private:
  bool is_even() const noexcept { return (std::min(death_.written, death_.taken) & 1U) == 0; }

  void say(const std::string& bytes) {
    if (talk_.exit_status()) return;  // it ended with its agent: nobody reads this
    TopLevel top;
    std::string_view text = bytes;
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (read_top_level(text, top)) {
      if (top.method.empty()) asks_.erase(std::string(top.id));
      if (!top.method.empty() && !top.id.empty()) asked_[std::string(top.id)] = std::string(text);
    }
    talk_.client_bytes(bytes);
  }

  // Everything that was sent is heard, everything that is said is read, until nobody moves.
  void move() {
    while (hear_client() || hear_agent()) {
    }
    obey();
  }

  void obey() {
    for (const std::string& order : talk_.take_orders()) {
      if (order == "start") ordered_ = true;
      if (order == "misdirected") note(Invariant::dead_epochs, "bytes for a process that is over");
      if (order == "used twice") note(Invariant::one_life, "an epoch or a link of another process");
    }
  }

  bool hear_client() {
    const std::vector<std::string> lines = talk_.take_client();
    for (const std::string& line : lines) {
      TopLevel top;
      if (!read_top_level(line, top)) {
        note(Invariant::valid, "no message for the client: " + line);
      } else if (top.method.empty()) {
        if (++answers_[std::string(top.id)] > 1 || asked_.count(std::string(top.id)) == 0) {
          ++report_.wrong_answers;
          note(Invariant::one_answer, "one too many: " + line);
        }
      } else if (!top.id.empty()) {
        asks_[std::string(top.id)] = std::string(member(top.params, "nonce"));
      } else if (top.method == "$/cancel_request") {
        asks_.erase(std::string(member(top.params, "requestId")));
      }
    }
    return !lines.empty();
  }

  bool hear_agent() {
    if (!alive_) return false;
    const std::vector<std::string> lines = talk_.take_agent();
    std::size_t left = 0;
    for (const std::string& line : lines) left += line.size() + 1;
    for (const std::string& line : lines) {
      const std::size_t size = line.size() + 1;
      if (first() && report_.input + size > death_.taken) {
        die_reading(left - (death_.taken - report_.input));
        return true;
      }
      left -= size;
      if (first()) report_.input += size;
      life_->hear(line);
      if (!life_->wrong().empty()) note(Invariant::questions, life_->wrong());
      work();
      if (!alive_) return true;
    }
    return !lines.empty();
  }

  bool first() const noexcept { return talk_.epoch() == agent_epoch; }

  // What it was asked it does at once; what the text of a prompt names it does first.
  void work() {
    for (std::size_t i = 0; i < life_->held();) {
      if (life_->prepare(i)) {
        life_->answer(i);
      } else {
        ++i;
      }
    }
    std::string said = life_->take_said();
    if (said.empty()) return;
    if (recorded_.crlf) {
      for (std::size_t at = said.find('\n'); at != std::string::npos; at = said.find('\n', at + 2))
        said.insert(at, 1, '\r');
    }
    if (recorded_.bom && first() && report_.output.empty()) said.insert(0, "\xEF\xBB\xBF");
    if (!first()) return talk_.agent_bytes(said);
    const bool dies = report_.output.size() + said.size() > death_.written;
    if (dies) said.resize(death_.written - report_.output.size());
    report_.output += said;
    if (!report_.interleaved.empty()) report_.interleaved.back() += said;
    if (!said.empty()) talk_.agent_bytes(said);
    if (dies) die();
  }

  // Of what it was sent it took a part; the shell says so, or could not know.
  void die_reading(std::size_t untaken) {
    if (is_even()) {
      talk_.happen(LinkBacklog{talk_.link(), untaken});
      talk_.happen(LinkEnded{talk_.link(), LinkEnd::write_failed, 32});
    }
    die();
  }

  void die() {
    alive_ = false;
    obey();
    talk_.agent_dies(killed);
    said_since_death_ = 0;
    obey();
  }

  void start() {
    ordered_ = false;
    talk_.take_agent();
    life_ = std::make_unique<AgentLife>(recorded_.person, disk_, talk_.epoch().value, nullptr);
    alive_ = true;
    talk_.agent_starts();
    move();
  }

  // All that is left to happen: the process starts, questions are answered, time passes, the client goes.
  void finish() {
    for (int i = 0; i < 8; ++i) {
      if (ordered_) start();
      const std::map<std::string, std::string> asks = std::move(asks_);
      asks_.clear();
      for (const auto& [id, nonce] : asks)
        talk_.client(result_line(id, fmt::format(R"({{"nonce":{}}})", nonce)));
      if (alive_) life_->stop_holding();
      if (alive_) work();
      move();
      talk_.pass(milliseconds(50));
    }
    for (const auto& [id, line] : asked_) {
      if (answers_[id] != 0) continue;
      ++report_.hung;
      note(Invariant::one_answer, "none came: " + line);
    }
    talk_.happen(LinkEnded{client_link, LinkEnd::eof, 0});
    talk_.pass(std::chrono::seconds(5));
    if (!talk_.exit_status()) talk_.agent_dies({ExitStatus::Kind::exited, 0});
    hear_client();
    if (!talk_.exit_status()) note(Invariant::rest, "keyhop does not end");
  }

  void judge() {
    std::map<int, const std::string*> by_tag;
    for (const auto& [id, line] : asked_) by_tag[number_in(member(line, "params", "tag"))] = &line;
    for (const auto& [tag, line] : by_tag) {
      const std::string_view method = unquoted(member(*line, "method"));
      const auto version = recorded_.person.version == 1 ? rules::Version::v1 : rules::Version::v2;
      const rules::MethodFacts& facts =
          rules::facts_of(rules::Sender::client, rules::MessageKind::request, method, version);
      const bool repeats = facts.retry_class == rules::RetryClass::idempotent ||
                           facts.retry_class == rules::RetryClass::duplicating || method == "initialize";
      const bool left_to_agent = recorded_.settings.keys == KeyMode::forward &&
                                 !recorded_.person.honours_keys &&
                                 !member(*line, "params", "idempotencyKey").empty();
      if (repeats || left_to_agent || disk_.times_acted(tag) <= 1) continue;
      ++report_.duplicates;
      note(Invariant::once, fmt::format("acted {} times: {}", disk_.times_acted(tag), *line));
    }
  }

  void note(Invariant invariant, const std::string& what) {
    if (report_.failure.empty()) report_.failure = fmt::format("{}: {}", name_of(invariant), what);
  }

  const Recorded& recorded_;
  Death death_;
  Disk disk_;
  Dialogue talk_;
  std::unique_ptr<AgentLife> life_;
  RunReport report_;
  std::map<std::string, std::string> asked_;  // by the client: id, line
  std::map<std::string, int> answers_;        // by id
  std::map<std::string, std::string> asks_;   // by the agent, open: id, nonce
  bool alive_ = true;
  bool ordered_ = false;
  int said_since_death_ = 0;
};

}  // namespace

RunReport run_recorded(const Recorded& recorded, const Death& death) { return Run(recorded, death).run(); }

std::string Recorded::agents_half() const {
  std::string half;
  for (const RecordedLine& line : lines) {
    if (!line.by_client) half += line.bytes;
  }
  return half;
}

bool Recorded::read(const std::filesystem::path& path) {
  name = path.stem().string();
  settings.restarts = true;
  std::ifstream file(path);
  const auto take = [this](std::string_view word) {
    if (word == "v1") person.version = person.later_version = 1;
    if (word == "v1") person.resumes = person.loads = false;
    if (word == "resume") person.resumes = true;
    if (word == "load") person.loads = true;
    if (word == "forward") settings.keys = KeyMode::forward;
    if (word == "honours") person.honours_keys = true;
    if (word == "forgets") person.forgets_values = true;
    if (word == "null") person.style = ResultStyle::null;
    if (word == "empty") person.style = ResultStyle::empty;
    if (word == "late") person.acts_late = true;
    if (word == "crlf") crlf = true;
    if (word == "bom") bom = true;
  };
  bool whole = static_cast<bool>(file);
  for (std::string line; std::getline(file, line);) {
    const bool is_head = line.empty() || line[0] == '#' || line.starts_with("set ");
    if (is_head) head.push_back(line);
    if (line.starts_with("set ")) {
      for (std::size_t at = 4; at < line.size();) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        take(std::string_view(line).substr(at, end - at));
        at = end + 1;
      }
    } else if (line.starts_with("C> ")) {
      lines.push_back({true, line.substr(3) + "\n"});
    } else if (line.starts_with("Ccr> ")) {
      lines.push_back({true, line.substr(5) + "\r\n"});
    } else if (line.starts_with("Cbom> ")) {
      lines.push_back({true, "\xEF\xBB\xBF" + line.substr(6) + "\n"});
    } else if (line.starts_with("A> ")) {
      std::string text = line.substr(3) + (crlf ? "\r\n" : "\n");
      const bool begins = bom && agents_half().empty();
      lines.push_back({false, begins ? "\xEF\xBB\xBF" + text : text});
    } else if (!is_head) {
      whole = false;
    }
  }
  return whole;
}

}  // namespace acp::sim
