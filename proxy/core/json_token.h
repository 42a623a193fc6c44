// One JSON token at a time: is it well formed, and what does it mean?
//
// Invariant: nothing here looks outside the token, except that up to limits::padding_bytes behind it may be
// read (never used). Lifetime: pure functions; views returned point into the token or into the scratch that
// the caller lends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace acp {

// A number by the JSON grammar, the whole token. Size and precision do not matter.
bool is_json_number(std::string_view token) noexcept;
// `true`, `false` or `null`, the whole token.
bool is_json_literal(std::string_view token) noexcept;

// A string with its quotes, the whole token, as a peer may be shown it: escapes that JSON knows, no raw
// control character, UTF-8. For text that no scan has checked.
bool is_json_string(std::string_view token) noexcept;

// The first backslash at or after `from`, or npos. Reads ahead of the end into the padding.
std::size_t find_backslash(std::string_view text, std::size_t from) noexcept;
// Every escape in a string's inside (quotes cut off) is one that JSON knows; `first` is the position of the
// first backslash.
bool are_escapes_valid(std::string_view inside, std::size_t first) noexcept;

// The characters that a string token (with its quotes, already checked) stands for. Lone surrogate escapes
// come out in their generalized UTF-8 form, so that different texts stay different. Without escapes nothing
// is copied.
std::string_view decode_string(std::string_view token, std::string& scratch);

// Decodes the one escape whose backslash stands at `at` in a string's inside (a surrogate pair counts as
// one), appends what it stands for, and returns the position behind it.
std::size_t decode_escape(std::string_view inside, std::size_t at, std::string& out);

// Characters in decoded text: code points, a lone surrogate being one.
std::size_t count_code_points(std::string_view decoded) noexcept;

// One spelling for each numeric value: `1`, `1.0` and `10e-1` give "1", `-0` gives "0"; integers keep all
// their digits. Values whose plain spelling would exceed 40 digits keep an exponent form unless they were
// written as plain integers.
std::string_view canonical_number(std::string_view token, std::string& scratch);

// Appends `text` as a JSON string with quotes. Bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Appends `,"name":raw` for a further member of an object; nothing for an absent (empty) one. `name` needs no
// escapes.
void append_member(std::string& out, std::string_view name, std::string_view raw);

}  // namespace acp
