#include "tests/sim/dialogue.h"

#include <algorithm>
#include <fmt/format.h>
#include <variant>

#include "proxy/core/limits.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

std::string_view name_of(LinkId link) noexcept { return link == client_link ? "client" : "agent"; }

}  // namespace

Settings one_epoch() {
  Settings settings;
  settings.restarts = false;
  return settings;
}

Dialogue::Dialogue(Settings settings, bool started) : settings_(std::move(settings)), relay_(settings_) {
  relay_.start(now_, actions_);
  carry_out();
  if (!started) return;
  happen(AgentStarted{agent_epoch, 42});
  orders_.clear();
}

void Dialogue::client(std::string_view line) { read(client_link, std::string(line) + "\n"); }
void Dialogue::agent(std::string_view line) { read(link_, std::string(line) + "\n"); }

void Dialogue::read(LinkId link, std::string_view bytes) {
  const std::size_t whole = bytes.size() + limits::padding_bytes;
  const std::unique_ptr<char[]> copy(new char[whole]);
  bytes.copy(copy.get(), bytes.size());
  for (std::size_t i = bytes.size(); i < whole; ++i) copy[i] = i % 2 == 0 ? '"' : '\\';
  happen(BytesRead{link, {copy.get(), bytes.size()}});
}

void Dialogue::happen(const Event& event) {
  relay_.step(event, now_, actions_);
  carry_out();
}

void Dialogue::pass(Duration duration) {
  const Instant end = now_ + duration;
  while (const auto deadline = relay_.next_deadline()) {
    if (*deadline > end) break;
    now_ = std::max(now_, *deadline);
    happen(DeadlineReached{});
  }
  now_ = end;
}

void Dialogue::open(int version) {
  client(request_line("0", "initialize", fmt::format(R"({{"protocolVersion":{}}})", version)));
  agent(result_line("0", fmt::format(R"({{"protocolVersion":{}}})", version)));
  client(request_line("1", "session/new", R"({"cwd":"/w","mcpServers":[]})"));
  agent(result_line("1", R"({"sessionId":"s1"})"));
  to_client_.clear();
  to_agent_.clear();
}

void Dialogue::agent_dies(ExitStatus status) {
  const LinkId link = link_;
  const Epoch epoch = epoch_;
  happen(AgentExited{epoch, status});
  happen(AgentEnded{epoch});
  happen(LinkEnded{link, LinkEnd::eof, 0});
}

void Dialogue::agent_restarts() {
  agent_dies({ExitStatus::Kind::signalled, 9});
  agent_starts();
}

void Dialogue::agent_initializes(std::string_view result) {
  const std::vector<std::string> lines = take_agent();
  const bool alone = lines.size() == 1 && unquoted(member(lines.front(), "method")) == "initialize";
  if (!alone) return orders_.push_back("not initialize alone");
  agent(result_line(member(lines.front(), "id"), result));
}

void Dialogue::use_ledger(MemoryLedger& ledger, bool open) {
  ledger_ = &ledger;
  if (open) happen(LedgerOpened{LedgerError::none, &ledger.salt()});
}

void Dialogue::run_ledger() {
  while (ledger_ != nullptr && !ledger_orders_.empty()) {
    const LedgerOrder order = ledger_orders_.front();
    ledger_orders_.erase(ledger_orders_.begin());
    if (order.batch) {
      happen(LedgerCommitted{order.ticket, ledger_->apply(*order.batch)});
    } else {
      const LedgerSession session = ledger_->read(order.agent, order.session);
      happen(LedgerRead{order.ticket, LedgerError::none, &session});
    }
  }
}

void Dialogue::carry_out() {
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
}

void Dialogue::carry_out(const Action& action) {
  const auto order = [this](std::string text) { orders_.push_back(std::move(text)); };
  if (const auto* send = std::get_if<Send>(&action)) {
    if (send->link != client_link && send->link != link_) return order("misdirected");
    (send->link == client_link ? to_client_ : to_agent_) += send->bytes;
  } else if (const auto* pause = std::get_if<PauseReading>(&action)) {
    order(fmt::format("pause {}", name_of(pause->link)));
  } else if (const auto* resume = std::get_if<ResumeReading>(&action)) {
    order(fmt::format("resume {}", name_of(resume->link)));
  } else if (const auto* finish = std::get_if<FinishReading>(&action)) {
    order(fmt::format("finish {}", name_of(finish->link)));
  } else if (const auto* close = std::get_if<CloseWriting>(&action)) {
    order(fmt::format("close {}", name_of(close->link)));
  } else if (const auto* start = std::get_if<StartAgent>(&action)) {
    if (start->epoch != Epoch{1} && (start->epoch <= epoch_ || start->link <= link_)) order("used twice");
    link_ = start->link;
    epoch_ = start->epoch;
    order("start");
  } else if (const auto* end = std::get_if<EndAgent>(&action)) {
    order(fmt::format("end agent {}", end->grace / std::chrono::milliseconds(1)));
  } else if (const auto* words = std::get_if<WriteStderr>(&action)) {
    stderr_ += words->bytes;
  } else if (const auto* log = std::get_if<Log>(&action)) {
    log_.append(log->text).push_back('\n');
  } else if (const auto* commit = std::get_if<CommitLedger>(&action)) {
    ledger_orders_.push_back({*commit->batch, commit->batch->ticket, {}, {}});
  } else if (const auto* read = std::get_if<ReadLedger>(&action)) {
    ledger_orders_.push_back(
        {std::nullopt, read->ticket, std::string(read->agent), std::string(read->session)});
  } else if (const auto* exit = std::get_if<Exit>(&action)) {
    exit_ = exit->status;
    order(fmt::format("exit {}", exit->status));
  }
}

std::vector<std::string> Dialogue::take(std::string& bytes) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t end = bytes.find('\n'); end != std::string::npos; end = bytes.find('\n', at)) {
    lines.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  if (at < bytes.size()) lines.push_back("(no LF) " + bytes.substr(at));
  bytes.clear();
  return lines;
}

std::string in_short(std::string_view line) {
  const std::string_view error = member(line, "error");
  const std::string_view data = member(error, "data");
  if (unquoted(member(data, "source")) != "keyhop" || !is_json(line)) return std::string(line);
  std::string out =
      fmt::format("{} {} {}", member(line, "id"), member(error, "code"), unquoted(member(data, "reason")));
  const std::string_view outcome = unquoted(member(data, "outcome"));
  if (!outcome.empty()) out += fmt::format(" {}", outcome);
  return out;
}

std::vector<std::string> in_short(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines) out.push_back(in_short(line));
  return out;
}

std::string request_line(std::string_view id, std::string_view method, std::string_view params) {
  return fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"{}","params":{}}})", id, method, params);
}

std::string prompt_line(std::string_view id, std::string_view key, std::string_view text,
                        std::string_view session) {
  std::string params =
      fmt::format(R"({{"sessionId":"{}","prompt":[{{"type":"text","text":"{}"}}])", session, text);
  if (!key.empty()) params += fmt::format(R"(,"idempotencyKey":{})", key);
  return request_line(id, "session/prompt", params + "}");
}

std::string cancel_line(std::string_view request_id) {
  return fmt::format(R"({{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{}}}}})",
                     request_id);
}

std::string result_line(std::string_view id, std::string_view result) {
  return fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", id, result);
}

std::string error_line(std::string_view id, int code, std::string_view message) {
  return fmt::format(R"({{"jsonrpc":"2.0","id":{},"error":{{"code":{},"message":"{}"}}}})", id, code,
                     message);
}

}  // namespace acp::sim
