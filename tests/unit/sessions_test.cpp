// Sessions have rows, up to a limit.
#include "proxy/core/sessions.h"

#include <catch2/catch.hpp>
#include <string>

#include "proxy/core/limits.h"

namespace acp {

TEST_CASE("a session has one row for ever", "[sessions]") {
  SessionTable sessions;
  CHECK(sessions.find("a") == SessionTable::none);
  const std::uint32_t a = sessions.intern("a");
  const std::uint32_t b = sessions.intern("b");
  const std::uint32_t empty = sessions.intern("");
  CHECK(a != b);
  CHECK(sessions.intern("a") == a);
  CHECK(sessions.find("b") == b);
  CHECK(sessions.find("a") == a);
  CHECK(sessions.find("") == empty);
  CHECK(sessions.find("A") == SessionTable::none);
  CHECK(sessions.find(std::string("a\0", 2)) == SessionTable::none);
  CHECK(sessions.size() == 3);
  CHECK(sessions.at(a).id == "a");
  CHECK((sessions.at(a).state == SessionState::mentioned));
}

TEST_CASE("addresses of rows stay", "[sessions]") {
  SessionTable sessions;
  Session& first = sessions.at(sessions.intern("first"));
  for (int i = 0; i < 5000; ++i) sessions.intern("s" + std::to_string(i));
  CHECK(&sessions.at(sessions.find("first")) == &first);
  for (int i = 0; i < 5000; ++i)
    REQUIRE(sessions.at(sessions.find("s" + std::to_string(i))).id == "s" + std::to_string(i));
}

TEST_CASE("what does not fit is not tracked", "[sessions]") {
  SessionTable sessions;
  const std::string longest(limits::session_id_bytes_max, 'x');
  CHECK(sessions.intern(longest) != SessionTable::none);
  CHECK(sessions.intern(longest + "x") == SessionTable::none);
  CHECK(sessions.find(longest + "x") == SessionTable::none);
  for (std::size_t i = 1; i < limits::sessions_max; ++i) {
    REQUIRE(sessions.intern(std::to_string(i)) != SessionTable::none);
  }
  CHECK(sessions.intern("one more") == SessionTable::none);
  CHECK(sessions.intern("1") != SessionTable::none);
  CHECK(sessions.size() == limits::sessions_max);
}

}  // namespace acp
