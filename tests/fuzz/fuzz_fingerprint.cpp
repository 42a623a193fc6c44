// A value has one print: the text as it came, and the same value written by another program.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "proxy/core/envelope.h"
#include "proxy/core/fingerprint.h"
#include "tests/fuzz/input.h"

namespace {

// Numbers and duplicates do not survive the other program.
bool survives(std::string_view text, const nlohmann::ordered_json& value) {
  const std::string written = value.dump();
  const auto count = [](std::string_view in, char c) { return std::count(in.begin(), in.end(), c); };
  if (text.find_first_of("0123456789") != std::string_view::npos) return false;
  return count(text, ':') == count(written, ':') && text.find('\\') == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static acp::EnvelopeScanner scanner;
  static acp::Fingerprinter fingerprinter(acp::Salt{1});
  const acp::test::Padded padded(acp::fuzz::view_of(bytes, size));
  acp::Envelope envelope;
  scanner.scan(padded.view(), envelope);
  switch (envelope.fault) {
    case acp::FrameFault::none:
    case acp::FrameFault::array:
    case acp::FrameFault::scalar: break;
    default: return 0;
  }
  const acp::Fingerprint print = fingerprinter.of(padded.view());
  const acp::test::Padded wide(" " + std::string(padded.view()) + "\t");
  acp::fuzz::check(fingerprinter.of(wide.view()) == print);
  const auto value = nlohmann::ordered_json::parse(padded.view(), nullptr, false);
  if (value.is_discarded() || !survives(padded.view(), value)) return 0;
  const acp::test::Padded written(value.dump(2));
  acp::fuzz::check(fingerprinter.of(written.view()) == print);
  const acp::test::Padded sorted(nlohmann::json::parse(padded.view()).dump());
  acp::fuzz::check(fingerprinter.of(sorted.view()) == print);
  return 0;
}
