#include "proxy/core/hop.h"

#include <algorithm>
#include <array>

#include "proxy/core/beginning.h"
#include "proxy/core/invariant.h"
#include "proxy/core/json_token.h"
#include "proxy/core/limits.h"
#include "proxy/core/own_error.h"
#include "rules/methods.h"

namespace acp {
namespace {

using rules::MethodId;

MethodId id_of(std::string_view method) noexcept {
  const auto rows = rules::rows_of(method);
  return rows.empty() ? MethodId::other : rows.front().id;
}

}  // namespace

// ---- what the peer wrote ----

Hop::Taken Hop::take(const Frame& frame) {
  if (misasked_) return {.fate = Fate::dropped};
  if (frame.kind == FrameKind::oversize) return take_oversize(frame);
  scanner_.scan(frame.text, envelope_);
  if (envelope_.fault != FrameFault::none) return pass(Course::plain, frame);
  const Shape shape = envelope_.shape();
  if (shape == Shape::response) return take_answer(frame);
  if (shape == Shape::nothing) return pass(Course::plain, frame);
  return take_message(frame, shape);
}

// Only its beginning is there; the edge that it belongs to settles what it was.
Hop::Taken Hop::take_oversize(const Frame& frame) {
  const Beginning beginning = read_beginning(frame.text);
  const IdView id = read_id(beginning.id, scratch_);
  if (beginning.is_answer() && id.usable() && asked_.take(id, row_)) {
    if (row_.link_id == initialize_id_) end_initialize();
    built_.assign(R"({"jsonrpc":"2.0")");
    append_member(built_, "id", row_.edge_id);
    append_member(built_, "result", "null");
    Frame told = finish_built();
    told.kind = FrameKind::oversize;
    return pass(row_.course, told);
  }
  std::string method;
  const bool wrapped = !beginning.method.empty() &&
                       id_of(decode_string(beginning.method, method)) == MethodId::proxy_successor;
  return pass(wrapped ? Course::wrapped : Course::plain, frame);
}

Hop::Taken Hop::take_message(const Frame& frame, Shape shape) {
  switch (id_of(decode_string(envelope_.raw(Slot::method), scratch_))) {
    case MethodId::proxy_successor: return take_successor(shape);
    case MethodId::proxy_initialize: return take_initialize(frame, true);
    case MethodId::initialize: return take_initialize(frame, false);
    case MethodId::cancel_request: return take_cancel(frame);
    case MethodId::elicitation_create: return take_elicitation(Course::plain, frame);
    default: break;
  }
  if (shape == Shape::request) note_heard(Course::plain);
  return pass(Course::plain, frame);
}

void Hop::note_heard(Course course) {
  const std::string_view token = envelope_.raw(Slot::id);
  const IdView id = read_id(token, scratch_);
  // An id that is open already is the peer's fault; that edge sorts it out.
  if (id.usable() && heard_.by_link_id(id) == nullptr) heard_.add(course, token, token);
}

bool Hop::is_sound_successor() const noexcept {
  const Member& method = envelope_.member(Slot::params_method);
  const Member& params = envelope_.member(Slot::params_params);
  const bool has_params = envelope_.has(Slot::params_params);
  return envelope_.has_version() && !envelope_.has_duplicates() && method.type == ValueType::string &&
         method.copies <= 1 && params.copies <= 1 &&
         (!has_params || params.type == ValueType::object || params.type == ValueType::array ||
          params.type == ValueType::null);
}

// The inner method and params stand side by side in the envelope's params; what is not named here (`_meta`)
// is for this hop only (ACP).
Hop::Taken Hop::take_successor(Shape shape) {
  if (!is_sound_successor()) {
    return refuse(
        shape, code::invalid_params, "malformed_successor",
        "proxy/successor needs params.method, a string, and at most one params.params, an object or an "
        "array.");
  }
  const bool is_prefixed = decode_string(envelope_.raw(Slot::method), scratch_).starts_with('_');
  const std::string_view inner = envelope_.raw(Slot::params_method);
  switch (id_of(decode_string(inner, scratch_))) {
    case MethodId::proxy_initialize:
      // A component that takes it for any message of its predecessor's passes it on.
      if (end_ == HopEnd::conductor && !initialize_id_.empty() && ask_otherwise(Try::refused))
        return {.fate = Fate::misasked};
      [[fallthrough]];
    case MethodId::proxy_successor:
      return refuse(shape, code::invalid_request, "not_a_conductor",
                    "Only a conductor sends proxy/initialize; a successor's successor is not its business.");
    case MethodId::cancel_request:
      // Superseded: it belongs on the link itself. But SDKs of the older spelling know no other way.
      return is_prefixed ? take_wrapped_cancel() : Taken{.fate = Fate::dropped};
    default: break;
  }
  if (shape == Shape::request) note_heard(Course::wrapped);
  built_.assign(R"({"jsonrpc":)").append(envelope_.raw(Slot::jsonrpc));
  append_member(built_, "id", envelope_.raw(Slot::id));
  append_member(built_, "method", inner);
  const bool has_params = envelope_.member(Slot::params_params).type != ValueType::null;
  if (has_params) append_member(built_, "params", envelope_.raw(Slot::params_params));
  built_ += '}';
  const Frame carried = finish_built();
  scanner_.scan(carried.text, envelope_);
  if (id_of(decode_string(envelope_.raw(Slot::method), scratch_)) == MethodId::elicitation_create)
    return take_elicitation(Course::wrapped, carried);
  return pass(Course::wrapped, carried);
}

// A component is told its role by the method. A conductor is not to be initialized by its components.
Hop::Taken Hop::take_initialize(const Frame& frame, bool is_of_proxies) {
  const Shape shape = envelope_.shape();
  if (end_ == HopEnd::conductor && is_of_proxies) {
    return refuse(
        shape, code::invalid_request, "not_a_component",
        "A component reaches its successor through proxy/successor; it does not send proxy/initialize.");
  }
  if (end_ == HopEnd::component && !is_of_proxies) {
    return refuse(shape, code::invalid_request, "no_agent",
                  "keyhop was started without an agent, as a component of a conductor: it waits for "
                  "proxy/initialize. To run it in front of an agent: keyhop -- AGENT");
  }
  if (shape == Shape::request) note_heard(Course::plain);
  if (end_ == HopEnd::conductor) return pass(Course::plain, frame);
  spelling_ = decode_string(envelope_.raw(Slot::method), scratch_).starts_with('_') ? Spelling::prefixed
                                                                                    : Spelling::current;
  std::array<Splice, 1> splices{{{Slot::method, R"("initialize")"}}};
  splice(splices);
  return pass(Course::plain, finish_built());
}

// It names a request by its id on the link, so its course is that request's.
Hop::Taken Hop::take_cancel(const Frame& frame) {
  const IdView id = read_id(envelope_.raw(Slot::params_request_id), scratch_);
  const HopIds::Row* row = id.usable() ? heard_.by_link_id(id) : nullptr;
  return row == nullptr ? Taken{.fate = Fate::dropped} : pass(row->course, frame);
}

// It names a request by its id on the link all the same.
Hop::Taken Hop::take_wrapped_cancel() {
  built_.assign(R"({"jsonrpc":)").append(envelope_.raw(Slot::jsonrpc));
  append_member(built_, "method", R"("$/cancel_request")");
  append_member(built_, "params", envelope_.raw(Slot::params_params));
  built_ += '}';
  const Frame unwrapped = finish_built();
  scanner_.scan(unwrapped.text, envelope_);
  return take_cancel(unwrapped);
}

// A request-scoped elicitation names a request of keyhop's by its id on the link (ACP).
Hop::Taken Hop::take_elicitation(Course course, const Frame& frame) {
  if (course == Course::plain && envelope_.shape() == Shape::request) note_heard(course);
  const IdView id = read_id(envelope_.raw(Slot::params_request_id), scratch_);
  const HopIds::Row* row = id.usable() ? asked_.by_link_id(id) : nullptr;
  if (row == nullptr || row->edge_id == row->link_id) return pass(course, frame);
  std::array<Splice, 1> splices{{{Slot::params_request_id, row->edge_id}}};
  splice(splices);
  return pass(course, finish_built());
}

Hop::Taken Hop::take_answer(const Frame& frame) {
  const IdView id = read_id(envelope_.raw(Slot::id), scratch_);
  if (!id.usable() || !asked_.take(id, row_)) return pass(Course::plain, frame);
  if (row_.link_id == initialize_id_) {
    const std::string_view code = envelope_.raw(Slot::error_code);
    const bool is_refusal = code == "-32601" || code == "-32600";
    if (is_refusal && ask_otherwise(Try::refused)) return {.fate = Fate::misasked};
    if (envelope_.has(Slot::result)) tried(spelling_) = Try::understood;
    end_initialize();
  }
  if (row_.edge_id == row_.link_id) return pass(row_.course, frame);
  std::array<Splice, 1> splices{{{Slot::id, row_.edge_id}}};
  splice(splices);
  return pass(row_.course, finish_built());
}

// It may refuse whatever comes now, but nobody waits for it in vain.
void Hop::end_initialize() {
  initialize_id_.clear();
  waits_ = false;
}

// True if the component is worth being asked in the other spelling, which is the one to use then.
bool Hop::ask_otherwise(Try outcome) {
  if (tried(spelling_) == Try::understood) return false;
  const Spelling other = spelling_ == Spelling::current ? Spelling::prefixed : Spelling::current;
  tried(spelling_) = outcome;
  // An end may have had any other reason, so that it is no proof; only a refusal is.
  const bool is_worth_it =
      tried(other) == Try::none || (tried(other) == Try::ended && outcome == Try::refused);
  if (!is_worth_it) return false;
  spelling_ = other;
  initialize_id_.clear();
  misasked_ = true;
  return true;
}

bool Hop::end_is_misasked() {
  if (initialize_id_.empty()) return false;
  if (ask_otherwise(Try::ended)) return true;
  // It knows this spelling alone, so that it died of something else: once more, as with the other one.
  const Spelling other = spelling_ == Spelling::current ? Spelling::prefixed : Spelling::current;
  if (tried(other) != Try::refused || died_once_) return false;
  died_once_ = misasked_ = true;
  initialize_id_.clear();
  return true;
}

Hop::Taken Hop::refuse(Shape shape, int error_code, std::string_view reason, std::string_view message) {
  if (shape != Shape::request) return {.fate = Fate::dropped};
  const IdView id = read_id(envelope_.raw(Slot::id), scratch_);
  built_.clear();
  const bool certain = id.usable() && envelope_.member(Slot::id).copies == 1;
  append_error(
      built_, certain ? envelope_.raw(Slot::id) : std::string_view{},
      {.code = error_code, .message = message, .reason = reason, .outcome = rules::Outcome::not_sent});
  built_.pop_back();  // its LF: finish_built() adds one
  return {Fate::answered, Course::plain, finish_built()};
}

// ---- what an edge has for the peer ----

std::string_view Hop::give(Course course, const Frame& frame) {
  scanner_.scan(frame.text, envelope_);
  INVARIANT(envelope_.fault == FrameFault::none);  // edges write whole messages
  const Shape shape = envelope_.shape();
  if (shape == Shape::response) {
    heard_.take(read_id(envelope_.raw(Slot::id), scratch_), row_);
    return whole(frame);
  }
  const MethodId method = id_of(decode_string(envelope_.raw(Slot::method), scratch_));
  const bool cancels = method == MethodId::cancel_request;  // behind its request, where that waits
  const std::string_view line = cancels ? give_cancel(course, frame) : give_now(course, frame, shape);
  if (!waits_ || course == Course::plain) return line;
  waiting_ += line;
  return {};
}

void Hop::begin_again() {
  asked_ = HopIds();
  heard_ = HopIds();
  initialize_id_.clear();
  misasked_ = false;
  waits_ = true;
  // Requests that wait were answered when their client was lost, again; news is news.
  flushed_.swap(waiting_);
  waiting_.clear();
  for (std::string_view rest(flushed_); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(line.size());
    const bool is_news = line.starts_with(R"({"jsonrpc":"2.0","method":"proxy/)") ||
                         line.starts_with(R"({"jsonrpc":"2.0","method":"_proxy/)");
    if (is_news) waiting_ += line;
  }
}

std::string_view Hop::take_waiting() {
  if (waits_) return {};
  flushed_.swap(waiting_);
  waiting_.clear();
  return flushed_;
}

std::string_view Hop::give_now(Course course, const Frame& frame, Shape shape) {
  const MethodId method = id_of(decode_string(envelope_.raw(Slot::method), scratch_));
  const std::string_view id = shape == Shape::request ? id_on_link(course) : std::string_view{};
  if (course == Course::wrapped) return wrap(id);
  std::array<Splice, 2> splices{};
  std::size_t count = 0;
  if (shape == Shape::request && id != envelope_.raw(Slot::id)) splices[count++] = {Slot::id, id};
  const bool tells_role = method == MethodId::initialize && end_ == HopEnd::conductor;
  if (tells_role) splices[count++] = {Slot::method, proxy_initialize()};
  if (count == 0) return whole(frame);
  splice(std::span(splices).first(count));
  if (tells_role) initialize_id_ = id;
  return finish_built().line;
}

// The id that a request of an edge has on the link: its own, unless that is open there.
std::string_view Hop::id_on_link(Course course) {
  const std::string_view token = envelope_.raw(Slot::id);
  link_id_ = token;
  while (asked_.by_link_id(read_id(link_id_, scratch_)) != nullptr) {
    link_id_.clear();
    append_json_string(link_id_, own_ids_ + std::to_string(++own_ids_made_));
  }
  asked_.add(course, token, link_id_);
  return link_id_;
}

std::string_view Hop::give_cancel(Course course, const Frame& frame) {
  const IdView id = read_id(envelope_.raw(Slot::params_request_id), scratch_);
  const HopIds::Row* row = id.usable() ? asked_.by_edge_id(course, id) : nullptr;
  if (row == nullptr) return {};
  if (row->edge_id == row->link_id) return whole(frame);
  std::array<Splice, 1> splices{{{Slot::params_request_id, row->link_id}}};
  splice(splices);
  return finish_built().line;
}

std::string_view Hop::wrap(std::string_view id_token) {
  built_ = R"({"jsonrpc":"2.0")";
  append_member(built_, "id", id_token);
  append_member(built_, "method",
                spelling_ == Spelling::current ? R"("proxy/successor")" : R"("_proxy/successor")");
  built_.append(R"(,"params":{"method":)").append(envelope_.raw(Slot::method));
  // Absent or null, the inner message has none (ACP); SDKs of the older spelling read only null.
  const bool writes_null = spelling_ == Spelling::prefixed && !envelope_.has(Slot::params);
  append_member(built_, "params", writes_null ? "null" : envelope_.raw(Slot::params));
  built_ += "}}";
  return finish_built().line;
}

std::string_view Hop::proxy_initialize() const noexcept {
  return spelling_ == Spelling::current ? R"("proxy/initialize")" : R"("_proxy/initialize")";
}

// ---- splicing ----

std::string_view Hop::whole(const Frame& frame) {
  if (!frame.line.empty()) return frame.line;
  built_.assign(frame.text);
  return finish_built().line;
}

// The frame at hand with some tokens replaced.
void Hop::splice(std::span<Splice> splices) {
  std::sort(splices.begin(), splices.end(), [&](const Splice& a, const Splice& b) {
    return envelope_.member(a.slot).begin < envelope_.member(b.slot).begin;
  });
  spliced_.clear();
  std::size_t done = 0;
  for (const Splice& each : splices) {
    const Member& span = envelope_.member(each.slot);
    spliced_.append(envelope_.frame.substr(done, span.begin - done)).append(each.token);
    done = span.end;
  }
  spliced_.append(envelope_.frame.substr(done));
  built_.swap(spliced_);
}

Frame Hop::finish_built() {
  const std::size_t size = built_.size();
  built_.append("\n").append(limits::padding_bytes, ' ');
  const std::string_view all(built_);
  return {FrameKind::whole, all.substr(0, size), all.substr(0, size + 1)};
}

}  // namespace acp
