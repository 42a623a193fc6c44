#include <algorithm>

#include "tests/agents/agent.h"

namespace acp::test_agent {
namespace {

struct ConfigChoice {
  const char* id;
  const char* name;
  std::vector<const char*> values;  // empty: a boolean
};

const std::vector<ConfigChoice>& config_choices() {
  static const std::vector<ConfigChoice> choices = {{"model", "Model", {"m1", "m2", "m3"}},
                                                    {"effort", "Effort", {"low", "high"}},
                                                    {"verbose", "Verbose", {}}};
  return choices;
}

constexpr const char* modes[] = {"code", "plan", "bypass"};

}  // namespace

Json Agent::config_options(const StoredSession& session) const {
  Json options = Json::array();
  for (const ConfigChoice& choice : config_choices()) {
    const auto found = session.config.find(choice.id);
    Json option{{version_ == 1 ? "id" : "configId", choice.id}, {"name", choice.name}};
    if (choice.values.empty()) {
      option["type"] = "boolean";
      option["currentValue"] = found != session.config.end() && found->second == "true";
    } else {
      option["type"] = "select";
      option["currentValue"] = found != session.config.end() ? found->second : choice.values[0];
      option["options"] = Json::array();
      for (const char* value : choice.values)
        option["options"].push_back(Json{{"value", value}, {"name", value}});
    }
    options.push_back(std::move(option));
  }
  return options;
}

// What new, load, resume and fork answer apart from the id.
Json Agent::settings(const StoredSession& session) const {
  Json result = Json::object();
  if (version_ == 1) {
    Json available = Json::array();
    for (const char* mode : modes) available.push_back(Json{{"id", mode}, {"name", mode}});
    result["modes"] = Json{{"currentModeId", session.mode}, {"availableModes", std::move(available)}};
  }
  result["configOptions"] = config_options(session);
  if (version_ == 2) result["availableCommands"] = Json::array();
  return result;
}

LiveSession* Agent::active_session(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  const auto found = sessions_.find(id);
  if (found != sessions_.end() && found->second.active) return &found->second;
  refuse(request, -32002, "session is unknown or not active here", Json{{"sessionId", id}});
  return nullptr;
}

void Agent::new_session(const Request& request) {
  const auto cwd = string_member(request.params, "cwd");
  if (!cwd) return refuse(request, -32602, "cwd");
  const std::string id = person_.fixed_session.empty() ? history_.fresh_id("session") : person_.fixed_session;
  history_.append(id, Json{{"t", "session"}, {"sessionId", id}, {"cwd", *cwd}});
  record("new", request.method, Json{{"sessionId", id}, {"params", request.params}});
  LiveSession session;
  session.stored.id = id;
  session.stored.cwd = *cwd;
  session.active = true;
  Json result{{"sessionId", id}};
  result.update(settings(session.stored));
  sessions_[id] = std::move(session);
  answer(request, result);
}

// The session that a load, resume or fork names, read from the record unless it is at work here. Null:
// refused.
LiveSession* Agent::reopen(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  const auto stored = history_.load(id);
  if (!stored) {
    refuse(request, -32002, "no such session", Json{{"sessionId", id}});
    return nullptr;
  }
  if (const auto cwd = string_member(request.params, "cwd"); cwd && *cwd != stored->cwd) {
    refuse(request, -32602, "cwd is not the session's own");
    return nullptr;
  }
  const bool is_new = sessions_.count(id) == 0;
  LiveSession& session = sessions_[id];
  if (!session.turn) {
    const StoredSession before = std::move(session.stored);
    session.stored = *stored;
    if (person_.forget_settings) {
      session.stored.mode = is_new ? StoredSession{}.mode : before.mode;
      session.stored.config = is_new ? StoredSession{}.config : before.config;
    }
    if (person_.flaws.memory) {
      for (StoredMessage& message : session.stored.messages) {
        if (is_new) message.key.clear();
      }
    }
  }
  return &session;
}

void Agent::load_session(const Request& request) {
  LiveSession* session = reopen(request);
  if (session == nullptr) return;
  session->active = true;
  record("load", request.method, Json{{"sessionId", session->stored.id}, {"params", request.params}});
  replay(*session);
  answer(request, person_.null_results ? Json(nullptr) : settings(session->stored));
  update(session->stored.id,
         Json{{"sessionUpdate", "available_commands_update"}, {"availableCommands", Json::array()}});
}

void Agent::resume_session(const Request& request) {
  const Json* from = member(request.params, "replayFrom");
  const bool wants_replay = version_ == 2 && from != nullptr && !from->is_null();
  if (wants_replay && (!person_.can_replay || string_member(*from, "type") != "start")) {
    return refuse(request, -32602, "replayFrom is not supported");
  }
  LiveSession* session = reopen(request);
  if (session == nullptr) return;
  session->active = true;
  record("resume", request.method, Json{{"sessionId", session->stored.id}, {"params", request.params}});
  if (wants_replay) replay(*session);
  if (version_ == 2) show_state(*session);
  answer(request, person_.null_results ? Json(nullptr) : settings(session->stored));
}

void Agent::fork_session(const Request& request) {
  const auto source = history_.load(string_member(request.params, "sessionId").value_or(""));
  if (!source) {
    return refuse(request, -32002, "no such session",
                  Json{{"sessionId", string_member(request.params, "sessionId").value_or("")}});
  }
  LiveSession session;
  session.stored = *source;
  session.stored.id = history_.fresh_id("session");
  session.active = true;
  history_.append(session.stored.id,
                  Json{{"t", "session"}, {"sessionId", session.stored.id}, {"cwd", source->cwd}});
  for (StoredMessage& message : session.stored.messages) {
    if (!person_.flaws.fork) message.key.clear();
    history_.append_message(session.stored.id, message);
  }
  record("fork", request.method, Json{{"sessionId", session.stored.id}, {"source", source->id}});
  Json result{{"sessionId", session.stored.id}};
  result.update(settings(session.stored));
  const std::string id = session.stored.id;
  sessions_[id] = std::move(session);
  answer(request, result);
}

void Agent::close_session(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  record("close", request.method, Json{{"sessionId", id}});
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) {
    stop_work(found->second);
    found->second.active = false;
  }
  answer(request, Json::object());
}

void Agent::delete_session(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  if (history_.load(id)) history_.append(id, Json{{"t", "deleted"}});
  record("delete", request.method, Json{{"sessionId", id}});
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) {
    stop_work(found->second);
    sessions_.erase(found);
  }
  answer(request, Json::object());
}

bool Agent::store_config(LiveSession& session, const std::string& id, const std::string& value) {
  const auto& choices = config_choices();
  const auto choice =
      std::find_if(choices.begin(), choices.end(), [&](const ConfigChoice& row) { return row.id == id; });
  if (choice == choices.end()) return false;
  const auto fits = [&](const char* allowed) { return value == allowed; };
  if (choice->values.empty() ? value != "true" && value != "false"
                             : std::none_of(choice->values.begin(), choice->values.end(), fits)) {
    return false;
  }
  session.stored.config[id] = value;
  history_.append(session.stored.id, Json{{"t", "config"}, {"configId", id}, {"value", value}});
  return true;
}

void Agent::store_mode(LiveSession& session, const std::string& mode) {
  session.stored.mode = mode;
  history_.append(session.stored.id, Json{{"t", "mode"}, {"value", mode}});
}

void Agent::set_config(const Request& request) {
  LiveSession* session = active_session(request);
  if (session == nullptr) return;
  const Json* value = member(request.params, "value");
  std::string text;
  if (value != nullptr && value->is_string()) text = value->get<std::string>();
  if (value != nullptr && value->is_boolean()) text = value->get<bool>() ? "true" : "false";
  const std::string id = string_member(request.params, "configId").value_or("");
  if (!store_config(*session, id, text)) return refuse(request, -32602, "no such option or value");
  record("set", request.method, Json{{"sessionId", session->stored.id}, {"configId", id}, {"value", text}});
  answer(request, Json{{"configOptions", config_options(session->stored)}});
}

void Agent::set_mode(const Request& request) {
  LiveSession* session = active_session(request);
  if (session == nullptr) return;
  const std::string mode = string_member(request.params, "modeId").value_or("");
  if (std::none_of(std::begin(modes), std::end(modes), [&](const char* known) { return mode == known; })) {
    return refuse(request, -32602, "no such mode");
  }
  store_mode(*session, mode);
  record("set", request.method, Json{{"sessionId", session->stored.id}, {"modeId", mode}});
  answer(request, Json::object());
}

void Agent::show_user_message(const std::string& session, const StoredMessage& message, bool in_chunks) {
  if (version_ == 2 && !in_chunks) {
    Json what{
        {"sessionUpdate", "user_message"}, {"messageId", message.message_id}, {"content", message.content}};
    if (person_.flaws.leak && !message.key.empty()) what["_meta"] = Json{{"idempotencyKey", message.key}};
    return update(session, std::move(what));
  }
  for (const Json& block : message.content) {
    Json what{{"sessionUpdate", "user_message_chunk"}};
    if (version_ == 2 || person_.v1_message_ids) what["messageId"] = message.message_id;
    what["content"] = block;
    update(session, std::move(what));
  }
}

void Agent::replay(const LiveSession& session) {
  for (const StoredMessage& message : session.stored.messages) {
    if (message.from_user) {
      show_user_message(session.stored.id, message, person_.chunked_echo);
      continue;
    }
    for (const Json& block : message.content) {
      Json what{{"sessionUpdate", "agent_message_chunk"}};
      if (version_ == 2 || person_.v1_message_ids) what["messageId"] = message.message_id;
      what["content"] = block;
      update(session.stored.id, std::move(what));
    }
  }
  if (person_.replay_complete && version_ == 2)
    update(session.stored.id, Json{{"sessionUpdate", "replay_complete"}});
}

// What foreground work looks like now.
void Agent::show_state(const LiveSession& session) {
  const bool running = session.turn && session.turn->inserted;
  update(session.stored.id, Json{{"sessionUpdate", "state_update"}, {"state", running ? "running" : "idle"}});
}

}  // namespace acp::test_agent
