// What an agent can do, before and after.
#include "proxy/core/capabilities.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace acp {
namespace {

TEST_CASE("v1: how a session can be restored", "[capabilities]") {
  const auto ways = [](std::string_view text) {
    const RestoreWays found = restore_ways_v1(text);
    return std::string(found.resume ? "resume " : "") + (found.load ? "load" : "");
  };
  CHECK(ways(R"({"loadSession":true})") == "load");
  CHECK(ways(R"({"loadSession":false})").empty());
  CHECK(ways(R"({"loadSession":null})").empty());
  CHECK(ways(R"({"sessionCapabilities":{"resume":{}}})") == "resume ");
  CHECK(ways(R"({"sessionCapabilities":{"resume":null}})").empty());
  CHECK(ways(R"({"sessionCapabilities":null,"loadSession":true})") == "load");
  CHECK(ways(R"({"loadSession":true,"sessionCapabilities":{"list":{},"resume":{"x":1}}})") == "resume load");
  CHECK(ways("{}").empty());
  CHECK(ways("").empty());
  CHECK(ways("[1]").empty());
  // Sound JSON that no string or number of C++ could hold.
  CHECK(ways(R"({"_meta":"\ud83d","loadSession":true})") == "load");
  CHECK(ways(R"({"sessionCapabilities":{"_meta":[1e999],"resume":{}},"_meta":"\ud83d"})") == "resume ");
}

TEST_CASE("capabilities that a successor lacks are named by path", "[capabilities]") {
  CHECK(missing_capabilities("{}", "{}").empty());
  CHECK(missing_capabilities("", "").empty());
  CHECK(missing_capabilities("{}", "").empty());
  CHECK(missing_capabilities(R"({"a":true,"b":{}})", "") == "a, b");
  CHECK(missing_capabilities(R"({"a":true,"b":false,"c":null})", R"({"a":true})").empty());
  CHECK(missing_capabilities(R"({"a":true})", R"({"a":false})") == "a");
  CHECK(missing_capabilities(R"({"a":{}})", R"({"a":null})") == "a");
  CHECK(missing_capabilities(R"({"a":{"b":{"c":true},"d":1}})", R"({"a":{"b":{}}})") == "a.b.c, a.d");
  CHECK(missing_capabilities(R"({"a":{"b":true}})", R"({"a":true})").empty());  // a flag says all of it
  CHECK(missing_capabilities(R"({"a":true})", R"({"a":true,"more":{}})").empty());
}

}  // namespace
}  // namespace acp
