// What the tests of the ledger are made of: prints, rows, batches, and connections beside the ledger's own.
//
// Lifetime: values.
#pragma once

#include <cstdint>
#include <sqlite3.h>
#include <string>
#include <utility>
#include <vector>

#include "proxy/core/ledger.h"

namespace acp::test {

inline Fingerprint print_of(int number) {
  Fingerprint print;
  print.bytes.fill(static_cast<std::uint8_t>(number));
  print.bytes[0] = static_cast<std::uint8_t>(number >> 16);
  print.bytes[1] = static_cast<std::uint8_t>(number >> 8);
  return print;
}

inline LedgerRow row_of(int key, LedgerState state = LedgerState::open, std::string message_id = {}) {
  LedgerRow row;
  row.key = print_of(key);
  row.print = print_of(key + 1);
  row.content = print_of(key + 2);
  row.state = state;
  row.sent_at = static_cast<std::uint64_t>(key);
  row.message_id = std::move(message_id);
  return row;
}

inline LedgerBatch batch_of(std::string session, std::vector<LedgerChange> changes,
                            std::uint64_t ticket = 0) {
  return {ticket, "agent", std::move(session), std::move(changes)};
}

// Another program at the same file.
class OtherProgram {
 public:
  explicit OtherProgram(const std::string& path) { ::sqlite3_open(path.c_str(), &connection_); }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;
  ~OtherProgram() { ::sqlite3_close(connection_); }

  // True if it went well.
  bool run(const std::string& statements) {
    return ::sqlite3_exec(connection_, statements.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }
  // A column of the first row.
  std::string text(const std::string& query, int column = 0) {
    sqlite3_stmt* statement = nullptr;
    ::sqlite3_prepare_v2(connection_, query.c_str(), -1, &statement, nullptr);
    std::string found = "<none>";
    if (::sqlite3_step(statement) == SQLITE_ROW) {
      const auto* const text = reinterpret_cast<const char*>(::sqlite3_column_text(statement, column));
      found = text == nullptr ? "<null>" : text;
    }
    ::sqlite3_finalize(statement);
    return found;
  }

 private:
  sqlite3* connection_ = nullptr;
};

}  // namespace acp::test
