// The file of --config: TOML to the texts that its options would have as flags.
//
// The keys are the flags' names without dashes in front: log-level = "debug", drain = 2.5, and an array for a
// flag that can be repeated: rule = ["_x/save=idempotent"]. A proxy may also be a table of its own, which can
// say more than the flag: [[proxy]] with command, args, env and on-failure.
//
// Invariant: what comes back has passed OptionRow::set(), every value; a file with anything wrong or unknown
// in it gives nothing but its first problem. No exception of the parser's, and no more memory and stack than
// the limits allow, whatever the bytes. Lifetime: plain values; the rows are static.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxy/shell/option_values.h"

namespace acp::shell {

struct ConfigValue {
  const OptionRow* row = nullptr;
  std::string text;  // as after the flag; of a table [[proxy]]: empty
  std::optional<ProxyOption> proxy = {};
  friend bool operator==(const ConfigValue&, const ConfigValue&) = default;
};

// Those of a repeatable option in the order of its array.
using Config = std::vector<ConfigValue>;

struct ConfigProblem {
  std::size_t line = 0;  // from 1; 0: of the file as a whole
  std::string text;      // fit for one line of a terminal
};

// The bytes of a file. A problem's line is one that they have.
std::variant<Config, ConfigProblem> parse_config(std::string_view bytes);

// The same of the file at `path`, which may be a pipe; it is read to its end, or to the limit.
std::variant<Config, ConfigProblem> read_config(const std::string& path);

}  // namespace acp::shell
