// Our grammar against another parser's, over generated and damaged texts.
//
// Where the two differ on purpose: lone surrogate escapes (valid here), numbers beyond a double (the other
// parser refuses them) and nesting over limits::nesting_max (refused here). The generator makes paired
// surrogates, exponents of two digits and shallow texts only; a damaged text that turned into one of the
// exceptions is left out.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "proxy/core/envelope.h"
#include "proxy/core/json_walk.h"
#include "proxy/core/structural_index.h"
#include "tests/unit/padded.h"
#include "tests/unit/random_json.h"

namespace acp {
namespace {

struct Silent {
  void open(std::size_t, bool, std::size_t) noexcept {}
  void close(std::size_t, std::size_t) noexcept {}
  void key(std::string_view, bool, std::size_t) noexcept {}
  void value(std::string_view, bool, std::size_t) noexcept {}
};

bool is_accepted_here(StructuralIndex& index, std::string_view text) {
  const test::Padded padded(text);
  if (index.index(padded.view()) != IndexFault::none) return false;
  Silent visitor;
  return walk_json(padded.view(), index, visitor) == WalkFault::none;
}

// Notes why the other parser said no, so that numbers out of range can be told from bad ones.
class Reasons : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    constexpr int out_of_range = 406;
    const std::string_view text = fault.what();
    is_exception = fault.id == out_of_range || text.find("surrogate") != std::string_view::npos;
    return false;
  }
  bool is_exception = false;
};

// Changes one byte, adds one or takes one away.
void damage(std::string& text, test::Random& random) {
  constexpr std::string_view telling =
      "{}[]:,\"\\ \t\n\r0123456789.-+eEtrufalsn/bu\x01\x7F\x80\xC3\xEF\xFF\x0C\x1A";
  const char byte =
      random.one_in(3) ? static_cast<char>(random.below(256)) : telling[random.below(telling.size())];
  const std::size_t at = random.below(text.size());
  switch (random.below(4)) {
    case 0: text.erase(at, 1); break;
    case 1: text.insert(at, 1, byte); break;
    case 2: std::swap(text[at], text[random.below(text.size())]); break;
    default: text[at] = byte; break;
  }
}

}  // namespace

TEST_CASE("the grammar agrees with another parser's over damaged texts", "[differential]") {
  constexpr std::size_t texts = 12'500;
  constexpr std::size_t damages_each = 8;
  StructuralIndex index;
  std::size_t valid = 0;
  std::size_t compared = 0;
  std::size_t exceptions = 0;
  for (std::size_t seed = 1; seed <= texts; ++seed) {
    test::RandomJson json(seed);
    const std::string text = json.text();
    if (!is_accepted_here(index, text)) FAIL("seed " << seed << ", undamaged: " << text);
    for (std::size_t i = 0; i < damages_each; ++i) {
      std::string damaged = text;
      for (std::size_t n = 1 + json.random().below(2); n > 0 && !damaged.empty(); --n) {
        damage(damaged, json.random());
      }
      // The other parser skips a byte order mark at the start, and takes a NUL for the end.
      if (damaged.starts_with("\xEF\xBB\xBF") || damaged.find('\0') != std::string::npos) {
        ++exceptions;
        continue;
      }
      const bool here = is_accepted_here(index, damaged);
      Reasons reasons;
      const bool there = nlohmann::json::sax_parse(damaged, &reasons);
      if (reasons.is_exception) {
        ++exceptions;
        continue;
      }
      ++compared;
      valid += here ? 1 : 0;
      if (here != there) FAIL("seed " << seed << ", here " << here << ", there " << there << ": " << damaged);
    }
  }
  INFO("compared " << compared << ", valid " << valid << ", exceptions " << exceptions);
  CHECK(compared > 95'000);
  CHECK(compared + exceptions > 99'000);
  CHECK(valid > 10'000);
  CHECK(compared - valid > 10'000);
}

TEST_CASE("members of an envelope agree with another parser's", "[differential]") {
  EnvelopeScanner scanner;
  Envelope envelope;
  for (std::size_t seed = 1; seed <= 3'000; ++seed) {
    test::RandomJson json(seed);
    const std::string id = json.text();
    const std::string params = json.text();
    const std::string other = json.text();
    const std::string text = "{\"x\":" + other + ",\"params\":{\"a\":" + params + ",\"sessionId\":" + other +
                             "},\"y\":" + params + ", \"id\" :" + id + ",\"z\":0}";
    const test::Padded padded(text);
    scanner.scan(padded.view(), envelope);
    if (envelope.fault != FrameFault::none) FAIL("seed " << seed << ": " << text);
    const auto same = [](std::string_view token, const std::string& written) {
      return nlohmann::json::parse(token) == nlohmann::json::parse(written);
    };
    // Spans hold the token alone: no white space around it.
    const auto tight = [](std::string_view token) {
      return !token.empty() && token.find_first_of(" \t\r\n") != 0 &&
             token.find_last_of(" \t\r\n") != token.size() - 1;
    };
    for (const auto& [slot, written] : {std::pair{Slot::id, id}, {Slot::params_session_id, other}}) {
      if (!tight(envelope.raw(slot)) || !same(envelope.raw(slot), written))
        FAIL("seed " << seed << ": " << text);
    }
  }
  SUCCEED();
}

}  // namespace acp
