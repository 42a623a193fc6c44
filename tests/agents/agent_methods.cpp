#include <algorithm>
#include <string_view>
#include <unistd.h>

#include "tests/agents/agent.h"

namespace acp::test_agent {
namespace {

constexpr unsigned v1 = 1;
constexpr unsigned v2 = 2;
constexpr unsigned both = v1 | v2;

std::string decode_base64(std::string_view text) {
  static constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) continue;
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xffffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push_back(static_cast<char>(bits >> held & 0xff));
    }
  }
  return bytes;
}

void write_noise(std::uint64_t bytes) {
  const std::string block(4096, 'n');
  while (bytes > 0) {
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, block.size()));
    const ssize_t count = ::write(STDERR_FILENO, block.data(), wanted);
    if (count <= 0) return;
    bytes -= static_cast<std::uint64_t>(count);
  }
}

}  // namespace

struct Agent::MethodRow {
  std::string_view name;
  unsigned versions;
  bool needs_login;
  Method method;
};

const Agent::MethodRow* Agent::find_method(const std::string& name) {
  static constexpr MethodRow rows[] = {
      {"$/cancel_request", both, false, &Agent::cancel_request},
      {"_test/act", both, false, &Agent::extension},
      {"_test/echo", both, false, &Agent::extension},
      {"_test/emit", both, false, &Agent::emit},
      {"_test/order", both, false, &Agent::take_orders},
      {"_test/state", both, false, &Agent::extension},
      {"auth/login", v2, false, &Agent::login},
      {"auth/logout", v2, false, &Agent::login},
      {"auth/status", both, false, &Agent::read_nothing},
      {"authenticate", v1, false, &Agent::login},
      {"initialize", both, false, &Agent::initialize},
      {"logout", v1, false, &Agent::login},
      {"mcp/message", both, false, &Agent::set_something},
      {"nes/close", both, false, &Agent::set_something},
      {"nes/start", both, false, &Agent::set_something},
      {"nes/suggest", both, false, &Agent::read_nothing},
      {"providers/disable", both, false, &Agent::set_something},
      {"providers/list", both, false, &Agent::read_nothing},
      {"providers/set", both, false, &Agent::set_something},
      {"session/archive", both, true, &Agent::on_session},
      {"session/cancel", both, false, &Agent::cancel_session},
      {"session/close", both, true, &Agent::close_session},
      {"session/delete", both, true, &Agent::delete_session},
      {"session/fork", both, true, &Agent::fork_session},
      {"session/list", both, true, &Agent::list_sessions},
      {"session/load", v1, true, &Agent::load_session},
      {"session/new", both, true, &Agent::new_session},
      {"session/options", v2, true, &Agent::on_session},
      {"session/prompt", both, true, &Agent::prompt},
      {"session/resume", both, true, &Agent::resume_session},
      {"session/set_config_option", both, true, &Agent::set_config},
      {"session/set_mode", v1, true, &Agent::set_mode},
      {"session/set_model", v1, true, &Agent::on_session},
      {"session/set_title", both, true, &Agent::on_session},
      {"session/status", both, true, &Agent::on_session},
      {"session/unarchive", both, true, &Agent::on_session},
      {"terminal/cancel", v2, true, &Agent::set_something},
      {"tool_call/cancel", v2, true, &Agent::set_something},
  };
  const auto* found =
      std::lower_bound(std::begin(rows), std::end(rows), name,
                       [](const MethodRow& row, const std::string& wanted) { return row.name < wanted; });
  return found != std::end(rows) && found->name == name ? found : nullptr;
}

void Agent::call(const MethodRow& row, const Request& request) {
  const bool offered = version_ == 0 || (row.versions & (version_ == 1 ? v1 : v2)) != 0;
  const bool switched_off = version_ == 1 && ((request.method == "session/resume" && !person_.can_resume) ||
                                              (request.method == "session/load" && !person_.can_load));
  if (!offered || switched_off) return refuse(request, -32601, "no method " + request.method);
  if (row.needs_login && person_.needs_login && !logged_in_) {
    return refuse(request, -32000, "authentication required");
  }
  (this->*row.method)(request);
}

std::string Agent::initialize_result(int version) const {
  Json methods = Json::array();
  if (person_.needs_login && version == 1) methods.push_back(Json{{"id", "door"}, {"name", "The door"}});
  if (person_.needs_login && version == 2) {
    methods.push_back(Json{{"methodId", "door"}, {"type", "agent"}, {"name", "The door"}});
  }
  const Json info{{"name", person_.name}, {"version", "1.0.0"}};
  const Json yes = Json::object();
  if (version == 1) {
    Json session{{"list", yes}, {"delete", yes}, {"close", yes}, {"fork", yes}};
    if (person_.can_resume) session["resume"] = yes;
    return to_line(
        Json{{"protocolVersion", 1},
             {"agentCapabilities", {{"loadSession", person_.can_load}, {"sessionCapabilities", session}}},
             {"agentInfo", info},
             {"authMethods", methods}});
  }
  const Json session{{"prompt", yes},  {"delete", yes}, {"fork", yes},
                     {"archive", yes}, {"status", yes}, {"title", yes}};
  return to_line(Json{{"protocolVersion", 2},
                      {"info", info},
                      {"capabilities", {{"session", session}}},
                      {"authMethods", methods}});
}

void Agent::initialize(const Request& request) {
  const Json* wanted = member(request.params, "protocolVersion");
  if (wanted == nullptr || !wanted->is_number_integer()) return refuse(request, -32602, "protocolVersion");
  const bool repeated_late = version_ == 2 && used_;
  if (initializing_ || repeated_late) return refuse(request, -32600, "already initialized");
  const auto number = wanted->get<std::int64_t>();
  int version = person_.speaks_v2 && number >= 2 ? 2 : 1;
  if (version_ == 2 && number < 2) return refuse(request, -32600, "not below 2 any more");
  if ((version == 1 && !person_.speaks_v1) || (number < 1 && person_.speaks_v2)) {
    Json supported = Json::array();
    if (person_.speaks_v1) supported.push_back(1);
    if (person_.speaks_v2) supported.push_back(2);
    return refuse(request, -32022, "unsupported protocol version",
                  Json{{"requested", number}, {"supported", supported}});
  }
  write_noise(person_.stderr_noise_bytes);
  record("initialize", request.method, Json{{"version", version}, {"params", request.params}});
  const auto finish = [this, request, version] {
    initializing_ = false;
    version_ = version;
    answer(request.id, request.method, initialize_result(version));
  };
  if (person_.slow_start.count() == 0) return finish();
  initializing_ = true;
  timers_.emplace(Clock::now() + person_.slow_start, finish);
}

void Agent::login(const Request& request) {
  logged_in_ = request.method == "authenticate" || request.method == "auth/login";
  record(logged_in_ ? "login" : "logout", request.method);
  answer(request, Json::object());
}

void Agent::list_sessions(const Request& request) {
  record("read", request.method);
  const auto cwd = string_member(request.params, "cwd");
  Json sessions = Json::array();
  for (const StoredSession& session : history_.list()) {
    if (cwd && *cwd != session.cwd) continue;
    Json row{{"sessionId", session.id}, {"cwd", session.cwd}};
    if (!session.title.empty()) row["title"] = session.title;
    if (session.archived) row["archived"] = true;
    sessions.push_back(std::move(row));
  }
  answer(request, Json{{"sessions", std::move(sessions)}});
}

void Agent::read_nothing(const Request& request) {
  record("read", request.method);
  Json result = Json::object();
  if (request.method == "auth/status") {
    result["state"] = !person_.needs_login ? "not_required"
                      : logged_in_         ? "authenticated"
                                           : "unauthenticated";
  }
  if (request.method == "providers/list") result["providers"] = Json::array();
  answer(request, result);
}

// Methods whose effect is that they were carried out.
void Agent::set_something(const Request& request) {
  record("set", request.method, Json{{"params", request.params}});
  if (request.method == "nes/start") return answer(request, Json{{"sessionId", history_.fresh_id("nes")}});
  answer(request, request.method == "mcp/message" ? Json{{"result", Json::object()}} : Json::object());
}

// Methods on a stored session, active or not.
void Agent::on_session(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  const auto stored = history_.load(id);
  if (!stored) return refuse(request, -32002, "no such session", Json{{"sessionId", id}});
  const bool reads = request.method == "session/status" || request.method == "session/options";
  record(reads ? "read" : "set", request.method, Json{{"sessionId", id}, {"params", request.params}});
  Json result = Json::object();
  if (request.method == "session/status") {
    const auto live = sessions_.find(id);
    const bool open = live != sessions_.end() && live->second.active;
    result["status"] = open ? "open" : "saved";
    if (open && version_ == 2) result["state"] = Json{{"state", live->second.turn ? "running" : "idle"}};
  }
  if (request.method == "session/options") result["configOptions"] = config_options(*stored);
  if (request.method == "session/set_title") {
    history_.append(id, Json{{"t", "title"}, {"value", string_member(request.params, "title").value_or("")}});
  }
  if (request.method == "session/archive" || request.method == "session/unarchive") {
    history_.append(id,
                    Json{{"t", "archived"}, {"value", request.method == "session/archive" ? "yes" : "no"}});
  }
  answer(request, result);
}

void Agent::extension(const Request& request) {
  if (request.method == "_test/echo") {
    return answer(request.id, request.method, request.raw_params.empty() ? "null" : request.raw_params);
  }
  if (request.method == "_test/act") {
    record("act", request.method, Json{{"params", request.params}});
    return answer(request, Json{{"acted", true}});
  }
  Json sessions = Json::array();
  for (const auto& [id, session] : sessions_) {
    sessions.push_back(Json{{"sessionId", id},
                            {"active", session.active},
                            {"working", session.turn.has_value()},
                            {"held", session.held.size()}});
  }
  answer(request, Json{{"pid", ::getpid()}, {"epoch", history_.epoch()}, {"sessions", std::move(sessions)}});
}

void Agent::emit(const Request& request) {
  if (const auto line = string_member(request.params, "line")) wire_.send(*line);
  if (const auto bytes = string_member(request.params, "base64")) wire_.send_part(decode_base64(*bytes));
  answer(request, Json::object());
}

void Agent::take_orders(const Request& request) {
  const std::string id = string_member(request.params, "sessionId").value_or("");
  const auto orders = parse_orders(string_member(request.params, "text").value_or(""));
  answer(request, Json{{"orders", orders.size()}});
  if (!control_.turn) {
    control_.turn.emplace();
    control_.turn->serial = next_turn_++;
    control_.turn->agent_message_id = history_.fresh_id("agent");
  }
  control_.stored.id = id;
  for (const Order& order : orders) {
    if (order.kind != OrderKind::release) {
      control_.turn->steps.push_back(order);
      continue;
    }
    for (auto& [name, session] : sessions_) {
      if (id.empty() || id == name) release(session);
    }
  }
}

}  // namespace acp::test_agent
