// The ledger's thread: the loop never waits for a disk.
//
// Invariant: orders are carried out first come, first served, and told in that order; all batches that wait
// side by side are one transaction. The thread takes no signal and is passive while nothing is ordered.
// Lifetime: owned by the Shell, destroyed after finished(); a thread that hangs in the system even then is
// left to itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/ledger.h"
#include "proxy/shell/handle.h"
#include "proxy/shell/ledger.h"

namespace acp::shell {

// At the end: how long a ledger that others hold is still waited for, and how long a disk.
inline constexpr Duration ledger_end_patience = std::chrono::seconds(3);

class LedgerThread {
 public:
  // On the loop's thread, one at a time, between two events.
  struct Callbacks {
    std::function<void(std::string_view text)> warning;
    // Once, first. `salt` is null on an error; else `owners` is the open file whose locks say that this run
    // has processes: watchdogs get it.
    std::function<void(LedgerError error, const Salt* salt, Descriptor owners)> opened;
    std::function<void(std::uint64_t ticket, LedgerError error)> committed;
    // `session` is null on an error.
    std::function<void(std::uint64_t ticket, LedgerError error, const LedgerSession* session)> read;
  };

  LedgerThread(uv_loop_t* loop, Callbacks callbacks);
  ~LedgerThread();
  LedgerThread(const LedgerThread&) = delete;
  LedgerThread& operator=(const LedgerThread&) = delete;

  // Begins to open the ledger. False if the system gives no thread: then nothing is called back.
  bool start(LedgerSettings settings);

  void commit(const LedgerBatch& batch);
  void read(std::uint64_t ticket, std::string_view agent, std::string_view session);

  // No orders follow: it ends once all are carried out.
  void finish();
  // Whether it has ended, or was waited for long enough since finish().
  bool finished() const;

  // How many transactions there were, as far as told.
  std::uint64_t transactions() const noexcept { return transactions_; }

 private:
  struct Shared;
  struct Order;
  struct Result;

  static void run(Shared& shared);
  void add(Order order);
  void tell();
  void tell(Result& result);

  uv_loop_t* loop_;
  Callbacks callbacks_;
  Handle<uv_async_t> wake_;
  std::unique_ptr<Shared> shared_;  // null if there is no thread
  bool is_finishing_ = false;
  Instant finishing_since_{};
  std::uint64_t transactions_ = 0;
};

}  // namespace acp::shell
