#include "proxy/core/fingerprint.h"

#include <algorithm>
#include <cstring>
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
  array = 'a',
  object = 'o',
  member = 'm',
  late = 'x'
};

class Hash {
 public:
  Hash(const Salt& salt, Domain domain) noexcept {
    crypto_generichash_init(&state_, salt.data(), salt.size(), sizeof(Fingerprint::bytes));
    const auto tag = static_cast<std::uint8_t>(domain);
    crypto_generichash_update(&state_, &tag, 1);
  }
  Hash& add(std::string_view bytes) noexcept {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    return *this;
  }
  Hash& add(const Fingerprint& print) noexcept {
    crypto_generichash_update(&state_, print.bytes.data(), print.bytes.size());
    return *this;
  }
  Hash& add(std::uint64_t number) noexcept {
    std::array<unsigned char, 8> bytes{};
    for (auto& byte : bytes) {
      byte = static_cast<unsigned char>(number & 0xFF);
      number >>= 8;
    }
    crypto_generichash_update(&state_, bytes.data(), bytes.size());
    return *this;
  }
  Fingerprint print() noexcept {
    Fingerprint result;
    crypto_generichash_final(&state_, result.bytes.data(), result.bytes.size());
    return result;
  }

 private:
  crypto_generichash_state state_;
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

}  // namespace

// Folds a value from its leaves up while the grammar is walked.
class Fingerprinter::Fold {
 public:
  explicit Fold(Fingerprinter& owner) noexcept : owner_(owner) {}

  void open(std::size_t /*at*/, bool object, std::size_t depth) noexcept {
    if (left_out()) return;
    if (leave_next_out_) {
      left_out_depth_ = depth;
      return;
    }
    owner_.open_.push_back({object, 0, {}, {}, owner_.members_.size()});
  }
  void close(std::size_t /*end*/, std::size_t depth) noexcept {
    if (left_out()) {
      if (depth != left_out_depth_) return;
      left_out_depth_ = 0;
      leave_next_out_ = false;
      return;
    }
    const Fingerprint print = close_top();
    take(print);
  }
  void key(std::string_view token, bool escaped, std::size_t depth) noexcept {
    if (left_out()) return;
    if (depth == 1) {
      const std::string_view name = decode_string(token, owner_.scratch_);
      leave_next_out_ = name == "idempotencyKey" || name == "_meta";
    }
    if (!leave_next_out_) owner_.open_.back().name = print_of_string(token, escaped);
  }
  void value(std::string_view token, bool escaped, std::size_t /*depth*/) noexcept {
    if (left_out()) return;
    if (leave_next_out_) {
      leave_next_out_ = false;
      return;
    }
    take(token.front() == '"' ? print_of_string(token, escaped) : print_of_scalar(token));
  }
  const Fingerprint& result() const noexcept { return result_; }

 private:
  bool left_out() const noexcept { return left_out_depth_ != 0; }

  // Piece by piece: a string of 64 MiB is not copied to be decoded.
  Fingerprint print_of_string(std::string_view token, bool escaped) noexcept {
    Hash hash(owner_.salt_, Domain::string);
    const std::string_view inside = token.substr(1, token.size() - 2);
    if (!escaped) return hash.add(inside).print();
    std::size_t done = 0;
    for (std::size_t at = find_backslash(inside, 0); at != std::string_view::npos;
         at = find_backslash(inside, done)) {
      hash.add(inside.substr(done, at - done));
      owner_.scratch_.clear();
      done = decode_escape(inside, at, owner_.scratch_);
      hash.add(std::string_view(owner_.scratch_));
    }
    return hash.add(inside.substr(done)).print();
  }

  Fingerprint print_of_scalar(std::string_view token) noexcept {
    const char first = token.front();
    const bool literal = first == 't' || first == 'f' || first == 'n';
    Hash hash(owner_.salt_, literal ? Domain::literal : Domain::number);
    return hash.add(literal ? token : canonical_number(token, owner_.scratch_)).print();
  }

  // A complete value goes into whatever it stands in.
  void take(const Fingerprint& print) noexcept {
    if (owner_.open_.empty()) {
      result_ = print;
      return;
    }
    Open& top = owner_.open_.back();
    if (!top.object) {
      top.chain = Hash(owner_.salt_, Domain::array).add(top.chain).add(print).print();
    } else if (owner_.members_.size() < limits::fingerprint_members_max) {
      owner_.members_.push_back({top.name, print, top.count});
    } else {
      top.chain = Hash(owner_.salt_, Domain::late).add(top.chain).add(top.name).add(print).print();
    }
    ++top.count;
  }

  Fingerprint close_top() noexcept {
    const Open top = owner_.open_.back();
    owner_.open_.pop_back();
    if (!top.object) return Hash(owner_.salt_, Domain::array).add(top.chain).add(top.count).print();
    auto& members = owner_.members_;
    const auto first = members.begin() + static_cast<std::ptrdiff_t>(top.first_member);
    std::sort(first, members.end(), [](const NamedValue& a, const NamedValue& b) {
      return a.name.bytes != b.name.bytes ? a.name.bytes < b.name.bytes : a.position < b.position;
    });
    Fingerprint sum;
    std::uint64_t copy = 0;
    for (auto member = first; member != members.end(); ++member) {
      copy = member != first && (member - 1)->name == member->name ? copy + 1 : 0;
      add_to(sum, Hash(owner_.salt_, Domain::member).add(member->name).add(copy).add(member->value).print());
    }
    members.erase(first, members.end());
    return Hash(owner_.salt_, Domain::object).add(sum).add(top.chain).add(top.count).print();
  }

  Fingerprinter& owner_;
  bool leave_next_out_ = false;
  std::size_t left_out_depth_ = 0;  // of the container that is being skipped; 0: none
  Fingerprint result_;
};

Fingerprint Fingerprinter::of(std::string_view params) noexcept {
  open_.clear();
  members_.clear();
  if (params.empty()) return {};
  const IndexFault fault = index_.index(params);
  INVARIANT(fault == IndexFault::none);  // the frame around it was checked before
  Fold fold(*this);
  const WalkFault walked = walk_json(params, index_, fold);
  INVARIANT(walked == WalkFault::none);
  return fold.result();
}

}  // namespace acp
