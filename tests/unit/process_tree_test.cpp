#include "proxy/shell/process_tree.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "proxy/shell/launcher.h"

namespace acp::shell {
namespace {

constexpr pid_t reaper = 50;
constexpr pid_t agent = 100;

ProcessInfo process(pid_t pid, pid_t parent, pid_t session, bool alive = true, std::uint64_t started = 10) {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  info.session = session;
  info.alive = alive;
  info.started = started;
  return info;
}

std::vector<pid_t> pids(const ProcessList& all) {
  std::vector<pid_t> result;
  for (const ProcessInfo& info : all) result.push_back(info.pid);
  return result;
}

using Pids = std::vector<pid_t>;
using Snapshot = ProcessList;

struct Judged {
  Pids living;
  Pids daemons;
};

Judged judge(ProcessTree& tree, const Snapshot& all) {
  tree.update(all);
  return {pids(tree.living()), pids(tree.daemons())};
}

ProcessTree::Roots roots() {
  ProcessTree::Roots result;
  result.agent = agent;
  result.agent_started = 10;
  result.reaper = reaper;
  return result;
}

}  // namespace

TEST_CASE("a stat line is taken apart whatever the process calls itself") {
  ProcessInfo info;
  const std::string rest = " S 7 42 43 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1";
  const auto [name, line] = GENERATE_COPY(table<std::string, std::string>({
      {"sh", "42 (sh)" + rest},
      {"a) R 1 1", "42 (a) R 1 1)" + rest},
      {"((", "42 (()" + rest},
      {"x\ny z", "42 (x\ny z)" + rest},
      {"", "42 ()" + rest},
  }));
  REQUIRE(parse_process_stat(line.data(), line.size(), info));
  CHECK(info.pid == 42);
  CHECK(info.parent == 7);
  CHECK(info.session == 43);
  CHECK(info.started == 98765);
  CHECK(info.alive);
  if (name != "((") CHECK(std::string(info.name) == name);
  for (std::size_t size = 0; size < line.find(" 98765"); ++size) {
    CHECK(!parse_process_stat(line.data(), size, info));  // torn anywhere
  }
}

TEST_CASE("a zombie is not alive, but a process whose first thread ended is") {
  ProcessInfo info;
  const auto [text, alive] = GENERATE(table<std::string, bool>({
      {"42 (x) Z 7 42 43 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 1", false},
      {"42 (x) Z 7 42 43 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 5 1", true},
      {"42 (x) X 7 42 43 0 -1 0 0 0 0 0 0 0 0 0 20 0 0 0 5 1", false},
      {"42 (x) D 7 42 43 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 1", true},
  }));
  REQUIRE(parse_process_stat(text.data(), text.size(), info));
  CHECK(info.alive == alive);
}

TEST_CASE("who belongs to an epoch") {
  ProcessTree tree(roots());
  SECTION("the session and all descendants, in whatever session") {
    const Judged judged = judge(tree, {process(1, 0, 1), process(reaper, 1, reaper),
                                       process(agent, reaper, agent), process(101, agent, agent),
                                       process(102, 101, 102), process(103, 102, 103), process(200, 1, 200)});
    CHECK(judged.living == Pids{agent, 101, 102, 103});
    CHECK(judged.daemons.empty());
  }
  SECTION("an orphan that leads its session, with its session and descendants") {
    const Judged judged =
        judge(tree, {process(1, 0, 1), process(reaper, 1, reaper), process(110, reaper, 110),
                     process(111, 110, 110), process(112, reaper, 110), process(113, 111, 113)});
    CHECK(judged.living == Pids{110, 111, 112, 113});
  }
  SECTION("an orphan whose session leader is gone is a daemon, and so is what it starts") {
    const Judged judged =
        judge(tree, {process(1, 0, 1), process(reaper, 1, reaper), process(agent, reaper, agent),
                     process(121, reaper, 120), process(122, 121, 122)});
    CHECK(judged.living == Pids{agent});
    CHECK(judged.daemons == Pids{121});
  }
  SECTION("the same while nobody has waited for the leader yet") {
    const Judged judged =
        judge(tree, {process(1, 0, 1), process(reaper, 1, reaper), process(agent, reaper, agent),
                     process(120, agent, 120, false), process(121, reaper, 120)});
    CHECK(judged.living == Pids{agent});
    CHECK(judged.daemons == Pids{121});
  }
  SECTION("an orphan in the agent's session is no daemon though the agent is gone") {
    const Judged judged =
        judge(tree, {process(1, 0, 1), process(reaper, 1, reaper), process(130, reaper, agent)});
    CHECK(judged.living == Pids{130});
  }
  SECTION("zombies do not count") {
    const Judged judged =
        judge(tree, {process(1, 0, 1), process(reaper, 1, reaper), process(agent, reaper, agent, false),
                     process(120, reaper, 120, false), process(121, reaper, 120)});
    CHECK(judged.living.empty());
    CHECK(judged.daemons == Pids{121});
  }
}

TEST_CASE("who once belonged belongs until it is gone") {
  ProcessTree tree(roots());
  judge(tree, {process(reaper, 1, reaper), process(agent, reaper, agent), process(110, agent, 110),
               process(111, 110, 110), process(112, 111, 112)});
  // The helper 110 died of its TERM: its worker looks like a daemon now, its grandchild like a stranger's.
  const Judged judged =
      judge(tree, {process(reaper, 1, reaper), process(111, reaper, 110), process(112, reaper, 112)});
  CHECK(judged.living == Pids{111, 112});
  CHECK(judged.daemons.empty());
  // The same pid with another start time is another process.
  const Judged later = judge(tree, {process(reaper, 1, reaper), process(111, 1, 90, true, 11)});
  CHECK(later.living.empty());
}

TEST_CASE("a number that came again names a stranger") {
  ProcessTree tree(roots());
  SECTION("the agent's pid") {
    CHECK(judge(tree, {process(reaper, 1, reaper), process(agent, 1, 90, true, 99)}).living.empty());
  }
  SECTION("the agent's session, outside of the watchdog's tree") {
    CHECK(judge(tree, {process(1, 0, 1), process(reaper, 1, reaper), process(agent, 1, agent, true, 99),
                       process(140, agent, agent)})
              .living.empty());
  }
}

TEST_CASE("after a watchdog was killed only what started after the agent counts") {
  ProcessTree::Roots shared = roots();
  shared.reaper_is_shared = true;
  ProcessTree tree(shared);
  ProcessInfo other_watchdog = process(170, reaper, 170, true, 20);
  std::snprintf(other_watchdog.name, sizeof other_watchdog.name, "%s", watchdog_name);
  const Judged judged =
      judge(tree, {process(reaper, 1, 1), process(60, reaper, 60, true, 5), process(agent, reaper, agent),
                   process(150, reaper, 150, true, 12), process(161, reaper, 160, true, 13), other_watchdog});
  CHECK(judged.living == Pids{agent, 150});
  CHECK(judged.daemons == Pids{161});
}

}  // namespace acp::shell
