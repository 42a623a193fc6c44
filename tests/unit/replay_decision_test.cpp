// What a replay says of prompts whose answer was lost: every combination as a row.
#include "proxy/core/replay_decision.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace acp {
namespace {

// Letters name texts, words name ids; equal words are equal prints.
Fingerprint print_of(std::string_view word) {
  Fingerprint print;
  for (std::size_t i = 0; i < word.size(); ++i) print.bytes[i] = static_cast<std::uint8_t>(word[i]);
  return print;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string cut_flag(std::string& word, char flag) {
  if (word.empty() || word.back() != flag) return {};
  word.pop_back();
  return std::string(1, flag);
}

// `id:text@place`, text `?` if it is not known, `!` behind it if an answer gave it to a prompt.
std::vector<SeenMessage> seen_of(std::string_view text) {
  std::vector<SeenMessage> seen;
  for (std::string word : words_of(text)) {
    SeenMessage message;
    message.is_given = !cut_flag(word, '!').empty();
    const auto colon = word.find(':');
    const auto at = word.find('@');
    message.id = print_of(word.substr(0, colon));
    const std::string said = word.substr(colon + 1, at - colon - 1);
    message.is_content_known = said != "?";
    if (message.is_content_known) message.content = print_of(said);
    message.seen_at = std::stoull(word.substr(at + 1));
    seen.push_back(message);
  }
  return seen;
}

// `id:text`; first `unfinished` or `cut` if it is.
Replay replay_of(std::string_view text) {
  Replay replay;
  replay.is_finished = true;
  for (const std::string& word : words_of(text)) {
    if (word == "unfinished") {
      replay.is_finished = false;
    } else if (word == "cut") {
      replay.is_cut = true;
    } else {
      const auto colon = word.find(':');
      replay.messages.push_back(
          {print_of(word.substr(0, colon)), print_of(word.substr(colon + 1)), word.substr(0, colon)});
    }
  }
  return replay;
}

// `text@place`, `/text@place` for a command, `~` behind it if later ones may be there without it, `^` if its
// answer is awaited.
std::vector<LostPrompt> prompts_of(std::string_view text) {
  std::vector<LostPrompt> prompts;
  for (std::string word : words_of(text)) {
    LostPrompt prompt;
    prompt.is_live = !cut_flag(word, '^').empty();
    prompt.may_be_skipped = !cut_flag(word, '~').empty() || prompt.is_live;
    const auto at = word.find('@');
    prompt.is_command = word.front() == '/';
    prompt.content = print_of(word.substr(0, at));
    prompt.sent_at = std::stoull(word.substr(at + 1));
    prompts.push_back(prompt);
  }
  return prompts;
}

// The id for what was inserted, else the fate.
std::string in_short(const std::vector<LostPrompt>& prompts, const Replay& replay) {
  std::string out;
  for (const LostPrompt& prompt : prompts) {
    if (!out.empty()) out += ' ';
    switch (prompt.fate) {
      case PromptFate::unknown: out += "unknown"; break;
      case PromptFate::absent: out += "absent"; break;
      case PromptFate::inserted: out += replay.messages.at(prompt.message).token; break;
    }
  }
  return out;
}

struct Case {
  std::string_view name;
  bool is_complete;
  std::string_view seen;
  std::string_view replay;
  std::string_view prompts;
  std::string_view fates;
};

constexpr bool complete = true;
constexpr bool incomplete = false;

void check(const Case& row) {
  CAPTURE(row.name, row.seen, row.replay, row.prompts);
  const std::vector<SeenMessage> seen = seen_of(row.seen);
  const Replay replay = replay_of(row.replay);
  std::vector<LostPrompt> prompts = prompts_of(row.prompts);
  decide_prompts({seen, row.is_complete}, replay, prompts);
  CHECK(in_short(prompts, replay) == row.fates);
}

std::string fate_of(bool is_complete, std::string_view known, std::string_view shown, std::string_view lost,
                    std::string_view id, std::string_view content) {
  const std::vector<SeenMessage> seen = seen_of(known);
  const BaseLine base{seen, is_complete};
  const Replay replay = replay_of(shown);
  std::vector<LostPrompt> prompts = prompts_of(lost);
  decide_prompts(base, replay, prompts);
  switch (MessageJudge(base, replay, prompts).judge(print_of(id), print_of(content))) {
    case MessageFate::there: return "there";
    case MessageFate::gone: return "gone";
    case MessageFate::unknown: return "unknown";
  }
  return {};
}

}  // namespace

TEST_CASE("one lost prompt", "[replay_decision]") {
  const Case row = GENERATE(values<Case>({
      {"matched", complete, "m:A@1", "m:A x:B", "B@2", "x"},
      {"matched, the same text as before", complete, "m:A@1", "m:A x:A", "A@2", "x"},
      {"none", complete, "m:A@1", "m:A", "B@2", "absent"},
      {"none, the same text as before", complete, "m:A@1", "m:A", "A@2", "absent"},
      {"left over", complete, "m:A@1", "m:A x:C", "B@2", "unknown"},
      {"matched and one left over", complete, "m:A@1", "m:A x:B y:C", "B@2", "x"},
      {"the left over one comes first", complete, "m:A@1", "m:A y:C x:B", "B@2", "x"},
      {"blocks in another order are another text", complete, "m:A@1", "m:A x:BA", "AB@2", "unknown"},
      {"one there that does not tell its text", complete, "m:A@1", "m:A x:", "B@2", "unknown"},
      {"first prompt of a new session, there", complete, "", "x:A", "A@1", "x"},
      {"first prompt of a new session, not there", complete, "", "", "A@1", "absent"},
      {"first prompt of a new session, another is there", complete, "", "x:B", "A@1", "unknown"},
      {"no base-line, the same text", incomplete, "", "x:A", "A@1", "unknown"},
      {"no base-line, nothing there", incomplete, "", "", "A@1", "unknown"},
      {"no base-line, but something seen since", incomplete, "x:A@2", "x:A", "A@1", "unknown"},
      {"part of a base-line", incomplete, "m:?@1", "k:A l:B m:C x:A", "A@2", "x"},
      {"part of a base-line, none", incomplete, "m:?@1", "k:A l:B m:C", "A@2", "absent"},
      {"the base-line does not come back", complete, "m:A@1", "x:B", "B@2", "unknown"},
      {"the base-line does not come back, and nothing else", complete, "m:A@1", "", "B@2", "unknown"},
      {"not finished, there", complete, "m:A@1", "unfinished m:A x:B", "B@2", "unknown"},
      {"not finished, not there", complete, "m:A@1", "unfinished m:A", "B@2", "unknown"},
      {"no replay", complete, "", "unfinished", "B@1", "unknown"},
      {"cut, there", complete, "m:A@1", "cut m:A x:B", "B@2", "unknown"},
      {"cut, not there", complete, "m:A@1", "cut m:A", "B@2", "unknown"},
      {"cut, new session", complete, "", "cut", "B@1", "unknown"},
  }));
  check(row);
}

TEST_CASE("a lost prompt beside messages that were seen", "[replay_decision]") {
  const Case row = GENERATE(values<Case>({
      {"its echo was seen", complete, "m:A@1 x:B@3", "m:A x:B", "B@2", "x"},
      {"the echo of it was seen and its text not", complete, "m:A@1 x:?@3", "m:A x:B", "B@2", "x"},
      {"its echo was seen and is gone", complete, "m:A@1 x:B@3", "m:A", "B@2", "absent"},
      {"its echo is all that was ever seen", complete, "x:B@2", "x:B", "B@1", "x"},
      // Nothing that is known comes back: the replay may still come, or all ids are new.
      {"its echo is all that was seen, and nothing comes", complete, "x:B@2", "", "B@1", "unknown"},
      {"its echo is all that was seen, another id comes", complete, "x:B@2", "y:B", "B@1", "unknown"},
      {"another's echo was seen since", complete, "m:A@1 y:C@3", "m:A y:C", "B@2", "unknown"},
      {"given to another prompt", complete, "m:A@1 y:B@3!", "m:A y:B", "B@2", "absent"},
      {"given to another prompt before it was sent", complete, "m:B@1!", "m:B", "B@2", "absent"},
      {"given, and its own", complete, "m:A@1 y:B@3!", "m:A y:B x:B", "B@2", "x"},
      {"given, and its own before", complete, "m:A@1 y:B@3!", "m:A x:B y:B", "B@2", "x"},
      {"the given one is its only witness of a new session", complete, "y:C@2!", "y:C", "B@1", "absent"},
      {"a known message between unknown ones", incomplete, "m:A@3", "u:B m:A", "B@4", "absent"},
      {"the last known one counts", complete, "m:A@1 n:B@2", "m:A x:B n:B", "B@3", "absent"},
      {"known ones in another order", complete, "m:A@1 n:C@2", "n:C m:A x:B", "B@3", "x"},
      {"edited: the text of a known one is another", complete, "m:A@1 n:C@2", "m:A n:D x:B", "B@3", "x"},
      {"edited: a known one is gone", complete, "m:A@1 n:C@2", "m:A x:B", "B@3", "x"},
      {"edited: a known one is gone, none", complete, "m:A@1 n:C@2", "m:A", "B@3", "absent"},
      {"edited: its own text is another", complete, "m:A@1", "m:A x:D", "B@2", "unknown"},
      {"gone, with the same text: it may have a new id", complete, "m:A@1 n:B@2", "m:A x:B", "B@3",
       "unknown"},
      {"gone, with a text not known: it may have a new id", complete, "m:A@1 n:?@2", "m:A x:B", "B@3",
       "unknown"},
      {"gone, and no message to be it", complete, "m:A@1 n:B@2", "m:A", "B@3", "absent"},
      {"given later, gone, with the same text", complete, "m:A@1 n:B@3!", "m:A x:B", "B@2", "unknown"},
      {"given later, gone, with another text", complete, "m:A@1 n:C@3!", "m:A x:B", "B@2", "x"},
      {"all ids are new", complete, "m:A@1 n:B@2", "p:A q:B x:C", "C@3", "unknown"},
      {"all ids are new, none", complete, "m:A@1 n:B@2", "p:A q:B", "C@3", "unknown"},
      {"one id twice", complete, "m:A@1", "m:A x:B m:A", "B@2", "x"},
  }));
  check(row);
}

TEST_CASE("several lost prompts", "[replay_decision]") {
  const Case row = GENERATE(values<Case>({
      {"all there", complete, "m:M@1", "m:M x:A y:B z:C", "A@2 B@3 C@4", "x y z"},
      {"the first there", complete, "m:M@1", "m:M x:A", "A@2 B@3 C@4", "x absent absent"},
      {"none there", complete, "m:M@1", "m:M", "A@2 B@3 C@4", "absent absent absent"},
      {"one left over", complete, "m:M@1", "m:M x:A u:U", "A@2 B@3", "x unknown"},
      {"equal texts twice, both", complete, "m:M@1", "m:M x:A y:A", "A@2 A@3", "x y"},
      {"equal texts twice, the first", complete, "m:M@1", "m:M x:A", "A@2 A@3", "x absent"},
      {"equal texts twice, none", complete, "m:M@1", "m:M", "A@2 A@3", "absent absent"},
      {"equal texts three times, two", complete, "m:M@1", "m:M x:A y:A", "A@2 A@3 A@4", "x y absent"},
      {"equal texts twice, another between", complete, "m:M@1", "m:M x:A y:B", "A@2 B@3 A@4", "x y absent"},
      {"equal texts twice, three there", complete, "m:M@1", "m:M x:A y:A z:A", "A@2 A@3", "x y"},
      {"equal texts, one answered", complete, "m:M@1 x:A@4!", "m:M x:A", "A@2 A@3", "absent absent"},
      {"equal texts, one answered, one there", complete, "m:M@1 x:A@4!", "m:M x:A y:A", "A@2 A@3",
       "y absent"},
      // The second one was sent by a client that had seen the first.
      {"between them a message was seen", complete, "m:M@1 x:A@3", "m:M x:A y:A", "A@2 A@4", "x y"},
      {"between them a message was seen, none since", complete, "m:M@1 x:A@3", "m:M x:A", "A@2 A@4",
       "x absent"},
      {"between them another's message was seen", complete, "m:M@1 u:U@3", "m:M u:U", "A@2 B@4",
       "unknown absent"},
      {"no base-line for the first only", incomplete, "m:M@2", "l:A m:M x:B", "A@1 B@3", "unknown x"},
      {"no base-line for the first only, the same text", incomplete, "m:M@2", "m:M x:A", "A@1 A@3",
       "unknown unknown"},
      {"no base-line for the first only, none", incomplete, "m:M@2", "m:M", "A@1 A@3", "unknown absent"},
  }));
  check(row);
}

TEST_CASE("equal texts where an earlier one may be missing", "[replay_decision]") {
  const Case row = GENERATE(values<Case>({
      {"one there: whose is it?", complete, "m:M@1", "m:M x:A", "A@2~ A@3", "unknown unknown"},
      {"one there, in a new session", complete, "", "x:A", "A@1~ A@2", "unknown unknown"},
      {"both there", complete, "m:M@1", "m:M x:A y:A", "A@2~ A@3", "x y"},
      {"none there", complete, "m:M@1", "m:M", "A@2~ A@3", "absent absent"},
      {"only the last may be missing", complete, "m:M@1", "m:M x:A", "A@2 A@3~", "x absent"},
      {"the middle one of three", complete, "m:M@1", "m:M x:A y:A", "A@2 A@3~ A@4", "x unknown unknown"},
      {"another text is its own matter", complete, "m:M@1", "m:M x:A y:B", "A@2~ A@3 B@4 C@5",
       "unknown unknown y absent"},
      {"alone", complete, "m:M@1", "m:M x:A", "A@2~", "x"},
  }));
  check(row);
}

TEST_CASE("beside a prompt whose answer is awaited", "[replay_decision]") {
  const Case row = GENERATE(values<Case>({
      {"one there: whose is it?", complete, "m:M@1", "m:M x:A", "A@2~ A@3^", "unknown unknown"},
      {"both there", complete, "m:M@1", "m:M x:A y:A", "A@2~ A@3^", "x unknown"},
      {"none there", complete, "m:M@1", "m:M", "A@2~ A@3^", "absent unknown"},
      {"what may be its message explains nothing", complete, "m:M@1", "m:M x:A", "B@2~ A@3^",
       "unknown unknown"},
      {"alone", complete, "m:M@1", "m:M x:A", "A@2^", "unknown"},
  }));
  check(row);
}

TEST_CASE("commands are never absent", "[replay_decision]") {
  const Case row = GENERATE(values<Case>({
      {"none", complete, "m:M@1", "m:M", "/c@2", "unknown"},
      {"stored", complete, "m:M@1", "m:M x:/c", "/c@2", "x"},
      {"stored in other words", complete, "m:M@1", "m:M x:C", "/c@2 A@3", "unknown unknown"},
      {"beside a prompt that is there", complete, "m:M@1", "m:M x:A", "/c@2 A@3", "unknown x"},
      {"beside a prompt that is not", complete, "m:M@1", "m:M", "A@2 /c@3", "absent unknown"},
  }));
  check(row);
}

TEST_CASE("remembered messages", "[replay_decision]") {
  const auto [name, seen, replay, prompts, fate] = GENERATE(
      table<std::string_view, std::string_view, std::string_view, std::string_view, std::string_view>({
          {"there", "k:A@1!", "k:A", "", "there"},
          {"there with another text", "k:A@1!", "k:B", "", "there"},
          {"there in a replay that is not finished", "k:A@1!", "unfinished k:A", "", "there"},
          {"there in a cut one", "k:A@1!", "cut k:A", "", "there"},
          {"not there, not finished", "m:M@1 k:A@2!", "unfinished m:M", "", "unknown"},
          {"not there, cut", "m:M@1 k:A@2!", "cut m:M", "", "unknown"},
          {"gone", "m:M@1 k:A@2!", "m:M", "", "gone"},
          {"gone, another's is there", "m:M@1 k:A@2!", "m:M u:B", "", "gone"},
          {"gone, nothing known is there", "k:A@1!", "", "", "unknown"},
          {"gone, nothing known is there but others", "k:A@1!", "u:B", "", "unknown"},
          {"an unknown one says the same", "m:M@1 k:A@2!", "m:M u:A", "", "unknown"},
          {"of an unknown one nobody knows what it says", "m:M@1 k:A@2!", "m:M u:", "", "unknown"},
          {"one that says the same was given to another prompt", "m:M@1 k:A@2! u:A@3!", "m:M u:A", "",
           "gone"},
          // Seen in an earlier replay, it is still no other prompt's.
          {"one that says the same was seen later", "m:M@1 k:A@2! u:A@3", "m:M u:A", "", "unknown"},
          {"the only one that says the same was seen later", "k:A@1! u:A@2", "u:A", "", "unknown"},
          {"one that says the same was seen before", "m:M@1 u:A@2 k:A@3!", "m:M u:A", "", "unknown"},
          {"one that says the same is a lost prompt's", "m:M@1", "m:M u:A", "A@2", "gone"},
          {"as many as there are prompts for, if it has no new id", "m:M@1 k:A@2!", "m:M u:A", "A@3",
           "unknown"},
          {"the same, sent before it was answered", "m:M@1 k:A@3!", "m:M u:A", "A@2", "unknown"},
      }));
  CAPTURE(name, seen, replay, prompts);
  CHECK(fate_of(complete, seen, replay, prompts, "k", "A") == fate);
}

TEST_CASE("fates that were decided before are decided anew", "[replay_decision]") {
  const std::vector<SeenMessage> seen = seen_of("m:M@1");
  std::vector<LostPrompt> prompts = prompts_of("A@2");
  decide_prompts({seen, true}, replay_of("m:M x:A"), prompts);
  REQUIRE(prompts[0].fate == PromptFate::inserted);
  decide_prompts({seen, true}, replay_of("unfinished"), prompts);
  CHECK(prompts[0].fate == PromptFate::unknown);
  decide_prompts({seen, true}, replay_of("m:M"), prompts);
  CHECK(prompts[0].fate == PromptFate::absent);
}

}  // namespace acp
