// The beginning of a line that cannot be read as a whole.
#include "proxy/core/beginning.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <tuple>

#include "tests/unit/padded.h"

namespace acp {
namespace {

constexpr std::size_t never = std::string_view::npos;

}  // namespace

TEST_CASE("members before the damage are read", "[beginning]") {
  const auto [text, id, method, ends] = GENERATE(table<std::string, std::string, std::string, bool>({
      {R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"xxx)", "1", "\"m\"", false},
      {R"({"id":"a\"b","method":"m","params":)", R"("a\"b")", "\"m\"", false},
      {R"({"jsonrpc":"2.0","id":1,"result":{"a":)", "1", "", true},
      {R"({"id":1,"result":tru)", "1", "", true},
      {R"({"id":1,"error":{"code":1},"x":)", "1", "", true},
      {R"({"id":1,"result")", "1", "", false},
      {R"({"id":1,"result":)", "1", "", true},
      {R"({ "id" : -1.5e3 , "method" : "m" , )", "-1.5e3", "\"m\"", false},
      {R"({"i\u0064":null,"m\u0065thod":"m",)", "null", "\"m\"", false},
      {R"({"params":{"id":7,"method":"no"},"id":1,"x)", "1", "", false},
      {R"({"params":[[{"a":"]}"}]],"id":1,)", "1", "", false},
      // cut off: it may have been another
      {R"({"id":12)", "", "", false},
      {R"({"id":"ab)", "", "", false},
      {R"({"id":1,"method":"m)", "1", "", false},
      {R"({"id":1,"method":tru,)", "1", "", false},
      {R"({"id":nul)", "", "", false},
      // legal scalars only
      {R"({"id":01,"method":"m"})", "", "", false},
      {R"({"id":{"a":1},"method":"m",)", "", "\"m\"", false},
      {R"({"id":[1],"method":"m",)", "", "\"m\"", false},
      {R"({"id":"\q","method":"m",)", "", "\"m\"", false},
      {"{\"id\":\"a\tb\",\"method\":\"m\",", "", "\"m\"", false},
      {"{\"id\":\"\xFF\",\"method\":\"m\xC3\",", "", "", false},
      {R"({"id":1,"method":5,)", "1", "", false},
      // of two ids neither is certain
      {R"({"id":1,"id":2,"method":"m",)", "", "\"m\"", false},
      {R"({"id":1,"id":{},"method":"m",)", "", "\"m\"", false},
      {R"({"id":1,"i\u0064":2,"id":3,"result":)", "", "", true},
      // no object, or none that can be followed
      {"", "", "", false},
      {"   ", "", "", false},
      {R"([{"id":1}])", "", "", false},
      {R"(log: {"id":1,"method":"m"})", "", "", false},
      {R"({id:1,"method":"m"})", "", "", false},
      {R"({"id" 1,"method":"m"})", "", "", false},
      {R"({"id":1 "method":"m"})", "1", "", false},
      {R"({"\q":1,"id":1,)", "", "", false},
      {R"({})", "", "", false},
      {R"({"a":1})", "", "", false},
  }));
  CAPTURE(text);
  const test::Padded padded(text);
  const Beginning beginning = read_beginning(padded.view());
  CHECK(beginning.id == id);
  CHECK(beginning.method == method);
  CHECK(beginning.has_result_or_error == ends);
  CHECK(beginning.is_answer() == (!id.empty() && method.empty() && ends));
  CHECK(beginning.is_message() == (!id.empty() || !method.empty() || ends));
}

TEST_CASE("any prefix of a message shows no id but its own", "[beginning]") {
  const std::string text =
      R"({"jsonrpc":"2.0","params":{"id":5,"s":"\"id\":6"},"id":1234,"method":"a\/b","z":[1]})";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const test::Padded padded(std::string_view(text).substr(0, size));
    const Beginning beginning = read_beginning(padded.view());
    CAPTURE(size);
    CHECK((beginning.id.empty() || beginning.id == "1234"));
    CHECK((beginning.method.empty() || beginning.method == "\"a\\/b\""));
    CHECK_FALSE(beginning.is_answer());
  }
}

TEST_CASE("where a bracket ends", "[beginning]") {
  const auto [text, from, end] = GENERATE(table<std::string_view, std::size_t, std::size_t>({
      {"{}", 0, 2},
      {"[]x", 0, 2},
      {"x{[{}]}y", 1, 7},
      {"{\"}\"}", 0, 5},
      {"{\"\\\"}\"}", 0, 7},
      {"{\"a\\\\\"}}", 0, 7},
      {"{", 0, never},
      {"{[}", 0, never},
      {"{\"}", 0, never},
      {"{\"\\", 0, never},
      {"{{}", 0, never},
      {"{{}", 1, 3},
      {"{]", 0, 2},
  }));
  CAPTURE(text, from);
  CHECK(balanced_end(text, from) == end);
}

}  // namespace acp
