#include "proxy/core/fingerprint.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <sodium.h>

#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/json_walk.h"
#include "proxy/core/limits.h"

namespace acp {
namespace {

// One domain for each kind of value, so that no two kinds can meet.
enum class Domain : std::uint8_t {
  string = 's',
  number = 'n',
  literal = 'l',
  container = 'c',  // a print stands for it
  array = 'a',
  object = 'o',
  member = 'm',
  copy = 'd',  // a further member of the same name
  late = 'x',  // members beyond those that can be sorted
};

// a + b modulo 2^128, little endian.
void add_to(Fingerprint& sum, const Fingerprint& more) noexcept {
  unsigned carry = 0;
  for (std::size_t i = 0; i < sum.bytes.size(); ++i) {
    carry += static_cast<unsigned>(sum.bytes[i]) + more.bytes[i];
    sum.bytes[i] = static_cast<std::uint8_t>(carry & 0xFF);
    carry >>= 8;
  }
}

class Hash : public SaltedHash {
 public:
  // `salted`: a hash that has seen nothing but the salt; to copy it is cheaper than to salt another.
  Hash(const SaltedHash& salted, Domain domain) noexcept : SaltedHash(salted) { add(domain); }
  using SaltedHash::add;
  Hash& add(Domain domain) noexcept {
    add_tag(static_cast<char>(domain));
    return *this;
  }
};

}  // namespace

struct Fingerprinter::Open {
  bool object;
  std::uint64_t count = 0;
  std::uint64_t name = 0;             // of the member whose value comes next
  std::size_t first_member = 0;       // where this object's members begin in members_
  std::optional<Hash> elements = {};  // array: its elements so far; object: members too late to be sorted
  std::optional<Hash> member = {};    // object: the name of the member whose value comes next
};

Fingerprinter::Fingerprinter(const Salt& salt) noexcept : salt_(salt), salted_(salt) {}
Fingerprinter::~Fingerprinter() = default;

// Folds a value from its leaves up while the grammar is walked. A scalar costs one hash together with its
// name.
class Fingerprinter::Fold {
 public:
  Fold(Fingerprinter& owner, Leaves leaves) noexcept : owner_(owner), leaves_(leaves) {}

  void open(std::size_t /*at*/, bool object, std::size_t depth) noexcept {
    if (left_out()) return;
    if (leave_next_out_) {
      left_out_depth_ = depth;
      return;
    }
    owner_.open_.push_back({.object = object, .first_member = owner_.members_.size()});
    if (!object) owner_.open_.back().elements.emplace(owner_.salted_, Domain::array);
  }
  void close(std::size_t /*end*/, std::size_t depth) noexcept {
    if (left_out()) {
      if (depth != left_out_depth_) return;
      left_out_depth_ = 0;
      leave_next_out_ = false;
      return;
    }
    const Fingerprint print = close_top();
    if (owner_.open_.empty()) {
      result_ = print;
    } else {
      take([&](Hash& hash) { hash.add(Domain::container).add(print); });
    }
  }
  void key(std::string_view token, bool /*escaped*/, std::size_t depth) noexcept {
    if (left_out()) return;
    const std::string_view name = decode_string(token, owner_.scratch_);
    leave_next_out_ = leaves_ == Leaves::out_meta_and_null
                          ? name == "_meta"
                          : depth == 1 && (name == "idempotencyKey" || name == "_meta");
    if (leave_next_out_) return;
    Open& top = owner_.open_.back();
    top.name = std::hash<std::string_view>{}(name);
    top.member.emplace(owner_.salted_, Domain::member);
    top.member->add(std::uint64_t{name.size()}).add(name);
  }
  void value(std::string_view token, bool escaped, std::size_t /*depth*/) noexcept {
    if (left_out()) return;
    if (leave_next_out_) {
      leave_next_out_ = false;
      return;
    }
    if (leaves_ == Leaves::out_meta_and_null && token == "null" && !owner_.open_.empty() &&
        owner_.open_.back().object)
      return;
    if (owner_.open_.empty()) {
      Hash hash(owner_.salted_, Domain::array);
      add_scalar(hash, token, escaped);
      result_ = hash.print();
    } else {
      take([&](Hash& hash) { add_scalar(hash, token, escaped); });
    }
  }
  const Fingerprint& result() const noexcept { return result_; }

 private:
  bool left_out() const noexcept { return left_out_depth_ != 0; }

  // A complete value goes into whatever it stands in.
  template <class AddValue>
  void take(AddValue add_value) noexcept {
    Open& top = owner_.open_.back();
    ++top.count;
    if (!top.object) {
      Hash hash(owner_.salted_, Domain::container);
      add_value(hash);
      top.elements->add(hash.print());
      return;
    }
    add_value(*top.member);
    const Fingerprint print = top.member->print();
    if (owner_.members_.size() < limits::fingerprint_members_max) {
      owner_.members_.push_back({top.name, top.count, print});
    } else {
      if (!top.elements) top.elements.emplace(owner_.salted_, Domain::late);
      top.elements->add(print);
    }
  }

  void add_scalar(Hash& hash, std::string_view token, bool escaped) noexcept {
    const char first = token.front();
    if (first == '"') {
      add_string(hash.add(Domain::string), token, escaped);
    } else if (first == 't' || first == 'f' || first == 'n') {
      hash.add(Domain::literal).add(token);
    } else {
      hash.add(Domain::number).add(canonical_number(token, owner_.scratch_));
    }
  }

  // Piece by piece: a string of 64 MiB is not copied to be decoded. It comes last in its hash, so its length
  // is clear.
  void add_string(Hash& hash, std::string_view token, bool escaped) noexcept {
    const std::string_view inside = token.substr(1, token.size() - 2);
    std::size_t done = 0;
    std::size_t at = escaped ? find_backslash(inside, 0) : std::string_view::npos;
    while (at != std::string_view::npos) {
      hash.add(inside.substr(done, at - done));
      owner_.scratch_.clear();
      done = decode_escape(inside, at, owner_.scratch_);
      hash.add(std::string_view(owner_.scratch_));
      at = find_backslash(inside, done);
    }
    hash.add(inside.substr(done));
  }

  Fingerprint close_top() noexcept {
    Open& top = owner_.open_.back();
    const Fingerprint print = top.object ? print_object(top) : top.elements->add(top.count).print();
    owner_.open_.pop_back();
    return print;
  }
  Fingerprint print_object(Open& top) noexcept {
    Hash object(owner_.salted_, Domain::object);
    object.add(sum_members(top.first_member)).add(top.count);
    if (top.elements) object.add(top.elements->print());
    return object.print();
  }

  // The sum does not depend on their order; of members with one name the n-th counts as the n-th.
  Fingerprint sum_members(std::size_t first_member) noexcept {
    auto& members = owner_.members_;
    const auto first = members.begin() + static_cast<std::ptrdiff_t>(first_member);
    std::sort(first, members.end(), [](const MemberPrint& a, const MemberPrint& b) {
      return a.name != b.name ? a.name < b.name : a.position < b.position;
    });
    Fingerprint sum;
    std::uint64_t copy = 0;
    for (auto member = first; member != members.end(); ++member) {
      copy = member != first && (member - 1)->name == member->name ? copy + 1 : 0;
      add_to(sum, copy == 0 ? member->print
                            : Hash(owner_.salted_, Domain::copy).add(copy).add(member->print).print());
    }
    members.erase(first, members.end());
    return sum;
  }

  Fingerprinter& owner_;
  Leaves leaves_;
  bool leave_next_out_ = false;
  std::size_t left_out_depth_ = 0;  // of the container that is being skipped; 0: none
  Fingerprint result_;
};

Fingerprint Fingerprinter::of(std::string_view params) noexcept {
  return fold(params, Leaves::out_key_and_meta);
}

Fingerprint Fingerprinter::of_content(std::string_view value) noexcept {
  return fold(value, Leaves::out_meta_and_null);
}

Fingerprint Fingerprinter::fold(std::string_view text, Leaves leaves) noexcept {
  open_.clear();
  members_.clear();
  if (text.empty()) return {};
  const IndexFault fault = index_.index(text);
  INVARIANT(fault == IndexFault::none);  // the frame around it was checked before
  Fold fold(*this, leaves);
  const WalkFault walked = walk_json(text, index_, fold);
  INVARIANT(walked == WalkFault::none);
  return fold.result();
}

}  // namespace acp
