#include "tests/sim/plan.h"

#include <iterator>

#include "proxy/core/limits.h"

namespace acp::sim {
namespace {

constexpr std::string_view names[] = {
    "client bad",     "agent bad",    "broken answers", "stray answers", "duplicates",     "other prompts",
    "malformed keys", "cancels",      "session ends",   "id clashes",    "agent requests", "agent errors",
    "oversize",       "unreadable",   "splits",         "slow readers",  "cut lines",      "respelling",
    "stderr words",   "forward keys", "silence",        "downgrade",     "agent exit",     "agent eof",
    "agent deaf",     "client eof",   "client lost",    "signals",       "start failure",  "stubborn"};
static_assert(std::size(names) == static_cast<std::size_t>(Kind::count_) && std::size(names) <= kinds_max);

}  // namespace

std::span<const std::string_view> Plan::kind_names() noexcept { return names; }

Plan::Plan(Prng& random, Kinds off) {
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) kinds[kind] = random.chance(50);
  const auto rarely = [&](Kind kind, unsigned percent) {
    if (!random.chance(percent)) kinds.reset(static_cast<std::size_t>(kind));
  };
  // What ends a history early stands in few of them.
  rarely(Kind::start_failure, 6);
  rarely(Kind::unreadable, 30);
  rarely(Kind::agent_exit, 50);
  rarely(Kind::agent_eof, 30);
  rarely(Kind::agent_deaf, 30);
  rarely(Kind::client_lost, 20);
  rarely(Kind::client_eof, 40);
  rarely(Kind::signals, 20);
  rarely(Kind::downgrade, 20);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) kinds[kind] = kinds[kind] && !off[kind];
  version = random.chance(30) ? 1 : 2;
  steps = 20 + random.below(100);
  backlog_scale = has(Kind::slow_readers) ? 2048 : 1;
  settings.restarts = false;  // one epoch: lives_world.h has the others
  if (has(Kind::forward_keys)) settings.keys = KeyMode::forward;
  if (has(Kind::oversize) || has(Kind::unreadable)) settings.frame_bytes_max = limits::frame_bytes_min;
  if (has(Kind::silence)) settings.silence_timeout = std::chrono::milliseconds(50 + random.below(400));
  settings.drain = std::chrono::milliseconds(random.below(300));
  settings.kill_grace = std::chrono::milliseconds(10 + random.below(300));
  for (std::uint8_t& byte : settings.salt) byte = static_cast<std::uint8_t>(random.next());
}

}  // namespace acp::sim
