// From an id to the rows that bear it: an open-addressed table of row numbers, made for one table's two id
// spaces.
//
// std::unordered_multimap would allocate a node for each open request; this allocates only when it grows.
// Invariant: at most seven tenths full; removal closes the gap, so there are no tombstones and a lookup ends
// at the first empty place. Rows with equal ids are found in the order in which they were added. Lifetime:
// owned by PendingTable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proxy/core/invariant.h"

namespace acp {

class IdIndex {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  void add(std::uint64_t hash, std::uint32_t row) {
    if (places_.empty() || (used_ + 1) * 10 > places_.size() * 7) grow();
    insert({hash, row});
    ++used_;
  }

  // The first row with this hash for which `matches(row)` holds, or none.
  template <class Matches>
  std::uint32_t find(std::uint64_t hash, Matches matches) const {
    if (places_.empty()) return none;
    for (std::size_t at = home(hash); places_[at].row != none; at = next(at)) {
      if (places_[at].hash == hash && matches(places_[at].row)) return places_[at].row;
    }
    return none;
  }

  void remove(std::uint64_t hash, std::uint32_t row) noexcept {
    INVARIANT(used_ > 0);
    std::size_t hole = home(hash);
    while (places_[hole].row != row) {
      INVARIANT(places_[hole].row != none);
      hole = next(hole);
    }
    // Move back whatever a later lookup would no longer reach across the hole.
    for (std::size_t at = next(hole); places_[at].row != none; at = next(at)) {
      if (distance(home(places_[at].hash), at) >= distance(hole, at)) {
        places_[hole] = places_[at];
        hole = at;
      }
    }
    places_[hole] = Place{};
    --used_;
  }

 private:
  struct Place {
    std::uint64_t hash = 0;
    std::uint32_t row = none;
  };
  static constexpr std::size_t places_first = 64;

  std::size_t home(std::uint64_t hash) const noexcept { return (hash >> 7) & (places_.size() - 1); }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (places_.size() - 1); }
  std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return (to - from) & (places_.size() - 1);
  }

  void insert(Place place) noexcept {
    std::size_t at = home(place.hash);
    while (places_[at].row != none) at = next(at);
    places_[at] = place;
  }

  void grow() {
    std::vector<Place> former(places_.empty() ? places_first : places_.size() * 2);
    former.swap(places_);
    // From the first gap on, so that rows with equal ids keep their order across the end of the table.
    std::size_t start = 0;
    while (start < former.size() && former[start].row != none) ++start;
    for (std::size_t i = 0; i < former.size(); ++i) {
      const Place& place = former[(start + i) % former.size()];
      if (place.row != none) insert(place);
    }
  }

  std::vector<Place> places_;
  std::size_t used_ = 0;
};

}  // namespace acp
