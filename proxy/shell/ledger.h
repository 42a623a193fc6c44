// The ledger's file: keyed prompts that outlive keyhop.
//
// Invariant: what commit() reported is on the disk, power loss included. A file of a newer schema or of
// another program is never changed; a damaged one is moved aside once, whoever sees it first. A run's number
// is never used again, and its lock is held from before its first row. Lifetime: used by one thread (the
// ledger's), which may wait; destroyed there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/ledger.h"
#include "proxy/shell/ledger_database.h"
#include "proxy/shell/ledger_owners.h"
#include "proxy/shell/ledger_wait.h"

namespace acp::shell {

// How long somebody else's lock is waited for.
inline constexpr Duration ledger_patience = std::chrono::seconds(30);

struct LedgerSettings {
  std::string path;
  Duration patience = ledger_patience;
  std::string place = {};  // stands behind every agent's name (components.h)
  // The process whose children number themselves, each with this ledger open; they get a place by that.
  std::optional<std::int64_t> siblings_of = {};
  // Whether its file system is kept by this machine alone; else it is asked.
  std::optional<bool> is_local = {};
};

class Ledger {
 public:
  // At most one a process and file: SQLite's locks are the process's.
  explicit Ledger(LedgerSettings settings);

  // Opens it, with its directory, file and tables made where they are missing. Once.
  LedgerError open();
  // One transaction for all batches; a result each. Under a conflict a batch fails alone, under any other
  // error all do.
  std::vector<LedgerError> commit(std::span<const LedgerBatch> batches);
  LedgerError read(std::string_view agent, std::string_view session, LedgerSession& into);

  // Once it is open.
  const Salt& salt() const noexcept { return salt_; }
  std::uint64_t run() const noexcept { return run_; }
  const std::string& place() const noexcept { return settings_.place; }
  Descriptor owners() const noexcept { return owners_.copy(); }
  std::uint64_t transactions() const noexcept { return transactions_; }

  // What happened that a person should know, a line each; taken once.
  std::vector<std::string> take_warnings();
  // From now on nothing is waited for longer than that. From any thread.
  void hurry(Duration left) noexcept { wait_.hurry(left); }

 private:
  LedgerError open_entered();
  LedgerError open_file();
  LedgerError check_unopened();
  LedgerError choose_journal();
  LedgerError begin_run();
  LedgerError read_salt();
  LedgerError take_number();
  LedgerError forget_ended_runs();
  void take_place();
  LedgerError commit_all(std::span<const LedgerBatch> batches, std::vector<LedgerError>& results);
  LedgerError move_broken_aside();
  // Keeps in mind that it is damaged, and moves it aside.
  LedgerError noted(LedgerError error);
  // Why it cannot be used, in words.
  void explain(LedgerError error);

  LedgerSettings settings_;
  const std::string& path_ = settings_.path;
  LedgerWait wait_;
  LedgerOwners owners_;
  Database database_;
  LedgerError state_ = LedgerError::failed;  // none while it can be used
  Salt salt_{};
  std::uint64_t run_ = 0;
  std::uint64_t device_ = 0;  // which file was opened
  std::uint64_t file_ = 0;
  bool has_log_ = false;  // its header asked for a log before it was opened
  bool is_local_ = false;
  std::uint64_t transactions_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace acp::shell
