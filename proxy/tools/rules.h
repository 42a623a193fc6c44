// `keyhop rules [--json] [METHOD…]`: shows the table of methods and retry classes.
//
// Prints what rules/methods.h holds and decides nothing. Lifetime: one call a run.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace acp::tools {

// Writes the rows of `methods` (all rows if there are none, in the table's order) to `out`: aligned text of
// at most 100 columns, or with `json` an array of objects with every fact. `colour`: terminal colours in the
// text. A method that has no row is named on stderr. Returns the exit status: 0, or 1 if a method has no row
// or `out` cannot be written.
int run_rules(const std::vector<std::string>& methods, bool json, std::FILE* out, bool colour);

}  // namespace acp::tools
