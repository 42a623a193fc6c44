// The user messages of a session, as answers, updates and replays tell of them.
#include "proxy/core/history.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/padded.h"

namespace acp {
namespace {

constexpr Salt salt{3, 1, 4};

Fingerprint print_of(std::uint64_t number) { return SaltedHash(salt, 'i').add(number).print(); }

std::string text_block(std::string_view text) {
  return R"({"type":"text","text":")" + std::string(text) + "\"}";
}

// A history and what it is told.
class Told {
 public:
  SessionHistory history;

  static Fingerprint content_of(std::string_view text) {
    return content_of_blocks("[" + text_block(text) + "]");
  }
  static Fingerprint content_of_blocks(std::string_view raw) {
    ContentReader reader;
    Fingerprinter prints(salt);
    const test::Padded padded(raw);
    return reader.of_prompt(padded.view(), prints).content;
  }

  void chunk(std::uint64_t id, std::string_view text) { see(id, text_block(text), true); }
  void whole(std::uint64_t id, std::string_view text) { see(id, "[" + text_block(text) + "]", false); }
  void see(std::uint64_t id, std::string_view raw, bool is_chunk) {
    const test::Padded padded(raw);
    history.see_content(print_of(id), raw.empty() ? raw : padded.view(), is_chunk, reader_, prints_);
  }
  void replay_chunk(std::uint64_t id, std::string_view text) { replay(id, text_block(text), true); }
  void replay_whole(std::uint64_t id, std::string_view text) {
    replay(id, "[" + text_block(text) + "]", false);
  }
  void replay(std::uint64_t id, std::string_view raw, bool is_chunk) {
    const test::Padded padded(raw);
    history.read_content(std::to_string(id), print_of(id), raw.empty() ? raw : padded.view(), is_chunk,
                         reader_, prints_);
  }
  // The one message of that id.
  const SeenMessage& message(std::uint64_t id) {
    const SeenMessage* found = nullptr;
    for (const SeenMessage& seen : history.seen()) {
      if (seen.id != print_of(id)) continue;
      CHECK(found == nullptr);
      found = &seen;
    }
    REQUIRE(found != nullptr);
    return *found;
  }
  bool says(std::uint64_t id, std::string_view text) {
    return message(id).is_content_known && message(id).content == content_of(text);
  }

 private:
  ContentReader reader_;
  Fingerprinter prints_{salt};
};

}  // namespace

TEST_CASE("history: places are used once", "[history]") {
  Told told;
  CHECK(told.history.next_place() == 1);
  told.whole(1, "a");
  CHECK(told.message(1).seen_at == 2);
  CHECK(told.history.next_place() == 3);
  told.history.shift(10);  // an earlier run's come first
  told.history.add_older({{.id = print_of(9), .seen_at = 10}});
  CHECK(told.history.seen().front().id == print_of(9));
  CHECK(told.history.next_place() == 14);
  told.whole(1, "b");  // known: no new place
  CHECK(told.message(1).seen_at == 12);
  told.history.reset();
  CHECK(told.history.seen().empty());
  CHECK(told.history.next_place() == 15);
}

TEST_CASE("history: a message is seen once, and more may be known of it later", "[history]") {
  Told told;
  SessionHistory& history = told.history;
  const Fingerprint a = Told::content_of("a");
  const Fingerprint b = Told::content_of("b");
  history.see(print_of(1), nullptr, false);
  CHECK_FALSE(told.message(1).is_content_known);
  const auto save = [&] { history.seen().front().saved = Saved::already(); };
  save();
  history.see(print_of(1), nullptr, false);
  CHECK(bool(told.message(1).saved));  // nothing new
  history.see(print_of(1), &a, false);
  CHECK(told.says(1, "a"));
  CHECK_FALSE(bool(told.message(1).saved));
  save();
  history.see(print_of(1), &a, false);
  CHECK(bool(told.message(1).saved));
  history.see(print_of(1), &b, false);
  CHECK(told.says(1, "b"));
  CHECK_FALSE(bool(told.message(1).saved));
  save();
  history.see(print_of(1), nullptr, true);
  CHECK(told.message(1).is_given);
  CHECK(told.says(1, "b"));
  CHECK_FALSE(bool(told.message(1).saved));
  save();
  history.see(print_of(1), &b, false);  // given stays given
  CHECK(told.message(1).is_given);
  CHECK(bool(told.message(1).saved));
  history.see(print_of(1), &a, false);
  CHECK(told.message(1).is_given);
  CHECK(told.says(1, "a"));
  CHECK(told.message(1).seen_at == 1);
}

TEST_CASE("history: live messages, whole and in chunks", "[history]") {
  Told told;
  SECTION("chunks append") {
    told.chunk(1, "a");
    CHECK(told.says(1, "a"));
    told.chunk(1, "b");
    told.chunk(1, "c");
    CHECK(told.says(1, "abc"));
  }
  SECTION("a whole one replaces, chunks append to it") {
    told.chunk(1, "a");
    told.whole(1, "b");
    CHECK(told.says(1, "b"));
    told.chunk(1, "c");
    CHECK(told.says(1, "bc"));
    told.whole(1, "d");
    CHECK(told.says(1, "d"));
  }
  SECTION("one without content tells nothing of it") {
    told.see(1, "", false);
    CHECK_FALSE(told.message(1).is_content_known);
    told.whole(1, "a");
    told.see(1, "", false);
    told.see(1, "", true);
    CHECK(told.says(1, "a"));
  }
  SECTION("the echo in chunks after the answer") {
    const Fingerprint content = Told::content_of("abc");
    told.history.see(print_of(1), &content, true);
    told.chunk(1, "a");
    told.chunk(1, "bc");
    CHECK(told.says(1, "abc"));
    CHECK(told.message(1).is_given);
  }
  SECTION("the answer between the chunks") {
    const Fingerprint content = Told::content_of("abc");
    told.chunk(1, "a");
    told.history.see(print_of(1), &content, true);
    told.chunk(1, "bc");
    CHECK(told.says(1, "abc"));
    CHECK(told.message(1).is_given);
  }
  SECTION("the next message begins anew") {
    told.chunk(1, "a");
    told.chunk(2, "b");
    told.chunk(2, "c");
    CHECK(told.says(1, "a"));
    CHECK(told.says(2, "bc"));
  }
  SECTION("chunks of two, one between the other: the last one is not the first message") {
    told.chunk(1, "a");
    told.chunk(2, "b");
    told.chunk(1, "c");
    CHECK_FALSE(told.says(1, "c"));
    CHECK(told.says(2, "b"));
  }
}

TEST_CASE("history: chunks that are shown again are not appended", "[history]") {
  Told told;
  SECTION("live, another message between the two showings") {
    told.chunk(1, "a");
    told.chunk(2, "b");
    told.chunk(1, "a");
    told.chunk(2, "b");
    CHECK(told.says(1, "a"));
    CHECK(told.says(2, "b"));
  }
  SECTION("live, nothing between the two showings") {
    const Fingerprint content = Told::content_of("ab");
    told.chunk(1, "a");
    told.chunk(1, "b");
    told.history.see(print_of(1), &content, true);
    told.chunk(1, "a");
    told.chunk(1, "b");
    CHECK(told.says(1, "ab"));
  }
  SECTION("in a replay with live ones in it") {
    told.history.begin_replay();
    told.replay_chunk(1, "a");
    told.replay_chunk(2, "b");
    told.replay_chunk(1, "a");
    told.replay_chunk(2, "b");
    const Replay replay = *told.history.end_replay();
    REQUIRE(replay.messages.size() == 2);
    for (const ReplayedMessage& message : replay.messages) CHECK(message.content == Fingerprint{});
  }
}

TEST_CASE("history: a replay that contradicts what an answer told makes the content unknown", "[history]") {
  Told told;
  const Fingerprint content = Told::content_of("a");
  told.history.see(print_of(1), &content, true);
  told.history.seen().front().saved = Saved::already();
  const auto read = [&](std::string_view text) {
    told.history.begin_replay();
    told.replay_whole(1, text);
    told.history.learn(*told.history.end_replay());
  };
  read("a");
  CHECK(told.says(1, "a"));
  CHECK(bool(told.message(1).saved));
  read("b");
  CHECK_FALSE(told.message(1).is_content_known);
  CHECK_FALSE(bool(told.message(1).saved));
  read("b");
  CHECK(told.says(1, "b"));
  CHECK(told.message(1).is_given);
}

TEST_CASE("history: news since a place", "[history]") {
  Told told;
  told.whole(1, "a");
  const std::uint64_t place = told.history.next_place();
  CHECK_FALSE(told.history.has_news_since(place));
  told.history.see(print_of(2), nullptr, true);
  CHECK_FALSE(told.history.has_news_since(place));  // it is somebody's answer
  told.whole(1, "b");
  CHECK_FALSE(told.history.has_news_since(place));
  told.whole(3, "c");
  CHECK(told.history.has_news_since(place));
}

TEST_CASE("history: too many messages, the oldest are forgotten", "[history]") {
  Told told;
  SessionHistory& history = told.history;
  history.set_complete(true);
  for (std::uint64_t i = 1; i <= limits::seen_messages_max; ++i) history.see(print_of(i), nullptr, false);
  CHECK(history.is_complete());
  CHECK(history.base_line().is_complete);
  CHECK_FALSE(history.take_trimmed());
  CHECK(history.base_line().seen.size() == limits::seen_messages_max);
  history.see(print_of(1), nullptr, true);  // known: no room needed
  CHECK(history.is_complete());

  history.see(print_of(0), nullptr, false);
  CHECK_FALSE(history.is_complete());
  CHECK(history.seen().size() == limits::seen_messages_max / 2 + 1);
  CHECK(history.seen().front().id == print_of(limits::seen_messages_max / 2 + 1));
  CHECK(history.seen().back().id == print_of(0));
  CHECK(history.take_trimmed());
  CHECK_FALSE(history.take_trimmed());
}

TEST_CASE("history: a replay is read beside what was seen", "[history]") {
  Told told;
  SessionHistory& history = told.history;
  told.whole(1, "a");
  CHECK_FALSE(history.is_reading());
  CHECK_FALSE(history.is_finished());
  history.note_finished();
  CHECK_FALSE(history.end_replay());

  history.begin_replay();
  CHECK(history.is_reading());
  CHECK_FALSE(history.is_finished());
  told.replay_whole(1, "a");
  told.replay_chunk(2, "b");
  told.replay_chunk(2, "c");
  told.replay_chunk(3, "d");
  told.replay_whole(1, "e");  // its content as it is now
  told.replay(4, "", false);
  CHECK(history.seen().size() == 1);
  history.note_finished();
  CHECK(history.is_finished());
  const std::optional<Replay> replay = history.end_replay();
  CHECK_FALSE(history.is_reading());
  CHECK_FALSE(history.is_finished());
  CHECK_FALSE(history.end_replay());
  REQUIRE(replay);
  CHECK(replay->proves());
  REQUIRE(replay->messages.size() == 4);
  CHECK(replay->messages[0].id == print_of(1));
  CHECK(replay->messages[0].token == "1");
  CHECK(replay->messages[0].content == Told::content_of("e"));
  CHECK(replay->messages[1].content == Told::content_of("bc"));
  CHECK(replay->messages[2].content == Told::content_of("d"));
  CHECK(replay->messages[3].id == print_of(4));

  history.learn(*replay);
  CHECK(history.seen().size() == 4);
  CHECK(told.says(1, "e"));
  CHECK(told.says(2, "bc"));
  CHECK(told.message(1).seen_at == 1);
  CHECK(told.message(2).seen_at < told.message(3).seen_at);
  CHECK_FALSE(told.message(2).is_given);
}

TEST_CASE("history: what a replay does not say is not learned", "[history]") {
  Told told;
  told.whole(1, "a");
  told.history.begin_replay();
  told.replay(1, "", false);
  told.replay(2, "", false);
  told.history.learn(*told.history.end_replay());
  CHECK(told.says(1, "a"));
  CHECK_FALSE(told.message(2).is_content_known);
}

TEST_CASE("history: the last chunk of a message is not the message", "[history]") {
  Told told;
  told.history.begin_replay();
  told.replay_chunk(1, "a");
  told.replay_chunk(2, "b");
  told.replay_chunk(1, "c");
  told.replay_chunk(1, "d");
  const Replay replay = *told.history.end_replay();
  REQUIRE(replay.messages.size() == 2);
  for (const std::string_view text : {"a", "c", "d", "cd", ""})
    CHECK(replay.messages[0].content != Told::content_of(text));
  CHECK(replay.messages[1].content == Told::content_of("b"));
  told.history.learn(replay);
  CHECK_FALSE(told.message(1).is_content_known);
}

TEST_CASE("history: chunks of a replay do not go on with live ones, nor the other way", "[history]") {
  Told told;
  told.chunk(1, "a");
  told.history.begin_replay();
  told.replay_chunk(1, "b");
  const Replay replay = *told.history.end_replay();
  CHECK(replay.messages[0].content == Told::content_of("b"));
  told.chunk(1, "c");
  CHECK(told.says(1, "a"));
}

TEST_CASE("history: chunks of a message that was begun without a text do not tell what it says",
          "[history]") {
  Told told;
  told.history.begin_replay();
  told.replay(1, "", false);
  told.replay_chunk(1, "a");
  const Replay replay = *told.history.end_replay();
  REQUIRE(replay.messages.size() == 1);
  CHECK(replay.messages[0].content == Fingerprint{});
}

TEST_CASE("history: a replay that is begun again forgets the first", "[history]") {
  Told told;
  told.history.begin_replay();
  told.replay_whole(1, "a");
  told.history.note_finished();
  told.history.begin_replay();
  CHECK_FALSE(told.history.is_finished());
  told.replay_whole(2, "b");
  const Replay replay = *told.history.end_replay();
  REQUIRE(replay.messages.size() == 1);
  CHECK(replay.messages[0].id == print_of(2));
  CHECK_FALSE(replay.proves());
}

TEST_CASE("history: a replay of too many messages is cut, its youngest are kept", "[history]") {
  SessionHistory history;
  ContentReader reader;
  Fingerprinter prints(salt);
  history.begin_replay();
  const auto show = [&](std::uint64_t id) {
    Fingerprint print;
    std::memcpy(print.bytes.data(), &id, sizeof id);
    history.read_content("\"m\"", print, {}, false, reader, prints);
    return print;
  };
  // Looked for from the youngest on, so that a new one is compared with all: hence no more than needed.
  Fingerprint last;
  for (std::uint64_t id = 1; id <= limits::replayed_messages_max + 1; ++id) last = show(id);
  const std::optional<Replay> replay = history.end_replay();
  REQUIRE(replay);
  CHECK(replay->is_cut);
  CHECK(replay->messages.size() == limits::replayed_messages_max / 2 + 1);
  CHECK(replay->messages.back().id == last);
}

TEST_CASE("history: a new session of an old name", "[history]") {
  Told told;
  told.history.set_complete(true);
  told.chunk(1, "a");
  told.history.begin_replay();
  told.history.reset();
  CHECK_FALSE(told.history.is_reading());
  CHECK_FALSE(told.history.is_complete());
  CHECK(told.history.seen().empty());
  told.chunk(1, "b");
  CHECK(told.says(1, "b"));
  CHECK(told.message(1).seen_at == 2);
}

}  // namespace acp
