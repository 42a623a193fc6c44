// What is owed for what the client says.
#include <algorithm>

#include "tests/sim/checker.h"

namespace acp::sim {
namespace {

constexpr LinkId agent_link{2};

}  // namespace

Checker::Session* Checker::session(int name, bool make) {
  if (name == no_session) return nullptr;
  for (Session& known : sessions_) {
    if (known.name == name) return &known;
  }
  if (!make) return nullptr;
  sessions_.push_back({});
  sessions_.back().name = name;
  return &sessions_.back();
}

void Checker::traffic(int name) {
  if (Session* known = session(name, false)) known->last_traffic = now_;
}

void Checker::client_frame(const Frame& frame) {
  switch (frame.label) {
    case Frame::Label::request: return client_request(frame);
    case Frame::Label::cancel: return client_cancel(frame);
    case Frame::Label::answer: return client_answer(frame);
    case Frame::Label::refused: return owe_error(client_link, frame.id.token, frame.code, frame.reason);
    case Frame::Label::notification: traffic(frame.session); return owe_line(agent_link, frame.text);
    case Frame::Label::nothing:
    case Frame::Label::unreadable: return;
  }
}

void Checker::client_request(const Frame& frame) {
  was_asked_ = true;
  if (frame.method == Method::proxy_initialize)
    return owe_error(client_link, frame.id.token, -32600, "wrong_role");
  if (reach_ == Reach::gone) {
    exit_due_ = true;
    return owe_error(client_link, frame.id.token, -32603, "agent_lost", "not_sent");
  }
  Session* known = session(frame.session, true);
  traffic(frame.session);
  const bool v1 = is_v1();
  int row = -1;
  if (frame.method == Method::prompt && keyed_request(frame, v1, row)) return;
  Request request;
  request.sender = frame.id;
  request.method = frame.method;
  request.session = frame.session;
  request.row = row;
  request.updates = known == nullptr ? 0 : known->updates;
  request.v1 = v1;
  request.guarded = frame.method == Method::prompt && !v1 && plan_.settings.keys == KeyMode::guard;
  request.state = reach_ == Reach::open ? State::sent : State::held;
  if (row >= 0) rows_[static_cast<std::size_t>(row)].first = requests_.size();
  if (frame.method == Method::initialize && version_ == 0) asked_version_ = frame.version;
  requests_.push_back(std::move(request));
  Due due;
  due.what = Due::What::request;
  due.text = frame.text.substr(0, frame.id_span.begin);
  due.rest = frame.text.substr(frame.id_span.end);
  due.which = requests_.size() - 1;
  owe(agent_link, std::move(due));
}

// True if the request was dealt with; else `row` is the one that it is the first of, or -1.
bool Checker::keyed_request(const Frame& frame, bool v1, int& row) {
  if (frame.key == no_key) return false;
  const bool guard = !v1 && plan_.settings.keys == KeyMode::guard;
  if (frame.key == malformed_key) {
    if (guard) owe_error(client_link, frame.id.token, -32602, "malformed_key");
    return guard;
  }
  if (frame.session == no_session) return false;
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    if (rows_[at].alive && rows_[at].session == frame.session && rows_[at].key == frame.key)
      return known_key(frame, at, v1);
  }
  row = static_cast<int>(rows_.size());
  rows_.push_back({});
  rows_.back().session = frame.session;
  rows_.back().key = frame.key;
  rows_.back().print = frame.print;
  return false;
}

bool Checker::known_key(const Frame& frame, std::size_t at, bool v1) {
  const Row& row = rows_[at];
  const bool same = row.print == frame.print;
  const std::string& id = frame.id.token;
  Session* known = session(frame.session, true);
  if (row.state == Row::State::pending && same) {
    Request waiter;
    waiter.state = State::waiting;
    waiter.sender = frame.id;
    waiter.method = frame.method;
    waiter.session = frame.session;
    waiter.first = row.first;
    waiter.updates = known->updates;
    requests_[row.first].waiters.push_back(requests_.size());
    requests_.push_back(std::move(waiter));
    return true;
  }
  if (row.state == Row::State::pending && v1) return false;
  if (row.state != Row::State::pending && known->state == Session::State::inactive) {
    owe_error(client_link, id, -32002, "session_not_active");
  } else if (!same) {
    owe_error(client_link, id, -32602, "key_reused");
  } else if (row.state == Row::State::unknown) {
    owe_error(client_link, id, -32603, "outcome_unknown", "unknown");
  } else if (row.message_id.empty()) {
    owe_error(client_link, id, -32603, "no_message_id", "inserted");
  } else {
    owe_line(client_link,
             R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":{"messageId":)" + row.message_id + "}}");
  }
  return true;
}

void Checker::client_cancel(const Frame& frame) {
  if (!frame.ref.usable()) return owe_line(agent_link, frame.text);
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const Request& request) {
    return request.alive && request.state != State::abandoned &&
           request.sender.id_class == frame.ref.id_class;
  });
  if (found == requests_.end()) return;
  auto which = static_cast<std::size_t>(found - requests_.begin());
  if (requests_[which].state == State::waiting) which = requests_[which].first;
  Request& request = requests_[which];
  if (request.state == State::held) {
    lose_key(request, false);
    return fail(which, -32800, "cancelled", "not_sent");
  }
  const bool again = request.state == State::cancelling;
  request.state = State::cancelling;
  if (again && request.row >= 0) return;
  owe_named(agent_link, frame, frame.ref_span, which, true);
}

void Checker::client_answer(const Frame& frame) {
  const auto found = std::find_if(asks_.begin(), asks_.end(), [&](const Ask& ask) {
    return ask.alive && ask.wire.id_class == frame.id.id_class;
  });
  const auto refuse = [&] {
    if (frame.code != 0) owe_error(client_link, "null", frame.code, "not_json");
  };
  if (found == asks_.end()) return refuse();
  Ask& ask = *found;
  ask.alive = false;
  if (!frame.sound) {
    owe_error(agent_link, ask.sender.token, -32603, "malformed_answer");
    return refuse();
  }
  traffic(ask.session);
  const bool kept = ask.wire.token == ask.sender.token;
  owe_spliced(agent_link, frame, frame.id_span, kept ? frame.id.token : ask.sender.token);
}

// A request and all that wait beside it get an error of keyhop's.
void Checker::fail(std::size_t which, int code, std::string_view reason, std::string_view outcome) {
  const Request& request = requests_[which];
  const int progress = outcome == "not_sent" && code == -32800 ? -1 : progress_of(request);
  owe_error(client_link, request.sender.token, code, reason, outcome, progress);
  for (const std::size_t waiter : request.waiters) {
    owe_error(client_link, requests_[waiter].sender.token, code, reason, outcome, progress);
    remove(waiter);
  }
  remove(which);
}

int Checker::progress_of(const Request& request) {
  const Session* known = session(request.session, false);
  return known != nullptr && known->updates != request.updates ? 1 : 0;
}

void Checker::lose_key(Request& request, bool unknown) {
  if (request.row < 0) return;
  Row& row = rows_[static_cast<std::size_t>(request.row)];
  request.row = -1;
  if (request.guarded && unknown) {
    row.state = Row::State::unknown;
  } else {
    row.alive = false;
  }
}

}  // namespace acp::sim
