#include "proxy/core/structural_index.h"

#include <algorithm>
#include <simdjson.h>

#include "proxy/core/limits.h"

// stage1() and structural_indexes are the implementation's own interface, stable since simdjson 1.0 but not
// promised.
static_assert(simdjson::SIMDJSON_VERSION_MAJOR == 3,
              "check that stage1() still fills structural_indexes as described in the header");

namespace acp {
namespace {

constexpr std::size_t usual_bytes = 128 * limits::kib;  // always kept
constexpr std::size_t large_bytes = 4 * limits::mib;    // kept while texts of that size keep coming
constexpr std::size_t idle_max = 256;
constexpr std::size_t depth_unused = 1;  // only the later stages nest

}  // namespace

StructuralIndex::StructuralIndex() = default;
StructuralIndex::~StructuralIndex() = default;

bool StructuralIndex::reserve(std::size_t bytes) noexcept {
  const std::size_t wanted = std::max(bytes, usual_bytes);
  if (!parser_) {
    return simdjson::get_active_implementation()->create_dom_parser_implementation(
               wanted, depth_unused, parser_) == simdjson::SUCCESS;
  }
  idle_ = bytes > usual_bytes ? 0 : idle_ + 1;
  const bool shrinks = parser_->capacity() > usual_bytes && bytes <= usual_bytes &&
                       (parser_->capacity() > large_bytes || idle_ > idle_max);
  if (parser_->capacity() >= bytes && !shrinks) return true;
  return parser_->set_capacity(wanted) == simdjson::SUCCESS;
}

IndexFault StructuralIndex::index(std::string_view text) noexcept {
  count_ = 0;
  if (text.empty()) return IndexFault::empty;
  if (!reserve(text.size())) return IndexFault::no_memory;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto error = parser_->stage1(bytes, text.size(), simdjson::stage1_mode::regular);
  switch (error) {
    case simdjson::SUCCESS: break;
    case simdjson::EMPTY: return IndexFault::empty;
    case simdjson::UTF8_ERROR: return IndexFault::not_utf8;
    default: return IndexFault::broken_string;
  }
  positions_ = parser_->structural_indexes.get();
  count_ = parser_->n_structural_indexes;
  return IndexFault::none;
}

}  // namespace acp
