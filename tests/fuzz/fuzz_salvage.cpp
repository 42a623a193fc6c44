// The pieces of a line are the line; what is shown as a message is one.
#include <string>

#include "proxy/core/beginning.h"
#include "proxy/core/json_token.h"
#include "proxy/core/salvage.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static acp::EnvelopeScanner scanner;
  const acp::test::Padded padded(acp::fuzz::view_of(bytes, size));
  acp::Envelope envelope;
  acp::Salvage salvage(padded.view(), scanner);
  std::string joined;
  while (const auto piece = salvage.next(envelope)) {
    acp::fuzz::check(!piece->text.empty());
    joined += piece->text;
    if (piece->message) {
      acp::fuzz::check(envelope.fault == acp::FrameFault::none && envelope.frame == piece->text);
      continue;
    }
    const acp::Beginning beginning = acp::read_beginning(piece->text);
    if (!beginning.id.empty() && beginning.id.front() == '"')
      acp::fuzz::check(acp::is_json_string(beginning.id));
    if (!beginning.method.empty()) acp::fuzz::check(acp::is_json_string(beginning.method));
  }
  acp::fuzz::check(joined == padded.view());
  return 0;
}
