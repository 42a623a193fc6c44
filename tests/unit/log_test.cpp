#include "proxy/shell/log.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

namespace acp::shell {

TEST_CASE("log lines keep to one line and valid JSON whatever their text holds") {
  const auto [text, plain, json] = GENERATE(table<std::string, std::string, std::string>({
      {"fine", "fine", "fine"},
      {"a\"b\\c", "a\"b\\c", "a\\\"b\\\\c"},
      {"one\ntwo\t\033[2J", "one\\x0atwo\\x09\\x1b[2J", "one\\u000atwo\\u0009\\u001b[2J"},
      {"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80",
       "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"},
      {"\xff|\xc0\x80|\xed\xa0\x80", "\\xff|\\xc0\\x80|\\xed\\xa0\\x80",
       "\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd"},
      {"\xc2\x9b", "\\x9b", "\\u009b"},
      {"\xe4\xb8", "\\xe4\\xb8", "\\ufffd\\ufffd"},
  }));
  CHECK(text_line(LogLevel::warning, text, std::nullopt, false) == "keyhop: warning: " + plain);
  CHECK(json_line(LogLevel::info, text, 1700000000123, 5) ==
        R"({"time":"2023-11-14T22:13:20.123Z","level":"info","pid":5,"message":")" + json + "\"}");
}

}  // namespace acp::shell
