#include "tests/agents/agent.h"

#include <algorithm>
#include <poll.h>

namespace acp::test_agent {

Agent::Agent(Options options, HistoryStore& history)
    : options_(std::move(options)),
      person_(options_.personality),
      history_(history),
      wire_(options_.faults, options_.wire, options_.wire_clock) {
  control_.active = true;
}

int Agent::run() {
  std::optional<Clock::time_point> leaves_at;
  for (;;) {
    while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
      const auto action = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      action();
    }
    advance(control_);
    for (auto& [id, session] : sessions_) advance(session);
    wire_.flush();
    if (wire_.at_end() && !person_.ignore_eof) {
      if (!leaves_at) {
        leaves_at = Clock::now() + person_.linger;
        timers_.emplace(*leaves_at, [] {});
      }
      if ((wire_.backlog() == 0 || wire_.output_broken()) && Clock::now() >= *leaves_at) return 0;
    }
    poll_once();
  }
}

// Milliseconds until there is something to do without any input, -1 for never.
int Agent::poll_timeout() const {
  std::optional<Clock::time_point> next;
  const auto consider = [&](Clock::time_point at) { next = next ? std::min(*next, at) : at; };
  if (!timers_.empty()) consider(timers_.begin()->first);
  const auto look_at = [&](const LiveSession& session) {
    if (runnable(session)) consider(Clock::now());
    if (session.turn && session.turn->blocked == Turn::Blocked::until_due) consider(session.turn->due);
  };
  look_at(control_);
  for (const auto& [id, session] : sessions_) look_at(session);
  if (!next) return -1;
  const auto left = std::chrono::ceil<Milliseconds>(*next - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void Agent::poll_once() {
  pollfd ends[2] = {{wire_.reads() ? 0 : -1, POLLIN, 0}, {-1, POLLOUT, 0}};
  if (wire_.backlog() > 0) ends[1].fd = 1;
  if (::poll(ends, 2, poll_timeout()) <= 0) return;
  if (ends[1].revents != 0) wire_.flush();
  if (ends[0].revents == 0) return;
  std::vector<std::string> lines;
  wire_.read(lines);
  for (const std::string& line : lines) {
    receive(line);
    wire_.flush();
  }
}

void Agent::receive(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  const auto frame = scan_frame(line);
  const auto method = frame ? decode_string(frame->method) : std::nullopt;
  wire_.reach_frame(FaultPoint::read, method.value_or(""));
  if (!frame) {
    const bool is_array = line[line.find_first_not_of(" \t")] == '[';
    refuse("null", "", is_array ? -32600 : -32700, is_array ? "no batches" : "not JSON");
  } else if (frame->is_response()) {
    receive_answer(*frame);
  } else if (!method) {
    refuse("null", "", -32600, "no method");
  } else {
    Request request{std::string(frame->id), *method, std::string(frame->params), Json::object()};
    // An echo is answered without a look at what is echoed, so that it costs nothing and may be anything.
    if (*method != "_test/echo" && !frame->params.empty()) request.params = parse_lenient(frame->params);
    if (request.params.is_discarded()) {
      refuse("null", "", -32700, "params are not JSON");
    } else {
      dispatch(request);
    }
  }
  wire_.reach_frame(FaultPoint::acted, method.value_or(""));
}

void Agent::dispatch(const Request& request) {
  const bool is_request = !request.id.empty();
  const bool is_initialize = request.method == "initialize";
  if (version_ == 0 && !is_initialize) {
    if (is_request) refuse(request, -32600, "not initialized");
    return;
  }
  if (const MethodRule* rule =
          is_request ? applying_rule(person_.refused, request.method, history_.epoch()) : nullptr) {
    record("refused", request.method, Json{{"code", rule->code}});
    const auto session = string_member(request.params, "sessionId");
    return refuse(request, rule->code, "refused as ordered",
                  session ? Json{{"sessionId", *session}} : Json(nullptr));
  }
  const MethodRow* row = find_method(request.method);
  if (row == nullptr) {
    if (is_request) return refuse(request, -32601, "no method " + request.method);
    return record("notified", request.method);
  }
  if (is_request && !is_initialize) used_ = true;
  call(*row, request);
}

void Agent::answer(const std::string& id, const std::string& method, const std::string& result) {
  if (id.empty()) return;
  if (applying_rule(person_.left_open, method, history_.epoch()) != nullptr) {
    if (cancelled_late_.count(id_name(id)) > 0) return refuse(id, method, -32800, "cancelled");
    left_open_[id_name(id)] = {id, method};
    return;
  }
  wire_.send(R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":)" + result + "}", method);
}

void Agent::refuse(const std::string& id, const std::string& method, int code, const std::string& message,
                   const Json& data) {
  if (id.empty()) return;
  Json error{{"code", code}, {"message", message}};
  if (!data.is_null()) error["data"] = data;
  wire_.send(R"({"jsonrpc":"2.0","id":)" + id + R"(,"error":)" + to_line(error) + "}",
             method.empty() ? "?" : method);
}

// Sends a request to the client and returns its id as written. `params` is JSON text: an id in it stays as it
// came.
std::string Agent::ask(const LiveSession& session, const std::string& method, const std::string& params) {
  const std::string number = std::to_string(next_request_++);
  const std::string id = person_.string_ids ? "\"agent-" + number + "\"" : number;
  asked_[id_name(id)] = Asked{id, method, session.stored.id, session.turn ? session.turn->serial : 0};
  wire_.send(R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":)" + to_line(method) + R"(,"params":)" + params +
             "}");
  return id;
}

void Agent::receive_answer(const RawFrame& frame) {
  const auto found = asked_.find(id_name(frame.id));
  const bool failed = !frame.error.empty();
  const Json body = parse_lenient(failed ? frame.error : frame.result);
  if (found == asked_.end()) {
    return record("stray_answer", "",
                  Json{{"id", std::string(frame.id)}, {failed ? "error" : "result", body}});
  }
  const Asked asked = found->second;
  asked_.erase(found);
  record("answered", asked.method,
         Json{{"sessionId", asked.session}, {"id", asked.id}, {failed ? "error" : "result", body}});
  const auto live = sessions_.find(asked.session);
  LiveSession* session = live != sessions_.end() ? &live->second : &control_;
  if (!session->turn || session->turn->serial != asked.turn) session = &control_;
  if (!session->turn || session->turn->serial != asked.turn) return;
  if (asked.method == "session/request_permission") permission_answered(*session, failed ? Json() : body);
  session->turn->blocked = Turn::Blocked::no;
}

void Agent::update(const std::string& session, Json what) {
  send(Json{{"jsonrpc", "2.0"},
            {"method", "session/update"},
            {"params", {{"sessionId", session}, {"update", std::move(what)}}}});
}

void Agent::record(const std::string& effect, const std::string& method, Json more) {
  Json line{{"effect", effect}, {"method", method}};
  line.update(more);
  history_.acted(std::move(line));
}

}  // namespace acp::test_agent
