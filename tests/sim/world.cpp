#include "tests/sim/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>

#include "proxy/core/limits.h"
#include "tests/sim/drive.h"
#include "tests/sim/safety_phase.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

constexpr LinkId agent_link{2};
constexpr Epoch epoch{1};
constexpr std::size_t rest_steps_max = 20'000;
constexpr std::size_t told_max = 2000;  // of one line
constexpr std::size_t everything = SIZE_MAX;

}  // namespace

World::World(std::uint64_t seed, std::FILE* trace, Script* script)
    : script_(script),
      random_(seed, script == nullptr ? nullptr : &script->tape),
      plan_(random_, script == nullptr ? Kinds() : script->off),
      client_(plan_, random_, findings_, script),
      agent_(plan_, random_, findings_),
      checker_(plan_, findings_),
      relay_(plan_.settings),
      trace_(trace) {}

Outcome World::run() {
  begin();
  run_safety_phase(
      plan_.steps, script_, random_, outcome_, [&] { return findings_.none() && !checker_.over(); },
      [&] { safety_step(); });
  if (outcome_.faults == 0 && findings_.none() && agent_alive_) {
    fault();
    agent_exits({ExitStatus::Kind::signalled, 9});
  }
  rest();
  outcome_.broken = findings_.broken;
  outcome_.failure = findings_.first;
  outcome_.trace_hash = hash_.value();
  return outcome_;
}

void World::begin() {
  relay_.start(now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action);
  actions_.clear();
  if (plan_.has(Kind::start_failure)) {
    fault();
    step(AgentStartFailed{epoch, ENOENT}, {});
    return;
  }
  if (plan_.has(Kind::signals) && random_.chance(5)) {
    fault();
    step(SignalReceived{Signal::terminate, 15}, {});
  }
  agent_alive_ = stdout_open_ = true;
  step(AgentStarted{epoch, 42}, {});
}

void World::safety_step() {
  pass_time(milliseconds(random_.chance(40) ? 0 : random_.below(8)));
  const bool reads_little = plan_.has(Kind::slow_readers);
  const auto piece = [&]() -> std::size_t {
    if (!plan_.has(Kind::splits)) return random_.chance(20) ? everything : 1 + random_.below(4000);
    return random_.chance(10) ? 1 : 1 + random_.below(random_.chance(50) ? 40 : 800);
  };
  switch (random_.below(12)) {
    case 0:
    case 1:
    case 2:
      if (client_open_) say(client_link, client_.speak());
      return;
    case 3:
    case 4:
      if (agent_alive_ && stdout_open_) say(agent_link, agent_.speak());
      return;
    case 5:
    case 6: read_from(client_link, piece()); return;
    case 7: read_from(agent_link, piece()); return;
    case 8: hear(client_link, reads_little ? random_.below(100) : everything); return;
    case 9: hear(agent_link, reads_little ? random_.below(100) : everything); return;
    case 10: process_step(); return;
    default: return maybe_fault();
  }
}

void World::maybe_fault() {
  if (!random_.chance(12)) {
    tell_backlog(random_.chance(50) ? client_link : agent_link);
    if (plan_.has(Kind::stderr_words) && agent_alive_ && random_.chance(20)) {
      const std::string words = agent_.last_words();
      step(StderrRead{epoch, words}, {});
    }
    return;
  }
  switch (random_.below(6)) {
    case 0:
      if (plan_.has(Kind::agent_exit) && agent_alive_) {
        fault();
        agent_exits({random_.chance(50) ? ExitStatus::Kind::exited : ExitStatus::Kind::signalled,
                     static_cast<int>(1 + random_.below(15))});
      }
      return;
    case 1:
      if (!plan_.has(Kind::agent_eof)) return;
      fault();
      stdout_open_ = false;
      return;
    case 2:
      if (plan_.has(Kind::agent_deaf) && agent_listens_ && agent_alive_) {
        fault();
        agent_listens_ = false;
        to_agent_.clear();
        step(LinkEnded{agent_link, LinkEnd::write_failed, EPIPE}, {});
      }
      return;
    case 3:
      if (!plan_.has(Kind::client_eof)) return;
      fault();
      client_open_ = false;
      return;
    case 4:
      if (plan_.has(Kind::client_lost) && client_listens_) {
        fault();
        client_listens_ = false;
        to_client_.clear();
        step(LinkEnded{client_link, LinkEnd::write_failed, EPIPE}, {});
      }
      return;
    default:
      if (!plan_.has(Kind::signals)) return;
      fault();
      step(SignalReceived{Signal::terminate, 15}, {});
  }
}

// The agent's process: it goes when its stdin ends (or does not), when it is told to, or when it is killed.
void World::process_step() {
  if (stdin_closed_ && to_agent_.empty() && agent_alive_ && !leave_at_)
    leave_at_ = plan_.has(Kind::stubborn) ? Instant::max() : now_ + milliseconds(random_.below(200));
  if (agent_alive_ && leave_at_ && *leave_at_ <= now_) agent_exits({ExitStatus::Kind::exited, 0});
  if (agent_alive_ && kill_at_ && *kill_at_ <= now_) agent_exits({ExitStatus::Kind::signalled, 9});
  if (agent_alive_ && end_ordered_ && random_.chance(30)) agent_exits({ExitStatus::Kind::signalled, 15});
  if (exit_ && !exit_told_ && random_.chance(60)) {
    exit_told_ = true;
    step(AgentExited{epoch, *exit_}, {});
  }
  // AgentExited comes first: nothing of the epoch lives only after its process was reaped.
  if (exit_told_ && end_ordered_ && !ended_told_ && random_.chance(50)) {
    ended_told_ = true;
    step(AgentEnded{epoch}, {});
  }
}

void World::agent_exits(ExitStatus status) {
  agent_alive_ = false;
  agent_listens_ = false;
  to_agent_.clear();
  exit_ = status;
  tell("[agent exits]");
  // Sometimes in the middle of a line; sometimes a child of its keeps the stdout open.
  if (stdout_open_ && plan_.has(Kind::cut_lines) && random_.chance(60)) {
    if (auto line = agent_.speak(); line && !line->oversize && line->frames.size() == 1 &&
                                    line->frames[0].sound && line->frames[0].reason.empty())
      from_agent_.write_unended(*line, random_.chance(50));
  }
  if (!random_.chance(20)) stdout_open_ = false;
}

void World::say(LinkId link, std::optional<Line> line) {
  if (!line) return;
  tell(link == client_link ? "C writes" : "A writes", line->bytes);
  (link == client_link ? from_client_ : from_agent_).write(std::move(*line));
}

// One read of at most `size` bytes; the end of the stream once all is read. False if there was nothing to do.
bool World::read_from(LinkId link, std::size_t size) {
  const bool of_client = link == client_link;
  Pipe& pipe = of_client ? from_client_ : from_agent_;
  if (checker_.over() || checker_.is_paused(link)) return false;
  if (of_client ? client_done_ : stdout_done_) return false;
  if (pipe.waiting() == 0) {
    const bool open = of_client ? client_open_ : stdout_open_ && !finish_reading_;
    if (open || (!of_client && !agent_alive_ && !exit_)) return false;
    end_stream(link, of_client && random_.chance(20) ? LinkEnd::read_failed : LinkEnd::eof);
    return true;
  }
  completed_.clear();
  const std::string_view bytes =
      pipe.take(std::min(size, limits::read_bytes), plan_.settings.frame_bytes_max, completed_);
  read_buffer_.assign(bytes);
  for (std::size_t i = 0; i < limits::padding_bytes; ++i) read_buffer_ += i % 2 == 0 ? '"' : '\\';
  const std::string_view view = std::string_view(read_buffer_).substr(0, bytes.size());
  step(BytesRead{link, view}, completed_);
  return true;
}

void World::end_stream(LinkId link, LinkEnd end) {
  const bool of_client = link == client_link;
  if (of_client && plan_.has(Kind::cut_lines) && !client_cut_ && random_.chance(40)) {
    client_cut_ = true;
    if (auto line = client_.speak();
        line && !line->oversize && line->frames[0].sound && line->frames[0].reason.empty()) {
      from_client_.write_unended(*line, random_.chance(50));
      return;  // its end comes with the next read
    }
  }
  (of_client ? client_done_ : stdout_done_) = true;
  const std::vector<Frame> last = (of_client ? from_client_ : from_agent_).take_last();
  step(LinkEnded{link, end, end == LinkEnd::eof ? 0 : EIO}, last);
}

void World::hear(LinkId link, std::size_t size) {
  const bool by_client = link == client_link;
  std::string& waiting = by_client ? to_client_ : to_agent_;
  std::string& heard = by_client ? heard_client_ : heard_agent_;
  size = std::min(size, waiting.size());
  if (size == 0) return;
  const std::string bytes = waiting.substr(0, size);
  waiting.erase(0, size);
  (by_client ? client_backlog_stale_ : agent_backlog_stale_) = true;
  for_each_line(heard, bytes, [&](std::string_view line) {
    if (by_client) {
      client_.hear(line);
    } else {
      agent_.hear(line);
    }
  });
}

void World::tell_backlog(LinkId link) {
  const bool by_client = link == client_link;
  bool& stale = by_client ? client_backlog_stale_ : agent_backlog_stale_;
  if (!stale || checker_.over() || !(by_client ? client_listens_ : agent_listens_)) return;
  stale = false;
  step(LinkBacklog{link, (by_client ? to_client_ : to_agent_).size() * plan_.backlog_scale}, {});
}

void World::pass_time(Duration duration) {
  sim::pass_time(
      relay_, now_, duration, [&] { return findings_.none(); }, [&] { step(DeadlineReached{}, {}); });
}

void World::step(const Event& event, const std::vector<Frame>& completed) {
  if (checker_.over() || !findings_.none()) return;
  ++outcome_.events;
  outcome_.messages += completed.size();
  static constexpr std::string_view names[] = {"read",           "end",       "backlog", "[agent started]",
                                               "[start failed]", "[exit]",    "[ended]", "[stderr]",
                                               "[signal]",       "[deadline]"};
  const auto* read = std::get_if<BytesRead>(&event);
  const auto* end = std::get_if<LinkEnded>(&event);
  const LinkId link = read != nullptr ? read->link : end != nullptr ? end->link : client_link;
  const std::string_view who = read == nullptr && end == nullptr ? "" : link == client_link ? "C>" : "A>";
  tell(who, names[event.index()]);
  if (read != nullptr) tell(who, read->bytes);
  outcome_.reached.set(pair_of(relay_.phase(), event));
  for (const Frame& frame : completed) {
    using Label = Frame::Label;
    const bool broken = frame.label == Label::refused || frame.label == Label::nothing ||
                        frame.label == Label::unreadable || !frame.sound;
    if (broken && !resting_) fault();
    if (link == client_link) {
      client_.sent(frame);
    } else {
      agent_.sent(frame);
    }
  }
  checker_.about_to(event, completed, now_);
  relay_.step(event, now_, actions_);
  for (const Action& action : actions_.list()) {
    checker_.done(action);
    carry_out(action);
  }
  actions_.clear();
  checker_.after(relay_);
}

void World::carry_out(const Action& action) {
  hash_.mix_number(now_);
  if (const auto* send = std::get_if<Send>(&action)) {
    hash_.mix(send->bytes);
    const bool to_client = send->link == client_link;
    tell(to_client ? ">C" : ">A", send->bytes);
    if (!(to_client ? client_listens_ : agent_listens_ && agent_alive_)) return;
    (to_client ? to_client_ : to_agent_) += send->bytes;
    (to_client ? client_backlog_stale_ : agent_backlog_stale_) = true;
  } else if (std::holds_alternative<CloseWriting>(action)) {
    tell("[agent's stdin is closed]");
    stdin_closed_ = true;
  } else if (const auto* ending = std::get_if<EndAgent>(&action)) {
    tell("[agent is ended]");
    end_ordered_ = true;
    const Instant kill = now_ + ending->grace;
    if (!kill_at_ || kill < *kill_at_) kill_at_ = kill;
  } else if (std::holds_alternative<FinishReading>(action)) {
    finish_reading_ = true;
  } else if (const auto* log = std::get_if<Log>(&action)) {
    hash_.mix(log->text);
    tell("log", log->text);
  } else if (const auto* words = std::get_if<WriteStderr>(&action)) {
    hash_.mix(words->bytes);
    tell("stderr", words->bytes);
  } else if (const auto* exit = std::get_if<Exit>(&action)) {
    hash_.mix_number(exit->status);
    tell("[exit]", std::to_string(exit->status));
  }
}

// Once more of everything that is not at rest. False if there was nothing.
bool World::rest_step() {
  bool moved = false;
  for (const LinkId link : {client_link, agent_link}) {
    moved |= !(link == client_link ? to_client_ : to_agent_).empty();
    hear(link, everything);
    tell_backlog(link);
    moved |= read_from(link, everything);
  }
  process_step();
  if (auto line = client_open_ ? client_.answer_one() : std::nullopt) {
    say(client_link, std::move(line));
    moved = true;
  }
  if (auto line = agent_alive_ && stdout_open_ ? agent_.answer_one() : std::nullopt) {
    say(agent_link, std::move(line));
    moved = true;
  }
  return moved || (exit_ && !ended_told_ && end_ordered_);
}

// Faults stop. What is open must be answered; then the client goes, and keyhop must follow.
void World::rest() {
  tell("-- rest");
  resting_ = true;
  std::size_t steps = 0;
  const bool lives = agent_alive_ && stdout_open_ && agent_listens_ && client_open_ && client_listens_;
  while (findings_.none() && !checker_.over() && rest_step()) {
    if (++steps > rest_steps_max) return findings_.report(Invariant::rest, "no rest without faults");
  }
  // A deaf or dying agent cannot answer; a living one has.
  if (findings_.none() && lives && agent_alive_ && relay_.phase() == Phase::serving &&
      relay_.edge().open_requests() != 0)
    findings_.report(Invariant::rest, "requests are open that nobody will answer");
  client_open_ = false;
  while (findings_.none() && !checker_.over()) {
    pass_time(milliseconds(20));
    rest_step();
    if (++steps > rest_steps_max) return findings_.report(Invariant::rest, "no Exit after the client's end");
  }
  hear(client_link, everything);
  if (findings_.none() && client_listens_ && client_.open() != 0)
    findings_.report(Invariant::one_answer, "the client waits for an answer that never came");
}

void World::tell(std::string_view what, std::string_view text) {
  if (trace_ == nullptr) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  fmt::print(trace_, "{:6} ms  {} {}\n", now_.time_since_epoch() / milliseconds(1), what,
             text.substr(0, told_max));
}

}  // namespace acp::sim
