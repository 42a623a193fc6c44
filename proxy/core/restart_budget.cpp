#include "proxy/core/restart_budget.h"

#include <algorithm>

namespace acp {
namespace {

constexpr Duration wait_first = std::chrono::milliseconds(100);
constexpr Duration wait_max = std::chrono::seconds(30);
constexpr Duration spent_max = std::chrono::seconds(30);
constexpr std::uint32_t doublings_max = 16;  // 100 ms * 2^16 is far beyond wait_max

}  // namespace

void RestartBudget::forget_before(Instant now) {
  while (!restarts_.empty() && restarts_.front() + limit_.window <= now) restarts_.pop_front();
}

std::uint32_t RestartBudget::restarts_in_window(Instant now) {
  forget_before(now);
  return static_cast<std::uint32_t>(restarts_.size());
}

// splitmix64: own generator, since the standard's distributions differ between libraries.
std::uint64_t RestartBudget::draw() noexcept {
  std::uint64_t z = (random_ += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

RestartBudget::Ruling RestartBudget::on_loss(bool served, Instant now) {
  forget_before(now);
  failures_ = served ? 0 : failures_ + 1;
  if (restarts_.size() >= limit_.restarts_max) {
    const Instant oldest_leaves = restarts_.empty() ? Instant::max() : restarts_.front() + limit_.window;
    return {Answer::spent, std::min(oldest_leaves, now + spent_max)};
  }
  if (served) return {Answer::now, now};
  // Between half and all of the doubled wait, so that many keyhops do not start their agents at one instant.
  const Duration full =
      std::min(wait_first * (std::int64_t{1} << std::min(failures_ - 1, doublings_max)), wait_max);
  const auto half = static_cast<std::uint64_t>(full.count() / 2);
  return {Answer::wait, now + full - Duration(static_cast<std::int64_t>(draw() % (half + 1)))};
}

void RestartBudget::on_restart(Instant now) { restarts_.push_back(now); }

}  // namespace acp
