// A JSON reader of the tests' own, so that nothing of the core's is believed on its own word: the grammar in
// full (RFC 8259, UTF-8 included), and members by name as raw text.
//
// Invariant: plain recursive descent, no tables, no state, nothing shared with proxy/core. Lifetime: results
// are views into the text.
#pragma once

#include <cstddef>
#include <string_view>

namespace acp::sim {

// The whole text is one JSON value, valid UTF-8, nested at most `depth_max` deep.
bool is_json(std::string_view text, std::size_t depth_max = 2000) noexcept;

// What a peer reads of a message: raw values, empty where there are none.
struct TopLevel {
  std::string_view jsonrpc;
  std::string_view id;
  std::string_view method;
  std::string_view params;
  std::string_view error;
};
// One pass: false unless the text is one valid JSON object.
bool read_top_level(std::string_view text, TopLevel& top) noexcept;

// The raw value of the last member of that name in an object that is valid JSON; empty if there is none or
// the text is no object. Names are compared as written (no escapes).
std::string_view member(std::string_view object, std::string_view name) noexcept;

// member() over several names: params, then sessionId.
std::string_view member(std::string_view object, std::string_view name, std::string_view inner) noexcept;

// The inside of a string token, escapes as written; an empty view for anything else.
std::string_view unquoted(std::string_view token) noexcept;

}  // namespace acp::sim
