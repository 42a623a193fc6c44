#include "tests/sim/lives_plan.h"

#include <iterator>

namespace acp::sim {
namespace {

constexpr std::string_view names[] = {"death",          "cut words",     "wrapper death",  "held stdout",
                                      "early eof",      "deaf",          "partly taken",   "stubborn",
                                      "talks on",       "slow start",    "failed start",   "refused restore",
                                      "silent restore", "forgetful",     "refused values", "refused takeover",
                                      "shrinking",      "lost watchdog", "stale news",     "person restart",
                                      "client end",     "client loss",   "signals",        "small budget",
                                      "early",          "cancels",       "duplicates",     "asks",
                                      "late answers",   "splits"};
static_assert(std::size(names) == static_cast<std::size_t>(Fault::count_) && std::size(names) <= kinds_max);

}  // namespace

std::span<const std::string_view> LivesPlan::kind_names() noexcept { return names; }

using std::chrono::milliseconds;

LivesPlan::LivesPlan(Prng& random, Kinds off) {
  for (std::size_t fault = 0; fault < faults.size(); ++fault) faults[fault] = random.chance(50);
  const auto rarely = [&](Fault fault, unsigned percent) {
    if (!random.chance(percent)) faults.reset(static_cast<std::size_t>(fault));
  };
  // What ends a history early, or keeps all others from happening, stands in few of them.
  rarely(Fault::refused_takeover, 20);
  rarely(Fault::client_loss, 20);
  rarely(Fault::client_end, 30);
  rarely(Fault::signals, 20);
  rarely(Fault::early, 30);
  rarely(Fault::silent_restore, 40);
  rarely(Fault::lost_watchdog, 30);
  rarely(Fault::failed_start, 60);

  for (std::size_t fault = 0; fault < faults.size(); ++fault) faults[fault] = faults[fault] && !off[fault];

  person.version = person.later_version = random.chance(55) ? 2 : 1;
  const std::size_t ways = random.below(4);
  person.resumes = ways < 2;
  person.loads = ways != 3 && ways != 1;
  person.later_loads_only = has(Fault::shrinking);
  person.honours_keys = random.chance(50);
  person.acts_late = random.chance(40);
  person.forgets_values = has(Fault::forgetful);
  person.replays = random.chance(80);
  person.refuses_values = has(Fault::refused_values) && random.chance(50);
  person.never_restores = has(Fault::silent_restore);
  person.style = static_cast<ResultStyle>(random.below(3));
  static constexpr int codes[] = {-32000, -32002, -32603};
  if (has(Fault::refused_restore) && random.chance(60)) person.restore_error = random.pick(codes);
  if (has(Fault::refused_takeover)) {
    person.refuses_initialize = random.chance(50);
    if (!person.refuses_initialize) person.later_version = 3 - person.version;
  }

  steps = 30 + random.below(110);
  settings.keys = random.chance(50) ? KeyMode::guard : KeyMode::forward;
  settings.drain = milliseconds(random.below(300));
  settings.kill_grace = milliseconds(10 + random.below(300));
  settings.restart_limit.restarts_max =
      static_cast<std::uint32_t>(has(Fault::small_budget) ? random.below(3) : 5 + random.below(20));
  settings.restore_timeout = milliseconds(500 + random.below(5000));
  settings.seed = random.next();
  for (std::uint8_t& byte : settings.salt) byte = static_cast<std::uint8_t>(random.next());
}

}  // namespace acp::sim
