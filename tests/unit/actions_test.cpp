// The list of actions, and the memory of what a step makes.
#include "proxy/core/actions.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/arena.h"

namespace acp {
namespace {

constexpr LinkId agent{2};

std::vector<std::string> sends_of(const Actions& actions) {
  std::vector<std::string> texts;
  for (const Action& action : actions.list()) {
    if (const auto* send = std::get_if<Send>(&action)) texts.emplace_back(send->bytes);
  }
  return texts;
}

}  // namespace

TEST_CASE("sends of bytes that lie side by side are one", "[actions]") {
  const std::string bytes = "one\ntwo\nthree\n";
  const std::string_view view = bytes;
  Actions actions;
  actions.send(agent, view.substr(0, 4));
  actions.send(agent, view.substr(4, 4));
  CHECK(sends_of(actions) == std::vector<std::string>{"one\ntwo\n"});
  actions.send(client_link, view.substr(8));
  CHECK(sends_of(actions) == std::vector<std::string>{"one\ntwo\n", "three\n"});
  actions.send(agent, view.substr(8));
  actions.send(agent, view.substr(0, 4));
  CHECK(sends_of(actions) == std::vector<std::string>{"one\ntwo\n", "three\n", "three\n", "one\n"});
}

TEST_CASE("another action between two sends keeps them apart", "[actions]") {
  const std::string_view view = "one\ntwo\n";
  Actions actions;
  actions.send(agent, view.substr(0, 4));
  actions.log(LogLevel::info, "between");
  actions.send(agent, view.substr(4));
  REQUIRE(actions.list().size() == 3);
  CHECK(std::get<Log>(actions.list()[1]).text == "between");
  CHECK(sends_of(actions) == std::vector<std::string>{"one\n", "two\n"});
}

TEST_CASE("nothing is sent for no bytes", "[actions]") {
  Actions actions;
  actions.send(agent, {});
  actions.send_copy(agent, "");
  CHECK(actions.empty());
}

TEST_CASE("copies outlive their source, and join", "[actions]") {
  Actions actions;
  std::string source = "first ";
  actions.send_copy(agent, source);
  source = "second";
  actions.send_copy(agent, source);
  source = "xxxxxx";
  CHECK(sends_of(actions) == std::vector<std::string>{"first second"});
  actions.clear();
  CHECK(actions.empty());
  actions.send_copy(agent, "third");
  CHECK(sends_of(actions) == std::vector<std::string>{"third"});
}

TEST_CASE("views into the arena stay until it is reset", "[actions]") {
  Arena arena;
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 400; ++i) {
      texts.emplace_back(i % 50 == 0 ? 100'000 + i : i * 7 % 900, static_cast<char>('a' + i % 26));
      views.push_back(arena.add(texts.back()));
    }
    for (std::size_t i = 0; i < texts.size(); ++i) REQUIRE((views[i] == texts[i]));
    texts.clear();
    views.clear();
    arena.reset();
  }
}

}  // namespace acp
