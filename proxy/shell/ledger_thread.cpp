#include "proxy/shell/ledger_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <signal.h>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

namespace acp::shell {
namespace {

Instant now() { return Instant(Duration(static_cast<std::int64_t>(uv_hrtime()))); }

}  // namespace

// A batch, or a question.
struct LedgerThread::Order {
  struct Question {
    std::uint64_t ticket;
    std::string agent;
    std::string session;
  };
  std::variant<LedgerBatch, Question> what;
};

struct LedgerThread::Result {
  enum class Kind : std::uint8_t { opened, committed, read };
  Kind kind{};
  LedgerError error = LedgerError::none;
  std::uint64_t ticket = 0;
  Salt salt{};
  Descriptor owners;
  std::unique_ptr<LedgerSession> session;
  std::vector<std::string> warnings;
  std::uint64_t transactions = 0;
};

// What both threads touch. Everything but `ledger` (the thread's own) and `thread` (the loop's) is under the
// mutex.
struct LedgerThread::Shared {
  explicit Shared(LedgerSettings settings) : ledger(std::in_place, std::move(settings)) {}

  // Told on the loop's thread, unless nobody is there any more.
  void tell(Result result) {
    const std::lock_guard lock(mutex);
    result.transactions = ledger->transactions();
    results.push_back(std::move(result));
    if (wake != nullptr) uv_async_send(wake);
  }

  std::mutex mutex;
  std::condition_variable ordered;
  std::deque<Order> orders;
  std::deque<Result> results;
  uv_async_t* wake = nullptr;  // null once the loop's side is gone
  bool no_more_orders = false;
  bool has_ended = false;

  std::optional<Ledger> ledger;
  std::thread thread;
};

namespace {

template <class Result>
Result result_of(typename Result::Kind kind, LedgerError error, std::uint64_t ticket, Ledger& ledger) {
  Result result;
  result.kind = kind;
  result.error = error;
  result.ticket = ticket;
  result.warnings = ledger.take_warnings();
  return result;
}

}  // namespace

LedgerThread::LedgerThread(uv_loop_t* loop, Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)) {}

LedgerThread::~LedgerThread() {
  if (!shared_) return;
  const bool is_to_be_left = is_finishing_;
  finish();
  bool has_ended = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->wake = nullptr;
    has_ended = shared_->has_ended;
  }
  if (has_ended || !is_to_be_left) {
    shared_->thread.join();
  } else {
    // It hangs in the system. What it still touches is left to it.
    shared_->thread.detach();
    static_cast<void>(shared_.release());
  }
}

bool LedgerThread::start(LedgerSettings settings) {
  const int status = wake_.open(this, [this](uv_async_t* wake) {
    return uv_async_init(loop_, wake, [](uv_async_t* called) noexcept {
      if (called->data != nullptr) static_cast<LedgerThread*>(called->data)->tell();
    });
  });
  if (status < 0) return false;
  shared_ = std::make_unique<Shared>(std::move(settings));
  shared_->wake = wake_.get();
  // The new thread inherits the mask: signals are the loop's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    shared_->thread = std::thread([shared = shared_.get()] { run(*shared); });
  } catch (const std::system_error&) {
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    shared_.reset();
    wake_.reset();
  }
  return started;
}

void LedgerThread::commit(const LedgerBatch& batch) { add({batch}); }

void LedgerThread::read(std::uint64_t ticket, std::string_view agent, std::string_view session) {
  add({Order::Question{ticket, std::string(agent), std::string(session)}});
}

void LedgerThread::add(Order order) {
  if (!shared_) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->orders.push_back(std::move(order));
  }
  shared_->ordered.notify_one();
}

void LedgerThread::finish() {
  if (!shared_ || is_finishing_) return;
  is_finishing_ = true;
  finishing_since_ = now();
  shared_->ledger->hurry(ledger_end_patience);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->no_more_orders = true;
  }
  shared_->ordered.notify_one();
}

bool LedgerThread::finished() const {
  if (!shared_) return true;
  if (!is_finishing_) return false;
  if (now() - finishing_since_ >= 2 * ledger_end_patience) return true;
  const std::lock_guard lock(shared_->mutex);
  return shared_->has_ended;
}

// ---- On the thread ----

void LedgerThread::run(Shared& shared) {
  Ledger& ledger = *shared.ledger;
  const LedgerError opened = ledger.open();
  auto first = result_of<Result>(Result::Kind::opened, opened, 0, ledger);
  if (opened == LedgerError::none) {
    first.salt = ledger.salt();
    first.owners = ledger.owners();
    if (!first.owners.open()) first.error = LedgerError::failed;
  }
  shared.tell(std::move(first));
  std::vector<LedgerBatch> batches;
  for (;;) {
    std::optional<Order::Question> question;
    batches.clear();
    {
      std::unique_lock lock(shared.mutex);
      shared.ordered.wait(lock, [&] { return !shared.orders.empty() || shared.no_more_orders; });
      if (shared.orders.empty()) break;
      while (!shared.orders.empty() && !question) {
        Order& order = shared.orders.front();
        if (auto* batch = std::get_if<LedgerBatch>(&order.what)) {
          batches.push_back(std::move(*batch));
          batches.back().agent += ledger.place();
        } else if (batches.empty()) {
          question = std::move(std::get<Order::Question>(order.what));
        } else {
          break;  // it sees what these batches write
        }
        shared.orders.pop_front();
      }
    }
    if (question) {
      auto session = std::make_unique<LedgerSession>();
      const LedgerError error = ledger.read(question->agent + ledger.place(), question->session, *session);
      auto result = result_of<Result>(Result::Kind::read, error, question->ticket, ledger);
      if (error == LedgerError::none) result.session = std::move(session);
      shared.tell(std::move(result));
      continue;
    }
    const std::vector<LedgerError> errors = ledger.commit(batches);
    for (std::size_t index = 0; index < batches.size(); ++index) {
      shared.tell(result_of<Result>(Result::Kind::committed, errors[index], batches[index].ticket, ledger));
    }
  }
  shared.ledger.reset();
  const std::lock_guard lock(shared.mutex);
  shared.has_ended = true;
  if (shared.wake != nullptr) uv_async_send(shared.wake);
}

// ---- On the loop ----

void LedgerThread::tell() {
  for (;;) {
    std::deque<Result> results;
    {
      const std::lock_guard lock(shared_->mutex);
      results.swap(shared_->results);
    }
    if (results.empty()) return;
    for (Result& result : results) tell(result);
  }
}

void LedgerThread::tell(Result& result) {
  transactions_ = result.transactions;
  for (const std::string& warning : result.warnings) callbacks_.warning(warning);
  switch (result.kind) {
    case Result::Kind::opened:
      callbacks_.opened(result.error, result.error == LedgerError::none ? &result.salt : nullptr,
                        std::move(result.owners));
      return;
    case Result::Kind::committed: callbacks_.committed(result.ticket, result.error); return;
    case Result::Kind::read: callbacks_.read(result.ticket, result.error, result.session.get()); return;
  }
}

}  // namespace acp::shell
