// The options of this version by name, and how the text of each becomes a value.
//
// Invariant: one row an option, for the flag and its environment twin alike. Setting never prints and never
// throws but for memory. Lifetime: static, immutable.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "proxy/shell/options.h"

namespace acp::shell {

// Empty: accepted. Else what to give instead, to stand after the name of the flag or variable. Never holds
// the value.
using Problem = std::string;

struct OptionRow {
  std::string_view name;  // without "--"
  Problem (*set)(std::string_view text, Options& options);
  bool repeatable = false;  // in its variable the values are separated by commas
};

std::span<const OptionRow> option_rows() noexcept;

}  // namespace acp::shell
