#include "tests/sim/lives_world.h"

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

constexpr std::size_t rest_steps_max = 4000;
constexpr std::size_t told_max = 2000;
constexpr std::size_t everything = 1 << 30;

}  // namespace

LivesWorld::LivesWorld(std::uint64_t seed, std::FILE* trace, Script* script)
    : script_(script),
      random_(seed, script == nullptr ? nullptr : &script->tape),
      plan_(random_, script == nullptr ? Kinds() : script->off),
      client_(plan_, random_, book_, script),
      checker_(plan_, book_, disk_, findings_),
      relay_(plan_.settings),
      trace_(trace) {}

Outcome LivesWorld::run() {
  begin();
  run_safety_phase(
      plan_.steps, script_, random_, outcome_, [&] { return findings_.none() && !checker_.over(); },
      [&] { safety_step(); });
  rest();
  outcome_.broken = findings_.broken;
  outcome_.failure = findings_.first;
  outcome_.trace_hash = hash_.value();
  return outcome_;
}

void LivesWorld::begin() {
  relay_.start(now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action, Phase::starting);
  actions_.clear();
  if (plan_.has(Fault::early)) return;
  // Most histories begin where it gets interesting: initialized, with two sessions.
  faults_ = false;
  process_step();
  client_says(client_.say_initialize());
  for (int i = 0; i < 3 && findings_.none(); ++i) {
    read_client(everything);
    agent_reads(everything);
    while (process_->life.held() > 0) process_->life.answer(0);
    collect_words();
    read_agent(everything);
    if (i < 2) client_says(client_.say_new_session());
  }
  faults_ = true;
}

void LivesWorld::safety_step() {
  pass_time(milliseconds(random_.chance(50) ? 0 : random_.below(random_.chance(90) ? 12 : 400)));
  const auto piece = [&]() -> std::size_t {
    if (!plan_.has(Fault::splits)) return everything;
    return random_.chance(40) ? 1 + random_.below(60) : 1 + random_.below(500);
  };
  switch (random_.below(13)) {
    case 0:
    case 1:
    case 2:
      if (client_open_) client_says(client_.speak());
      return;
    case 3:
    case 4: read_client(piece()); return;
    case 5:
    case 6: agent_reads(piece()); return;
    case 7:
    case 8: agent_works(); return;
    case 9: read_agent(piece()); return;
    case 10:
    case 11: process_step(); return;
    default: return maybe_fault();
  }
}

void LivesWorld::maybe_fault() {
  if (random_.chance(50)) return;
  const std::size_t roll = random_.below(10);
  if (roll < 7) return fault_of_process();
  if (roll == 7 && random_.chance(50)) return client_fault();
  if (roll == 8 && plan_.has(Fault::person_restart)) {
    fault();
    checker_.person_restarts();
    return step(SignalReceived{Signal::restart, 12});
  }
  stale_news();
}

void LivesWorld::client_fault() {
  switch (random_.below(3)) {
    case 0:
      if (!plan_.has(Fault::client_end)) return;
      fault();
      client_open_ = false;
      return;
    case 1:
      if (!plan_.has(Fault::client_loss) || !client_listens_) return;
      fault();
      client_listens_ = false;
      checker_.client_lost();
      return step(LinkEnded{client_link, LinkEnd::write_failed, EPIPE});
    default:
      if (!plan_.has(Fault::signals)) return;
      fault();
      checker_.signalled(15);
      step(SignalReceived{Signal::terminate, 15});
  }
}

// What belongs to an epoch that is over is told late.
void LivesWorld::stale_news() {
  if (!plan_.has(Fault::stale_news) || former_link_ == LinkId{0}) return;
  fault();
  const Epoch old{checker_.epoch() - 1};
  switch (random_.below(4)) {
    case 0: return step(AgentExited{old, {ExitStatus::Kind::exited, 3}});
    case 1: return step(AgentEnded{old});
    case 2: return step(LinkEnded{former_link_, LinkEnd::eof, 0});
    default: break;
  }
  const Attempt& attempt = random_.pick(book_.attempts);
  read_buffer_ = fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{{"stale":true}}}})"
                             "\n",
                             attempt.id.empty() ? "0" : attempt.id);
  const std::size_t size = read_buffer_.size();
  read_buffer_.append(limits::padding_bytes, ' ');
  step(BytesRead{former_link_, std::string_view(read_buffer_).substr(0, size)});
}

void LivesWorld::client_says(Said said) {
  tell("C writes", said.line);
  from_client_.push_back(std::move(said));
}

// One read of at most `size` bytes; the end of the stream once all is read. False if there was nothing to do.
bool LivesWorld::read_client(std::size_t size) {
  if (checker_.over() || client_paused_ || client_done_) return false;
  if (from_client_.empty()) {
    if (client_open_) return false;
    client_done_ = true;
    checker_.client_ended();
    step(LinkEnded{client_link, LinkEnd::eof, 0});
    return true;
  }
  ++outcome_.messages;
  read_buffer_.clear();
  const Phase phase = relay_.phase();
  size = std::min(size, limits::read_bytes);
  while (size > 0 && !from_client_.empty()) {
    const Said& said = from_client_.front();
    // What a cancel names must be known as it is after the lines before it.
    const bool cancels = said.what == Said::What::cancel || said.what == Said::What::session_cancel;
    if (cancels && !read_buffer_.empty()) break;
    const std::size_t part = std::min(size, said.line.size() - client_taken_);
    read_buffer_.append(said.line, client_taken_, part);
    client_taken_ += part;
    size -= part;
    if (client_taken_ < said.line.size()) break;
    checker_.client_said(said, phase);
    client_taken_ = 0;
    from_client_.pop_front();
  }
  const std::size_t bytes = read_buffer_.size();
  read_buffer_.append(limits::padding_bytes, '"');
  step(BytesRead{client_link, std::string_view(read_buffer_).substr(0, bytes)});
  return true;
}

void LivesWorld::pass_time(Duration duration) {
  sim::pass_time(
      relay_, now_, duration, [&] { return findings_.none(); }, [&] { step(DeadlineReached{}); });
}

void LivesWorld::step(const Event& event) {
  if (checker_.over() || !findings_.none()) return;
  ++outcome_.events;
  if (trace_ != nullptr) {
    static constexpr std::string_view names[] = {
        "read",   "[end]",   "[backlog]", "[agent started]", "[start failed]",
        "[exit]", "[ended]", "[stderr]",  "[signal]",        "[deadline]"};
    const auto* read = std::get_if<BytesRead>(&event);
    tell(names[event.index()], read == nullptr ? std::string_view{} : read->bytes);
  }
  const Phase before = relay_.phase();
  outcome_.reached.set(pair_of(before, event));
  relay_.step(event, now_, actions_);
  for (const Action& action : actions_.list()) carry_out(action, before);
  actions_.clear();
  checker_.after_step(relay_.phase(), now_);
  flush();
}

void LivesWorld::sent_to_agent(const Send& send) {
  const bool present = process_ && process_->link == send.link;
  if (!present || process_->ordered || process_->ended_told) {
    return findings_.report(Invariant::dead_epochs,
                            fmt::format("to link {}: {}", send.link.value, send.bytes));
  }
  Process& process = *process_;
  if (process.stdin_closed)
    return findings_.report(Invariant::dead_epochs, "bytes after its stdin was closed");
  process.backlog += send.bytes;
  for_each_line(process.sent, send.bytes, [&](std::string_view line) {
    process.marks.push_back({checker_.to_agent(send.link, line, now_), line.size() + 1, false});
  });
}

void LivesWorld::carry_out(const Action& action, Phase before) {
  if (const auto* send = std::get_if<Send>(&action)) {
    hash_.mix(send->bytes);
    tell(send->link == client_link ? ">C" : ">A", send->bytes);
    if (send->link != client_link) return sent_to_agent(*send);
    for_each_line(to_client_, send->bytes, [&](std::string_view line) { checker_.to_client(line, now_); });
  } else if (const auto* pause = std::get_if<PauseReading>(&action)) {
    (pause->link == client_link ? client_paused_ : agent_paused_) = true;
  } else if (const auto* resume = std::get_if<ResumeReading>(&action)) {
    (resume->link == client_link ? client_paused_ : agent_paused_) = false;
  } else if (const auto* start = std::get_if<StartAgent>(&action)) {
    tell("[start]");
    checker_.start_ordered(*start, before, now_);
    if (process_) former_link_ = process_->link;
    process_.emplace(plan_.person, disk_, start->epoch, start->link, &random_);
    agent_paused_ = false;
  } else if (std::holds_alternative<CloseWriting>(action)) {
    tell("[stdin closed]");
    process_->stdin_closed = true;
  } else if (const auto* end = std::get_if<EndAgent>(&action)) {
    tell("[end agent]");
    process_->end_ordered = true;
    checker_.end_ordered();
    const Instant kill = now_ + end->grace;
    if (!process_->kill_at || kill < *process_->kill_at) process_->kill_at = kill;
  } else if (std::holds_alternative<FinishReading>(action)) {
    process_->finish_reading = true;
  } else if (const auto* log = std::get_if<Log>(&action)) {
    tell("log", log->text);
  } else if (const auto* exit = std::get_if<Exit>(&action)) {
    hash_.mix_number(exit->status);
    tell("[exit]", std::to_string(exit->status));
    checker_.exit_ordered(exit->status, before);
  }
  hash_.mix_number(now_);
}

// Once more of everything that is not at rest. False if there was nothing.
bool LivesWorld::rest_step() {
  // One that reads no more and has lost what was in its pipe would hang for ever, and nobody could tell.
  if (process_->alive && !process_->listens && !process_->end_ordered) die({ExitStatus::Kind::signalled, 9});
  bool moved = read_client(everything);
  moved |= agent_reads(everything);
  if (process_->alive && process_->stdout_open && process_->life.held() > 0) {
    const std::size_t before = process_->life.held();
    for (std::size_t i = before; i > 0; --i) {
      if (process_->life.held() >= i)
        process_->life.answer(before - i < process_->life.held() ? before - i : 0);
    }
    collect_words();
    moved |= process_->life.held() != before;
  }
  moved |= read_agent(everything);
  moved |= process_step();
  flush();
  if (auto said = client_open_ ? client_.answer_one() : std::nullopt) {
    client_says(std::move(*said));
    moved = true;
  }
  return moved;
}

// Chance had none for this history.
void LivesWorld::fault_for_all() {
  if (process_->ordered) start_process();
  if (!process_->alive) return;
  fault();
  die({ExitStatus::Kind::signalled, 9});
}

// Faults stop. What is open must be answered; then the client goes, and keyhop must follow.
void LivesWorld::rest() {
  if (outcome_.faults == 0 && findings_.none() && !checker_.over()) fault_for_all();
  faults_ = false;
  tell("-- rest");
  std::size_t steps = 0;
  const auto settle = [&](auto done) {
    while (findings_.none() && !checker_.over() && !done()) {
      if (++steps > rest_steps_max) return checker_.no_rest();
      if (rest_step()) continue;
      if (done()) return;
      const auto deadline = relay_.next_deadline();
      pass_time(deadline && *deadline > now_ && process_->kill_at == std::nullopt && !process_->leave_at
                    ? *deadline - now_
                    : milliseconds(20));
    }
  };
  settle([this] { return from_client_.empty() && checker_.open_requests() == 0; });
  if (findings_.none() && !checker_.over() && relay_.edge().open_requests() != 0 && client_listens_)
    findings_.report(Invariant::rest, "a request stays open that was answered");
  client_open_ = false;
  settle([] { return false; });
  if (findings_.none()) checker_.at_rest();
}

void LivesWorld::tell(std::string_view what, std::string_view text) {
  if (trace_ == nullptr) return;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  fmt::print(trace_, "{:6} ms  {} {}\n", now_.time_since_epoch() / milliseconds(1), what,
             text.substr(0, told_max));
}

}  // namespace acp::sim
