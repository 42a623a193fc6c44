// JSON-RPC ids, compared by type and decoded value: `1` is not `"1"`, `"\u0031"` is `"1"`, `1.0` is `1`.
//
// Invariant: two ids are the same request's exactly when type and value are equal. Lifetime: an IdView points
// into the token or into the scratch string it was read with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace acp {

enum class IdType : std::uint8_t {
  absent,
  null,      // legal in v1, discouraged: a request, not a notification
  number,    // canonical spelling
  string,    // decoded
  unusable,  // object, array, boolean, or longer than limits::id_bytes_max
};

struct IdView {
  IdType type = IdType::absent;
  std::string_view value;
  bool operator==(const IdView&) const = default;
  bool usable() const noexcept {
    return type == IdType::null || type == IdType::number || type == IdType::string;
  }
};

// Reads a raw token (a JSON value that was checked, or empty for "no id").
IdView read_id(std::string_view token, std::string& scratch);

// An integer as v2 wants it: no fraction in its value. (v2 schema: string or int64.)
bool is_integer_id(const IdView& id) noexcept;

std::uint64_t hash_id(const IdView& id) noexcept;

}  // namespace acp
