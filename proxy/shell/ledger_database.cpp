#include "proxy/shell/ledger_database.h"

#include <cerrno>
#include <cstring>
#include <sqlite3.h>

namespace acp::shell {
namespace {

int wait_for_lock(void* argument, int count) noexcept {
  auto* const wait = static_cast<LedgerWait*>(argument);
  if (count == 0) wait->begin();
  return wait->again() ? 1 : 0;
}

// A path as SQLite's file: URI has it.
std::string uri_of(const std::string& path, std::string_view parameters) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string uri = "file:";
  if (path.starts_with("//")) uri += "//";  // else its first part would name a host
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto code = static_cast<unsigned char>(c);
      uri += {'%', digits[code >> 4], digits[code & 15]};
    } else {
      uri += c;
    }
  }
  return uri.append(parameters);
}

}  // namespace

LedgerError Database::open(const std::string& path, Access access, LedgerWait& wait) {
  close();
  const int flags = access == Access::read_write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  const std::string uri = uri_of(path, access == Access::immutable ? "?immutable=1" : "");
  errno = 0;
  const int code =
      ::sqlite3_open_v2(uri.c_str(), &connection_, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    const LedgerError error = error_of(code, errno);
    close();
    return error;
  }
  ::sqlite3_extended_result_codes(connection_, 1);
  ::sqlite3_busy_handler(connection_, wait_for_lock, &wait);
  if (access == Access::read_write && ::sqlite3_db_readonly(connection_, "main") == 1) {
    close();  // SQLite falls back to reading where it may not write
    return LedgerError::not_writable;
  }
  // A damaged file must not lead SQLite astray.
  ::sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  ::sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return run("PRAGMA cell_size_check = 1");
}

void Database::close() noexcept {
  for (const auto& [sql, prepared] : statements_) ::sqlite3_finalize(prepared);
  statements_.clear();
  ::sqlite3_close(connection_);
  connection_ = nullptr;
}

LedgerError Database::run(const char* statements) noexcept {
  errno = 0;
  const int code = ::sqlite3_exec(connection_, statements, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? LedgerError::none : error_of(code, errno);
}

void Database::roll_back() noexcept {
  if (connection_ != nullptr && ::sqlite3_get_autocommit(connection_) == 0) run("ROLLBACK");
}

const char* Database::last_words() const noexcept {
  return connection_ == nullptr ? "" : ::sqlite3_errmsg(connection_);
}

std::int64_t Database::changed_rows() const noexcept { return ::sqlite3_changes64(connection_); }

std::int64_t Database::last_number() const noexcept { return ::sqlite3_last_insert_rowid(connection_); }

sqlite3_stmt* Database::statement(const char* sql, int& code) noexcept {
  for (const auto& [known, prepared] : statements_) {
    if (known == sql) return prepared;
  }
  sqlite3_stmt* made = nullptr;
  code = connection_ == nullptr
             ? SQLITE_MISUSE
             : ::sqlite3_prepare_v3(connection_, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  if (made != nullptr) statements_.emplace_back(sql, made);
  return made;
}

// sqlite3_system_errno() says 0 for most failed writes, so `cause` is what errno was after the call.
LedgerError Database::error_of(int code, int cause) noexcept {
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return LedgerError::none;
    case SQLITE_FULL: return LedgerError::full;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return LedgerError::busy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      // SQLite takes a disk's read error for damage (SQLITE_IOERR_CORRUPTFS); what is on the disk may be
      // sound.
      return cause == EIO || cause == ENXIO || cause == ERANGE ? LedgerError::failed : LedgerError::broken;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      if (cause == ENOSPC || cause == EDQUOT || cause == EFBIG) return LedgerError::full;
      if ((code & 0xff) == SQLITE_CANTOPEN) return LedgerError::not_writable;
      return cause == EROFS || cause == EACCES || cause == EPERM ? LedgerError::not_writable
                                                                 : LedgerError::failed;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return LedgerError::not_writable;
    default: return LedgerError::failed;
  }
}

Query::Query(Database& database, const char* sql, Begin) noexcept
    : statement_(database.statement(sql, code_)) {}

Query::~Query() {
  if (statement_ == nullptr) return;
  ::sqlite3_reset(statement_);
  ::sqlite3_clear_bindings(statement_);
}

bool Query::next() noexcept {
  if (statement_ == nullptr) return false;
  errno = 0;
  code_ = ::sqlite3_step(statement_);
  cause_ = errno;
  return code_ == SQLITE_ROW;
}

LedgerError Query::run() noexcept {
  while (next()) {
  }
  return error();
}

LedgerError Query::error() const noexcept { return Database::error_of(code_, cause_); }

bool Query::met_constraint() const noexcept { return (code_ & 0xff) == SQLITE_CONSTRAINT; }

std::int64_t Query::number(int column) const noexcept { return ::sqlite3_column_int64(statement_, column); }

std::string Query::text(int column) const {
  const auto* const start = reinterpret_cast<const char*>(::sqlite3_column_text(statement_, column));
  const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column));
  return start == nullptr ? std::string() : std::string(start, size);
}

bool Query::is_null(int column) const noexcept {
  return ::sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

bool Query::bytes(int column, std::span<std::uint8_t> into) const noexcept {
  const void* const found = ::sqlite3_column_blob(statement_, column);
  const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column));
  if (found == nullptr || size != into.size()) return false;
  std::memcpy(into.data(), found, size);
  return true;
}

void Query::bind(int place, std::int64_t value) noexcept { ::sqlite3_bind_int64(statement_, place, value); }

void Query::bind(int place, std::nullptr_t) noexcept { ::sqlite3_bind_null(statement_, place); }

void Query::bind(int place, std::string_view text) noexcept {
  ::sqlite3_bind_text(statement_, place, text.empty() ? "" : text.data(), static_cast<int>(text.size()),
                      SQLITE_STATIC);
}

void Query::bind_bytes(int place, std::span<const std::uint8_t> bytes) noexcept {
  ::sqlite3_bind_blob(statement_, place, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
}

}  // namespace acp::shell
