// The ledger's file as the file system sees it: made private, looked at without touching, moved aside.
//
// Invariant: no function here changes what is in a file. Lifetime: no state. The names beside a ledger PATH:
// PATH-wal, PATH-shm and PATH-journal are SQLite's, PATH-owners the locks', PATH.broken-DATE what was moved
// aside.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

#include "proxy/core/ledger.h"

namespace acp::shell {

LedgerError ledger_error_of(int error) noexcept;  // of an errno value

// Makes the directory of a file, with those above it (0700 each), where they are missing.
LedgerError make_directory_of(const std::string& path);

// Makes an empty file (0600 whatever the umask) if there is none; one of ours that others may read or write
// becomes 0600. A new name is on the disk when this returns.
LedgerError make_private_file(const std::string& path);

// Whether the file system of that file's directory is one that a single kernel keeps, so that SQLite's shared
// memory works. Unknown ones are not.
bool is_on_local_disk(const std::string& path);

// What can be told of a file without SQLite.
struct LedgerLook {
  enum class Kind : std::uint8_t { absent, empty, database, other };
  Kind kind = Kind::absent;
  // Of a database, from its header: what its log holds may be newer.
  std::uint32_t application = 0;
  std::uint32_t version = 0;
  bool has_log = false;      // its header says that it is written by way of a log (WAL)
  bool log_is_used = false;  // a log that is not empty, or its shared memory, lies beside it
  dev_t device = 0;
  ino_t number = 0;
  std::int64_t size = 0;
};
LedgerError look_at(const std::string& path, LedgerLook& look);

// Renames the file and SQLite's files beside it to names that nobody has. Under the openers' lock. `moved_to`
// is where it is now.
LedgerError move_aside(const std::string& path, std::string& moved_to);

}  // namespace acp::shell
