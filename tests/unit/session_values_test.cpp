// Modes and config options as they were last known, and what a fresh agent must be told.
#include "proxy/core/session_values.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/limits.h"

namespace acp {
namespace {

using Kind = SessionValues::Kind;

std::string in_short(const std::vector<SessionValues::Value>& values) {
  std::string out;
  for (const auto& value : values) {
    out += (value.kind == Kind::mode ? std::string("mode") : value.id) + "=" + value.value + " ";
  }
  return out;
}

TEST_CASE("what differs is set again, in the order last set", "[values]") {
  SessionValues values;
  values.set(Kind::mode, {}, "\"code\"", {});
  values.set(Kind::config_option, "\"model\"", "\"big\"", "\"select\"");
  values.set(Kind::config_option, "\"think\"", "true", "\"boolean\"");
  values.set(Kind::mode, {}, "\"ask\"", {});
  SessionValues restored;
  CHECK(in_short(values.differing_from(restored)) == R"("model"="big" "think"=true mode="ask" )");
  restored.report(Kind::mode, {}, "\"ask\"", false);
  restored.report_config_options(
      R"([{"id":"model","currentValue":"small"},{"configId":"think","currentValue":true}])", false);
  CHECK(in_short(values.differing_from(restored)) == R"("model"="big" )");
  CHECK(values.differing_from(restored).front().type == "\"select\"");
}

TEST_CASE("what an agent reported from the start is not set again where a restore is silent", "[values]") {
  SessionValues values;
  values.report(Kind::mode, {}, "\"ask\"", false);
  CHECK(values.differing_from({}).empty());
  SessionValues other;
  other.report(Kind::mode, {}, "\"code\"", false);
  CHECK(in_short(values.differing_from(other)) == R"(mode="ask" )");
}

TEST_CASE("the agent's own change counts as the client's", "[values]") {
  SessionValues values;
  values.report(Kind::mode, {}, "\"ask\"", false);
  values.report(Kind::mode, {}, "\"code\"", true);
  CHECK(in_short(values.differing_from({})) == R"(mode="code" )");
  values.set(Kind::mode, {}, "\"plan\"", {});
  values.report(Kind::mode, {}, "\"plan\"", true);  // confirms, changes nothing
  CHECK(in_short(values.differing_from({})) == R"(mode="plan" )");
}

TEST_CASE("broken and strange option lists are read as far as they go", "[values]") {
  SessionValues values;
  values.report_config_options("[]", true);
  values.report_config_options("", true);
  values.report_config_options("{}", true);
  values.report_config_options(R"([1])", true);
  values.report_config_options(R"([{"id":"a"},{"currentValue":1}])", true);
  values.report_config_options(R"([{"\ud800":1,"id":"a","currentValue":1}])", true);
  CHECK(values.empty());
  values.report_config_options(R"([ { "currentValue" : 1.0 , "options":[{"id":"no"}], "id" : "a" } , 2])",
                               true);
  CHECK(in_short(values.differing_from({})) == R"("a"=1.0 )");
}

TEST_CASE("the table of values is bounded: the oldest leaves", "[values]") {
  SessionValues values;
  for (std::size_t i = 0; i <= limits::session_values_max; ++i)
    values.set(Kind::config_option, std::to_string(i), "1", {});
  const auto kept = values.differing_from({});
  CHECK(kept.size() == limits::session_values_max);
  CHECK(kept.front().id == "1");
}

}  // namespace
}  // namespace acp
