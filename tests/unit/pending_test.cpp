// The table of open requests against a plain model.
#include "proxy/core/pending.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/random_json.h"

namespace acp {
namespace {

IdView id_of(const std::string& token, std::string& scratch) { return read_id(token, scratch); }

Pending& add(PendingTable& table, const std::string& token) {
  std::string scratch;
  return table.add(token, id_of(token, scratch));
}

void wire(PendingTable& table, Pending& pending, const std::string& token) {
  std::string scratch;
  table.set_wire_id(pending, token, id_of(token, scratch));
}

Pending* by_sender(PendingTable& table, const std::string& token) {
  std::string scratch;
  return table.by_sender_id(id_of(token, scratch));
}

Pending* by_wire(PendingTable& table, const std::string& token) {
  std::string scratch;
  return table.by_wire_id(id_of(token, scratch));
}

// What the table should hold, in order of arrival.
struct Row {
  std::string sender;  // empty once nobody waits
  std::string wire;    // empty while it has none
  Pending* pending;
};

class Model {
 public:
  void run(std::uint64_t seed, std::size_t operations, std::size_t usual_size) {
    test::Random random(seed);
    for (std::size_t i = 0; i < operations; ++i) {
      const std::size_t choice = random.below(10);
      const bool grows = rows_.size() < usual_size ? choice < 6 : choice < 4;
      if (grows || rows_.empty()) {
        add_row(random);
      } else if (choice == 9) {
        forget_row(pick(random));
      } else {
        remove_row(pick(random));
      }
      check_some(random);
      if (i % 1000 == 0) check_all();
    }
    check_all();
    while (!rows_.empty()) remove_row(pick(random));
    REQUIRE(table_.empty());
    REQUIRE(table_.oldest() == nullptr);
  }

 private:
  using At = std::list<Row>::iterator;

  At pick(test::Random& random) {
    // Often the newest or the oldest, else one found by its id.
    if (random.one_in(3)) return rows_.begin();
    if (random.one_in(3)) return std::prev(rows_.end());
    auto at = by_wire_.lower_bound(std::to_string(random.below(500'000)));
    return at == by_wire_.end() ? rows_.begin() : at->second;
  }
  void add_row(test::Random& random) {
    // Few sender ids, so that many are equal; wire ids are unique.
    const std::string sender =
        random.one_in(2) ? std::to_string(random.below(50)) : "\"" + std::to_string(random.below(50)) + "\"";
    Pending& pending = add(table_, sender);
    rows_.push_back({sender, {}, &pending});
    const At at = std::prev(rows_.end());
    by_sender_[sender].push_back(&pending);
    if (random.one_in(5)) return;
    at->wire = std::to_string(next_wire_++ * 7919 % 500'009);
    if (by_wire_.count(at->wire) != 0) {
      at->wire.clear();
      return;
    }
    wire(table_, pending, at->wire);
    by_wire_[at->wire] = at;
  }
  void forget_id(const Row& row) {
    auto& same = by_sender_[row.sender];
    same.erase(std::find(same.begin(), same.end(), row.pending));
  }
  void remove_row(At at) {
    if (!at->sender.empty()) forget_id(*at);
    if (!at->wire.empty()) by_wire_.erase(at->wire);
    table_.remove(*at->pending);
    rows_.erase(at);
  }
  void forget_row(At at) {
    if (at->sender.empty()) return;
    forget_id(*at);
    at->sender.clear();
    table_.forget_sender(*at->pending);
  }
  void check_some(test::Random& random) {
    const std::string number = std::to_string(random.below(50));
    for (const std::string& token : {number, "\"" + number + "\""}) {
      const auto& same = by_sender_[token];
      REQUIRE(by_sender(table_, token) == (same.empty() ? nullptr : same.front()));
    }
    const std::string token = std::to_string(random.below(500'009));
    const auto found = by_wire_.find(token);
    REQUIRE(by_wire(table_, token) == (found == by_wire_.end() ? nullptr : found->second->pending));
    REQUIRE(table_.size() == rows_.size());
  }
  void check_all() {
    Pending* pending = table_.oldest();
    for (const Row& row : rows_) {
      REQUIRE(pending == row.pending);
      REQUIRE(pending->sender_id == row.sender);
      REQUIRE(pending->wire_id == row.wire);
      REQUIRE(&table_.at(pending->row) == pending);
      if (!row.wire.empty()) REQUIRE(by_wire(table_, row.wire) == pending);
      pending = table_.after(*pending);
    }
    REQUIRE(pending == nullptr);
  }

  PendingTable table_;
  std::list<Row> rows_;
  std::map<std::string, std::vector<Pending*>> by_sender_;  // in order of arrival
  std::map<std::string, At> by_wire_;
  std::size_t next_wire_ = 1;
};

}  // namespace

TEST_CASE("random operations agree with a model", "[pending]") {
  const auto [seed, operations, size] = GENERATE(
      table<std::uint64_t, std::size_t, std::size_t>({{1, 60'000, 40}, {2, 30'000, 300}, {3, 10'000, 3000}}));
  Model().run(seed, operations, size);
}

TEST_CASE("the oldest of equal ids is found, in order", "[pending]") {
  PendingTable table;
  std::vector<Pending*> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back(&add(table, "\"same\""));
  for (int i = 0; i < 500; ++i) add(table, std::to_string(i));
  for (Pending* row : rows) {
    REQUIRE(by_sender(table, "\"s\\u0061me\"") == row);
    table.remove(*row);
  }
  CHECK(by_sender(table, "\"same\"") == nullptr);
  CHECK(table.size() == 500);
}

TEST_CASE("ids are found by value, not by spelling", "[pending]") {
  PendingTable table;
  Pending& number = add(table, "1.0");
  Pending& text = add(table, "\"1\"");
  Pending& null = add(table, "null");
  wire(table, number, "10e-1");
  CHECK(by_sender(table, "1") == &number);
  CHECK(by_sender(table, "\"\\u0031\"") == &text);
  CHECK(by_sender(table, "null") == &null);
  CHECK(by_wire(table, "1") == &number);
  CHECK(by_wire(table, "\"1\"") == nullptr);
  CHECK(number.sender_id == "1.0");
  CHECK(number.wire_id == "10e-1");
}

TEST_CASE("a row that is used again is a fresh one", "[pending]") {
  PendingTable table;
  Pending& first = add(table, "1");
  wire(table, first, "2");
  first.state = PendingState::cancelling;
  first.session = 4;
  first.key = 5;
  first.first = 6;
  first.next_waiter = first.last_waiter = 7;
  first.session_updates = 8;
  table.remove(first);
  Pending& second = add(table, "3");
  CHECK(&second == &first);
  CHECK((second.state == PendingState::sent));
  CHECK(second.wire_id.empty());
  CHECK(second.session == Pending::no_row);
  CHECK(second.key == Pending::no_row);
  CHECK(second.first == Pending::no_row);
  CHECK(second.next_waiter == Pending::no_row);
  CHECK(second.last_waiter == Pending::no_row);
  CHECK(second.session_updates == 0);
  CHECK(by_sender(table, "1") == nullptr);
  CHECK(by_wire(table, "2") == nullptr);
}

TEST_CASE("a row whose sender waits no more keeps its wire id and frees its sender's", "[pending]") {
  PendingTable table;
  Pending& first = add(table, "1");
  wire(table, first, "1");
  table.forget_sender(first);
  table.forget_sender(first);  // there is nothing more to forget
  CHECK(by_sender(table, "1") == nullptr);
  CHECK(by_wire(table, "1") == &first);
  Pending& second = add(table, "1");
  CHECK(by_sender(table, "1") == &second);
  table.remove(first);
  CHECK(by_wire(table, "1") == nullptr);
  CHECK(by_sender(table, "1") == &second);
  CHECK(table.oldest() == &second);
}

TEST_CASE("the table is full at its limit", "[pending]") {
  PendingTable table;
  for (std::size_t i = 0; i < limits::pending_max; ++i) {
    REQUIRE_FALSE(table.full());
    add(table, std::to_string(i));
  }
  CHECK(table.full());
  table.remove(*by_sender(table, "77"));
  CHECK_FALSE(table.full());
}

}  // namespace acp
