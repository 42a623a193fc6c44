// Whose a request on a shared link is: by its id there, by its edge's, and the oldest of too many.
#include "proxy/core/hop_ids.h"

#include <catch2/catch.hpp>
#include <string>

#include "proxy/core/limits.h"

namespace acp {
namespace {

class Ids {
 public:
  void add(Course course, std::string_view edge, std::string_view link) { ids.add(course, edge, link); }
  // The id on the link of an edge's request, or "none".
  std::string link_of(Course course, std::string_view edge) {
    const HopIds::Row* row = ids.by_edge_id(course, read_id(edge, scratch_));
    return row == nullptr ? "none" : row->link_id;
  }
  // The edge's id of what stands on the link, or "none".
  std::string edge_of(std::string_view link) {
    const HopIds::Row* row = ids.by_link_id(read_id(link, scratch_));
    return row == nullptr ? "none" : row->edge_id;
  }
  std::string take(std::string_view link) {
    HopIds::Row row;
    if (!ids.take(read_id(link, scratch_), row)) return "none";
    return std::string(row.course == Course::plain ? "plain " : "wrapped ") + row.edge_id + " " + row.link_id;
  }
  HopIds ids;

 private:
  std::string scratch_;
};

TEST_CASE("ids of both courses, by value and not by spelling", "[hop_ids]") {
  Ids at;
  CHECK(at.edge_of("1") == "none");
  CHECK(at.take("1") == "none");
  at.add(Course::plain, "1", "1");
  at.add(Course::wrapped, "1", "\"own-1\"");
  at.add(Course::wrapped, "\"1\"", "\"1\"");
  at.add(Course::plain, "null", "null");
  CHECK(at.ids.size() == 4);
  CHECK(at.link_of(Course::plain, "1.0") == "1");
  CHECK(at.link_of(Course::wrapped, "1") == "\"own-1\"");
  CHECK(at.link_of(Course::wrapped, R"("\u0031")") == "\"1\"");
  CHECK(at.link_of(Course::plain, "\"1\"") == "none");
  CHECK(at.link_of(Course::wrapped, "null") == "none");
  CHECK(at.edge_of(R"("\u006fwn-1")") == "1");
  CHECK(at.edge_of("\"own-2\"") == "none");
  CHECK(at.take("\"own-1\"") == "wrapped 1 \"own-1\"");
  CHECK(at.take("\"own-1\"") == "none");
  CHECK(at.link_of(Course::wrapped, "1") == "none");
  CHECK(at.link_of(Course::plain, "1") == "1");
  CHECK(at.take("null") == "plain null null");
  CHECK(at.ids.size() == 2);
}

TEST_CASE("a row that left is used again, in any order of leaving", "[hop_ids]") {
  const auto order =
      GENERATE(values<std::string>({"012", "021", "102", "120", "201", "210"}));  // which leaves when
  Ids at;
  for (int round = 0; round < 3; ++round) {
    for (const char id : {'0', '1', '2'}) at.add(Course::plain, std::string(1, id), std::string(1, id));
    for (std::size_t left = 0; left < order.size(); ++left) {
      const std::string id(1, order[left]);
      CHECK(at.take(id) == "plain " + id + " " + id);
      CHECK(at.ids.size() == 2 - left);
    }
  }
}

TEST_CASE("what is open is told a person, the oldest few of it", "[hop_ids]") {
  Ids at;
  const auto told = [&] {
    std::string out = "to it ";
    at.ids.describe(out);
    return out;
  };
  CHECK(told() == "to it 0");
  at.add(Course::plain, "7", "7");
  CHECK(told() == "to it 1 (7)");
  at.add(Course::wrapped, "7", "\"k-1\"");
  CHECK(told() == "to it 2 (7, 7 as \"k-1\" in an envelope)");
  at.take("7");
  const std::string half(60, 'x');
  at.add(Course::plain, half + half, half + half);
  CHECK(told() == "to it 2 (7 as \"k-1\" in an envelope, " + half + ")");
  for (int id = 0; id < 6; ++id) at.add(Course::plain, std::to_string(id), std::to_string(id));
  CHECK(told().ends_with(", 4, 5)"));
  at.add(Course::plain, "6", "6");
  CHECK(told().ends_with(", 4, 5, ...)"));
}

TEST_CASE("of too many open requests the oldest is forgotten", "[hop_ids]") {
  Ids at;
  for (std::size_t id = 0; id < limits::pending_max; ++id)
    at.add(Course::wrapped, std::to_string(id), std::to_string(id));
  CHECK(at.ids.size() == limits::pending_max);
  CHECK(at.take("1") == "wrapped 1 1");
  at.add(Course::plain, "\"a\"", "\"a\"");
  CHECK(at.edge_of("0") == "0");
  at.add(Course::plain, "\"b\"", "\"b\"");
  CHECK(at.edge_of("0") == "none");
  CHECK(at.edge_of("2") == "2");
  at.add(Course::plain, "\"c\"", "\"c\"");
  CHECK(at.edge_of("2") == "none");
  CHECK(at.take("\"c\"") == "plain \"c\" \"c\"");
  CHECK(at.ids.size() == limits::pending_max - 1);
}

}  // namespace
}  // namespace acp
