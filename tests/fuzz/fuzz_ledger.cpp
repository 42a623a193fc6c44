// Any bytes where the ledger's file should be: they are read, refused, or moved aside; what is then written
// is there.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

#include "proxy/shell/ledger.h"
#include "tests/fuzz/input.h"

namespace {

namespace fuzz = acp::fuzz;

// One for this process, gone with it.
class Place {
 public:
  Place() {
    std::string pattern = std::filesystem::temp_directory_path() / "keyhop-fuzz-XXXXXX";
    fuzz::check(::mkdtemp(pattern.data()) != nullptr);
    directory_ = pattern;
  }
  ~Place() { std::filesystem::remove_all(directory_); }

  std::string file(std::string_view content) const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      std::filesystem::remove_all(entry);
    const std::string path = directory_ / "ledger.db";
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
    fuzz::check(file != nullptr);
    std::fwrite(content.data(), 1, content.size(), file.get());
    return path;
  }

 private:
  std::filesystem::path directory_;
};

acp::LedgerBatch one_row() {
  acp::LedgerRow row;
  row.key.bytes[0] = 1;
  row.sent_at = 1;
  return {1, "agent", "session", {acp::AddLedgerRow{row}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const Place place;
  const std::string path = place.file(fuzz::view_of(bytes, size));
  acp::shell::Ledger ledger({.path = path, .patience = std::chrono::milliseconds(1), .is_local = true});
  if (ledger.open() != acp::LedgerError::none) return 0;
  const acp::LedgerBatch batch = one_row();
  const std::vector<acp::LedgerError> results = ledger.commit({&batch, 1});
  fuzz::check(results.size() == 1);
  acp::LedgerSession session;
  if (results.front() != acp::LedgerError::none ||
      ledger.read("agent", "session", session) != acp::LedgerError::none)
    return 0;
  bool found = false;
  for (const acp::LedgerRow& row : session.rows) found = found || row.key.bytes[0] == 1;
  fuzz::check(found);
  return 0;
}
