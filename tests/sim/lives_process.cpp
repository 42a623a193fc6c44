// The processes of a history of many lives: how one starts, reads, works, talks and ends.
#include <algorithm>
#include <cerrno>

#include "proxy/core/limits.h"
#include "tests/sim/drive.h"
#include "tests/sim/lives_world.h"

namespace acp::sim {
namespace {

using std::chrono::milliseconds;

}  // namespace

// One piece of news of the process, if there is one.
bool LivesWorld::process_step() {
  Process& process = *process_;
  if (checker_.over()) return false;
  if (process.ordered) {
    if (!process.start_at) {
      const bool slow = may_fault() && plan_.has(Fault::slow_start);
      process.start_at = now_ + milliseconds(slow ? random_.below(2000) : 0);
    }
    if (*process.start_at > now_) return false;
    start_process();
    return true;
  }
  const bool stubborn = may_fault() && plan_.has(Fault::stubborn);
  if (process.alive && process.stdin_closed && process.backlog.empty() && process.pipe.empty() &&
      !process.leave_at)
    process.leave_at = stubborn ? Instant::max() : now_ + milliseconds(random_.below(200));
  if (process.alive && process.kill_at && *process.kill_at <= now_) {
    die({ExitStatus::Kind::signalled, 9});
    return true;
  }
  const bool goes =
      process.end_ordered ? !stubborn && random_.chance(40) : process.leave_at && *process.leave_at <= now_;
  if (process.alive && goes) {
    die({ExitStatus::Kind::exited, static_cast<int>(random_.below(3))});
    return true;
  }
  if (process.exit && !process.exit_told) {
    process.exit_told = true;
    checker_.exited(*process.exit);
    step(AgentExited{process.epoch, *process.exit});
    return true;
  }
  if (process.exit_told && !process.alive && process.end_ordered && !process.ended_told) {
    process.ended_told = true;
    checker_.ended();
    step(AgentEnded{process.epoch});
    return true;
  }
  return false;
}

void LivesWorld::start_process() {
  Process& process = *process_;
  process.ordered = false;
  const unsigned percent = process.epoch == Epoch{1} ? 5 : 40;
  if (may_fault() && plan_.has(Fault::failed_start) && random_.chance(percent)) {
    fault();
    process.exit_told = process.ended_told = process.stdout_done = true;
    checker_.start_failed();
    return step(AgentStartFailed{process.epoch, ENOENT});
  }
  process.alive = process.stdout_open = true;
  step(AgentStarted{process.epoch, 42});
}

// The started process and all of its own are gone.
void LivesWorld::die(ExitStatus status) {
  Process& process = *process_;
  tell("[dies]");
  process.alive = process.listens = false;
  process.pipe.clear();
  process.in_pipe.clear();
  if (!process.exit) process.exit = status;
  const bool cut = may_fault() && plan_.has(Fault::cut_words) && !process.words.empty();
  if (cut) process.words.resize(random_.below(process.words.size() + 1));
  const bool held = may_fault() && plan_.has(Fault::held_stdout) && random_.chance(50);
  if (!held) process.stdout_open = false;
}

void LivesWorld::fault_of_process() {
  Process& process = *process_;
  if (!process.alive) return;
  const auto code = static_cast<int>(random_.below(16));
  switch (random_.below(7)) {
    case 0:
      if (!plan_.has(Fault::wrapper_death) || process.exit) return;
      fault();
      tell("[wrapper dies]");
      process.exit = ExitStatus{ExitStatus::Kind::exited, code};
      return;
    case 1:
      if (!plan_.has(Fault::early_eof)) return;
      fault();
      process.stdout_open = false;
      return;
    case 2:
      if (!plan_.has(Fault::deaf)) return;
      fault();
      process.listens = false;
      return;
    case 3:
      if (!plan_.has(Fault::lost_watchdog) || process.ended_told) return;
      fault();
      die({ExitStatus::Kind::signalled, 9});
      process.ended_told = process.exit_told = true;
      process.end_ordered = true;
      checker_.ended();
      checker_.end_ordered();
      return step(AgentEnded{process.epoch});
    default:
      if (!plan_.has(Fault::death)) return;
      fault();
      die({random_.chance(50) ? ExitStatus::Kind::exited : ExitStatus::Kind::signalled, 1 + code});
  }
}

// What the shell has goes into the pipe, or cannot.
void LivesWorld::flush() {
  if (stepping_) return;
  stepping_ = true;
  while (process_ && !process_->ordered && !process_->ended_told && findings_.none() && !checker_.over()) {
    Process& process = *process_;
    if (process.listens) {
      std::size_t size = process.backlog.size();
      if (may_fault() && plan_.has(Fault::partly_taken) && size > 0 && random_.chance(50))
        size = random_.below(size);
      process.pipe.append(process.backlog, 0, size);
      process.backlog.erase(0, size);
      while (size > 0) {
        Process::Mark& mark = process.marks.front();
        if (!mark.taken && mark.attempt != unset) checker_.taken(mark.attempt);
        mark.taken = true;
        const std::size_t part = std::min(size, mark.size);
        size -= part;
        mark.size -= part;
        if (mark.size > 0) break;
        process.in_pipe.push_back(mark.attempt);
        process.marks.pop_front();
      }
    }
    const bool news = process.backlog_told != process.backlog.size();
    const bool fails = !process.listens && !process.backlog.empty() && !process.deaf_told;
    if (!news && !fails) break;
    if (news) {
      process.backlog_told = process.backlog.size();
      step(LinkBacklog{process.link, process.backlog_told});
    }
    if (!fails || process_->link != process.link) continue;
    process_->deaf_told = true;
    step(LinkEnded{process_->link, LinkEnd::write_failed, EPIPE});
  }
  stepping_ = false;
}

// The process reads at most `size` bytes of its stdin.
bool LivesWorld::agent_reads(std::size_t size) {
  Process& process = *process_;
  if (!process.alive || !process.listens || process.pipe.empty()) return false;
  // Whole lines only: a part of one tells it unset.
  std::size_t done = 0;
  while (done < std::min(size, process.pipe.size())) {
    const std::size_t lf = process.pipe.find('\n', done);
    if (lf == std::string::npos) break;
    const std::string line = process.pipe.substr(done, lf - done);
    done = lf + 1;
    const int attempt = process.in_pipe.front();
    process.in_pipe.pop_front();
    if (attempt != unset) checker_.about_to_hear(attempt, process.life);
    tell("A hears", line);
    process.life.hear(line);
    if (!process.life.wrong().empty()) findings_.report(Invariant::questions, process.life.wrong());
  }
  process.pipe.erase(0, done);
  return done > 0;
}

void LivesWorld::agent_works() {
  Process& process = *process_;
  if (!process.alive) return;
  if (process.end_ordered && !plan_.has(Fault::talks_on)) return;
  if (process.life.held() > 0 && random_.chance(65)) {
    process.life.answer(random_.below(process.life.held()));
  } else if (plan_.has(Fault::asks) || random_.chance(50)) {
    process.life.chatter();
  }
  collect_words();
}

void LivesWorld::collect_words() {
  if (!process_->life.has_said()) return;
  const std::string said = process_->life.take_said();
  if (!process_->stdout_open) return;  // nobody holds the other end
  tell("A writes", said);
  process_->words += said;
}

bool LivesWorld::read_agent(std::size_t size) {
  Process& process = *process_;
  if (checker_.over() || agent_paused_ || process.ordered || process.stdout_done) return false;
  if (process.words.empty()) {
    const bool open = process.stdout_open && !process.finish_reading;
    if (open) return false;
    process.stdout_done = true;
    if (!process.half.empty()) checker_.agent_said(process.half, now_);
    checker_.stdout_ended();
    step(LinkEnded{process.link, LinkEnd::eof, 0});
    return true;
  }
  size = std::min({size, process.words.size(), limits::read_bytes});
  read_buffer_.assign(process.words, 0, size);
  process.words.erase(0, size);
  for_each_line(process.half, read_buffer_, [&](std::string_view line) { checker_.agent_said(line, now_); });
  read_buffer_.append(limits::padding_bytes, '"');
  step(BytesRead{process.link, std::string_view(read_buffer_).substr(0, size)});
  return true;
}

}  // namespace acp::sim
