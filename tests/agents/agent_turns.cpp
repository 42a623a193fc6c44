#include <algorithm>

#include "tests/agents/agent.h"
#include "tests/agents/garbage.h"

namespace acp::test_agent {
namespace {

constexpr std::size_t backlog_low = 256 * 1024;

Order step(OrderKind kind, std::string word = {}) {
  Order order;
  order.kind = kind;
  if (!word.empty()) order.words.push_back(std::move(word));
  return order;
}

// Deaths at a point of the turn stand where the point is; [die now] and its like stay where they were
// written.
bool has_place(const Order& order) {
  if (order.kind == OrderKind::die) return order.word(0) != "now";
  if (order.kind == OrderKind::garbage) return replaces_answer(order.word(0)) || order.word(0) == "second";
  return order.kind == OrderKind::no_answer || order.kind == OrderKind::release;
}

void add_deaths(Turn& turn, const char* point) {
  for (const Order& order : turn.prompt.orders) {
    if (order.kind == OrderKind::die && order.word(0) == point) turn.steps.push_back(order);
  }
}

// The answer and what belongs directly around it.
void add_answer(Turn& turn) {
  add_deaths(turn, "before_answer");
  turn.steps.push_back(step(OrderKind::answer));
  add_deaths(turn, "mid_answer");
  add_deaths(turn, "after_answer");
  for (const Order& order : turn.prompt.orders) {
    if (order.kind == OrderKind::garbage && order.word(0) == "second") turn.steps.push_back(order);
  }
}

}  // namespace

void Agent::begin_next(LiveSession& session) {
  Turn& turn = session.turn.emplace();
  turn.serial = next_turn_++;
  turn.prompt = std::move(session.held.front());
  session.held.pop_front();
  if (!turn.prompt.ids.empty()) turn.first_id = turn.prompt.ids.front();
  turn.message_id = history_.fresh_id("user");
  turn.agent_message_id = history_.fresh_id("agent");
  plan_insertion(turn);
  plan_work(turn);
}

void Agent::plan_insertion(Turn& turn) {
  for (const Order& order : turn.prompt.orders) {
    if (order.early && !has_place(order)) turn.steps.push_back(order);
  }
  if (person_.insert_delay.count() > 0) {
    turn.steps.push_back(step(OrderKind::wait, std::to_string(person_.insert_delay.count())));
  }
  add_deaths(turn, "before_insert");
  turn.steps.push_back(step(OrderKind::insert));
  add_deaths(turn, "after_insert");
  if (version_ == 1) return;
  if (person_.echo == Echo::before) turn.steps.push_back(step(OrderKind::echo));
  add_answer(turn);
  if (person_.echo == Echo::after) turn.steps.push_back(step(OrderKind::echo));
  turn.steps.push_back(step(OrderKind::running));
}

void Agent::plan_work(Turn& turn) {
  for (const Order& order : turn.prompt.orders) {
    if (!order.early && !has_place(order)) turn.steps.push_back(order);
  }
  const auto chunks = static_cast<std::int64_t>(person_.chunks);
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t pause = person_.turn.count() * (i + 1) / chunks - person_.turn.count() * i / chunks;
    if (pause > 0) turn.steps.push_back(step(OrderKind::wait, std::to_string(pause)));
    turn.steps.push_back(step(OrderKind::chunk));
  }
  if (version_ == 2 && person_.echo == Echo::late) turn.steps.push_back(step(OrderKind::echo));
  if (version_ == 1) add_answer(turn);
  turn.steps.push_back(step(OrderKind::finish));
}

bool Agent::runnable(const LiveSession& session) const {
  if (!session.turn) return !session.held.empty();
  switch (session.turn->blocked) {
    case Turn::Blocked::no: return true;
    case Turn::Blocked::until_due: return session.turn->due <= Clock::now();
    case Turn::Blocked::until_peer:
    case Turn::Blocked::until_release: return false;
    case Turn::Blocked::until_drained: return wire_.backlog() == 0;
    case Turn::Blocked::until_room: return wire_.backlog() < backlog_low;
  }
  return false;
}

// Carries out one step of the session's turn, or begins the next held prompt. True if something was done.
bool Agent::advance(LiveSession& session) {
  if (!runnable(session)) return false;
  if (!session.turn) {
    begin_next(session);
    return true;
  }
  Turn& turn = *session.turn;
  turn.blocked = Turn::Blocked::no;
  if (turn.steps.empty()) {
    end_turn(session);
    return true;
  }
  // The step may end the turn, so it is not looked at again in place.
  const Order order = turn.steps.front();
  turn.steps.pop_front();
  const std::uint64_t serial = turn.serial;
  if (run_step(session, order) == Step::again && session.turn && session.turn->serial == serial) {
    session.turn->steps.push_front(order);
  }
  return true;
}

Agent::Step Agent::run_step(LiveSession& session, const Order& order) {
  Turn& turn = *session.turn;
  switch (order.kind) {
    case OrderKind::insert: insert(session); return Step::done;
    case OrderKind::answer: return give_answer(session);
    case OrderKind::echo: {
      StoredMessage message{true, turn.message_id, turn.prompt.content, turn.prompt.sent, turn.prompt.key};
      if (!session.stored.messages.empty() && session.stored.messages.back().message_id == turn.message_id) {
        message = session.stored.messages.back();
      }
      show_user_message(session.stored.id, message, person_.chunked_echo);
      return Step::done;
    }
    case OrderKind::running:
      update(session.stored.id, Json{{"sessionUpdate", "state_update"}, {"state", "running"}});
      return Step::done;
    case OrderKind::chunk: say(session, "Done. "); return Step::done;
    case OrderKind::finish:
      if (turn.answer_withheld) {
        turn.blocked = Turn::Blocked::until_release;
        turn.answer_withheld = false;
        return Step::again;
      }
      finish(session);
      return Step::done;
    default: return run_order(session, order);
  }
}

void Agent::insert(LiveSession& session) {
  Turn& turn = *session.turn;
  const Prompt& prompt = turn.prompt;
  options_.faults.reach(FaultPoint::insert, "session/prompt");
  StoredMessage message{true, turn.message_id, prompt.content, prompt.sent, prompt.key};
  if (person_.rewrite_content) {
    for (Json& block : message.content) {
      if (const auto text = string_member(block, "text")) block["text"] = "(rewritten) " + *text;
    }
  }
  Json effect{{"sessionId", session.stored.id},
              {"messageId", turn.message_id},
              {"hash", text_hash(prompt.sent)},
              {"prompt", prompt.content}};
  if (!prompt.key.empty()) effect["key"] = prompt.key;
  if (prompt.is_command) {
    session.live_keys[prompt.key] = message;
    record("command", "session/prompt", std::move(effect));
  } else {
    session.stored.messages.push_back(message);
    turn.unsaved = person_.forget_unsaved;
    if (!turn.unsaved) history_.append_message(session.stored.id, message);
    if (turn.unsaved) effect["unsaved"] = true;
    record("insert", "session/prompt", std::move(effect));
  }
  turn.inserted = true;
  options_.faults.reach(FaultPoint::inserted, "session/prompt");
}

Agent::Step Agent::give_answer(LiveSession& session) {
  Turn& turn = *session.turn;
  for (const Order& order : turn.prompt.orders) {
    if (order.kind == OrderKind::no_answer && obeys(session, order)) {
      turn.answer_withheld = true;
      return Step::done;
    }
    if (order.kind == OrderKind::garbage && replaces_answer(order.word(0)) && obeys(session, order)) {
      write_garbage(session, order);
      turn.answered = true;
      turn.prompt.ids.clear();
      return Step::done;
    }
    if (order.kind != OrderKind::die || order.word(0) != "mid_answer" || turn.prompt.ids.empty()) continue;
    if (!obeys(session, order)) continue;
    const Json result =
        version_ == 2 ? Json{{"messageId", turn.message_id}} : Json{{"stopReason", "end_turn"}};
    const std::string frame =
        R"({"jsonrpc":"2.0","id":)" + turn.prompt.ids.front() + R"(,"result":)" + to_line(result) + "}";
    wire_.send_part(frame.substr(0, order.number(1, 10)));
    // The death itself is the next step: it waits until these bytes are written.
    Order death = order;
    death.always = true;
    turn.steps.push_front(death);
    return Step::done;
  }
  answer_prompt(turn, "end_turn");
  return Step::done;
}

void Agent::say(LiveSession& session, const std::string& text) {
  Turn& turn = *session.turn;
  turn.said += text;
  Json what{{"sessionUpdate", "agent_message_chunk"}};
  if (version_ == 2 || person_.v1_message_ids) what["messageId"] = turn.agent_message_id;
  what["content"] = Json{{"type", "text"}, {"text", text}};
  update(session.stored.id, std::move(what));
}

void Agent::finish(LiveSession& session) {
  Turn& turn = *session.turn;
  if (!turn.answered) answer_prompt(turn, "end_turn");
  if (version_ == 2) {
    update(session.stored.id,
           Json{{"sessionUpdate", "state_update"}, {"state", "idle"}, {"stopReason", "end_turn"}});
  }
  end_turn(session);
}

void Agent::cancel_asked(const LiveSession& session) {
  for (const auto& [name, asked] : asked_) {
    if (asked.session != session.stored.id || version_ == 1) continue;
    wire_.send(R"({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":)" + asked.id + "}}");
  }
}

// Stores what the turn left and makes room for the next. Also after a cancel.
void Agent::end_turn(LiveSession& session) {
  Turn turn = std::move(*session.turn);
  session.turn.reset();
  if (turn.unsaved) {
    for (const StoredMessage& message : session.stored.messages) {
      if (message.message_id == turn.message_id) history_.append_message(session.stored.id, message);
    }
    record("saved", "session/prompt", Json{{"sessionId", session.stored.id}, {"messageId", turn.message_id}});
  }
  if (turn.said.empty() || turn.prompt.is_command || &session == &control_) return;
  StoredMessage message{
      false, turn.agent_message_id, Json::array({Json{{"type", "text"}, {"text", turn.said}}}), {}, {}};
  history_.append_message(session.stored.id, message);
  session.stored.messages.push_back(std::move(message));
}

}  // namespace acp::test_agent
