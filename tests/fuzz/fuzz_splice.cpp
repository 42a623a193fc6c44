// A frame whose id must be another one on the wire says the same but for that id, there and back.
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/input.h"
#include "tests/sim/dialogue.h"
#include "tests/sim/json_scan.h"

namespace {

namespace fuzz = acp::fuzz;
namespace sim = acp::sim;
using nlohmann::json;

// Both parsers take it for one request of one id.
bool is_plain_request(std::string_view frame, json& message) {
  if (frame.find('\n') != std::string_view::npos || frame.find('\0') != std::string_view::npos) return false;
  message = json::parse(frame, nullptr, false);
  if (!message.is_object() || !message.contains("id") || !message.contains("method")) return false;
  return message["id"].is_string() || message["id"].is_number_integer();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string frame(fuzz::view_of(bytes, size));
  json message;
  if (!is_plain_request(frame, message)) return 0;
  sim::Dialogue talk;
  talk.client(sim::request_line(message["id"].dump(), "_first"));  // its id is taken
  if (talk.take_agent().size() != 1) return 0;                     // not one that keyhop takes
  talk.client(frame);
  const std::vector<std::string> sent = talk.take_agent();
  if (sent.size() != 1) return 0;  // refused, or answered here
  const json told = json::parse(sent.front());
  json expected = message;
  expected["id"] = told["id"];
  fuzz::check(told["id"] != message["id"]);
  fuzz::check(told == expected);
  // Nothing but the id's bytes has changed.
  fuzz::check(sent.front().size() - told["id"].dump().size() <= frame.size());
  talk.take_client();
  const std::string answer =
      R"({"result":{"kept":)" + frame + R"(},"jsonrpc":"2.0","id":)" + told["id"].dump() + "}";
  talk.agent(answer);
  const std::vector<std::string> heard = talk.take_client();
  fuzz::check(heard.size() == 1);
  json due = json::parse(answer, nullptr, false);
  if (due.is_discarded()) return 0;  // deeper than the other parser's frame was
  due["id"] = message["id"];
  fuzz::check(json::parse(heard.front()) == due);
  return 0;
}
