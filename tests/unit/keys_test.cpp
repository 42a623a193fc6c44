// Which prompt a key names: scope, removal, and masks.
#include "proxy/core/keys.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/unit/random_json.h"

namespace acp {
namespace {

const rules::MethodFacts& facts_of(std::string_view method) {
  return rules::facts_of(rules::Sender::client, rules::MessageKind::request, method, rules::Version::v2);
}

KeyTable::Scope scope(std::uint32_t session, std::string_view key,
                      std::string_view method = "session/prompt") {
  return {session, &facts_of(method), method, SaltedHash(Salt{}, 'k').add(key).print(), key};
}

Fingerprint print(std::uint8_t first) {
  Fingerprint made;
  made.bytes[0] = first;
  return made;
}

std::string masked(const KeyTable& keys, std::string text) {
  keys.mask_keys(text);
  return text;
}

}  // namespace

TEST_CASE("a key names a prompt within its session and method", "[keys]") {
  KeyTable keys;
  KeyRow& row = keys.add(scope(3, "k"), print(1));
  CHECK((row.state == KeyState::pending));
  CHECK(row.print == print(1));
  CHECK(keys.find(scope(3, "k")) == &row);
  CHECK(keys.find(scope(2, "k")) == nullptr);
  CHECK(keys.find(scope(3, "K")) == nullptr);
  CHECK(keys.find(scope(3, "k ")) == nullptr);
  CHECK(keys.find(scope(3, "k", "_vendor/prompt")) == nullptr);
  KeyRow& vendor = keys.add(scope(3, "k", "_vendor/prompt"), print(2));
  CHECK(keys.find(scope(3, "k", "_vendor/prompt")) == &vendor);
  CHECK(keys.find(scope(3, "k", "_vendor/other")) == nullptr);
  CHECK(keys.find(scope(3, "k")) == &row);
  CHECK(&keys.at(vendor.row) == &vendor);
  CHECK(keys.size() == 2);
}

TEST_CASE("rows of one hash are told apart by everything that is hashed", "[keys]") {
  // hash = ((key ^ session) * odd ^ hash(name)) * odd, and odd can be divided by: any two scopes can be made
  // to collide.
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;
  std::uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  REQUIRE(inverse * odd == 1);
  const auto colliding = [&](std::uint32_t session, std::string_view method, std::uint8_t last) {
    const bool prompt = method == "session/prompt";
    const std::uint64_t name = std::hash<std::string_view>{}(prompt ? std::string_view{} : method);
    const std::uint64_t first = ((77 ^ name) * inverse) ^ session;
    Fingerprint hash;
    std::memcpy(hash.bytes.data(), &first, sizeof first);
    hash.bytes.back() = last;
    return KeyTable::Scope{session, &facts_of(method), method, hash, "k"};
  };
  KeyTable keys;
  std::vector<KeyTable::Scope> scopes;
  for (const std::uint32_t session : {1U, 2U}) {
    for (const std::string_view method : {"session/prompt", "session/new", "_a", "_b"}) {
      for (const std::uint8_t last : {std::uint8_t{3}, std::uint8_t{4}})
        scopes.push_back(colliding(session, method, last));
    }
  }
  std::vector<const KeyRow*> rows;
  for (const KeyTable::Scope& each : scopes) {
    CHECK(keys.find(each) == nullptr);
    rows.push_back(&keys.add(each, print(1)));
  }
  for (std::size_t i = 1; i < rows.size(); ++i) REQUIRE(rows[i]->hash == rows[0]->hash);
  for (const KeyTable::Scope& each : scopes) {
    const KeyRow* found = keys.find(each);
    REQUIRE(found != nullptr);
    CHECK(found->session == each.session);
    CHECK(found->key_hash == each.key_hash);
    CHECK(found->method == each.facts->id);
  }
}

TEST_CASE("a removed row is gone, and a fresh one takes its place", "[keys]") {
  KeyTable keys;
  KeyRow& row = keys.add(scope(0, "k"), print(1));
  row.state = KeyState::inserted;
  row.message_id = "\"m\"";
  row.first = 9;
  keys.remove(row);
  CHECK(keys.size() == 0);
  CHECK(keys.find(scope(0, "k")) == nullptr);
  KeyRow& again = keys.add(scope(0, "k"), print(2));
  CHECK((again.state == KeyState::pending));
  CHECK(again.message_id.empty());
  CHECK(again.first == Pending::no_row);
}

TEST_CASE("a session's settled keys end with it, its pending ones do not", "[keys]") {
  KeyTable keys;
  for (std::uint32_t session = 0; session < 4; ++session) {
    for (const std::string_view key : {"a", "b", "c", "d"}) {
      KeyRow& row = keys.add(scope(session, key), print(1));
      if (key != "b") row.state = key == "c" ? KeyState::unknown : KeyState::inserted;
    }
  }
  keys.remove_settled_of(2);
  keys.remove_settled_of(99);
  CHECK(keys.size() == 13);
  CHECK(keys.find(scope(2, "b")) != nullptr);
  for (const std::string_view key : {"a", "c", "d"}) {
    CHECK(keys.find(scope(2, key)) == nullptr);
    CHECK(keys.find(scope(1, key)) != nullptr);
    CHECK(keys.find(scope(3, key)) != nullptr);
  }
  keys.find(scope(2, "b"))->state = KeyState::inserted;
  keys.remove_settled_of(2);
  CHECK(keys.find(scope(2, "b")) == nullptr);
  CHECK(keys.size() == 12);
}

TEST_CASE("random operations agree with a map", "[keys]") {
  KeyTable keys;
  std::map<std::pair<std::uint32_t, std::string>, KeyRow*> model;
  test::Random random(7);
  for (int i = 0; i < 50'000; ++i) {
    const auto session = static_cast<std::uint32_t>(random.below(5));
    const std::string key = std::to_string(random.below(200));
    const auto known = model.find({session, key});
    REQUIRE(keys.find(scope(session, key)) == (known == model.end() ? nullptr : known->second));
    if (known == model.end()) {
      KeyRow& row = keys.add(scope(session, key), print(1));
      if (random.one_in(2)) row.state = KeyState::inserted;
      model[{session, key}] = &row;
    } else if (random.one_in(2)) {
      keys.remove(*known->second);
      model.erase(known);
    }
    if (random.one_in(500)) {
      keys.remove_settled_of(session);
      std::erase_if(model, [&](const auto& entry) {
        const KeyRow* row = keys.find(scope(entry.first.first, entry.first.second));
        if (row == nullptr) CHECK(entry.first.first == session);
        if (row != nullptr && entry.first.first == session) CHECK((row->state == KeyState::pending));
        return row == nullptr;
      });
    }
    REQUIRE(keys.size() == model.size());
  }
}

TEST_CASE("keys are masked wherever they stand", "[keys]") {
  const auto [known, text, expected] = GENERATE(table<std::vector<std::string>, std::string, std::string>({
      {{}, "nothing known", "nothing known"},
      {{"secret"}, "", ""},
      {{"secret"}, "a secret, secret", "a [key], [key]"},
      {{"secret"}, "secre", "secre"},
      {{"secret"}, "SECRET", "SECRET"},
      {{"abc", "abcdef"}, "x abcdef y abc z", "x [key] y [key] z"},
      {{"abcdef", "abc"}, "x abcdef y abc z", "x [key] y [key] z"},
      {{"abc", "cde"}, "abcde", "[key]"},
      {{"k", "e", "y"}, "monkey", "mon[key]"},
      {{"e", "[key]"}, "[key] e", "[key] [key]"},
      {{"aa"}, "aaa", "[key]"},
      {{"é"}, "café", "caf[key]"},
  }));
  KeyTable keys;
  std::uint32_t session = 0;
  for (const auto& key : known) keys.add(scope(session++, key), print(1));
  CHECK(masked(keys, text) == expected);
  while (session > 0) keys.remove(*keys.find(scope(session - 1, known[session - 1]))), --session;
  CHECK(masked(keys, text) == text);
}

}  // namespace acp
