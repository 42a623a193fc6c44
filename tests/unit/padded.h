// A text with the readable bytes behind it that the core asks for. The padding is filled with quotes and
// backslashes, so that a scan which looks too far sees something wrong. Lifetime: the view ends with the
// object.
#pragma once

#include <string>
#include <string_view>

#include "proxy/core/limits.h"

namespace acp::test {

class Padded {
 public:
  explicit Padded(std::string_view text) : size_(text.size()), bytes_(text) {
    for (std::size_t i = 0; i < limits::padding_bytes; ++i) bytes_ += i % 2 == 0 ? '\\' : '"';
  }
  std::string_view view() const noexcept { return std::string_view(bytes_).substr(0, size_); }

 private:
  std::size_t size_;
  std::string bytes_;
};

}  // namespace acp::test
