#include "proxy/shell/loop.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/core/invariant.h"

namespace acp::shell {
namespace {

constexpr int exit_internal = 70;  // EX_SOFTWARE of sysexits

Instant now() { return Instant(Duration(static_cast<std::int64_t>(uv_hrtime()))); }

// What it points to is valid only while it is told.
bool points_elsewhere(const Event& event) {
  return std::holds_alternative<BytesRead>(event) || std::holds_alternative<StderrRead>(event) ||
         std::holds_alternative<LedgerOpened>(event) || std::holds_alternative<LedgerRead>(event);
}

}  // namespace

void fill_stdio() noexcept {
  for (int number = 0; number < 3; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    // Gets the lowest free number, which is this one.
    if (::open("/dev/null", O_RDWR) < 0) return;
  }
}

Shell::Shell(Core& core, ShellSettings settings) : core_(core), settings_(std::move(settings)) {
  if (uv_loop_init(&loop_) != 0) return;
  loop_open_ = true;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  timer_.open(this, [this](uv_timer_t* timer) { return uv_timer_init(&loop_, timer); });
  stderr_ = std::make_unique<StderrWriter>(&loop_, STDERR_FILENO);
  log_ = std::make_unique<LogWriter>(settings_.log, *stderr_);
  signals_ = std::make_unique<Signals>(&loop_, [this](int number) { on_signal(number); });
  client_ =
      std::make_unique<Link>(client_link, &loop_, buffer_, [this](const Event& event) { on_event(event); });
}

Shell::~Shell() {
  if (!loop_open_) return;
  ledger_.reset();
  processes_.clear();
  agent_links_.clear();
  client_.reset();
  signals_.reset();
  log_.reset();
  stderr_.reset();
  timer_.reset();
  while (uv_run(&loop_, UV_RUN_NOWAIT) != 0) {
  }
  uv_loop_close(&loop_);
}

int Shell::run() {
  if (!loop_open_) {
    std::fputs("keyhop: the system gives no event loop (memory or file descriptors)\n", stderr);
    return exit_internal;
  }
  for (const std::string& warning : settings_.warnings) log_->write(LogLevel::warning, warning);
  if (log_->error() != 0) {
    log_->write(LogLevel::warning,
                fmt::format("the log file cannot be opened: {}", uv_strerror(-log_->error())));
  }
  client_->reader().open_inherited(STDIN_FILENO);
  client_->writer().open_inherited(STDOUT_FILENO);
  client_->writer().notice_disconnect(true);
  client_->reader().resume();  // unless the core's first actions say otherwise
  stepping_ = true;
  start_ledger();
  core_.start(now(), actions_);
  carry_out();
  stepping_ = false;
  pump();
  while (!finished()) {
    uv_run(&loop_, UV_RUN_ONCE);
    sweep();
  }
  return *exit_status_;
}

// ---- Events in ----

void Shell::on_event(const Event& event) {
  if (const auto* backlog = std::get_if<LinkBacklog>(&event);
      backlog != nullptr && backlog->link == client_link) {
    if (backlog->bytes < client_backlog_) client_progress_ = now();
    client_backlog_ = backlog->bytes;
  }
  if (exit_status_) {
    // The core has had its last word; what a dying agent still says to stderr is passed on.
    if (const auto* words = std::get_if<StderrRead>(&event)) {
      stderr_->pass(words->bytes);
      stderr_->flush();
    }
    return;
  }
  if (!points_elsewhere(event)) {
    queue_.push_back(event);
    if (!stepping_) pump();
    return;
  }
  // Nothing is read, and nothing of the ledger told, while a step is carried out.
  INVARIANT(!stepping_);
  step(event);
  pump();
}

void Shell::step(const Event& event) {
  stepping_ = true;
  core_.step(event, now(), actions_);
  carry_out();
  stepping_ = false;
}

void Shell::pump() {
  for (std::size_t next = 0; next < queue_.size() && !exit_status_; ++next) {
    const Event event = queue_[next];
    if (const auto* started = std::get_if<AgentStarted>(&event)) on_started(*started);
    if (const auto* failed = std::get_if<AgentStartFailed>(&event)) on_start_failed(*failed);
    step(event);
  }
  queue_.clear();
  arm_deadline();
}

// An agent is read only now, so that nothing of it comes before its start.
void Shell::on_started(const AgentStarted& started) {
  log_->write(LogLevel::info, fmt::format("started {} pid {} (keyhop pid {})",
                                          settings_.components.at(component_of(started.epoch)).name,
                                          started.pid, ::getpid()));
  for (const auto& agent : agent_links_) {
    if (agent->epoch != started.epoch) continue;
    agent->is_started = true;
    if (!agent->is_paused) agent->link.reader().resume();
  }
}

void Shell::on_start_failed(const AgentStartFailed& failed) {
  for (const auto& agent : agent_links_) {
    if (agent->epoch == failed.epoch) agent->link.reader().stop();
  }
}

// ---- Actions out ----

struct Shell::CarryOut {
  Shell& shell;

  void operator()(const Send& send) const {
    if (Link* link = shell.find_link(send.link)) link->writer().send(send.bytes);
  }
  void operator()(const PauseReading& order) const { shell.set_reading(order.link, false); }
  void operator()(const ResumeReading& order) const { shell.set_reading(order.link, true); }
  void operator()(const FinishReading& order) const {
    if (Link* link = shell.find_link(order.link)) link->reader().finish();
  }
  void operator()(const CloseWriting& order) const {
    if (Link* link = shell.find_link(order.link)) link->writer().close();
  }
  void operator()(const StartAgent& order) const { shell.start_agent(order); }
  void operator()(const EndAgent& order) const {
    shell.flush();
    if (AgentProcess* process = shell.find_process(order.epoch)) process->end(order.grace);
  }
  void operator()(const CommitLedger& order) const {
    if (shell.ledger_) {
      shell.ledger_->commit(*order.batch);
    } else {
      shell.queue_.push_back(LedgerCommitted{order.batch->ticket, LedgerError::failed});
    }
  }
  void operator()(const ReadLedger& order) const {
    if (shell.ledger_) {
      shell.ledger_->read(order.ticket, order.agent, order.session);
    } else {
      shell.queue_.push_back(LedgerRead{order.ticket, LedgerError::failed, nullptr});
    }
  }
  void operator()(const WriteStderr& order) const { shell.stderr_->pass(order.bytes); }
  void operator()(const Log& order) const {
    shell.stderr_->flush();
    shell.log_->write(order.level, order.text);
  }
  void operator()(const Exit& order) const { shell.exit(order.status); }
};

void Shell::carry_out() {
  for (const Action& action : actions_.list()) std::visit(CarryOut{*this}, action);
  flush();
  actions_.clear();
}

void Shell::flush() {
  client_->writer().flush();
  for (const auto& agent : agent_links_) agent->link.writer().flush();
  stderr_->flush();
}

// Its opening goes on beside everything else, and is told when it is done.
void Shell::start_ledger() {
  if (!settings_.ledger) return;
  LedgerThread::Callbacks callbacks;
  callbacks.warning = [this](std::string_view text) { log_->write(LogLevel::warning, text); };
  callbacks.opened = [this](LedgerError error, const Salt* salt, Descriptor owners) {
    owners_ = std::move(owners);
    // Before anything can be written in this run's name.
    for (const auto& process : processes_) process->hold(owners_.number());
    on_event(LedgerOpened{error, salt});
  };
  callbacks.committed = [this](std::uint64_t ticket, LedgerError error) {
    on_event(LedgerCommitted{ticket, error});
  };
  callbacks.read = [this](std::uint64_t ticket, LedgerError error, const LedgerSession* session) {
    on_event(LedgerRead{ticket, error, session});
  };
  ledger_ = std::make_unique<LedgerThread>(&loop_, std::move(callbacks));
  if (ledger_->start(*settings_.ledger)) return;
  ledger_.reset();
  log_->write(LogLevel::warning, "the ledger cannot be used: the system gives no thread for it");
  queue_.push_back(LedgerOpened{LedgerError::failed, nullptr});
}

void Shell::start_agent(const StartAgent& order) {
  Launch launch;
  const Component& component = settings_.components.at(component_of(order.epoch));
  launch.command = component.command;
  launch.environment = component.environment;
  launch.orphan_grace = settings_.orphan_grace;
  launch.held = owners_.number();
  AgentProcess::Callbacks callbacks;
  callbacks.event = [this](const Event& event) { on_event(event); };
  callbacks.left_alone = [this, &component](std::int64_t pid, std::string_view name) {
    log_->write(LogLevel::warning,
                fmt::format("left a process of the {}'s alone: pid {} ({})", component.name, pid, name));
  };
  callbacks.warning = [this](std::string_view text) { log_->write(LogLevel::warning, text); };
  auto process = std::make_unique<AgentProcess>(&loop_, buffer_, order.epoch, std::move(callbacks));
  Descriptor input;
  Descriptor output;
  if (const int error = process->start(launch, input, output); error != 0) {
    queue_.push_back(AgentStartFailed{order.epoch, error});
    return;
  }
  auto agent = std::unique_ptr<AgentLink>(new AgentLink{
      order.epoch, {order.link, &loop_, buffer_, [this](const Event& event) { on_event(event); }}});
  agent->link.writer().open_own(std::move(input));
  agent->link.reader().open_own(std::move(output));
  agent_links_.push_back(std::move(agent));
  processes_.push_back(std::move(process));
}

Link* Shell::find_link(LinkId id) {
  if (id == client_link) return client_.get();
  for (const auto& agent : agent_links_) {
    if (agent->link.id() == id) return &agent->link;
  }
  return nullptr;
}

void Shell::set_reading(LinkId id, bool reads) {
  for (const auto& agent : agent_links_) {
    if (agent->link.id() != id) continue;
    agent->is_paused = !reads;
    if (!agent->is_started) return;
  }
  Link* const link = find_link(id);
  if (link == nullptr) return;
  if (reads) {
    link->reader().resume();
  } else {
    link->pause();
  }
}

AgentProcess* Shell::find_process(Epoch epoch) {
  for (const auto& process : processes_) {
    if (process->epoch() == epoch) return process.get();
  }
  return nullptr;
}

// ---- Time, signals, children ----

void Shell::arm_deadline() {
  if (exit_status_) return;
  const std::optional<Instant> wanted = core_.next_deadline();
  if (!wanted) {
    if (armed_) uv_timer_stop(timer_.get());
    armed_.reset();
    return;
  }
  // A timer that fires too early is harmless and moved on then; so one that is always put off costs nothing
  // here.
  if (armed_ && *armed_ <= *wanted) return;
  armed_ = wanted;
  const Duration left = std::max(Duration::zero(), *wanted - now());
  const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  uv_update_time(&loop_);
  uv_timer_start(
      timer_.get(), [](uv_timer_t* timer) noexcept { static_cast<Shell*>(timer->data)->on_timer(); },
      static_cast<std::uint64_t>(left_ms), 0);
}

void Shell::on_timer() {
  if (exit_status_) {
    check_patience();
    return;
  }
  armed_.reset();
  const std::optional<Instant> wanted = core_.next_deadline();
  if (wanted && *wanted <= now()) {
    on_event(DeadlineReached{});
  } else {
    arm_deadline();
  }
}

void Shell::on_signal(int number) {
  // A second word that it should end: whoever does not read what is left is waited for no longer.
  if (exit_status_ && (number == SIGINT || number == SIGTERM || number == SIGHUP)) give_up_flush_ = true;
  switch (number) {
    case SIGCHLD: reap_children(); return;
    case SIGINT: on_event(SignalReceived{Signal::interrupt, number}); return;
    case SIGTERM: on_event(SignalReceived{Signal::terminate, number}); return;
    case SIGHUP: on_event(SignalReceived{Signal::hangup, number}); return;
    case SIGUSR1: on_event(SignalReceived{Signal::report, number}); return;
    case SIGUSR2: on_event(SignalReceived{Signal::restart, number}); return;
    default: return;
  }
}

void Shell::reap_children() {
  // What one reports may start another one.
  for (std::size_t index = 0; index < processes_.size(); ++index) processes_[index]->read_reports();
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return;
    // What is nobody's was an orphan, or (as pid 1) anything: reaped, and that is all.
    for (std::size_t index = 0; index < processes_.size(); ++index) {
      if (processes_[index]->child_exited(pid, status)) break;
    }
  }
}

// ---- The end ----

void Shell::exit(int status) {
  if (exit_status_) return;
  flush();
  exit_status_ = status;
  exiting_since_ = client_progress_ = now();
  // A client that still writes is read, for nobody, while it has answers to take: blocked in its write it
  // would not.
  if (client_->writer().backlog() > 0) {
    client_->reader().resume();
  } else {
    client_->reader().pause();
  }
  for (const auto& agent : agent_links_) {
    agent->link.reader().stop();
    agent->link.writer().fail(EPIPE);
  }
  for (const auto& process : processes_) {
    if (!process->end_ordered()) process->end(settings_.orphan_grace);
  }
  if (ledger_) ledger_->finish();
  armed_.reset();
  // Woken now and then only while something is still to be written.
  constexpr std::uint64_t check_ms = 100;
  uv_timer_start(
      timer_.get(), [](uv_timer_t* timer) noexcept { static_cast<Shell*>(timer->data)->on_timer(); },
      check_ms, check_ms);
}

void Shell::check_patience() {
  const Instant present = now();
  if (client_->writer().backlog() > 0 && present - client_progress_ >= client_flush_patience) {
    client_->writer().fail(ETIMEDOUT);
  }
}

bool Shell::finished() {
  if (!exit_status_) return false;
  if (!processes_.empty()) return false;
  if (ledger_ && !ledger_->finished()) return false;
  if (give_up_flush_) return true;
  if (client_->writer().backlog() > 0) return false;
  return stderr_->backlog() == 0 || stderr_->ended() || now() - exiting_since_ >= stderr_flush_patience;
}

// Forgets what is over. Called between two turns of the loop, when no callback of theirs is on the stack.
void Shell::sweep() {
  std::erase_if(agent_links_, [this](const auto& agent) {
    const AgentProcess* process = find_process(agent->epoch);
    return (process == nullptr || process->ended()) && (agent->link.reader().ended() || exit_status_);
  });
  std::erase_if(processes_, [](const auto& process) { return process->gone(); });
}

}  // namespace acp::shell
