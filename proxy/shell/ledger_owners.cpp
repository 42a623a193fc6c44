#include "proxy/shell/ledger_owners.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "proxy/shell/ledger_file.h"

namespace acp::shell {
namespace {

constexpr std::uint64_t openers_byte = 0;

struct flock lock_of(std::uint64_t byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

std::string owners_path(const std::string& path) { return path + "-owners"; }

}  // namespace

LedgerError LedgerOwners::open(const std::string& path) {
  const std::string name = owners_path(path);
  if (const LedgerError error = make_private_file(name); error != LedgerError::none) return error;
  file_ = Descriptor(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  return file_.open() ? LedgerError::none : ledger_error_of(errno);
}

bool LedgerOwners::were_at(const std::string& path) { return ::access(owners_path(path).c_str(), F_OK) == 0; }

LedgerError LedgerOwners::open_to_ask(const std::string& path) {
  file_ = Descriptor(::open(owners_path(path).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  return file_.open() || errno == ENOENT ? LedgerError::none : ledger_error_of(errno);
}

LedgerError LedgerOwners::enter(LedgerWait& wait) noexcept {
  wait.begin();
  for (;;) {
    const int error = lock(openers_byte, F_WRLCK);
    if (error == 0) return LedgerError::none;
    if (error != EAGAIN && error != EACCES) return LedgerError::failed;
    if (!wait.again()) return LedgerError::busy;
  }
}

void LedgerOwners::leave() noexcept { lock(openers_byte, F_UNLCK); }

LedgerError LedgerOwners::hold(std::uint64_t run) noexcept {
  const int error = lock(run, F_WRLCK);
  if (error == 0) return LedgerError::none;
  return error == EAGAIN || error == EACCES ? LedgerError::busy : LedgerError::failed;
}

bool LedgerOwners::is_held_elsewhere(std::uint64_t run) const noexcept {
  if (!file_.open()) return false;
  // A number that is no offset is no run's.
  if (static_cast<std::int64_t>(run) <= 0) return false;
  struct flock asked = lock_of(run, F_WRLCK);
  return ::fcntl(file_.number(), F_OFD_GETLK, &asked) != 0 || asked.l_type != F_UNLCK;
}

Descriptor LedgerOwners::copy() const noexcept {
  return Descriptor(file_.open() ? ::fcntl(file_.number(), F_DUPFD_CLOEXEC, 0) : -1);
}

int LedgerOwners::lock(std::uint64_t byte, short type) noexcept {
  struct flock wanted = lock_of(byte, type);
  while (::fcntl(file_.number(), F_OFD_SETLK, &wanted) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace acp::shell
