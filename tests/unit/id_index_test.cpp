// From hashes to rows: equal hashes, gaps, growth.
#include "proxy/core/id_index.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

namespace acp {

TEST_CASE("rows of one hash are told apart, and found in the order in which they came", "[id_index]") {
  IdIndex index;
  const auto found = [&](std::uint64_t hash, auto matches) { return index.find(hash, matches); };
  const auto any = [](std::uint32_t) { return true; };
  CHECK(found(5, any) == IdIndex::none);
  for (std::uint32_t row = 1; row <= 3; ++row) index.add(5, row);
  index.add(6, 9);  // begins at the same place
  CHECK(found(5, any) == 1);
  for (std::uint32_t row = 1; row <= 3; ++row)
    CHECK(found(5, [row](std::uint32_t each) { return each == row; }) == row);
  CHECK(found(5, [](std::uint32_t row) { return row > 3; }) == IdIndex::none);
  CHECK(found(6, any) == 9);
  index.remove(5, 1);
  CHECK(found(5, any) == 2);
  index.remove(5, 3);
  index.remove(5, 2);
  CHECK(found(5, any) == IdIndex::none);
  CHECK(found(6, any) == 9);
}

}  // namespace acp
