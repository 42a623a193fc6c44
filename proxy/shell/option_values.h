// The options of this version by name, and how the text of each becomes a value.
//
// Invariant: one row an option, for the flag, its environment twin and its key in a file alike. Setting never
// prints and never throws but for memory. Lifetime: static, immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proxy/shell/options.h"

namespace acp::shell {

// Empty: accepted. Else what to give instead, to stand after the name of the flag, variable or key. Never
// holds the value.
using Problem = std::string;

// What stands for an option in a file. A string is the flag's text, a number is written out first.
enum class InFile : std::uint8_t { string, number_or_string, nothing };

struct OptionRow {
  std::string_view name;  // without "--"
  Problem (*set)(std::string_view text, Options& options);
  InFile in_file = InFile::string;
  bool repeatable = false;  // in its variable the values are separated by commas, in a file an array
};

std::span<const OptionRow> option_rows() noexcept;

// One more proxy in the chain.
Problem add_proxy(ProxyOption proxy, Options& options);

// Options, or tables of the file, of later versions.
std::span<const std::string_view> later_option_names() noexcept;

// What a user typed, fit for one line of a terminal; at most `bytes_max` bytes of it.
std::string printable(std::string_view text, std::size_t bytes_max = 60);

}  // namespace acp::shell
