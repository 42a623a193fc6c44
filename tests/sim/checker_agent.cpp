// What is owed for what the agent says, for its silence and for its end.
#include <algorithm>

#include "tests/sim/checker.h"

namespace acp::sim {
namespace {

constexpr LinkId agent_link{2};

}  // namespace

void Checker::agent_frame(const Frame& frame) {
  switch (frame.label) {
    case Frame::Label::request: return agent_request(frame);
    case Frame::Label::cancel: return agent_cancel(frame);
    case Frame::Label::answer: return agent_answer(frame);
    case Frame::Label::refused: return owe_error(agent_link, frame.id.token, frame.code, frame.reason);
    case Frame::Label::notification:
      if (Session* known = session(frame.session, false)) ++known->updates;
      traffic(frame.session);
      return owe_line(client_link, frame.text);
    case Frame::Label::unreadable: unreadable_ = true; return;
    case Frame::Label::nothing: return;
  }
}

void Checker::agent_request(const Frame& frame) {
  traffic(frame.session);
  Ask ask;
  ask.sender = frame.id;
  ask.session = session(frame.session, false) == nullptr ? no_session : frame.session;
  asks_.push_back(std::move(ask));
  Due due;
  due.what = Due::What::ask;
  due.which = asks_.size() - 1;
  std::string text = frame.text;
  Span id = frame.id_span;
  std::size_t which = 0;
  const Request* named = frame.ref.usable() ? by_wire(frame.ref, which) : nullptr;
  if (named != nullptr && named->state != State::abandoned && named->wire.token != named->sender.token) {
    const std::size_t size = frame.ref_span.end - frame.ref_span.begin;
    text.replace(frame.ref_span.begin, size, named->sender.token);
    if (id.begin > frame.ref_span.begin) {
      id.begin += named->sender.token.size() - size;
      id.end += named->sender.token.size() - size;
    }
  }
  due.text = text.substr(0, id.begin);
  due.rest = text.substr(id.end);
  owe(client_link, std::move(due));
}

void Checker::agent_cancel(const Frame& frame) {
  if (!frame.ref.usable()) return owe_line(client_link, frame.text);
  const auto found = std::find_if(asks_.begin(), asks_.end(), [&](const Ask& ask) {
    return ask.alive && ask.sender.id_class == frame.ref.id_class;
  });
  if (found == asks_.end()) return;
  found->cancelling = true;
  owe_named(client_link, frame, frame.ref_span, static_cast<std::size_t>(found - asks_.begin()), false);
}

Checker::Request* Checker::by_wire(const Id& id, std::size_t& which) {
  for (which = 0; which < requests_.size(); ++which) {
    Request& request = requests_[which];
    if (request.alive && request.wire.usable() && request.wire.id_class == id.id_class) return &request;
  }
  return nullptr;
}

void Checker::agent_answer(const Frame& frame) {
  std::size_t which = 0;
  Request* request = by_wire(frame.id, which);
  if (request == nullptr) {
    if (frame.id.token == "null" && frame.sound && !frame.success) owe_line(client_link, frame.text);
    return;
  }
  if (request->state == State::abandoned) return remove(which);
  if (!frame.sound) {
    lose_key(*request, true);
    return fail(which, -32603, "malformed_answer", "unknown");
  }
  traffic(request->session);
  if (frame.success) take_effect(*request, frame);
  settle_key(*request, frame);
  const bool kept = request->wire.token == request->sender.token;
  owe_spliced(client_link, frame, frame.id_span, kept ? frame.id.token : request->sender.token);
  for (const std::size_t waiter : request->waiters) {
    owe_spliced(client_link, frame, frame.id_span, requests_[waiter].sender.token);
    remove(waiter);
  }
  remove(which);
}

void Checker::take_effect(const Request& request, const Frame& frame) {
  const auto set_state = [&](int name, Session::State state) {
    if (Session* known = session(name, true)) known->state = state;
  };
  const auto forget = [&](int name) {
    for (Row& row : rows_) {
      if (row.session == name && row.state != Row::State::pending) row.alive = false;
    }
  };
  if (request.method == Method::initialize) version_ = frame.version;
  if (request.method == Method::session_new && frame.opened != no_session) {
    set_state(frame.opened, Session::State::active);
    forget(frame.opened);
  }
  if (request.method == Method::session_resume || (request.method == Method::session_load && request.v1))
    set_state(request.session, Session::State::active);
  if (request.method == Method::session_close || request.method == Method::session_delete)
    set_state(request.session, Session::State::inactive);
  if (request.method == Method::session_delete) forget(request.session);
  if (request.method == Method::prompt) {
    Session* known = session(request.session, false);
    if (known != nullptr && known->state == Session::State::mentioned) known->state = Session::State::active;
  }
}

void Checker::settle_key(Request& request, const Frame& frame) {
  if (request.row < 0) return;
  Row& row = rows_[static_cast<std::size_t>(request.row)];
  request.row = -1;
  if (!request.guarded || (!frame.success && !frame.keeps_key)) {
    row.alive = false;
  } else if (frame.success) {
    row.state = Row::State::inserted;
    row.message_id = frame.message_id;
  } else {
    row.state = Row::State::unknown;
  }
}

// --silence-timeout: one session/cancel to the agent, one error for each open prompt; late answers are owed
// to nobody.
void Checker::silence() {
  if (!plan_.settings.silence_timeout) return;
  for (const Session& quiet : sessions_) {
    const auto is_due = [&](const Request& request) {
      return request.alive && request.method == Method::prompt && request.state != State::abandoned &&
             request.session == quiet.name;
    };
    if (quiet.last_traffic + *plan_.settings.silence_timeout > now_ ||
        std::none_of(requests_.begin(), requests_.end(), is_due))
      continue;
    owe_line(agent_link, R"({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s)" +
                             std::to_string(quiet.name) + "\"}}");
    for (std::size_t which = 0; which < requests_.size(); ++which) {
      Request& request = requests_[which];
      if (!is_due(request)) continue;
      owe_error(client_link, request.sender.token, -32603, "silence_timeout", "unknown",
                progress_of(request));
      lose_key(request, true);
      if (request.state == State::waiting) remove(which);
      request.state = State::abandoned;
      request.waiters.clear();
    }
  }
}

// Nothing of the agent lives, and all that it said was read: what is open gets its one answer now.
void Checker::epoch_over() {
  settled_ = true;
  keys_before_ = known_keys();  // the last line may have ended some
  for (std::size_t which = 0; which < requests_.size(); ++which) {
    Request& request = requests_[which];
    if (!request.alive || request.state == State::waiting) continue;
    if (request.state == State::abandoned) {
      remove(which);
      continue;
    }
    const bool held = request.state == State::held;
    const bool cancelled = request.state == State::cancelling;
    lose_key(request, !held);
    fail(which, cancelled ? -32800 : -32603, cancelled ? "cancelled" : "agent_lost",
         held ? "not_sent" : "unknown");
  }
  for (std::size_t which = 0; which < asks_.size(); ++which) {
    const Ask& ask = asks_[which];
    if (ask.alive && !ask.cancelling) {
      Due due;
      due.text = R"({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":)";
      due.rest = "}}";
      due.which = which;
      due.wire_named = true;
      due.of_client = false;
      due.id = due.text + ask.sender.token + due.rest;
      owe(client_link, std::move(due));
    }
  }
  reach_ = Reach::gone;
  exit_due_ = was_asked_ || client_ended_ || signal_ != 0;
}

}  // namespace acp::sim
