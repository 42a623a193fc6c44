#include "proxy/shell/ledger_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proxy/shell/handle.h"

namespace acp::shell {
namespace {

constexpr std::string_view header_beginning("SQLite format 3\0", 16);
constexpr std::size_t header_bytes = 100;
constexpr int names_tried_max = 1000;

// Kept by one kernel, with locks and shared memory that work (linux/magic.h).
constexpr std::array<unsigned, 14> local_file_systems{
    0xef53,      // ext2, 3, 4
    0x58465342,  // xfs
    0x9123683e,  // btrfs
    0x01021994,  // tmpfs
    0x794c7630,  // overlayfs
    0xf2f52010,  // f2fs
    0x2fc12fc1,  // zfs
    0xca451a4e,  // bcachefs
    0x52654973,  // reiserfs
    0x3153464a,  // jfs
    0x858458f6,  // ramfs
    0x3434,      // nilfs
    0x4d44,      // vfat
    0x2011bab0,  // exfat
};

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// So that a name in it survives a loss of power.
void sync_directory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.open()) ::fsync(directory.number());
}

std::uint32_t big_endian(const unsigned char* bytes) {
  std::uint32_t value = 0;
  for (int index = 0; index < 4; ++index) value = value << 8 | bytes[index];
  return value;
}

// What cannot be read is not taken for something else.
LedgerError read_header(int number, LedgerLook& look) {
  unsigned char header[header_bytes];
  ssize_t size = 0;
  do {
    size = ::pread(number, header, sizeof header, 0);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return LedgerError::failed;
  if (size != static_cast<ssize_t>(sizeof header) ||
      std::memcmp(header, header_beginning.data(), header_beginning.size()) != 0) {
    look.kind = LedgerLook::Kind::other;
    return LedgerError::none;
  }
  look.kind = LedgerLook::Kind::database;
  look.has_log = header[19] == 2;
  look.version = big_endian(header + 60);
  look.application = big_endian(header + 68);
  return LedgerError::none;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

bool is_used(const std::string& path) {
  struct stat found {};
  if (::stat((path + "-wal").c_str(), &found) == 0 && found.st_size > 0) return true;
  return exists(path + "-shm") || exists(path + "-journal");
}

}  // namespace

LedgerError ledger_error_of(int error) noexcept {
  switch (error) {
    case 0: return LedgerError::none;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return LedgerError::full;
    case EROFS:
    case EACCES:
    case EPERM:
    case ENOENT:
    case ENOTDIR:
    case EISDIR: return LedgerError::not_writable;
    default: return LedgerError::failed;
  }
}

LedgerError make_directory_of(const std::string& path) {
  const std::string directory = directory_of(path);
  struct stat found {};
  if (::stat(directory.c_str(), &found) == 0) return LedgerError::none;
  if (directory == path) return ledger_error_of(errno);  // "/" or ".": nothing is above
  if (const LedgerError error = make_directory_of(directory); error != LedgerError::none) return error;
  if (::mkdir(directory.c_str(), 0700) != 0)
    return errno == EEXIST ? LedgerError::none : ledger_error_of(errno);
  sync_directory(directory_of(directory));
  return LedgerError::none;
}

LedgerError make_private_file(const std::string& path) {
  const bool is_new = !exists(path);
  // A FIFO or device in its place must not block us.
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
  if (!file.open()) return ledger_error_of(errno);
  struct stat found {};
  if (::fstat(file.number(), &found) != 0) return ledger_error_of(errno);
  if (!S_ISREG(found.st_mode)) return LedgerError::failed;
  if ((found.st_mode & 0777) != 0600 && found.st_uid == ::geteuid() && ::fchmod(file.number(), 0600) != 0)
    return ledger_error_of(errno);
  if (is_new) sync_directory(directory_of(path));
  return LedgerError::none;
}

bool is_on_local_disk(const std::string& path) {
  struct statfs found {};
  if (::statfs(directory_of(path).c_str(), &found) != 0) return false;
  return std::find(local_file_systems.begin(), local_file_systems.end(),
                   static_cast<unsigned>(found.f_type)) != local_file_systems.end();
}

LedgerError look_at(const std::string& path, LedgerLook& look) {
  look = {};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.open()) return errno == ENOENT ? LedgerError::none : ledger_error_of(errno);
  struct stat found {};
  if (::fstat(file.number(), &found) != 0) return ledger_error_of(errno);
  if (!S_ISREG(found.st_mode)) return LedgerError::failed;
  look.device = found.st_dev;
  look.number = found.st_ino;
  look.size = found.st_size;
  look.log_is_used = is_used(path);
  if (found.st_size == 0) {
    look.kind = LedgerLook::Kind::empty;
    return LedgerError::none;
  }
  return read_header(file.number(), look);
}

LedgerError move_aside(const std::string& path, std::string& moved_to) {
  const std::time_t present = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&present, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d", &parts);
  const std::string wanted = fmt::format("{}.broken-{}", path, date);
  std::string name = wanted;
  for (int next = 2; exists(name); ++next) {
    if (next > names_tried_max) return LedgerError::failed;
    name = fmt::format("{}.{}", wanted, next);
  }
  // The log first: one that is left beside a new ledger would be taken for that one's.
  for (const char* const ending : {"-wal", "-shm", "-journal", ""}) {
    if (::rename((path + ending).c_str(), (name + ending).c_str()) != 0 && errno != ENOENT)
      return ledger_error_of(errno);
  }
  sync_directory(directory_of(path));
  moved_to = name;
  return LedgerError::none;
}

}  // namespace acp::shell
