// What agents write that they should not: log text, broken lines, answers that nobody asked for …
//
// Invariant: pure; the same arguments give the same bytes. Lifetime: plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace acp::test_agent {

// The bytes of one kind (see --help), line feed included, or nothing if there is no such kind. `good` and
// `better` are two sound frames to spoil, `id` the request id of the prompt as it was written, `size` the
// bytes of an oversize line or the depth of a deep one (0: the kind's own default).
std::optional<std::string> garbage(std::string_view kind, std::size_t size, const std::string& good,
                                   const std::string& better, const std::string& id);

// Kinds that stand in place of the prompt's answer.
bool replaces_answer(std::string_view kind);

// A session/update frame whose line is about `size` bytes, with a number of twelve digits in it. `digits` is
// set to where the number stands.
std::string numbered_update(const std::string& session, bool with_message_id, const std::string& message_id,
                            std::size_t size, std::size_t& digits);
// Writes the number over the twelve digits.
void put_number(std::string& frame, std::size_t digits, unsigned long long number);

}  // namespace acp::test_agent
