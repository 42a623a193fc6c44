// The envelope scan against another parser: the same verdict where both grammars agree, the same members.
#include <nlohmann/json.hpp>
#include <string>

#include "proxy/core/envelope.h"
#include "proxy/core/json_token.h"
#include "tests/fuzz/input.h"

namespace {

using acp::Envelope;
using acp::FrameFault;
using acp::Slot;
using nlohmann::json;

// Says whether a refusal stands on one of the known differences: numbers beyond a double, lone surrogates.
class Verdict : public nlohmann::detail::json_sax_acceptor<json> {
 public:
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) {
    constexpr int out_of_range = 406;
    differs = fault.id == out_of_range ||
              std::string_view(fault.what()).find("surrogate") != std::string_view::npos;
    return false;
  }
  bool differs = false;
};

bool is_object_of_ours(FrameFault fault) { return fault == FrameFault::none; }

void check_members(const Envelope& envelope, std::string_view text) {
  const json message = json::parse(text, nullptr, false);
  if (message.is_discarded()) return;  // a number or a surrogate that it refuses
  acp::fuzz::check(message.is_object());
  const auto check_member = [&](Slot slot, const json& parent, const char* name) {
    acp::fuzz::check(envelope.has(slot) == parent.contains(name));
    if (!envelope.has(slot)) return;
    const json value = json::parse(envelope.raw(slot), nullptr, false);
    if (envelope.member(slot).copies == 1) acp::fuzz::check(value == parent[name]);
  };
  check_member(Slot::id, message, "id");
  check_member(Slot::method, message, "method");
  check_member(Slot::params, message, "params");
  if (envelope.member(Slot::params).copies != 1 || !message["params"].is_object()) return;
  check_member(Slot::params_session_id, message["params"], "sessionId");
  check_member(Slot::params_idempotency_key, message["params"], "idempotencyKey");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static acp::EnvelopeScanner scanner;
  const acp::test::Padded padded(acp::fuzz::view_of(bytes, size));
  const std::string_view text = padded.view();
  // The other parser skips a byte order mark at the start, and takes a NUL for the end.
  if (text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string_view::npos) return 0;
  Envelope envelope;
  scanner.scan(text, envelope);
  if (envelope.fault == FrameFault::too_deep || envelope.fault == FrameFault::no_memory) return 0;
  const bool here = is_object_of_ours(envelope.fault) || envelope.fault == FrameFault::array ||
                    envelope.fault == FrameFault::scalar;
  Verdict verdict;
  const bool there = json::sax_parse(text, &verdict);
  if (verdict.differs) return 0;
  acp::fuzz::check(here == there);
  if (is_object_of_ours(envelope.fault)) check_members(envelope, text);
  return 0;
}
