#include <algorithm>
#include <unistd.h>

#include "tests/agents/agent.h"
#include "tests/agents/garbage.h"
#include "tests/agents/offspring.h"

namespace acp::test_agent {
namespace {

constexpr std::size_t backlog_high = 1024 * 1024;
constexpr std::size_t flood_write_bytes = 64 * 1024;
constexpr std::uint64_t flood_line_bytes = 300;

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

// The action that an order to end names behind its first `skip` words.
FaultAction action_of(const Order& order, std::size_t skip) {
  std::string text;
  for (std::size_t i = skip; i < order.words.size(); ++i) text += (text.empty() ? "" : " ") + order.words[i];
  return parse_action(text.empty() ? "kill KILL" : text).value_or(FaultAction{FaultAction::Kind::kill, 9});
}

}  // namespace

// Marks an order that is obeyed once and says whether this is the time. The mark is durable before the order
// strikes.
bool Agent::obeys(const LiveSession& session, const Order& order) {
  if (!is_obeyed_once(order)) return true;
  const std::string sent = session.turn ? session.turn->prompt.sent : std::string{};
  if (&session == &control_) return true;
  return history_.mark_order(session.stored.id + " " + text_hash(sent) + " " +
                             std::to_string(static_cast<int>(order.kind)) + " " + order.text);
}

Agent::Step Agent::run_order(LiveSession& session, const Order& order) {
  Turn& turn = *session.turn;
  switch (order.kind) {
    case OrderKind::die:
    case OrderKind::exit:
    case OrderKind::stall:
    case OrderKind::close_stdout:
    case OrderKind::close_stdin: return run_ending(session, order);
    case OrderKind::hang:
      if (obeys(session, order)) turn.blocked = Turn::Blocked::until_release;
      break;
    case OrderKind::hold: turn.blocked = Turn::Blocked::until_release; break;
    case OrderKind::error:
      if (!obeys(session, order)) break;
      if (person_.flaws.sticky && !turn.prompt.key.empty()) session.failed_keys[turn.prompt.key] = -32603;
      record("refused", "session/prompt", Json{{"sessionId", session.stored.id}});
      end_prompt(turn.prompt, -static_cast<int>(order.number(0, 32603)), "refused as ordered");
      end_turn(session);
      break;
    case OrderKind::insert_after:
    case OrderKind::wait:
      turn.blocked = Turn::Blocked::until_due;
      turn.due = Clock::now() + Milliseconds(order.number(0, 0));
      break;
    case OrderKind::permission: ask_permission(session); break;
    case OrderKind::elicit: ask_elicitation(session); break;
    case OrderKind::ext:
      ask(session, order.word(0), to_line(Json{{"sessionId", session.stored.id}}));
      turn.blocked = Turn::Blocked::until_peer;
      break;
    case OrderKind::notify:
      send(Json{
          {"jsonrpc", "2.0"}, {"method", order.word(0)}, {"params", {{"sessionId", session.stored.id}}}});
      break;
    case OrderKind::say: say(session, order.text); break;
    case OrderKind::tool: run_tool(session, order.word(0)); break;
    case OrderKind::mode:
      store_mode(session, order.word(0));
      if (version_ == 1) {
        update(session.stored.id,
               Json{{"sessionUpdate", "current_mode_update"}, {"currentModeId", order.word(0)}});
      }
      break;
    case OrderKind::config:
      if (store_config(session, order.word(0), order.word(1))) {
        update(session.stored.id, Json{{"sessionUpdate", "config_option_update"},
                                       {"configOptions", config_options(session.stored)}});
      }
      break;
    case OrderKind::updates: return send_updates(session, order);
    case OrderKind::flood: return flood(session, order);
    case OrderKind::garbage: write_garbage(session, order); break;
    case OrderKind::stderr_text: write_stderr(order); break;
    case OrderKind::grandchild:
      spawn_offspring(order.word(0), history_.pids_path(), person_.offspring_seconds);
      break;
    case OrderKind::stdout_to_child:
      spawn_offspring("holder", history_.pids_path(), person_.offspring_seconds);
      break;
    default: break;
  }
  return Step::done;
}

// Orders that end or freeze the process. All but deaths around the insertion happen when everything that was
// said before is written.
Agent::Step Agent::run_ending(LiveSession& session, const Order& order) {
  const std::string point = order.kind == OrderKind::die ? order.word(0) : std::string{};
  const bool at_once = point == "before_insert" || point == "after_insert";
  if (!at_once && wire_.backlog() > 0) {
    session.turn->blocked = Turn::Blocked::until_drained;
    return Step::again;
  }
  // The answer step has marked this one already, and goes on to obey it.
  if (point == "mid_answer" && !order.always) return Step::done;
  if (!obeys(session, order)) return Step::done;
  switch (order.kind) {
    case OrderKind::die: perform(action_of(order, point == "mid_answer" ? 2 : 1)); break;
    case OrderKind::exit:
      perform(FaultAction{FaultAction::Kind::exit, static_cast<int>(order.number(0, 0) & 0xff)});
      break;
    case OrderKind::stall: perform(FaultAction{FaultAction::Kind::stall, 0}); break;
    case OrderKind::close_stdout: wire_.close_output(); break;
    case OrderKind::close_stdin: wire_.close_input(); break;
    default: break;
  }
  return Step::done;
}

Agent::Step Agent::send_updates(LiveSession& session, const Order& order) {
  Turn& turn = *session.turn;
  std::size_t digits = 0;
  std::string frame = numbered_update(session.stored.id, version_ == 2 || person_.v1_message_ids,
                                      turn.agent_message_id, order.number(1, flood_line_bytes), digits);
  while (turn.sent_updates < order.number(0, 1)) {
    if (wire_.backlog() > backlog_high) {
      turn.blocked = Turn::Blocked::until_room;
      return Step::again;
    }
    put_number(frame, digits, turn.sent_updates++);
    wire_.send(frame);
  }
  turn.sent_updates = 0;
  return Step::done;
}

// One write's worth a step, so that stdin is looked at in between.
Agent::Step Agent::flood(LiveSession& session, const Order& order) {
  Turn& turn = *session.turn;
  if (wire_.backlog() > backlog_high) {
    turn.blocked = Turn::Blocked::until_room;
    return Step::again;
  }
  std::size_t digits = 0;
  std::string frame = numbered_update(session.stored.id, version_ == 2 || person_.v1_message_ids,
                                      turn.agent_message_id, order.number(1, flood_line_bytes), digits);
  frame.push_back('\n');
  const std::uint64_t wanted = (order.number(0, 0) + frame.size() - 1) / frame.size();
  std::string batch;
  batch.reserve(flood_write_bytes + frame.size());
  while (batch.size() < flood_write_bytes && turn.sent_updates < wanted) {
    put_number(frame, digits, turn.sent_updates++);
    batch += frame;
  }
  wire_.send_part(std::move(batch));
  if (turn.sent_updates < wanted) return Step::again;
  turn.sent_updates = 0;
  return Step::done;
}

void Agent::ask_permission(LiveSession& session) {
  Turn& turn = *session.turn;
  const std::string tool = history_.fresh_id("tool");
  const Json call{{"toolCallId", tool}, {"title", "Delete everything"}};
  const Json options = Json::array({Json{{"optionId", "yes"}, {"name", "Allow"}, {"kind", "allow_once"}},
                                    Json{{"optionId", "no"}, {"name", "Reject"}, {"kind", "reject_once"}}});
  Json params{{"sessionId", session.stored.id}};
  if (version_ == 2) {
    update(session.stored.id, Json{{"sessionUpdate", "state_update"}, {"state", "requires_action"}});
    params["title"] = "Delete everything?";
    params["subject"] = Json{{"type", "tool_call"}, {"toolCall", call}};
  } else {
    params["toolCall"] = call;
  }
  params["options"] = options;
  ask(session, "session/request_permission", to_line(params));
  turn.blocked = Turn::Blocked::until_peer;
}

void Agent::permission_answered(LiveSession& session, const Json& result) {
  if (version_ == 2) update(session.stored.id, Json{{"sessionUpdate", "state_update"}, {"state", "running"}});
  const Json* outcome = member(result, "outcome");
  const bool allowed = outcome != nullptr && string_member(*outcome, "outcome") == "selected" &&
                       string_member(*outcome, "optionId") == "yes";
  if (allowed) run_tool(session, "delete");
}

void Agent::ask_elicitation(LiveSession& session) {
  if (session.turn->prompt.ids.empty()) return;
  ask(session, "elicitation/create",
      R"({"mode":"form","message":"What name?",)"
      R"("requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"requestId":)" +
          session.turn->prompt.ids.front() + "}");
  session.turn->blocked = Turn::Blocked::until_peer;
}

void Agent::run_tool(LiveSession& session, const std::string& name) {
  const std::string id = history_.fresh_id("tool");
  record("tool", "", Json{{"sessionId", session.stored.id}, {"tool", name}, {"toolCallId", id}});
  update(session.stored.id, Json{{"sessionUpdate", version_ == 1 ? "tool_call" : "tool_call_update"},
                                 {"toolCallId", id},
                                 {"title", name},
                                 {"kind", "execute"},
                                 {"status", "completed"}});
}

void Agent::write_garbage(LiveSession& session, const Order& order) {
  const auto sound = [&](unsigned long long number) {
    std::size_t digits = 0;
    std::string frame = numbered_update(session.stored.id, version_ == 2 || person_.v1_message_ids,
                                        session.turn->agent_message_id, 0, digits);
    put_number(frame, digits, number);
    return frame;
  };
  const auto& ids = session.turn->prompt.ids;
  const std::string id = ids.empty() ? session.turn->first_id : ids.front();
  const auto bytes = garbage(order.word(0), order.number(1, 0), sound(1), sound(2), id.empty() ? "null" : id);
  if (bytes) wire_.send_part(*bytes);
}

void Agent::write_stderr(const Order& order) {
  const std::uint64_t bytes = order.number(0, 0);
  if (bytes == 0 || order.words.size() != 1) return write_all(STDERR_FILENO, order.text + "\n");
  const std::string block(4096, 'e');
  for (std::uint64_t left = bytes; left > 0; left -= std::min<std::uint64_t>(left, block.size())) {
    write_all(STDERR_FILENO, std::string_view(block).substr(0, std::min<std::uint64_t>(left, block.size())));
  }
}

}  // namespace acp::test_agent
