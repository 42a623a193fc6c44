// What a line began as that cannot be read as a whole: over the limit, cut off, or broken somewhere.
//
// A tolerant look at the top-level members that stand complete before the damage. Never
// used on a frame that could be scanned. Invariant: a token is reported only if it is complete in the text
// and a legal JSON scalar. Lifetime: views into the text.
#pragma once

#include <string_view>

namespace acp {

struct Beginning {
  std::string_view id;               // raw token, or empty; also empty if there were two
  std::string_view method;           // raw token, or empty
  bool has_result_or_error = false;  // at least the member's name was there

  // It began as a JSON-RPC message of some kind.
  bool is_message() const noexcept { return !id.empty() || !method.empty() || has_result_or_error; }
  // An answer: an id and a result or error, no method.
  bool is_answer() const noexcept { return !id.empty() && method.empty() && has_result_or_error; }
};

Beginning read_beginning(std::string_view text);

// Where the object or array that opens at `from` ends (one behind its last bracket), or npos if it does not.
// Brackets are counted, strings stepped over, nothing else is checked.
std::size_t balanced_end(std::string_view text, std::size_t from) noexcept;

}  // namespace acp
