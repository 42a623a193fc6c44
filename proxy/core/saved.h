// Whether the ledger's file has a value as it is now.
//
// Batches are on their way one behind the other, and each may fail alone. Invariant: from its last change on
// a value is told in every batch of its session, until one that told it is known to be on the disk. So
// whatever is on the disk, all that was known before it is there too. Lifetime: beside the value.
#pragma once

#include <cstdint>

namespace acp {

class Saved {
 public:
  // Of a value that was read from the file.
  static Saved already() noexcept {
    Saved saved;
    saved.told_in_ = on_the_disk;
    return saved;
  }

  explicit operator bool() const noexcept { return told_in_ == on_the_disk; }

  // The value is another one now.
  void change() noexcept { told_in_ = 0; }
  // The batch with this ticket is being made: whether it has to tell the value.
  bool tell(std::uint64_t ticket) noexcept {
    if (told_in_ == 0) told_in_ = ticket;
    return told_in_ != on_the_disk;
  }
  // The batch with this ticket is on the disk.
  void confirm(std::uint64_t ticket) noexcept {
    if (told_in_ != 0 && told_in_ <= ticket) told_in_ = on_the_disk;
  }

 private:
  static constexpr std::uint64_t on_the_disk = UINT64_MAX;
  std::uint64_t told_in_ = 0;  // the first batch since its last change; 0: none
};

}  // namespace acp
