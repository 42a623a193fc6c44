// Ids: equal by type and decoded value.
#include "proxy/core/request_id.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <tuple>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"

namespace acp {
namespace {

// Reads both tokens and compares them.
bool same(std::string_view a, std::string_view b) {
  const test::Padded padded_a(a);
  const test::Padded padded_b(b);
  std::string scratch_a;
  std::string scratch_b;
  const IdView id_a = read_id(padded_a.view(), scratch_a);
  const IdView id_b = read_id(padded_b.view(), scratch_b);
  const bool equal = id_a == id_b;
  if (equal) CHECK(hash_id(id_a) == hash_id(id_b));
  return equal;
}

IdType type_of(std::string_view token) {
  std::string scratch;
  return read_id(token, scratch).type;
}

bool is_integer(std::string_view token) {
  std::string scratch;
  return is_integer_id(read_id(token, scratch));
}

}  // namespace

TEST_CASE("equal and different ids", "[request_id]") {
  const auto [a, b, equal] = GENERATE(table<std::string_view, std::string_view, bool>({
      {"1", "1", true},
      {"1", "1.0", true},
      {"1", "10e-1", true},
      {"1", "1E0", true},
      {"100", "1e2", true},
      {"-0", "0", true},
      {"0", "-0.0e5", true},
      {"1.5", "15e-1", true},
      {"\"1\"", R"("\u0031")", true},
      {"\"a/b\"", R"("a\/b")", true},
      {"\"😀\"", R"("\uD83D\uDE00")", true},
      {"\"\"", "\"\"", true},
      {"null", "null", true},
      {"12345678901234567890123", "12345678901234567890123", true},
      {"1", "\"1\"", false},
      {"1", "-1", false},
      {"1", "2", false},
      {"1", "1.5", false},
      {"0", "null", false},
      {"\"\"", "null", false},
      {"\"null\"", "null", false},
      {"\"\"", "0", false},
      {"\"a\"", "\"A\"", false},
      {"\"a\"", "\"a \"", false},
      {"\"e\\u0301\"", "\"\\u00e9\"", false},
      {"\"1\"", "\"1.0\"", false},
      {"12345678901234567890123", "12345678901234567890124", false},
      {"9007199254740993", "9007199254740992", false},
      {"1e400", "1e401", false},
      {R"("\uD800")", R"("\uD801")", false},
      {R"("\uD800")", "\"\xEF\xBF\xBD\"", false},
      {"null", "", false},
  }));
  CAPTURE(a, b);
  CHECK(same(a, b) == equal);
  CHECK(same(b, a) == equal);
}

TEST_CASE("types of ids", "[request_id]") {
  const auto [token, type] = GENERATE(table<std::string, IdType>({
      {"", IdType::absent},
      {"null", IdType::null},
      {"0", IdType::number},
      {"-1.5e3", IdType::number},
      {"\"\"", IdType::string},
      {"\"x\"", IdType::string},
      {"true", IdType::unusable},
      {"false", IdType::unusable},
      {"{}", IdType::unusable},
      {"[1]", IdType::unusable},
      {"\"" + std::string(limits::id_bytes_max - 2, 'x') + "\"", IdType::string},
      {"\"" + std::string(limits::id_bytes_max - 1, 'x') + "\"", IdType::unusable},
      {std::string(limits::id_bytes_max + 1, '1'), IdType::unusable},
  }));
  CHECK((type_of(token) == type));
  std::string scratch;
  const bool usable = type == IdType::null || type == IdType::number || type == IdType::string;
  CHECK(read_id(token, scratch).usable() == usable);
}

TEST_CASE("integers as v2 wants them", "[request_id]") {
  const auto [token, integer] = GENERATE(table<std::string_view, bool>({
      {"0", true},
      {"-7", true},
      {"1.0", true},
      {"1.50e1", true},
      {"1e60", true},
      {"12E+50", true},
      {"1.5", false},
      {"1e-1", false},
      {"-0.5", false},
      {"\"1\"", false},
      {"null", false},
      {"", false},
  }));
  CAPTURE(token);
  CHECK(is_integer(token) == integer);
}

}  // namespace acp
