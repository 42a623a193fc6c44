// Random histories with several epochs: deaths at any step, failed starts, refused restores, bytes never
// taken, cancels, late answers. What client and agents see is held against what they are owed, without a
// model of keyhop.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/prng.h"
#include "tests/unit/recovery.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed), settings_(make_settings()), talk_(settings_) {}

  // What was wrong first; empty: nothing.
  std::string run() {
    ask("initialize", fmt::format(R"({{"protocolVersion":{}}})", version_));
    if (random_.chance(90)) settle();
    for (int i = 0; i < 3; ++i) ask("session/new", R"({"cwd":"/w","mcpServers":[]})");
    const std::size_t steps = 20 + random_.below(150);
    for (std::size_t i = 0; i < steps && exits_ == 0 && wrong_.empty(); ++i) step();
    faults_ = false;
    // At rest, or in the middle of whatever there is.
    const std::size_t end = random_.below(4);
    if (end < 2) {
      settle();
      if (exits_ == 0 && !open_.empty()) note("a request is never answered: " + open_.begin()->first);
    }
    if (end < 3) {
      talk_.happen(LinkEnded{client_link, LinkEnd::eof, 0});
    } else {
      talk_.happen(SignalReceived{Signal::terminate, 15});
    }
    obey();
    settle();
    if (!open_.empty()) note("not answered at the end: " + open_.begin()->first);
    if (exits_ != 1) note(fmt::format("{} exits", exits_));
    return wrong_;
  }

  std::uint32_t epochs() const noexcept { return talk_.epoch().value; }

 private:
  Settings make_settings() {
    Settings settings;
    settings.restarts = true;
    settings.keys = random_.chance(50) ? KeyMode::guard : KeyMode::forward;
    settings.restart_limit.restarts_max = static_cast<std::uint32_t>(1 + random_.below(6));
    settings.seed = random_.below(1000);
    settings.drain = settings.kill_grace = milliseconds(100);
    version_ = random_.chance(60) ? 2 : 1;
    return settings;
  }

  void note(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void step() {
    switch (random_.below(10)) {
      case 0:
      case 1:
      case 2: speak(); break;
      case 3:
      case 4: read(random_.below(4)); break;
      case 5:
      case 6: answer(); break;
      case 7: chatter(); break;
      case 8: process(); break;
      default: fault();
    }
    obey();
  }

  // Without faults everything must come to rest.
  void settle() {
    for (int i = 0; i < settle_steps_max && wrong_.empty(); ++i) {
      read(1000);
      while (!held_.empty() && is_running() && !stdout_ended_ && wrong_.empty()) {
        answer();
        read(1000);
      }
      process();
      obey();
      if (exits_ > 0 || (open_.empty() && faults_)) return;
      if (i % 4 == 3) talk_.pass(i < settle_steps_max - 100 ? milliseconds(20) : milliseconds(5000));
      obey();
    }
  }

  // ---- the client ----

  void ask(std::string_view method, std::string_view params) {
    const std::string id = std::to_string(next_id_++);
    open_[id] = std::string(method);
    talk_.client(request_line(id, method, params));
    obey();
  }

  void speak() {
    const std::string session = fmt::format("s{}", random_.below(3));
    const std::string tag = fmt::format("t{}", next_tag_++);
    const auto in_session = [&](std::string_view more) {
      return fmt::format(R"({{"sessionId":"{}","tag":"{}"{}}})", session, tag, more);
    };
    switch (random_.below(8)) {
      case 0: once_[tag] = 0; return ask("session/prompt", in_session(R"(,"prompt":[])"));
      case 1:
        if (settings_.keys == KeyMode::guard || version_ == 1) once_[tag] = 0;
        return ask("session/prompt", in_session(fmt::format(R"(,"prompt":[],"idempotencyKey":"{}")", tag)));
      case 2: return ask("session/list", "{}");
      case 3: return ask("session/set_config_option", in_session(R"(,"configId":"c","value":"v")"));
      case 4: once_[tag] = 0; return ask("_extension", in_session(""));
      case 5: return ask(random_.chance(50) ? "session/close" : "session/resume", in_session(""));
      case 6:
        if (!asks_.empty()) return answer_ask();
        return talk_.client(fmt::format(
            R"({{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{}"}}}})", session));
      default:
        if (open_.empty()) return;
        auto named = open_.begin();
        std::advance(named, random_.below(open_.size()));
        return talk_.client(cancel_line(named->first));
    }
  }

  void answer_ask() {
    const std::size_t which = random_.below(asks_.size());
    const auto [id, nonce] = asks_[which];
    asks_.erase(asks_.begin() + static_cast<std::ptrdiff_t>(which));
    talk_.client(result_line(id, fmt::format(R"({{"nonce":{}}})", nonce)));
  }

  void hear_client(const std::string& line) {
    if (!is_json(line)) return note("no JSON at the client: " + line);
    const std::string_view method = method_of(line);
    const std::string id(id_of(line));
    if (method.empty()) {
      if (open_.erase(id) == 0) note("an answer to nothing: " + line);
    } else if (!id.empty()) {
      const std::string nonce(member(line, "params", "nonce"));
      for (const auto& [other, ignored] : asks_) {
        if (other == id) note("an id of the agent's is used twice: " + line);
      }
      if (random_.chance(80)) asks_.emplace_back(id, nonce);
    }
  }

  // ---- the agent ----

  bool is_running() const noexcept { return running_ && !dead_; }

  void read(std::size_t lines) {
    for (; lines > 0 && !unread_.empty() && is_running(); --lines) {
      const std::string line = unread_.front();
      unread_.pop_front();
      hear_agent(line);
    }
    std::size_t bytes = 0;
    for (const std::string& line : unread_) bytes += line.size() + 1;
    if (is_running() && !stdin_broken_) talk_.happen(LinkBacklog{talk_.link(), bytes});
    obey();
  }

  void hear_agent(const std::string& line) {
    if (!is_json(line)) return note("no JSON at the agent: " + line);
    const std::string_view method = method_of(line);
    const std::string id(id_of(line));
    if (talk_.epoch() != agent_epoch && !heard_ && method != "initialize") note("before initialize: " + line);
    heard_ = true;
    if (method.empty()) {
      const auto found = own_.find(id);
      if (found == own_.end()) return note("an answer the agent never asked for: " + line);
      if (member(line, "result", "nonce") != found->second) note("the answer to another epoch: " + line);
      own_.erase(found);
      return;
    }
    const std::string tag(unquoted(member(line, "params", "tag")));
    if (const auto found = once_.find(tag); found != once_.end() && ++found->second > 1)
      note("acted twice: " + line);
    if (id.empty()) return;
    if (!held_.empty() &&
        std::any_of(held_.begin(), held_.end(), [&](const auto& one) { return one.first == id; }))
      note("two requests of one id: " + line);
    held_.emplace_back(id, line);
  }

  void answer() {
    if (held_.empty() || !is_running() || stdout_ended_) return;
    const std::size_t which = random_.below(held_.size());
    const auto [id, line] = held_[which];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
    const std::string_view method = method_of(line);
    static constexpr int codes[] = {-32000, -32002, -32602, -32603};
    if (method == "initialize") {
      const bool refuses = faults_ && talk_.epoch() != agent_epoch && random_.chance(4);
      talk_.agent(refuses ? error_line(id)
                          : result_line(id, version_ == 2        ? v2
                                            : random_.chance(50) ? v1_load
                                                                 : v1_resume));
    } else if (faults_ && random_.chance(15)) {
      talk_.agent(error_line(id, codes[random_.below(4)]));
    } else if (method == "session/new") {
      talk_.agent(result_line(id, fmt::format(R"({{"sessionId":"s{}"}})", next_session_++ % 3)));
    } else {
      talk_.agent(result_line(id, random_.chance(50) ? "{}" : "null"));
    }
  }

  void chatter() {
    if (!is_running() || stdout_ended_) return;
    const std::string session = fmt::format("s{}", random_.below(3));
    if (random_.chance(50))
      return talk_.agent(update_line(session, random_.chance(50) ? "agent_message_chunk" : "state_update"));
    // Ids begin anew with each process.
    const std::string id = std::to_string(next_own_++);
    const std::string nonce = std::to_string(next_nonce_++);
    own_[id] = nonce;
    talk_.agent(request_line(id, "session/request_permission",
                             fmt::format(R"({{"sessionId":"{}","nonce":{}}})", session, nonce)));
  }

  // ---- the process ----

  void fault() {
    if (random_.chance(60))
      return talk_.pass(milliseconds(random_.chance(90) ? random_.below(50) : random_.below(130'000)));
    switch (random_.below(6)) {
      case 0: talk_.happen(SignalReceived{Signal::restart, 12}); return;
      case 1:
        if (is_running() && !stdin_broken_) {
          read(0);
          stdin_broken_ = true;
          unread_.clear();
          talk_.happen(LinkEnded{talk_.link(), LinkEnd::write_failed, 32});
        }
        return;
      case 2:
        if (is_running() && !stdout_ended_) {
          stdout_ended_ = true;
          talk_.happen(LinkEnded{talk_.link(), LinkEnd::eof, 0});
        }
        return;
      default: die();
    }
  }

  void die() {
    if (!is_running()) return;
    read(0);  // what it never took is told
    dead_ = true;
  }

  // One piece of news of the process, if there is one.
  void process() {
    if (ordered_) {
      ordered_ = false;
      if (faults_ && random_.chance(15)) return talk_.happen(AgentStartFailed{talk_.epoch(), 2});
      running_ = true;
      return talk_.agent_starts();
    }
    if (is_running() && (end_ordered_ || stdin_closed_)) die();
    if (!running_ || !dead_) return;
    if (!exit_told_) {
      exit_told_ = true;
      return talk_.happen(AgentExited{talk_.epoch(), {ExitStatus::Kind::signalled, 9}});
    }
    const bool may_end = end_ordered_ && !ended_told_;
    if (may_end && (stdout_ended_ || random_.chance(50))) {
      ended_told_ = true;
      return talk_.happen(AgentEnded{talk_.epoch()});
    }
    if (stdout_ended_) return;
    stdout_ended_ = true;
    talk_.happen(LinkEnded{talk_.link(), LinkEnd::eof, 0});
  }

  // What was ordered and sent.
  void obey() {
    bool was_closed = stdin_closed_;  // before this step
    for (const std::string& order : talk_.take_orders()) {
      if (order == "misdirected" || order == "used twice") note(order);
      if (order == "start") {
        if (running_ && !(dead_ && ended_told_ && stdout_ended_)) note("two live epochs");
        running_ = dead_ = exit_told_ = ended_told_ = end_ordered_ = stdout_ended_ = false;
        stdin_broken_ = stdin_closed_ = heard_ = was_closed = false;
        ordered_ = true;
        unread_.clear();
        held_.clear();
        own_.clear();
        next_own_ = 0;
      }
      if (order == "close agent") stdin_closed_ = true;
      if (order.rfind("end agent", 0) == 0) end_ordered_ = true;
      if (order.rfind("exit", 0) == 0) ++exits_;
    }
    for (std::string& line : talk_.take_client()) hear_client(line);
    for (std::string& line : talk_.take_agent()) {
      if (was_closed) note("bytes after the agent's stdin was closed: " + line);
      unread_.push_back(std::move(line));
    }
  }

  static constexpr int settle_steps_max = 400;

  Prng random_;
  int version_ = 2;
  Settings settings_;
  Dialogue talk_;
  std::string wrong_;
  bool faults_ = true;
  int exits_ = 0;

  int next_id_ = 0;
  int next_tag_ = 0;
  std::map<std::string, std::string> open_;                // the client's
  std::vector<std::pair<std::string, std::string>> asks_;  // of the agents', at the client: id, nonce
  std::map<std::string, int> once_;  // how often agents acted on what must not be repeated

  std::deque<std::string> unread_;
  std::vector<std::pair<std::string, std::string>> held_;  // the client's, at the agent: id, line
  std::map<std::string, std::string> own_;                 // the agent's own: id, nonce
  int next_own_ = 0;
  int next_nonce_ = 0;
  int next_session_ = 0;
  bool heard_ = false;

  bool ordered_ = false;
  bool running_ = true;
  bool dead_ = false;
  bool exit_told_ = false;
  bool end_ordered_ = false;
  bool ended_told_ = false;
  bool stdout_ended_ = false;
  bool stdin_broken_ = false;
  bool stdin_closed_ = false;
};

TEST_CASE("random histories over many epochs: one answer each, nothing twice, one live agent",
          "[recovery][random]") {
  std::uint64_t restarts = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    History history(seed);
    REQUIRE(history.run() == "");
    restarts += history.epochs() - 1;
  }
  CHECK(restarts > 3000);
}

}  // namespace
}  // namespace acp::sim
