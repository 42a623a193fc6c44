#include "tests/agents/pass_through.h"

#include <utility>

namespace acp::test_agent {
namespace {

// The text with one span of it replaced.
std::string spliced(std::string_view text, std::string_view span, std::string_view with) {
  const auto at = static_cast<std::size_t>(span.data() - text.data());
  std::string out(text.substr(0, at));
  out.append(with).append(text.substr(at + span.size()));
  return out;
}

}  // namespace

void PassThrough::take(std::string_view line) {
  const auto frame = scan_frame(line);
  if (!frame) return wire_.reach_frame(FaultPoint::read, {});
  if (!frame->has_method()) return take_answer(line, *frame);
  const std::string method = decode_string(frame->method).value_or("");
  if (method == options_.spelling + "/successor") return take_wrapped(*frame);
  take_plain(*frame, method);
}

void PassThrough::take_answer(std::string_view line, const RawFrame& frame) {
  const auto found = frame.is_response() ? passed_.find(id_name(frame.id)) : passed_.end();
  if (found == passed_.end()) return wire_.reach_frame(FaultPoint::read, "=");
  Passed passed = std::move(found->second);
  passed_.erase(found);
  our_ids_.erase(id_name(passed.id));
  wire_.reach_frame(FaultPoint::read, "=" + passed.method);
  wire_.send(spliced(line, frame.id, passed.id), passed.method);
  wire_.reach_frame(FaultPoint::acted, "=" + passed.method);
}

void PassThrough::take_plain(const RawFrame& frame, std::string_view method) {
  const bool opens = method == options_.spelling + "/initialize";
  wire_.reach_frame(FaultPoint::read, opens ? "initialize" : method);
  if (method == "$/cancel_request") {
    take_cancel(frame);
  } else if (opens) {
    pass(frame, "\"initialize\"", frame.params, true);
  } else if (method == "initialize") {
    refuse(frame, "a proxy needs a successor");
  } else if (method.substr(0, 6) == "proxy/" || method.substr(0, 7) == "_proxy/") {
    take_wrong_spelling(frame);
  } else {
    pass(frame, frame.method, frame.params, true);
  }
  wire_.reach_frame(FaultPoint::acted, opens ? "initialize" : method);
}

void PassThrough::take_wrapped(const RawFrame& frame) {
  const std::string_view written = raw_member(frame.params, "method");
  const std::string_view params = raw_member(frame.params, "params");
  const std::string method = decode_string(written).value_or("");
  wire_.reach_frame(FaultPoint::read, method);
  // A cancel is plain on every hop; one in an envelope names an id of nobody.
  if (method == "$/cancel_request") return;
  if (written.empty()) return refuse(frame, "an envelope without a method");
  pass(frame, written, method == "elicitation/create" ? with_predecessors_id(params) : std::string(params),
       false);
  wire_.reach_frame(FaultPoint::acted, method);
}

void PassThrough::take_cancel(const RawFrame& frame) {
  const std::string_view id = raw_member(frame.params, "requestId");
  const auto found = our_ids_.find(id_name(id));
  if (id.empty() || found == our_ids_.end()) return;  // answered, or never passed on
  std::string cancel =
      R"("method":"$/cancel_request","params":)" + spliced(frame.params, id, found->second.id);
  if (options_.wrapped_cancels && found->second.wrapped) {
    cancel = R"("method":")" + options_.spelling + R"(/successor","params":{)" + cancel + "}";
  }
  wire_.send(R"({"jsonrpc":"2.0",)" + cancel + "}");
}

void PassThrough::take_wrong_spelling(const RawFrame& frame) {
  switch (options_.wrong) {
    case WrongSpelling::refuse: return refuse(frame, "another spelling is spoken here");
    case WrongSpelling::pass: return pass(frame, frame.method, frame.params, true);
    case WrongSpelling::exit: return perform(FaultAction{FaultAction::Kind::exit, 0});
  }
}

void PassThrough::pass(const RawFrame& frame, std::string_view written_method, std::string_view params,
                       bool wrapped) {
  std::string line = R"({"jsonrpc":"2.0",)";
  if (frame.is_request()) {
    std::string ours = own_id(frame.id);
    line.append(R"("id":)").append(ours).push_back(',');
    passed_[id_name(ours)] = Passed{std::string(frame.id), decode_string(written_method).value_or("")};
    our_ids_[id_name(frame.id)] = Sent{std::move(ours), wrapped};
  }
  if (wrapped) line.append(R"("method":")").append(options_.spelling).append(R"(/successor","params":{)");
  line.append(R"("method":)").append(written_method);
  if (!params.empty()) line.append(R"(,"params":)").append(params);
  line += wrapped ? "}}" : "}";
  wire_.send(std::move(line));
}

void PassThrough::refuse(const RawFrame& frame, const char* why) {
  if (!frame.is_request()) return;
  wire_.send(std::string(R"({"jsonrpc":"2.0","id":)")
                 .append(frame.id)
                 .append(R"(,"error":{"code":-32601,"message":"Method not found","data":")")
                 .append(why)
                 .append("\"}}"));
}

std::string PassThrough::own_id(std::string_view came) {
  switch (options_.ids) {
    case HopIds::keep: return std::string(came);
    case HopIds::fresh: return std::to_string(next_id_++);
    case HopIds::text: return '"' + options_.name + '-' + std::to_string(next_id_++) + '"';
  }
  return {};
}

// An elicitation may name the request that it belongs to: by our id when it comes, by the predecessor's when
// it goes on.
std::string PassThrough::with_predecessors_id(std::string_view params) const {
  const std::string_view id = raw_member(params, "requestId");
  const auto found = id.empty() ? passed_.end() : passed_.find(id_name(id));
  return found == passed_.end() ? std::string(params) : spliced(params, id, found->second.id);
}

}  // namespace acp::test_agent
