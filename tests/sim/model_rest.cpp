// Where a path of the exhaustive model ends: without faults, then with everything asked for once more. And
// what makes two states one.
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "tests/sim/model_world.h"

namespace acp::sim {
namespace {

constexpr std::size_t rest_steps_max = 2000;
constexpr Salt state_salt{1};

}  // namespace

bool ModelWorld::has_open() const {
  return std::ranges::any_of(sides_, [](const Side& side) {
    return std::ranges::any_of(side.asks, [](const Ask& ask) { return ask.open; });
  });
}

void ModelWorld::come_to_rest() {
  tell("-- no more faults");
  rests_ = true;
  for (std::size_t i = 0; !is_broken(); ++i) {
    const std::vector<Choice> steps = steps_without_fault();
    const bool waits = !steps.empty() && steps.front().kind == Choice::Kind::timer;
    if ((steps.empty() || waits) && !has_open()) break;
    if (steps.empty()) return fail(Invariant::rest, "a request hangs");
    if (i > rest_steps_max) return fail(Invariant::rest, "none without faults");
    if (trace_ != nullptr) tell(in_words(steps.front()));
    make(steps.front());
  }
  for (Side& side : sides_) {
    if (!is_broken() && side.core.open_requests() != 0)
      fail(Invariant::rest, "a request stays open that was answered");
  }
}

void ModelWorld::end_all_runs() {
  tell("-- nothing of these runs lives; another one asks for every key again");
  sides_.clear();
  orphans_.clear();
  for (std::size_t session = 0; session < scope_->sessions; ++session)
    decidable_.push_back(!is_doubtful_ && ledger_.read("A", session_name(session)).is_complete);
}

void ModelWorld::last_run() {
  sides_.emplace_back(settings_of_all());
  begin_run(0);
  come_to_rest();
  for (std::size_t session = 0; session < scope_->sessions && !is_broken(); ++session) {
    ask_resume(0, session);
    come_to_rest();
    if (!is_broken() && !sides_[0].active[session]) fail(Invariant::restore, "a session cannot be resumed");
  }
  for (int round = 0; round < 2; ++round) {
    for (std::uint8_t session = 0; session < scope_->sessions; ++session) {
      for (std::uint8_t key = 0; key < scope_->keys; ++key) {
        if (!is_broken() && was_asked({session, key})) ask_prompt(0, {session, key});
      }
    }
    come_to_rest();
  }
}

void ModelWorld::tell_disk_and_ledger(std::string& out) const {
  disk_.tell(out);
  for (std::size_t session = 0; session < scope_->sessions; ++session)
    tell_ledger_session(ledger_.read("A", session_name(session)), out);
  for (const std::uint8_t asked : asked_) out += static_cast<char>('0' + asked);
}

// What the last run begins with: no other run lives, so who wrote a row is not asked any more.
Fingerprint ModelWorld::last_state() const {
  std::string told;
  tell_disk_and_ledger(told);
  for (const std::uint8_t decidable : decidable_) told += static_cast<char>('0' + decidable);
  return SaltedHash(state_salt, 'l').add(told).print();
}

Fingerprint ModelWorld::state() const {
  std::string told;
  told.reserve(2048);
  const auto put = std::back_inserter(told);
  tell_disk_and_ledger(told);
  fmt::format_to(put, "\nleft {} {} {} {} {} {}\n", left_.deaths, left_.failures, left_.cancels, left_.timers,
                 left_.prompts, is_doubtful_);
  // Who may still decide the open rows, by what the run is now.
  for (std::size_t session = 0; session < scope_->sessions; ++session) {
    for (const LedgerRow& row : ledger_.read("A", session_name(session)).rows) {
      for (const Side& side : sides_) told += side.run == row.run ? 'y' : 'n';
      for (const Orphan& orphan : orphans_) told += orphan.run == row.run ? 'y' : 'n';
    }
  }
  for (const Side& side : sides_) {
    const Fingerprint& print = side.core.print();
    told.append(reinterpret_cast<const char*>(print.bytes.data()), print.bytes.size());
    // The orders that wait follow from the core's print and the number of those carried out, which is in it.
    fmt::format_to(put, "\nside {} {} {}:", side.now.time_since_epoch().count(), side.over,
                   side.orders.size());
    for (const Ask& ask : side.asks)
      fmt::format_to(put, " {}{}{}{},{}", ask.open, ask.cancelled, ask.sent, ask.is_final, ask.message);
    if (side.process) side.process->tell(told);
  }
  for (const Orphan& orphan : orphans_) {
    told += "orphan ";
    orphan.process.tell(told);
  }
  return SaltedHash(state_salt, 's').add(told).print();
}

}  // namespace acp::sim
