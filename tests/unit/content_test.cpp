// The prompt that was sent and the message that is shown later: the same content, the same hash.
#include "proxy/core/content.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"

namespace acp {
namespace {

constexpr Salt salt{7, 7, 7};

Fingerprinter& prints() {
  static Fingerprinter fingerprinter(salt);
  return fingerprinter;
}

ContentReader& reader() {
  static ContentReader content_reader;
  return content_reader;
}

// Of blocks that come one by one, or of an array.
Fingerprint print_of(const std::vector<std::string>& raws) {
  Content content(salt);
  for (const std::string& raw : raws) {
    const test::Padded padded(raw);
    reader().add(padded.view(), prints(), content);
  }
  return content.print();
}
Fingerprint print_of(std::string_view raw) { return print_of(std::vector<std::string>{std::string(raw)}); }

ContentReader::Message message_of(std::string_view raw) {
  const test::Padded padded(raw);
  return reader().of_prompt(padded.view(), prints());
}

std::string text_block(std::string_view text) {
  return R"({"type":"text","text":")" + std::string(text) + "\"}";
}

std::string array_of(const std::vector<std::string>& blocks) {
  std::string out = "[";
  for (const std::string& block : blocks) out += (out.size() > 1 ? "," : "") + block;
  return out + "]";
}

constexpr std::string_view image = R"({"type":"image","data":"AAAA","mimeType":"image/png"})";

}  // namespace

TEST_CASE("content: the same in another dress", "[content]") {
  const auto [a, b] = GENERATE(table<std::string_view, std::string_view>({
      {R"([{"type":"text","text":"ab"}])", R"([{"text":"ab","type":"text"}])"},
      {R"([{"type":"text","text":"ab"}])", R"( [ { "type" : "text" , "text" : "ab" } ] )"},
      {R"([{"type":"text","text":"aé😀/\n"}])",
       R"([{"\u0074ype":"te\u0078t","text":"\u0061\u00e9\ud83d\ude00\/\u000A"}])"},
      // neighbouring texts are one
      {R"([{"type":"text","text":"ab"}])", R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"},
      {R"([{"type":"text","text":"ab"}])", R"([{"type":"text","text":""},{"type":"text","text":"ab"}])"},
      {R"([])", R"([{"type":"text","text":""}])"},
      {R"([])", ""},
      // one block that stands alone
      {R"([{"type":"text","text":"ab"}])", R"({"type":"text","text":"ab"})"},
      {R"([{"type":"image","data":"A"}])", R"({"type":"image","data":"A"})"},
      // _meta and null are out, at any depth
      {R"([{"type":"text","text":"ab"}])", R"([{"type":"text","text":"ab","_meta":{"t":[{"text":1}]}}])"},
      {R"([{"type":"text","text":"ab"}])", R"([{"_meta":"x","type":"text","text":"ab","annotations":null}])"},
      {R"([{"type":"text","text":"ab"}])",
       R"([{"type":"text","text":"a","_meta":{"n":1}},{"type":"text","text":"b","annotations":null}])"},
      {R"([{"type":"resource","resource":{"uri":"u","text":"t"}}])",
       R"([{"_meta":{},"resource":{"text":"t","mimeType":null,"uri":"u","_meta":{"a":{"_meta":1}}},"type":"resource"}])"},
      {R"([{"type":"text","text":"a","annotations":{"priority":1}}])",
       R"([{"type":"text","text":"a","annotations":{"audience":null,"priority":1.0,"_meta":3}}])"},
      // numbers are values
      {R"([{"type":"resource_link","size":100}])", R"([{"size":1e2,"type":"resource_link"}])"},
  }));
  CAPTURE(a, b);
  CHECK(print_of(a) == print_of(b));
  CHECK(message_of(a).content == print_of(a));
}

TEST_CASE("content: everything else counts", "[content]") {
  const std::vector<std::string> raws{
      "[]",
      R"([{"type":"text","text":"ab"}])",
      R"([{"type":"text","text":"ba"}])",
      R"([{"type":"text","text":"ab "}])",
      R"([{"type":"text","text":"AB"}])",
      R"([{"type":"text"}])",
      R"([{"text":"ab"}])",
      R"([{"type":"TEXT","text":"ab"}])",
      R"([{"type":"text","text":["ab"]}])",
      R"([{"type":"text","text":12}])",
      R"([{"type":["text"],"text":"ab"}])",
      R"([["ab"]])",
      R"(["ab"])",
      R"([1])",
      R"([{}])",
      R"([{},{}])",
      // not plain: a block of its own
      R"([{"type":"text","text":"ab","annotations":{}}])",
      R"([{"type":"text","text":"ab","annotations":{"priority":1}}])",
      R"([{"type":"text","text":"ab","annotations":{"priority":2}}])",
      R"([{"type":"text","text":"ab","x":"y"}])",
      R"([{"type":"text","text":"a","x":"y"},{"type":"text","text":"b"}])",
      R"([{"type":"text","text":"a"},{"type":"text","text":"b","x":"y"}])",
      // names that only look alike
      R"([{"type":"text","text":"ab","_Meta":1}])",
      R"([{"type":"text","text":"ab","idempotencyKey":"k"}])",
      // twice: peers may read either
      R"([{"type":"text","text":"ab","text":"cd"}])",
      R"([{"type":"text","text":"cd","text":"ab"}])",
      R"([{"type":"text","text":"ab","text":"ab"}])",
      // null counts in an array
      R"([{"type":"x","a":[null]}])",
      R"([{"type":"x","a":[]}])",
      // other blocks, and their order
      R"([{"type":"image","data":"A"}])",
      R"([{"type":"image","data":"B"}])",
      R"([{"type":"audio","data":"A"}])",
      R"([{"type":"resource","resource":{"uri":"u","text":"t"}}])",
      R"([{"type":"resource","resource":{"uri":"u","blob":"t"}}])",
      R"([{"type":"resource_link","uri":"u","name":"n"}])",
      R"([{"type":"text","text":"ab"},{"type":"image","data":"A"}])",
      R"([{"type":"image","data":"A"},{"type":"text","text":"ab"}])",
      R"([{"type":"text","text":"a"},{"type":"image","data":"A"},{"type":"text","text":"b"}])",
      R"([{"type":"image","data":"A"},{"type":"image","data":"B"}])",
      R"([{"type":"image","data":"B"},{"type":"image","data":"A"}])",
      R"([{"type":"image","data":"A"},{"type":"image","data":"A"}])",
  };
  std::set<Fingerprint> seen;
  for (const std::string& raw : raws) {
    CAPTURE(raw);
    CHECK(seen.insert(print_of(raw)).second);
  }
}

TEST_CASE("content: whole or in chunks, split anywhere", "[content]") {
  const std::string text = "The qúick 漢字 fox 😀 jumps";
  const Fingerprint whole = print_of(array_of({text_block(text), std::string(image), text_block("over")}));
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); second += 7) {
      const auto inside = [&](std::size_t at) {
        return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
      };
      if (inside(first) || inside(second)) continue;
      CAPTURE(first, second);
      CHECK(print_of({text_block(text.substr(0, first)), text_block(text.substr(first, second - first)),
                      text_block(text.substr(second)), std::string(image), text_block("ov"),
                      text_block("er")}) == whole);
      // The image somewhere else is another message.
      if (first == text.size()) continue;
      CHECK(print_of({text_block(text.substr(0, first)), std::string(image), text_block(text.substr(first)),
                      text_block("over")}) != whole);
    }
  }
}

TEST_CASE("content: what was added so far", "[content]") {
  Content content(salt);
  const auto add = [&](std::string_view raw) {
    const test::Padded padded(raw);
    reader().add(padded.view(), prints(), content);
    return content.print();
  };
  CHECK(content.print() == print_of("[]"));
  CHECK(add(text_block("a")) == print_of(array_of({text_block("a")})));
  CHECK(content.print() == content.print());
  CHECK(add(text_block("b")) == print_of(array_of({text_block("ab")})));
  CHECK(add(image) == print_of(array_of({text_block("ab"), std::string(image)})));
  CHECK(add(text_block("c")) == print_of(array_of({text_block("ab"), std::string(image), text_block("c")})));
}

TEST_CASE("content: the salt matters", "[content]") {
  Salt another = salt;
  another[0] ^= 1;
  Fingerprinter others(another);
  const test::Padded raw(array_of({text_block("a"), std::string(image)}));
  CHECK(reader().of_prompt(raw.view(), others).content != message_of(raw.view()).content);
  others.set_salt(salt);
  CHECK(reader().of_prompt(raw.view(), others).content == message_of(raw.view()).content);
}

TEST_CASE("content: large, many and deep", "[content]") {
  const std::string large(5 * limits::mib, 'x');
  const Fingerprint whole = print_of(array_of({text_block(large)}));
  CHECK(print_of({text_block(large.substr(1)), text_block("x")}) == whole);
  CHECK(print_of({text_block(large), text_block("x")}) != whole);
  CHECK(print_of(array_of({text_block("\\u0078" + large.substr(1))})) == whole);

  std::vector<std::string> many(10'000, text_block("ab"));
  std::string joined;
  for (std::size_t i = 0; i < many.size(); ++i) joined += "ab";
  CHECK(print_of(array_of(many)) == print_of(text_block(joined)));

  const std::size_t levels = limits::nesting_max - 2;
  const auto nest = [&](std::string_view inside) {
    return R"([{"type":"x","a":)" + std::string(levels, '[') + std::string(inside) +
           std::string(levels, ']') + "}]";
  };
  CHECK(print_of(nest("")) == print_of(nest(" ")));
  CHECK(print_of(nest("")) != print_of(nest("1")));
}

TEST_CASE("content: which prompts are commands", "[content]") {
  const auto [raw, is_command] = GENERATE(table<std::string, bool>({
      {array_of({text_block("/compact")}), true},
      {array_of({text_block("/")}), true},
      {array_of({text_block(" \\t\\r\\n /compact")}), true},
      {array_of({text_block("\\u002fcompact")}), true},
      {array_of({text_block("\\/compact")}), true},
      {array_of({text_block(""), text_block("  "), text_block("/compact")}), true},
      {array_of({std::string(image), text_block("/compact")}), true},
      {R"([{"type":"text","text":"/compact","annotations":{"priority":1}}])", true},
      {R"([{"text":"/compact","_meta":{"a":"b"},"type":"text"}])", true},
      {array_of({text_block("say /compact")}), false},
      {array_of({text_block("say"), text_block("/compact")}), false},
      {array_of({text_block("\\\\/compact")}), false},
      {R"([{"type":"resource_link","uri":"/home","name":"/n"}])", false},
      {R"([{"type":"resource","resource":{"uri":"u","text":"/compact"}}])", false},
      {R"([{"type":"image","text":"/compact"}])", false},
      {R"([{"type":"text","text":7},{"type":"text","text":"/compact"}])", true},
      {R"([{"type":7,"text":"/compact"}])", false},
      {R"(["/compact"])", false},
      {array_of({text_block("")}), false},
      {"[]", false},
      {"", false},
  }));
  CAPTURE(raw);
  CHECK(message_of(raw).is_command == is_command);
}

}  // namespace acp
