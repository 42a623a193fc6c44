// One SQLite connection of the ledger, and its statements.
//
// Invariant: no exception; every error is a LedgerError. A statement is prepared once a connection and reset
// when its Query goes. Lifetime: a Query must go before its Database is closed. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/core/ledger.h"
#include "proxy/shell/ledger_wait.h"

struct sqlite3;
struct sqlite3_stmt;

namespace acp::shell {

class Database {
 public:
  // read_only looks at a file that others may write; immutable at one that nobody has open, and leaves no
  // file beside it.
  enum class Access : std::uint8_t { read_write, read_only, immutable };

  Database() = default;
  ~Database() { close(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The file must be there: SQLite is never asked to make one. `wait` outlives the connection.
  LedgerError open(const std::string& path, Access access, LedgerWait& wait);
  void close() noexcept;

  // Statements without parameters; rows are thrown away.
  LedgerError run(const char* statements) noexcept;
  // Takes back what the open transaction did, if there is one.
  void roll_back() noexcept;
  // What SQLite says about its last error, in its words.
  const char* last_words() const noexcept;
  // Rows that the last INSERT, UPDATE or DELETE touched.
  std::int64_t changed_rows() const noexcept;
  std::int64_t last_number() const noexcept;

 private:
  friend class Query;
  // Prepared or taken from those that are; null on an error. `sql` is a literal: it is known by its address.
  sqlite3_stmt* statement(const char* sql, int& code) noexcept;
  static LedgerError error_of(int code, int cause) noexcept;

  sqlite3* connection_ = nullptr;
  std::vector<std::pair<const char*, sqlite3_stmt*>> statements_;
};

// One use of a statement.
class Query {
 public:
  // Binds the values to ?1, ?2, … The views must stay valid while it is stepped.
  template <class... Values>
  Query(Database& database, const char* sql, const Values&... values) noexcept : Query(database, sql, begin) {
    int place = 0;
    (bind(++place, values), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Goes to the next row; false at the end or on an error.
  bool next() noexcept;
  // To its end, rows thrown away.
  LedgerError run() noexcept;
  LedgerError error() const noexcept;
  // Whether it failed because a row of that key is there.
  bool met_constraint() const noexcept;

  // Of the present row; columns from 0.
  std::int64_t number(int column) const noexcept;
  std::uint64_t place(int column) const noexcept { return static_cast<std::uint64_t>(number(column)); }
  std::string text(int column) const;
  bool is_null(int column) const noexcept;
  // False if the column does not hold exactly that many bytes.
  bool bytes(int column, std::span<std::uint8_t> into) const noexcept;

 private:
  struct Begin {};
  static constexpr Begin begin{};
  Query(Database& database, const char* sql, Begin) noexcept;
  void bind(int place, std::int64_t value) noexcept;
  void bind(int place, std::uint64_t value) noexcept { bind(place, static_cast<std::int64_t>(value)); }
  void bind(int place, bool value) noexcept { bind(place, std::int64_t{value}); }
  void bind(int place, std::nullptr_t) noexcept;
  void bind(int place, std::string_view text) noexcept;
  void bind(int place, const std::string& text) noexcept { bind(place, std::string_view(text)); }
  void bind(int place, const Fingerprint& print) noexcept { bind_bytes(place, print.bytes); }
  void bind(int place, const Salt& salt) noexcept { bind_bytes(place, salt); }
  void bind_bytes(int place, std::span<const std::uint8_t> bytes) noexcept;

  int code_ = 0;  // set by what makes the statement, too
  sqlite3_stmt* statement_;
  int cause_ = 0;
};

}  // namespace acp::shell
