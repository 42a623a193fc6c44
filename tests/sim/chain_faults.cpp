// Processes and their pipes, and what goes wrong with them.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <utility>

#include "proxy/core/limits.h"
#include "tests/sim/chain_world.h"
#include "tests/sim/drive.h"
#include "tests/sim/json_scan.h"

namespace acp::sim {

ChainWorld::Process* ChainWorld::pick_process() {
  return processes_.empty() ? nullptr : random_.pick(processes_).get();
}

bool ChainWorld::process_works(Process& process) {
  if (!process.started || !process.alive) return false;
  const bool is_proxy = !is_agent(process.component);
  if (faults_ && is_proxy && plan_.asks_as_proxy && random_.chance(15))
    static_cast<ChainProxy&>(*process.peer).ask(random_.chance(50));
  const bool worked = process.peer->work();
  auto& words = process.peer->words();
  const bool said = !words.empty();
  while (!words.empty()) {
    tell("from", process.component, words.front());
    process.out.bytes += words.front() + '\n';
    words.pop_front();
    if (faults_ && random_.chance(30)) break;
  }
  if (words.empty() && process.peer->exits()) {
    process.has_reason = true;
    die(process, {ExitStatus::Kind::exited, 0});
    return true;
  }
  if (!disk_.failure.empty()) fail(Invariant::once, disk_.failure);
  if (!disk_.misanswer.empty()) fail(Invariant::questions, disk_.misanswer);
  return worked || said;
}

// It takes the next line from its stdin.
bool ChainWorld::process_reads(Process& process) {
  if (!process.started || !process.alive || !process.listens) return false;
  const std::size_t size = process.in.bytes.find('\n');
  if (size == std::string::npos) return false;
  const std::string line = process.in.bytes.substr(0, size);
  process.in.bytes.erase(0, size + 1);
  if (is_agent(process.component)) check_arrival(line);
  process.peer->take(line);
  if (!disk_.misanswer.empty()) fail(Invariant::questions, disk_.misanswer);
  return true;
}

// keyhop reads of its stdout.
bool ChainWorld::process_is_read(Process& process) {
  if (!process.started || process.eof_told || process.paused || over_) return false;
  std::string& bytes = process.out.bytes;
  if (bytes.empty()) {
    const bool ends = !process.alive && (!process.holds_stdout || process.finishes);
    if (!ends) return false;
    process.eof_told = true;
    if (!process.out.rest.empty()) process.wire.read(process.out.rest);  // its last words count without LF
    tell("[eof]", process.component);
    step(LinkEnded{process.link, LinkEnd::eof, 0});
    return true;
  }
  const bool part = faults_ && plan_.splits && random_.chance(60);
  const std::size_t size =
      std::min(part ? 1 + random_.below(bytes.size()) : bytes.size(), limits::read_bytes);
  const std::string taken = bytes.substr(0, size);
  bytes.erase(0, size);
  for_each_line(process.out.rest, taken, [&](std::string_view line) {
    process.wire.read(line);
    note_initialized(process, line);
  });
  tell("[read]", process.component);
  read(process.link, taken);
  check_waiting(process, size);
  return true;
}

void ChainWorld::read(LinkId link, std::string_view bytes) {
  std::string buffer(bytes);
  buffer.append(limits::padding_bytes, '"');
  step(BytesRead{link, std::string_view(buffer).substr(0, bytes.size())});
  std::ranges::fill(buffer, '#');
}

// One thing that the system has to tell about it.
bool ChainWorld::process_news(Process& process) {
  if (over_ || process.failed) return false;
  if (!process.started) {
    if (faults_ && plan_.start_fails &&
        random_.chance(chain_.relay(process.component).edge().is_initialized() ? 40 : 5)) {
      fault();
      process.failed = true;
      process.alive = false;
      note_broken(process);
      if (!chain_.relay(process.component).edge().is_initialized()) ending_ = true;
      tell("[start fails]", process.component);
      step(AgentStartFailed{process.epoch, ENOENT});
      return true;
    }
    process.started = true;
    process.paused = false;
    tell("[started]", process.component);
    step(AgentStarted{process.epoch, 42});
    return true;
  }
  if (process.alive) {
    const bool idle = process.in.bytes.empty() && process.unwritten.empty() && !process.peer->is_busy() &&
                      process.peer->words().empty();
    if (process.doomed && (!faults_ || random_.chance(40))) {
      die(process, {ExitStatus::Kind::signalled, SIGTERM});
      return true;
    }
    // Nothing tells that a pipe is no longer read but what is written next: it does not stay like that.
    const bool deaf = !process.listens && (process.stdin_closed || !faults_);
    if ((process.stdin_closed && idle) || deaf) {
      die(process, {ExitStatus::Kind::exited, 0});
      return true;
    }
    return false;
  }
  if (!process.exit_told) {
    process.exit_told = true;
    tell("[exited]", process.component);
    step(AgentExited{process.epoch, process.status});
    return true;
  }
  if (process.ended_told || !process.doomed) return false;
  process.ended_told = true;
  tell("[ended]", process.component);
  step(AgentEnded{process.epoch});
  return true;
}

bool ChainWorld::tell_backlog(Process& process) {
  if (over_ || !process.started || process.ended_told) return false;
  if (is_agent(process.component)) {
    if (!process.stalls || (faults_ && random_.chance(60))) return false;
    process.stalls = false;
    flush_agent();
    return true;
  }
  if (!process.listens && !process.in.bytes.empty()) {
    if (process.deaf_told) return false;
    process.deaf_told = true;
    tell("[stdin broken]", process.component);
    step(LinkEnded{process.link, LinkEnd::write_failed, EPIPE});
    return true;
  }
  if (!process.alive) return false;
  const std::size_t bytes = process.in.bytes.size() * plan_.backlog_scale;
  if (bytes == process.told_backlog) return false;
  process.told_backlog = bytes;
  const std::size_t component = process.component;
  tell("[backlog]", component);
  step(LinkBacklog{process.link, bytes});
  check_pressure(component, bytes);
  return true;
}

// What its pipe took of it, and what not, is known in the same turn.
void ChainWorld::flush_agent() {
  if (over_ || agent_behind_ != nullptr || processes_.back() == nullptr) return;
  Process& agent = *processes_.back();
  if (!agent.started || agent.ended_told) return;
  const bool breaks = (!agent.alive || !agent.listens) && !agent.unwritten.empty();
  if (breaks) {
    if (std::exchange(agent.deaf_told, true)) return;
    tell("[stdin broken]", agent.component);
    return step(LinkEnded{agent.link, LinkEnd::write_failed, EPIPE});
  }
  const std::size_t size = agent.stalls ? 0 : agent.unwritten.size();
  agent.in.bytes.append(agent.unwritten, 0, size);
  agent.unwritten.erase(0, size);
  if (agent.unwritten.size() == agent.told_backlog) return;
  agent.told_backlog = agent.unwritten.size();
  step(LinkBacklog{agent.link, agent.told_backlog});
}

// Whoever sends to a component that takes nothing is not read.
void ChainWorld::check_pressure(std::size_t component, std::size_t bytes) {
  if (bytes <= limits::backlog_bytes_high || ending_ || over_ || plan_.bypasses) return;
  const auto is_read = [](const std::unique_ptr<Process>& process) {
    return process != nullptr && process->started && process->alive && !process->paused;
  };
  if (component == 0 ? !client_paused_ : is_read(processes_[component - 1]))
    fail(Invariant::pressure, fmt::format("{} takes nothing, and what is before it is read", component));
  const bool is_last = component + 1 == processes_.size();
  if (is_last ? !client_paused_ : is_read(processes_[component + 1]))
    fail(Invariant::pressure, fmt::format("{} takes nothing, and what is behind it is read", component));
}

bool ChainWorld::client_is_read() {
  if (over_ || client_paused_ || client_end_told_) return false;
  std::string& bytes = from_client_.bytes;
  if (bytes.empty()) {
    if (!client_done_) return false;
    client_end_told_ = ending_ = true;
    tell("[client's end]");
    step(LinkEnded{client_link, LinkEnd::eof, 0});
    return true;
  }
  const bool part = faults_ && plan_.splits && random_.chance(60);
  std::size_t size = part ? 1 + random_.below(bytes.size()) : bytes.size();
  // A conductor's answers follow what they cancel: the wire sees both as keyhop does, one after the other.
  if (agent_behind_ != nullptr) size = std::min(size, bytes.find('\n') + 1);
  const std::string taken = bytes.substr(0, size);
  bytes.erase(0, size);
  for_each_line(from_client_.rest, taken, [&](std::string_view line) {
    client_wire_.read(line);
    was_read(line);
  });
  tell("[client is read]", size);
  read(client_link, taken);
  return true;
}

bool ChainWorld::tell_client_backlog() {
  if (over_ || client_lost_) return false;
  if (client_backlog_ > 0) {
    const bool all = !faults_ || !plan_.pressure || random_.chance(40);
    client_backlog_ -= all ? client_backlog_ : random_.below(client_backlog_);
  }
  const std::size_t bytes = client_backlog_ * plan_.backlog_scale;
  if (bytes == told_client_backlog_) return false;
  told_client_backlog_ = bytes;
  tell("[client's backlog]", bytes);
  step(LinkBacklog{client_link, bytes});
  return true;
}

// ---- faults ----

void ChainWorld::die(Process& process, ExitStatus status) {
  tell("[dies]", process.component);
  process.alive = false;
  process.has_reason = true;
  process.status = status;
  note_broken(process);
  note_death(process);
  if (process.peer->was_misasked()) return;
  process.holds_stdout = faults_ && plan_.holds_stdout && random_.chance(40);
}

void ChainWorld::kill(Process& process) {
  fault();
  const bool by_signal = random_.chance(60);
  // What it had said and not written is lost, from anywhere in a line on.
  if (plan_.splits && !process.out.bytes.empty() && random_.chance(50))
    process.out.bytes.resize(random_.below(process.out.bytes.size() + 1));
  die(process, by_signal ? ExitStatus{ExitStatus::Kind::signalled, SIGKILL}
                         : ExitStatus{ExitStatus::Kind::exited, static_cast<int>(random_.below(3))});
}

void ChainWorld::go_wrong() {
  Process* process = pick_process();
  // Where a budget is small there is somebody to spend it.
  if (plan_.small_budget && plan_.weak < processes_.size() && random_.chance(60))
    process = processes_[plan_.weak].get();
  if (process == nullptr) return go_wrong_with_client();
  const bool runs = process->started && process->alive;
  const bool is_begun = plan_.kills_early || chain_.relay(process->component).edge().is_initialized();
  switch (random_.below(9)) {
    case 0:
    case 1:
    case 2:
    case 3:
      if (runs && is_begun && (is_agent(process->component) ? plan_.kills_agent : plan_.kills_proxies))
        kill(*process);
      return;
    case 4:
      if (runs && is_begun && plan_.breaks_stdin) break_stdin(*process);
      return;
    case 5:
      if (!plan_.stalls || !is_agent(process->component)) return;
      process->stalls = true;
      return tell("[stalls]");
    case 6:
      if (runs && plan_.junk) say_junk(*process);
      return;
    case 7:
      if (!plan_.restarts_by_signal) return;
      fault();
      restart_asked_ = true;
      ++deaths_;
      tell("[SIGUSR2]");
      return step(SignalReceived{Signal::restart, SIGUSR2});
    default: return go_wrong_with_client();
  }
}

// It reads no more, and lives.
void ChainWorld::break_stdin(Process& process) {
  fault();
  tell("[closes its stdin]", process.component);
  process.listens = false;
  process.has_reason = true;
  note_death(process);
}

// What was open may be lost; a component that never initialized is not restarted.
void ChainWorld::note_death(const Process& process) {
  ++deaths_;
  for (auto& [id, ask] : asks_) ask.disturbed = ask.disturbed || ask.open;
  // One that was asked in the wrong spelling is started afresh.
  const bool is_proxy = !is_agent(process.component);
  const bool follows = is_proxy && process.peer->was_misasked() && !plan_.kills_early && !plan_.junk &&
                       !plan_.proxies[process.component].is_none;
  if (!chain_.relay(process.component).edge().is_initialized() && !follows) ending_ = true;
}

// Lines that nobody should write.
void ChainWorld::say_junk(Process& process) {
  fault();
  tell("[junk]", process.component);
  // An envelope with proxy/initialize says that it does not know its role.
  if (!chain_.relay(process.component).edge().is_initialized()) process.has_reason = true;
  const bool prefixed = !is_agent(process.component) && plan_.proxies[process.component].prefixed;
  const std::string_view mark = prefixed ? "_" : "";
  const auto envelope = [&](std::string_view params) {
    return fmt::format(R"({{"jsonrpc":"2.0","id":"w{}","method":"{}proxy/successor","params":{}}})",
                       next_junk_++, mark, params);
  };
  switch (random_.below(7)) {
    case 0: process.out.bytes += "not JSON\n"; return;
    case 1: process.out.bytes += "[1,2]\n"; return;
    case 2:
      process.out.bytes += R"({"jsonrpc":"2.0","id":"x99","result":1})"
                           "\n";
      return;
    case 3:
      process.out.bytes += R"({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x99"}})"
                           "\n";
      return;
    default: break;
  }
  if (is_agent(process.component)) return;
  static constexpr std::string_view params[] = {R"({"method":5})",
                                                "{}",
                                                "[]",
                                                R"({"method":"proxy/initialize","params":{}})",
                                                R"({"method":"_proxy/successor","params":{"method":"x"}})",
                                                R"({"method":"_test/echo","params":7})"};
  process.out.bytes += envelope(random_.pick(params)) + '\n';
}

void ChainWorld::go_wrong_with_client() {
  if (flood()) return;
  if (random_.chance(20)) {
    tell("[SIGUSR1]");
    return step(SignalReceived{Signal::report, SIGUSR1});
  }
  if (plan_.ends_client && random_.chance(50)) {
    fault();
    client_done_ = true;
  } else if (plan_.loses_client && random_.chance(50) && !client_lost_) {
    fault();
    client_lost_ = client_done_ = ending_ = true;
    tell("[client lost]");
    step(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
  } else if (plan_.ends_by_signal && random_.chance(50) && signal_ == 0) {
    fault();
    signal_ = SIGTERM;
    ending_ = true;
    tell("[SIGTERM]");
    step(SignalReceived{Signal::terminate, SIGTERM});
    check_told_to_go();
  }
}

}  // namespace acp::sim
