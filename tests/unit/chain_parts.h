// A chain whose client and agent are written by hand and whose proxies pass everything through, one event at
// a time.
//
// Invariant: the bytes of every step are copied into a buffer that is overwritten afterwards, so that a view
// kept too long shows; what is ordered for a component that does not run is "misdirected". Lifetime: one
// chain.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/core/chain.h"
#include "proxy/core/limits.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace acp::test {

using Lines = std::vector<std::string>;
using sim::cancel_line;
using sim::error_line;
using sim::in_short;
using sim::prompt_line;
using sim::request_line;
using sim::result_line;

inline constexpr ExitStatus killed{ExitStatus::Kind::signalled, 9};
constexpr ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code}; }

inline std::string note_line(std::string_view method, std::string_view params = "{}") {
  return fmt::format(R"({{"jsonrpc":"2.0","method":"{}","params":{}}})", method, params);
}

// So many proxies, then an agent; or, as a component of another conductor, nothing.
inline ChainPlan plan_for(std::size_t proxies, bool is_component = false) {
  ChainPlan plan;
  plan.is_component = is_component;
  for (std::size_t number = 0; number <= proxies; ++number) {
    ChainEdge edge;
    const bool is_last = number == proxies;
    edge.label = is_last ? "last" : fmt::format("proxy {}", number + 1);
    edge.settings.component = is_last ? "agent" : fmt::format("proxy p{}", number + 1);
    edge.settings.is_inner = !is_last;
    edge.settings.keys = is_last ? KeyMode::guard : KeyMode::forward;
    edge.settings.restarts = !is_last || !is_component;
    edge.settings.id_prefix = fmt::format("k{}-", number);
    plan.edges.push_back(std::move(edge));
  }
  return plan;
}

// A proxy that takes nothing, adds nothing, and has ids of its own.
class PassThrough {
 public:
  std::string method_prefix;   // "_": the older spelling
  std::string answer_of_role;  // instead of passing its initialize on: "error", or "wrap" (as any message)

  // What it writes on having read this line.
  std::string read(const std::string& line) {
    const std::string method(sim::unquoted(sim::member(line, "method")));
    const std::string id(sim::member(line, "id"));
    const std::string params(sim::member(line, "params"));
    if (method.empty()) return answer(line, id);
    if (method == "$/cancel_request") {
      const auto own = own_of_.find(std::string(sim::member(params, "requestId")));
      return own == own_of_.end() ? "" : cancel_line(own->second) + "\n";
    }
    const bool is_role = method == "proxy/initialize" || method == "_proxy/initialize";
    const bool is_wrapped = method == method_prefix + "proxy/successor";
    if (is_wrapped)
      return message(id, sim::unquoted(sim::member(params, "method")), sim::member(params, "params"));
    if (is_role && answer_of_role == "error") return error_line(id, -32601) + "\n";
    if (is_role && method != method_prefix + "proxy/initialize" && answer_of_role != "wrap")
      return error_line(id, -32600) + "\n";
    const std::string inner = is_role && answer_of_role != "wrap" ? "initialize" : method;
    const std::string more = params.empty() ? "" : ",\"params\":" + params;
    return message(id, method_prefix + "proxy/successor", fmt::format(R"({{"method":"{}"{}}})", inner, more));
  }

 private:
  std::string message(const std::string& id, std::string_view method, std::string_view params) {
    const std::string more = params.empty() ? "" : fmt::format(",\"params\":{}", params);
    if (id.empty()) return fmt::format("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"{}}}\n", method, more);
    const std::string own = std::to_string(made_++);
    theirs_of_[own] = id;
    own_of_[id] = own;
    return fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{}\"{}}}\n", own, method, more);
  }
  std::string answer(const std::string& line, const std::string& id) {
    const auto found = theirs_of_.find(id);
    if (found == theirs_of_.end()) return "";
    const std::string theirs = found->second;
    theirs_of_.erase(found);
    own_of_.erase(theirs);
    const std::string_view error = sim::member(line, "error");
    return fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{}\":{}}}\n", theirs,
                       error.empty() ? "result" : "error",
                       error.empty() ? sim::member(line, "result") : error);
  }

  std::map<std::string, std::string> theirs_of_;
  std::map<std::string, std::string> own_of_;
  int made_ = 0;
};

class ChainTalk {
 public:
  explicit ChainTalk(ChainPlan plan, bool started = true) : plan_(std::move(plan)), chain_(plan_) {
    peers_.resize(plan_.edges.size() - (plan_.is_component ? 1 : 0));
    chain_.start(now_, actions_);
    carry_out();
    if (!started) return;
    for (std::size_t number = 0; number < peers_.size(); ++number) starts(number);
    orders_.clear();
  }
  ChainTalk(const ChainTalk&) = delete;
  ChainTalk& operator=(const ChainTalk&) = delete;

  void happen(const Event& event) {
    chain_.step(event, now_, actions_);
    carry_out();
  }
  void read(LinkId link, std::string_view bytes) {
    std::string buffer(bytes);
    buffer.append(limits::padding_bytes, '"');
    happen(BytesRead{link, std::string_view(buffer).substr(0, bytes.size())});
    std::fill(buffer.begin(), buffer.end(), '#');
  }
  void client(std::string_view line) { read(client_link, std::string(line) + "\n"); }
  void component(std::size_t number, std::string_view line) { read(link(number), std::string(line) + "\n"); }
  void agent(std::string_view line) { component(peers_.size() - 1, line); }

  void starts(std::size_t number) {
    peers_[number].runs = true;
    happen(AgentStarted{epoch(number), 42});
  }
  // Its process ends, and everything of it.
  void exits(std::size_t number, ExitStatus status = killed) {
    const auto [present, its_link] = std::pair(epoch(number), link(number));
    peers_[number].runs = false;
    happen(AgentExited{present, status});
    happen(AgentEnded{present});
    happen(LinkEnded{its_link, LinkEnd::eof, 0});
  }
  // It is killed, another one runs.
  void restarts(std::size_t number) {
    const Epoch before = epoch(number);
    exits(number);
    REQUIRE(epoch(number) > before);
    starts(number);
  }
  void end_client() { happen(LinkEnded{client_link, LinkEnd::eof, 0}); }
  // Whatever was ordered to end does so.
  void obey() {
    bool any = true;
    while (any && !exit_) {
      any = false;
      for (std::size_t number = 0; number < peers_.size(); ++number) {
        if (!std::exchange(peers_[number].is_told_to_end, false)) continue;
        any = true;
        if (peers_[number].runs) exits(number, exited(0));
      }
    }
  }
  void pass(Duration duration) {
    const Instant until = now_ + duration;
    for (auto next = chain_.next_deadline(); next && *next <= until; next = chain_.next_deadline()) {
      now_ = std::max(now_, *next);
      happen(DeadlineReached{});
    }
    now_ = until;
  }

  // The proxies do their work until nothing is left to read for any.
  void settle() {
    bool any = true;
    while (any) {
      any = false;
      for (std::size_t number = 0; number + (plan_.is_component ? 0 : 1) < peers_.size(); ++number) {
        for (const std::string& line : take(number)) {
          any = true;
          const std::string written = peers_[number].proxy.read(line);
          if (!written.empty()) read(link(number), written);
        }
      }
    }
  }
  void client_settled(std::string_view line) {
    client(line);
    settle();
  }
  void agent_settled(std::string_view line) {
    agent(line);
    settle();
  }
  // initialize and session/new "s1" through all of it. Leaves nothing to take.
  void open(int version = 2) {
    const std::string params = fmt::format(R"({{"protocolVersion":{}}})", version);
    client_settled(request_line("0", "initialize", params));
    agent_settled(result_line(last_id(), params));
    client_settled(request_line("1", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
    agent_settled(result_line(last_id(), R"({"sessionId":"s1"})"));
    take_client();
    take_agent();
    orders_.clear();
  }
  // Of the newest line that the agent got.
  std::string last_id() {
    const std::string& bytes = peers_.back().bytes;
    REQUIRE(bytes.size() > 1);
    const std::size_t begin = bytes.rfind('\n', bytes.size() - 2);
    const std::string line = bytes.substr(begin == std::string::npos ? 0 : begin + 1);
    return std::string(sim::member(std::string_view(line).substr(0, line.size() - 1), "id"));
  }

  Lines take_client() { return lines_of(to_client_); }
  Lines take(std::size_t number) { return lines_of(peers_[number].bytes); }
  Lines take_agent() { return take(peers_.size() - 1); }
  // "start 0", "pause client", "resume 1", "close 1", "end 1 1000", "finish 1", "exit 0", …
  Lines take_orders() { return std::exchange(orders_, {}); }
  bool was_ordered(std::string_view order) const {
    return std::find(orders_.begin(), orders_.end(), order) != orders_.end();
  }

  Epoch epoch(std::size_t number) const { return peers_[number].epoch; }
  LinkId link(std::size_t number) const { return peers_[number].link; }
  PassThrough& proxy(std::size_t number) { return peers_[number].proxy; }
  Chain& chain() { return chain_; }
  std::optional<int> exit_status() const { return exit_; }
  const std::string& stderr_text() const { return stderr_; }
  // Of what was ordered from the ledger last.
  std::uint64_t last_ticket() const { return ticket_; }

 private:
  struct Peer {
    Epoch epoch{};
    LinkId link{};
    bool runs = false;
    bool is_told_to_end = false;
    std::string bytes;
    PassThrough proxy;
  };

  void carry_out() {
    for (const Action& action : actions_.list()) carry_out(action);
    actions_.clear();
  }
  std::string name_of(LinkId link) const {
    return link == client_link ? "client" : std::to_string(component_of(link));
  }
  void carry_out(const Action& action) {
    const auto order = [this](std::string text) { orders_.push_back(std::move(text)); };
    if (const auto* send = std::get_if<Send>(&action)) {
      if (send->link == client_link) {
        to_client_ += send->bytes;
      } else if (Peer& peer = peers_.at(component_of(send->link)); send->link == peer.link) {
        peer.bytes += send->bytes;
      } else {
        order("misdirected");
      }
    } else if (const auto* pause = std::get_if<PauseReading>(&action)) {
      order("pause " + name_of(pause->link));
    } else if (const auto* resume = std::get_if<ResumeReading>(&action)) {
      order("resume " + name_of(resume->link));
    } else if (const auto* finish = std::get_if<FinishReading>(&action)) {
      order("finish " + name_of(finish->link));
    } else if (const auto* close = std::get_if<CloseWriting>(&action)) {
      order("close " + name_of(close->link));
    } else if (const auto* start = std::get_if<StartAgent>(&action)) {
      Peer& peer = peers_.at(component_of(start->epoch));
      REQUIRE(component_of(start->link) == component_of(start->epoch));
      if (start->epoch <= peer.epoch || start->link <= peer.link) order("used twice");
      PassThrough fresh;
      fresh.method_prefix = peer.proxy.method_prefix;
      fresh.answer_of_role = peer.proxy.answer_of_role;
      peer = Peer{start->epoch, start->link, false, false, {}, fresh};
      order(fmt::format("start {}", component_of(start->epoch)));
    } else if (const auto* end = std::get_if<EndAgent>(&action)) {
      Peer& peer = peers_.at(component_of(end->epoch));
      peer.is_told_to_end = end->epoch == peer.epoch;
      order(fmt::format("end {} {}", component_of(end->epoch), end->grace / std::chrono::milliseconds(1)));
    } else if (const auto* words = std::get_if<WriteStderr>(&action)) {
      stderr_ += words->bytes;
    } else if (const auto* exit = std::get_if<Exit>(&action)) {
      exit_ = exit->status;
      order(fmt::format("exit {}", exit->status));
    } else if (const auto* commit = std::get_if<CommitLedger>(&action)) {
      ticket_ = commit->batch->ticket;
      order("commit");
    } else if (const auto* reading = std::get_if<ReadLedger>(&action)) {
      ticket_ = reading->ticket;
      order("read ledger");
    }
  }
  static Lines lines_of(std::string& bytes) {
    Lines lines;
    std::size_t at = 0;
    for (std::size_t end = bytes.find('\n'); end != std::string::npos; end = bytes.find('\n', at)) {
      lines.push_back(bytes.substr(at, end - at));
      at = end + 1;
    }
    if (at < bytes.size()) lines.push_back("(no LF) " + bytes.substr(at));
    bytes.clear();
    return lines;
  }

  ChainPlan plan_;
  Chain chain_;
  Actions actions_;
  Instant now_{std::chrono::hours(1)};  // not zero, which an unset instant is
  std::vector<Peer> peers_;
  std::string to_client_;
  std::string stderr_;
  std::vector<std::string> orders_;
  std::optional<int> exit_;
  std::uint64_t ticket_ = 0;
};

}  // namespace acp::test
