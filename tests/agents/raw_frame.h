// One line of JSON-RPC seen as raw spans: what stands at its top level, without parsing what is inside.
//
// Invariant: the spans point into the line that was scanned and are never changed, so that an id or a whole
// params object can be given back exactly as it came (numbers of any length, escapes, lone surrogates).
// Lifetime: as long as the line.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace acp::test_agent {

// Members keep their order, so that what the agent writes is the same in every run.
using Json = nlohmann::ordered_json;

struct RawFrame {
  std::string_view id;      // empty: the member is absent
  std::string_view method;  // with its quotes, as written
  std::string_view params;
  std::string_view result;
  std::string_view error;

  bool has_method() const { return !method.empty(); }
  bool is_request() const { return has_method() && !id.empty(); }
  bool is_response() const { return !has_method() && !id.empty() && (!result.empty() || !error.empty()); }
};

// Finds the top-level members of one JSON object. Nothing: the line is not an object or it breaks off. Values
// are only delimited, not checked; the last of several members with one name counts.
std::optional<RawFrame> scan_frame(std::string_view line);

// The value of one member of an object, as it was written; empty if there is none.
std::string_view raw_member(std::string_view object, std::string_view name);

// The decoded text of a JSON string as it was written, or nothing if it is not a string.
std::optional<std::string> decode_string(std::string_view written);

// A request id as a map key: by type and decoded value, so that 1 is not "1" and "\u0031" is "1".
std::string id_name(std::string_view written);

// Parses JSON that crosses a transparent proxy but that the parser here refuses: lone surrogate escapes
// become U+FFFD and numbers beyond a double become 0. Discarded (is_discarded()) if it is not JSON even so.
Json parse_lenient(std::string_view text);

// Writes a value on one line. Text that is not UTF-8 is replaced.
std::string to_line(const Json& value);

// The string, object or array member of that name, or nothing / null if there is none of that type.
std::optional<std::string> string_member(const Json& object, const char* name);
const Json* member(const Json& object, const char* name);

}  // namespace acp::test_agent
