// What comes out, held against what was due; lives, queues and secrets.
#include "tests/sim/checker.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "proxy/core/limits.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {
namespace {

constexpr int first_masks = 32;  // keys whose mask the checker keeps

std::size_t index(LinkId link) noexcept { return link == client_link ? 0 : 1; }

// The order of a life. Equal ranks exclude each other.
int rank_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::starting: return 0;
    case Phase::serving: return 1;
    case Phase::draining: return 2;
    case Phase::closing:
    case Phase::leaving: return 3;
    case Phase::ending: return 4;
    case Phase::stranded: return 5;
    case Phase::over: return 6;
    case Phase::lost:  // the world's lives have one epoch: its agents are not restarted
    case Phase::waiting:
    case Phase::spent:
    case Phase::parked:
    case Phase::restoring: break;
  }
  return -1;
}

bool shows_key(std::string_view text, std::uint32_t keys) {
  for (std::size_t at = text.find("secret-"); at != std::string_view::npos;
       at = text.find("secret-", at + 1)) {
    const std::string_view digits = text.substr(at + 7, 2);
    const bool one = digits.size() == 1 || digits[1] < '0' || digits[1] > '9';
    if (!digits.empty() && one && (keys >> static_cast<unsigned>(digits[0] - '0') & 1U) != 0) return true;
  }
  return false;
}

}  // namespace

void Checker::about_to(const Event& event, const std::vector<Frame>& frames, Instant now) {
  now_ = now;
  deadline_ = std::holds_alternative<DeadlineReached>(event);
  stderr_step_ = std::holds_alternative<StderrRead>(event);
  backlog_told_ = false;
  keys_before_ = known_keys();
  LinkId link = client_link;
  if (const auto* read = std::get_if<BytesRead>(&event)) link = read->link;
  const auto* end = std::get_if<LinkEnded>(&event);
  if (end != nullptr) link = end->link;
  for (const Frame& frame : frames) {
    if (end != nullptr && link == client_link && client_gone_)
      break;  // nobody is owed anything for a lost client's last line
    if (link == client_link) {
      client_frame(frame);
    } else {
      agent_frame(frame);
    }
  }
  if (end != nullptr && link == client_link) {
    client_ended_ = true;
    if (end->end == LinkEnd::write_failed) {
      client_gone_ = true;
      backlog_[0] = 0;
      backlog_told_ = true;
    }
    if (settled_) exit_due_ = true;
  } else if (end != nullptr) {
    if (end->end == LinkEnd::write_failed) {
      reach_ = Reach::ending;
      backlog_[1] = 0;
      backlog_told_ = true;
    } else {
      stdout_ended_ = true;
    }
  } else if (const auto* backlog = std::get_if<LinkBacklog>(&event)) {
    backlog_[index(backlog->link)] = backlog->bytes;
    backlog_told_ = true;
  } else if (const auto* exit = std::get_if<AgentExited>(&event)) {
    status_ = exit->status;
  } else if (std::holds_alternative<AgentEnded>(event)) {
    agent_ended_ = true;
    backlog_[1] = 0;
    backlog_told_ = true;
  } else if (std::holds_alternative<AgentStartFailed>(event)) {
    start_failed_ = agent_ended_ = stdout_ended_ = true;
  } else if (const auto* signal = std::get_if<SignalReceived>(&event)) {
    if (signal_ == 0) signal_ = signal->number;
    if (settled_) exit_due_ = true;
  } else if (deadline_) {
    silence();
  }
  if (agent_ended_ && stdout_ended_ && !settled_) epoch_over();
}

void Checker::done(const Action& action) {
  if (exited_) return findings_.report(Invariant::phases, "an action after Exit");
  if (const auto* send = std::get_if<Send>(&action)) {
    if (send->link != client_link && closed_)
      return findings_.report(Invariant::whole_lines, "bytes to an agent whose stdin was closed");
    std::string& partial = partial_[index(send->link)];
    partial += send->bytes;
    std::size_t at = 0;
    for (std::size_t lf = partial.find('\n'); lf != std::string::npos; lf = partial.find('\n', at)) {
      got(send->link, std::string_view(partial).substr(at, lf - at));
      at = lf + 1;
    }
    partial.erase(0, at);
  } else if (std::holds_alternative<CloseWriting>(action)) {
    closed_ = true;
    if (reach_ == Reach::open) reach_ = Reach::ending;
  } else if (std::holds_alternative<EndAgent>(action)) {
    if (!end_ordered_) ended_by_keyhop_ = deadline_;
    end_ordered_ = true;
  } else if (const auto* log = std::get_if<Log>(&action)) {
    check_secrets(log->text, "the log");
  } else if (const auto* words = std::get_if<WriteStderr>(&action)) {
    if (!stderr_step_ && shows_key(words->bytes, keys_before_ & known_keys()))
      findings_.report(Invariant::secrets, words->bytes);
  } else if (const auto* pause = std::get_if<PauseReading>(&action)) {
    (pause->link == client_link ? client_paused_ : agent_paused_) = true;
  } else if (const auto* resume = std::get_if<ResumeReading>(&action)) {
    (resume->link == client_link ? client_paused_ : agent_paused_) = false;
  } else if (const auto* exit = std::get_if<Exit>(&action)) {
    exited_ = true;
    if (!exit_due_) findings_.report(Invariant::phases, "Exit before everything was settled");
    if (exit->status != expected_status())
      findings_.report(Invariant::exit, "exit status " + std::to_string(exit->status) + " where " +
                                            std::to_string(expected_status()) + " is right");
  }
}

void Checker::after(const Relay& relay) {
  for (std::size_t side = 0; side < 2; ++side) {
    if (!partial_[side].empty()) findings_.report(Invariant::whole_lines, partial_[side]);
    if (due_[side].empty()) continue;
    const Due& due = due_[side].front();
    findings_.report(Invariant::due, std::string(side == 0 ? "the client" : "the agent") + " was not sent: " +
                                         due.text + " " + due.id + " " + std::string(due.reason) + due.rest);
  }
  if (exit_due_ && !exited_) findings_.report(Invariant::phases, "no Exit where it was due");
  if (unreadable_ && !end_ordered_)
    findings_.report(Invariant::phases, "an agent that cannot be read goes on");
  if (relay.edge().open_requests() != open_requests())
    findings_.report(Invariant::rest, "the relay holds " + std::to_string(relay.edge().open_requests()) +
                                          " open requests, " + std::to_string(open_requests()) + " are open");
  check_pressure(relay);
  check_phase(relay);
  if (settled_) asks_.clear();
}

std::size_t Checker::open_requests() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      requests_.begin(), requests_.end(),
      [](const Request& request) { return request.alive && request.state != State::abandoned; }));
}

void Checker::got(LinkId link, std::string_view line) {
  std::deque<Due>& due = due_[index(link)];
  if (due.empty())
    return findings_.report(Invariant::due, std::string("nothing was due, but there came ").append(line));
  const Due next = std::move(due.front());
  due.pop_front();
  switch (next.what) {
    case Due::What::request:
    case Due::What::ask: return got_request(next, line);
    case Due::What::error: return got_error(next, line);
    case Due::What::line: break;
  }
  std::string expected = next.text;
  if (next.wire_named) {
    const Id& wire = next.of_client ? requests_[next.which].wire : asks_[next.which].wire;
    const bool as_it_was = !next.of_client && wire.token == asks_[next.which].sender.token;
    expected = as_it_was ? next.id : next.text + wire.token + next.rest;
  }
  if (line != expected)
    findings_.report(Invariant::bytes,
                     std::string(line.substr(0, 250)) + "\n  where this was due: " + expected);
}

// A request goes out under its sender's id, or under another where that one is open already on this wire.
void Checker::got_request(const Due& due, std::string_view line) {
  if (line.size() <= due.text.size() + due.rest.size() || !line.starts_with(due.text) ||
      !line.ends_with(due.rest))
    return findings_.report(Invariant::bytes,
                            std::string(line) + "\n  where this was due: " + due.text + "ID" + due.rest);
  const bool ask = due.what == Due::What::ask;
  const std::string_view token =
      line.substr(due.text.size(), line.size() - due.text.size() - due.rest.size());
  const Id& sender = ask ? asks_[due.which].sender : requests_[due.which].sender;
  const auto is_open = [&](std::uint32_t id_class) {
    const auto bears = [&](const auto& row) { return row.alive && row.wire.id_class == id_class; };
    return ask ? std::any_of(asks_.begin(), asks_.end(), bears)
               : std::any_of(requests_.begin(), requests_.end(), bears);
  };
  const Id wire = id_of(token);
  const bool kept = token == sender.token;
  if (kept == is_open(sender.id_class) || !wire.usable() || is_open(wire.id_class))
    findings_.report(Invariant::ids, std::string("this id is wrong on the wire: ").append(line));
  (ask ? asks_[due.which].wire : requests_[due.which].wire) = wire;
}

void Checker::got_error(const Due& due, std::string_view line) {
  const std::string_view error = member(line, "error");
  const std::string_view data = member(error, "data");
  const std::string_view progress = member(data, "progress");
  const bool right =
      is_json(line) && member(line, "id") == due.id && member(error, "code") == std::to_string(due.code) &&
      unquoted(member(data, "source")) == "keyhop" && unquoted(member(data, "reason")) == due.reason &&
      unquoted(member(data, "outcome")) == due.outcome &&
      progress == (due.progress < 0    ? ""
                   : due.progress == 0 ? "false"
                                       : "true");
  if (!right)
    findings_.report(Invariant::one_answer, std::string(line) + "\n  where an error was due: " + due.id +
                                                " " + std::to_string(due.code) + " " +
                                                std::string(due.reason) + " " + std::string(due.outcome) +
                                                " progress " + std::to_string(due.progress));
  if (shows_key(line, keys_before_)) findings_.report(Invariant::secrets, line);
}

void Checker::check_secrets(std::string_view text, std::string_view where) {
  if (text.find("secret") != std::string_view::npos) findings_.report(Invariant::secrets, where);
}

void Checker::check_pressure(const Relay& relay) {
  if (!backlog_told_ || relay.phase() == Phase::starting || relay.phase() == Phase::over) return;
  const std::size_t most = limits::backlog_bytes_hard + plan_.settings.frame_bytes_max;
  const auto check = [&](bool paused, std::size_t across, std::size_t back) {
    if (!paused && (across > limits::backlog_bytes_high || back > most))
      findings_.report(Invariant::pressure, "a full queue, and its source is still read");
    if (paused && across <= limits::backlog_bytes_low && back <= most)
      findings_.report(Invariant::pressure, "a drained queue, and its source is not read");
  };
  check(client_paused_, backlog_[1], backlog_[0]);
  check(agent_paused_, backlog_[0], backlog_[1]);
}

void Checker::check_phase(const Relay& relay) {
  const Phase now = relay.phase();
  const bool back = rank_of(now) < rank_of(phase_) || (rank_of(now) == rank_of(phase_) && now != phase_);
  if (back) findings_.report(Invariant::phases, "a life that goes back");
  if ((now == Phase::over) != exited_) findings_.report(Invariant::phases, "the end and Exit disagree");
  phase_ = now;
}

int Checker::expected_status() const {
  constexpr int cannot_start = 69;
  constexpr int internal = 70;
  if (signal_ != 0) return 128 + signal_;
  if (start_failed_) return cannot_start;
  if (client_ended_ && ended_by_keyhop_) return 0;
  return status_ ? status_->as_shell_status() : internal;
}

std::uint32_t Checker::known_keys() const {
  std::uint32_t keys = 0;
  for (const Row& row : rows_) {
    if (row.alive && row.key >= 0 && row.key < first_masks) keys |= 1U << static_cast<unsigned>(row.key);
  }
  return keys;
}

void Checker::owe(LinkId link, Due due) {
  if (link == client_link ? client_gone_ : reach_ != Reach::open) return;
  due_[index(link)].push_back(std::move(due));
}

void Checker::owe_line(LinkId link, std::string text) {
  Due due;
  due.text = std::move(text);
  owe(link, std::move(due));
}

void Checker::owe_spliced(LinkId link, const Frame& frame, Span span, std::string_view token) {
  std::string text = frame.text;
  text.replace(span.begin, span.end - span.begin, token);
  owe_line(link, std::move(text));
}

void Checker::owe_named(LinkId link, const Frame& frame, Span span, std::size_t which, bool of_client) {
  Due due;
  due.text = frame.text.substr(0, span.begin);
  due.rest = frame.text.substr(span.end);
  due.which = which;
  due.wire_named = true;
  due.of_client = of_client;
  due.id = frame.text;
  owe(link, std::move(due));
}

void Checker::owe_error(LinkId link, std::string_view id, int code, std::string_view reason,
                        std::string_view outcome, int progress) {
  Due due;
  due.what = Due::What::error;
  due.id = id;
  due.code = code;
  due.reason = reason;
  due.outcome = outcome;
  due.progress = progress;
  owe(link, std::move(due));
}

}  // namespace acp::sim
