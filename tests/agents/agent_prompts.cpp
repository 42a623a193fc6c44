#include <algorithm>

#include "tests/agents/agent.h"

namespace acp::test_agent {
namespace {

constexpr std::size_t key_length_max = 255;

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// The text of all text blocks.
std::string prompt_text(const Json& content) {
  std::string text;
  for (const Json& block : content) text += string_member(block, "text").value_or("");
  return text;
}

}  // namespace

void Agent::prompt(const Request& request) {
  LiveSession* session = active_session(request);
  if (session == nullptr) return;
  const Json* content = member(request.params, "prompt");
  if (content == nullptr || !content->is_array() || content->empty())
    return refuse(request, -32602, "empty prompt");
  for (const Json& block : *content) {
    if (string_member(block, "type").value_or("").empty()) return refuse(request, -32602, "no such block");
  }
  Prompt prompt;
  prompt.ids = {request.id};
  prompt.content = *content;
  prompt.sent = content_line(*content);
  const std::string text = prompt_text(*content);
  prompt.orders = parse_orders(text);
  prompt.is_command = text.rfind('/', 0) == 0;
  if (!take_key(request, prompt)) return;
  if (person_.keys == Keys::honour && !prompt.key.empty() && version_ == 2) {
    if (answer_known_key(*session, request, prompt) || join_pending(*session, request, prompt)) return;
  }
  const bool releases = std::any_of(prompt.orders.begin(), prompt.orders.end(),
                                    [](const Order& order) { return order.kind == OrderKind::release; });
  if ((session->turn || !session->held.empty()) && person_.refuse_during_work)
    return refuse(request, -32600, "at work");
  // Before this prompt can begin: its own holds are not meant.
  if (releases) release(*session);
  session->held.push_back(std::move(prompt));
  if (!session->turn) begin_next(*session);
}

// Reads the key. False: it is malformed and was refused.
bool Agent::take_key(const Request& request, Prompt& prompt) {
  const Json* key = member(request.params, "idempotencyKey");
  if (key == nullptr || key->is_null() || version_ == 1) return true;
  const std::string text = key->is_string() ? key->get<std::string>() : std::string{};
  const std::size_t length = person_.flaws.bytes ? text.size() : code_points(text);
  if (key->is_string() && length >= 1 && length <= key_length_max) {
    prompt.key = text;
    return true;
  }
  if (person_.keys == Keys::ignore || person_.flaws.lenient) return true;
  refuse(request, -32602, "idempotencyKey is a string of 1 to 255 characters");
  return false;
}

// A key whose message was inserted: answered with that message, nothing else happens.
bool Agent::answer_known_key(LiveSession& session, const Request& request, const Prompt& prompt) {
  if (const auto failed = session.failed_keys.find(prompt.key); failed != session.failed_keys.end()) {
    refuse(request, failed->second, "as before");
    return true;
  }
  std::optional<StoredMessage> known;
  const auto look_at = [&](const LiveSession& place) {
    for (const StoredMessage& message : place.stored.messages) {
      if (message.from_user && message.key == prompt.key) known = message;
    }
    if (const auto live = place.live_keys.find(prompt.key); live != place.live_keys.end())
      known = live->second;
  };
  look_at(session);
  if (person_.flaws.global) {
    for (const auto& [id, other] : sessions_) look_at(other);
  }
  if (!known) return false;
  if (known->text_before != prompt.sent && !person_.flaws.no_compare) {
    refuse(request, -32602, "this key names another prompt");
  } else {
    answer(request, Json{{"messageId", known->message_id}});
  }
  return true;
}

// A key whose prompt is not inserted yet: this request waits for the same answer.
bool Agent::join_pending(LiveSession& session, const Request& request, const Prompt& prompt) {
  if (person_.flaws.no_join) return false;
  Prompt* pending = nullptr;
  if (session.turn && !session.turn->answered && session.turn->prompt.key == prompt.key)
    pending = &session.turn->prompt;
  for (Prompt& held : session.held) {
    if (held.key == prompt.key) pending = &held;
  }
  if (pending == nullptr) return false;
  if (pending->sent != prompt.sent && !person_.flaws.no_compare) {
    refuse(request, -32602, "this key names another prompt");
  } else {
    pending->ids.push_back(request.id);
  }
  return true;
}

void Agent::end_prompt(Prompt& prompt, int code, const std::string& message) {
  for (const std::string& id : prompt.ids) refuse(id, "session/prompt", code, message);
  prompt.ids.clear();
}

// How a prompt ends that is cancelled before its insertion (v2) or before its turn's end (v1).
void Agent::answer_cancelled(Prompt& prompt) {
  if (version_ == 2) return end_prompt(prompt, -32800, "cancelled");
  for (const std::string& id : prompt.ids) answer(id, "session/prompt", R"({"stopReason":"cancelled"})");
  prompt.ids.clear();
}

void Agent::answer_prompt(Turn& turn, const std::string& stop_reason) {
  const Json result =
      version_ == 2 ? Json{{"messageId", turn.message_id}} : Json{{"stopReason", stop_reason}};
  for (const std::string& id : turn.prompt.ids) answer(id, "session/prompt", to_line(result));
  turn.prompt.ids.clear();
  turn.answered = true;
}

// Ends foreground work and withdraws what is held.
void Agent::stop_work(LiveSession& session) {
  if (session.turn) {
    Turn& turn = *session.turn;
    cancel_asked(session);
    if (!turn.inserted || version_ == 1) {
      answer_cancelled(turn.prompt);
    } else if (!turn.answered) {
      answer_prompt(turn, "cancelled");
    }
    if (version_ == 2) {
      update(session.stored.id,
             Json{{"sessionUpdate", "state_update"}, {"state", "idle"}, {"stopReason", "cancelled"}});
    }
    end_turn(session);
  }
  for (Prompt& held : session.held) answer_cancelled(held);
  session.held.clear();
}

void Agent::cancel_session(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  record("cancel", request.method, Json{{"sessionId", id}});
  const auto found = sessions_.find(id);
  if (found != sessions_.end() && !person_.ignore_cancel) stop_work(found->second);
}

void Agent::cancel_request(const Request& request) {
  // As it was written: the parsed value has lost the digits of a long number.
  const std::string raw_id(raw_member(request.raw_params, "requestId"));
  const std::string name = id_name(raw_id);
  record("cancel", request.method, Json{{"requestId", raw_id}});
  if (person_.ignore_cancel) return;
  if (const auto open = left_open_.find(name); open != left_open_.end()) {
    const auto [id, method] = open->second;
    left_open_.erase(open);
    return refuse(id, method, -32800, "cancelled");
  }
  const auto names_it = [&](const Prompt& prompt) {
    return std::any_of(prompt.ids.begin(), prompt.ids.end(),
                       [&](const std::string& id) { return id_name(id) == name; });
  };
  for (auto& [id, session] : sessions_) {
    if (session.turn && names_it(session.turn->prompt)) {
      // Inserted in v2: it counts, its answer comes as it is. Else the prompt, or v1's whole turn, is
      // withdrawn.
      if (session.turn->inserted && version_ == 2) {
        cancelled_late_.insert(name);
        return;
      }
      cancel_asked(session);
      end_prompt(session.turn->prompt, -32800, "cancelled");
      return end_turn(session);
    }
    const auto held = std::find_if(session.held.begin(), session.held.end(), names_it);
    if (held == session.held.end()) continue;
    end_prompt(*held, -32800, "cancelled");
    session.held.erase(held);
    return;
  }
}

// Ends the hold of the session's turn, also one that it has not come to yet; if that turn has none (its last
// step may be to come when the client has its answer already), that of the next prompt that has one.
void Agent::release(LiveSession& session) {
  if (!session.turn) return;
  const auto holds = [](const Order& order) {
    return order.kind == OrderKind::hold || order.kind == OrderKind::hang;
  };
  const auto erase_first_hold = [&](auto& orders) {
    const auto hold = std::find_if(orders.begin(), orders.end(), holds);
    if (hold == orders.end()) return false;
    orders.erase(hold);
    return true;
  };
  Turn& turn = *session.turn;
  if (turn.blocked == Turn::Blocked::until_release) {
    turn.blocked = Turn::Blocked::no;
    return;
  }
  if (erase_first_hold(turn.steps)) return;
  for (Prompt& held : session.held) {
    if (erase_first_hold(held.orders)) return;
  }
}

}  // namespace acp::test_agent
