#include "tests/sim/coverage.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <variant>

namespace acp::sim {
namespace {

enum Column : std::uint8_t {
  client_read,
  agent_read,
  client_end,
  agent_end,
  client_backlog,
  agent_backlog,
  started,
  start_failed,
  exited,
  ended,
  stderr_read,
  signal_end,
  signal_restart,
  deadline,
  ledger_opened,
  ledger_committed,
  ledger_read,
};
static_assert(ledger_read + 1 == columns_count);

constexpr std::string_view columns[] = {"C read",  "A read",   "C end",  "A end",   "C queue", "A queue",
                                        "start",   "no start", "exit",   "ended",   "stderr",  "signal",
                                        "restart", "time",     "opened", "written", "rows"};
static_assert(std::size(columns) == columns_count);

constexpr std::string_view phases[] = {"starting", "serving",  "leaving",   "lost",     "waiting",
                                       "spent",    "parked",   "restoring", "draining", "closing",
                                       "ending",   "stranded", "over"};
static_assert(std::size(phases) == phases_count);

// Pairs that no history can reach, and why.
struct Unreachable {
  unsigned phases;  // a bit each
  Column column;
  std::string_view reason;
};
template <class... Phases>
constexpr unsigned in(Phases... which) noexcept {
  return (0U | ... | (1U << static_cast<unsigned>(which)));
}
constexpr unsigned everywhere = (1U << phases_count) - 1;
constexpr unsigned start_is_over = everywhere & ~in(Phase::starting, Phase::ending, Phase::over);

constexpr Unreachable unreachable[] = {
    {start_is_over, started,
     "told once, before all other news of its process; only a signal can have ended the wait for it"},
    {start_is_over, start_failed, "told once, instead of the start; only a signal can have ended the wait"},
    {in(Phase::draining), client_read, "the client's stream has ended"},
    {in(Phase::stranded), agent_read, "its agent is gone and was read to the end"},
    {in(Phase::stranded), exited, "told before the end of all, and there was no process before this one"},
    {in(Phase::stranded), ended, "told before, and there was no process before this one"},
    {in(Phase::stranded), deadline, "nothing was asked, so nothing can be due"},
    {in(Phase::stranded), ledger_committed, "nothing was asked, so nothing was to be written"},
    {in(Phase::stranded), ledger_read, "nothing was asked, so nothing was to be read"},
};

struct ColumnOf {
  static Column by_link(LinkId link, Column client, Column agent) noexcept {
    return link == client_link ? client : agent;
  }
  Column operator()(const BytesRead& e) const noexcept { return by_link(e.link, client_read, agent_read); }
  Column operator()(const LinkEnded& e) const noexcept { return by_link(e.link, client_end, agent_end); }
  Column operator()(const LinkBacklog& e) const noexcept {
    return by_link(e.link, client_backlog, agent_backlog);
  }
  Column operator()(const AgentStarted&) const noexcept { return started; }
  Column operator()(const AgentStartFailed&) const noexcept { return start_failed; }
  Column operator()(const AgentExited&) const noexcept { return exited; }
  Column operator()(const AgentEnded&) const noexcept { return ended; }
  Column operator()(const StderrRead&) const noexcept { return stderr_read; }
  Column operator()(const SignalReceived& e) const noexcept {
    return e.signal == Signal::restart ? signal_restart : signal_end;
  }
  Column operator()(const DeadlineReached&) const noexcept { return deadline; }
  Column operator()(const LedgerOpened&) const noexcept { return ledger_opened; }
  Column operator()(const LedgerCommitted&) const noexcept { return ledger_committed; }
  Column operator()(const LedgerRead&) const noexcept { return ledger_read; }
};

std::string_view reason_of(std::size_t pair) noexcept {
  const std::size_t phase = pair / columns_count;
  if (phase == static_cast<std::size_t>(Phase::over)) return "it has ended: nothing is told it any more";
  const auto* const found =
      std::find_if(std::begin(unreachable), std::end(unreachable), [&](const Unreachable& each) {
        return (each.phases >> phase & 1U) != 0 && each.column == pair % columns_count;
      });
  return found == std::end(unreachable) ? std::string_view() : found->reason;
}

}  // namespace

std::size_t pair_of(Phase phase, const Event& event) noexcept {
  return static_cast<std::size_t>(phase) * columns_count + std::visit(ColumnOf(), event);
}

void Coverage::add(const Reached& reached) noexcept {
  for (std::size_t pair = 0; pair < counts_.size(); ++pair) counts_[pair] += reached[pair] ? 1 : 0;
}

void Coverage::add(const Coverage& other) noexcept {
  for (std::size_t pair = 0; pair < counts_.size(); ++pair) counts_[pair] += other.counts_[pair];
}

std::string Coverage::table() const {
  std::string out = fmt::format("{:<10}", "");
  for (const std::string_view column : columns) fmt::format_to(std::back_inserter(out), "{:>9}", column);
  for (std::size_t pair = 0; pair < counts_.size(); ++pair) {
    if (pair % columns_count == 0)
      fmt::format_to(std::back_inserter(out), "\n{:<10}", phases[pair / columns_count]);
    const bool listed = !reason_of(pair).empty();
    fmt::format_to(std::back_inserter(out), "{:>9}",
                   counts_[pair] == 0 ? (listed ? "-" : "MISSING") : std::to_string(counts_[pair]));
  }
  return out + "\n";
}

std::string Coverage::wrong() const {
  for (std::size_t pair = 0; pair < counts_.size(); ++pair) {
    const bool listed = !reason_of(pair).empty();
    if ((counts_[pair] == 0) == listed) continue;
    return fmt::format("{} in phase {} is {}", columns[pair % columns_count], phases[pair / columns_count],
                       listed ? "listed as out of reach, and was reached" : "never reached, and not listed");
  }
  return {};
}

}  // namespace acp::sim
