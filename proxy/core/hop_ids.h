// Which edge an open request on a hop's link belongs to, and what its id is there.
//
// Two edges share one link (hop.h), so a request of either may bear an id that the other has open: on the
// link it then gets one of keyhop's own. Invariant: ids on the link are unique among the rows; a row leaves
// with its answer, or as the oldest of a full table (somebody does not answer: what comes then is taken for
// plain). Bounded by limits::pending_max. Lifetime: of the link; a Row* is valid until the next call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/id_index.h"
#include "proxy/core/request_id.h"

namespace acp {

// How the frames of an edge travel on a hop's link: as they are (the edge to the predecessor), or inside
// `proxy/successor` (the edge to the successor).
enum class Course : std::uint8_t { plain, wrapped };

class HopIds {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Row {
    Course course = Course::plain;
    std::string edge_id = {};  // raw token, as the edge knows it
    std::string link_id = {};  // raw token, as it stands on the link
    std::uint32_t older = none;
    std::uint32_t newer = none;
  };

  // A request is written or read. `link_token` is not open (by_link_id() says so).
  void add(Course course, std::string_view edge_token, std::string_view link_token);
  // The open request with this id, or null.
  const Row* by_link_id(const IdView& id);
  const Row* by_edge_id(Course course, const IdView& id);
  // It is answered: its row is copied and leaves. False if there is none.
  bool take(const IdView& link_id, Row& taken);
  std::size_t size() const noexcept { return rows_.size() - free_.size(); }
  // How many are open and, for a person, which: the oldest few, each as the edge has it and as it is on the
  // link. "2 (7, \"a1\" as \"k-1\" in an envelope)"
  void describe(std::string& out) const;

 private:
  static std::uint64_t edge_hash(Course course, const IdView& id) noexcept;
  std::uint32_t find_link(const IdView& id);
  void remove(std::uint32_t row);

  std::vector<Row> rows_;
  std::vector<std::uint32_t> free_;
  IdIndex by_link_;
  IdIndex by_edge_;
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
  std::string scratch_;
};

}  // namespace acp
