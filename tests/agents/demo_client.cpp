// keyhop-demo-client: what keyhop is for, shown in a few seconds with an agent that does not know idempotency
// keys, and that dies.
//
// The same keyed prompt is sent three times, first to the agent alone, then through keyhop; what counts is
// how often the agent's own history has it. Then the agent behind keyhop is killed and its client goes on.
// Exit 0 only if everything that the story claims was seen.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/agents/demo_peer.h"
#include "tests/agents/demo_story.h"

namespace {

using acp::demo::Json;
using acp::demo::Peer;
using acp::demo::Story;
using acp::test_agent::member;
using acp::test_agent::string_member;

constexpr const char* prompt_text = "Run the database migration";

struct Options {
  std::string keyhop;
  std::string agent;
  std::string directory;  // empty: a temporary one, removed at the end
  bool help = false;
};

// What one round of three sends came to.
struct Outcome {
  std::map<int, std::string> message_ids;  // request id -> messageId
  std::size_t inserted = 0;                // in the agent's own history
  bool complete = false;                   // three answers, each once, and a clean end
};

std::string random_key() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return "demo-key";
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string key;
  for (std::size_t i = 0; i < sizeof bytes; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) key.push_back('-');
    key += digits;
  }
  return key;
}

Json request(int id, const char* method, Json params) {
  return Json{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

// The answer to one request; everything before it is passed over. Null: none came, or an error.
Json result_of(Peer& peer, int id) {
  while (const auto frame = peer.receive()) {
    const Json* answered = member(*frame, "id");
    if (answered == nullptr || *answered != id || member(*frame, "method") != nullptr) continue;
    const Json* result = member(*frame, "result");
    return result != nullptr ? *result : Json();
  }
  return Json();
}

// How many user messages the agent has inserted, from its record of effects.
std::size_t count_insertions(const std::string& directory) {
  std::set<std::string> inserted;
  std::ifstream record(directory + "/acted.jsonl");
  for (std::string line; std::getline(record, line);) {
    const Json effect = Json::parse(line, nullptr, false);
    if (string_member(effect, "effect") == "insert")
      inserted.insert(string_member(effect, "messageId").value_or(""));
  }
  return inserted.size();
}

std::string times(std::size_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

// Receives answers to the open requests and tells of each, until all are there.
bool receive_answers(Story& story, Peer& peer, std::set<int> open, Outcome& outcome) {
  while (!open.empty()) {
    const auto frame = peer.receive();
    if (!frame) {
      story.found(false, "no answer came");
      return false;
    }
    const Json* id = member(*frame, "id");
    if (id == nullptr || !id->is_number_integer() || member(*frame, "method") != nullptr)
      continue;  // an update
    const int number = id->get<int>();
    const Json* result = member(*frame, "result");
    const auto message = result != nullptr ? string_member(*result, "messageId") : std::nullopt;
    if (open.erase(number) == 0 || !message) {
      story.found(false, "unexpected: " + acp::test_agent::to_line(*frame));
      return false;
    }
    outcome.message_ids[number] = *message;
    story.received("answer to id " + std::to_string(number) + ": messageId " + *message);
  }
  return true;
}

Outcome send_three_times(Story& story, const std::vector<std::string>& command,
                         const std::string& directory) {
  Outcome outcome;
  // What keyhop remembers on disk stays in the demo's directory.
  Peer peer(command, directory + "/stderr.txt", {{"XDG_STATE_HOME", directory}});
  peer.send(
      request(1, "initialize", Json{{"protocolVersion", 2}, {"info", {{"name", "demo"}, {"version", "1"}}}}));
  if (result_of(peer, 1).is_null()) {
    story.found(false, "initialize was not answered");
    return outcome;
  }
  peer.send(request(2, "session/new", Json{{"cwd", directory}, {"mcpServers", Json::array()}}));
  const auto session = string_member(result_of(peer, 2), "sessionId");
  if (!session) {
    story.found(false, "session/new was not answered");
    return outcome;
  }
  const std::string key = random_key();
  const auto prompt = [&](int id) {
    return request(id, "session/prompt",
                   Json{{"sessionId", *session},
                        {"prompt", Json::array({Json{{"type", "text"}, {"text", prompt_text}}})},
                        {"idempotencyKey", key}});
  };
  story.restart_clock();
  peer.send(prompt(7));
  story.sent("id 7  session/prompt \"" + std::string(prompt_text) + "\"");
  story.text("                  key " + key);
  peer.send(prompt(8));
  story.sent(std::string("id 8  the same prompt, the same key") +
             (peer.has_frame() ? "" : "; 7 is not answered yet"));
  if (!receive_answers(story, peer, {7, 8}, outcome)) return outcome;
  peer.send(prompt(9));
  story.sent("id 9  once more, as if the answers had been lost");
  if (!receive_answers(story, peer, {9}, outcome)) return outcome;

  const auto status = peer.finish();
  while (const auto frame = peer.receive()) {
    if (member(*frame, "method") != nullptr) continue;
    story.found(false, "one answer too many: " + acp::test_agent::to_line(*frame));
    return outcome;
  }
  const auto left = acp::demo::remaining_processes(std::chrono::seconds(8));
  if (!status || *status != 0) {
    story.found(false, status ? "it ended with exit status " + std::to_string(*status) : "it does not end");
  }
  for (const pid_t pid : left) story.found(false, "process " + std::to_string(pid) + " is still there");
  outcome.inserted = count_insertions(directory);
  outcome.complete = status && *status == 0 && left.empty();
  return outcome;
}

std::size_t different_ids(const Outcome& outcome) {
  std::set<std::string> ids;
  for (const auto& [id, message] : outcome.message_ids) ids.insert(message);
  return ids.size();
}

bool says_state(const Json& frame, const char* state) {
  const Json* params = member(frame, "params");
  const Json* update = params != nullptr ? member(*params, "update") : nullptr;
  return update != nullptr && string_member(*update, "state") == state;
}

// The next update that says that the session is in this state. False: none came.
bool await_state(Peer& peer, const char* state) {
  while (const auto frame = peer.receive()) {
    if (says_state(*frame, state)) return true;
  }
  return false;
}

// The agent's own process, or -1.
pid_t agent_pid(Peer& peer, int id) {
  peer.send(request(id, "_test/state", Json::object()));
  const Json state = result_of(peer, id);
  const Json* pid = member(state, "pid");
  return pid != nullptr && pid->is_number_integer() ? pid->get<pid_t>() : -1;
}

// A session with a prompt at work. Nothing: it did not come to that.
std::optional<std::string> begin_work(Peer& peer, const std::string& directory) {
  peer.send(
      request(1, "initialize", Json{{"protocolVersion", 2}, {"info", {{"name", "demo"}, {"version", "1"}}}}));
  if (result_of(peer, 1).is_null()) return std::nullopt;
  peer.send(request(2, "session/new", Json{{"cwd", directory}, {"mcpServers", Json::array()}}));
  return string_member(result_of(peer, 2), "sessionId");
}

Json plain_prompt(int id, const std::string& session, const char* text) {
  return request(
      id, "session/prompt",
      Json{{"sessionId", session}, {"prompt", Json::array({Json{{"type", "text"}, {"text", text}}})}});
}

// What the client sees after the death, in whichever order it comes: the session restored, the answer to
// id 4. False: not all of it.
bool see_restore(Story& story, Peer& peer) {
  bool restored = false;
  bool answered = false;
  while (!restored || !answered) {
    const auto frame = peer.receive();
    if (!frame) return false;
    if (!restored && says_state(*frame, "idle")) {
      restored = true;
      story.received("a new agent has the session: keyhop started it and restored what was open");
    }
    const Json* id = member(*frame, "id");
    if (id == nullptr || *id != 4 || member(*frame, "method") != nullptr) continue;
    if (answered || member(*frame, "result") == nullptr) return false;
    answered = true;
    story.received("answer to id 4: the list, as if nothing had happened");
  }
  return true;
}

bool go_on(Story& story, Peer& peer, const std::string& session) {
  if (!see_restore(story, peer)) return false;
  peer.send(plain_prompt(5, session, "Go on"));
  story.sent("id 5  session/prompt \"Go on\"");
  const auto message = string_member(result_of(peer, 5), "messageId");
  if (!message) return false;
  story.received("answer to id 5: messageId " + *message);
  return true;
}

// The agent is killed while it works; the client goes on with the same connection and the same session.
bool survive_a_kill(Story& story, const std::vector<std::string>& command, const std::string& directory) {
  Peer peer(command, directory + "/stderr.txt", {{"XDG_STATE_HOME", directory}});
  const auto session = begin_work(peer, directory);
  if (!session) return false;
  story.restart_clock();
  peer.send(plain_prompt(3, *session, "Run all the tests"));
  story.sent("id 3  session/prompt \"Run all the tests\"");
  if (!string_member(result_of(peer, 3), "messageId") || !await_state(peer, "running")) return false;
  story.received("answer to id 3; the agent is at work");
  const pid_t first = agent_pid(peer, 100);
  if (first <= 0 || ::kill(first, SIGKILL) != 0) return false;
  story.restart_clock();
  story.found(false, "kill -9 " + std::to_string(first) + ": the agent is dead, in the middle of its work");
  peer.send(request(4, "session/list", Json::object()));
  story.sent("id 4  session/list, to an agent that is no more");
  if (!go_on(story, peer, *session)) return false;
  const pid_t second = agent_pid(peer, 101);
  const auto status = peer.finish();
  const auto left = acp::demo::remaining_processes(std::chrono::seconds(8));
  for (const pid_t pid : left) story.found(false, "process " + std::to_string(pid) + " is still there");
  const std::size_t inserted = count_insertions(directory);
  const bool good = second > 0 && second != first && status && *status == 0 && left.empty() && inserted == 2;
  story.found(good, "Process " + std::to_string(second) + " went on for process " + std::to_string(first) +
                        "; the agent's history has " + std::to_string(inserted) +
                        " prompts of 2; no process is left.");
  return good;
}

bool tell(Story& story, const Options& options) {
  const auto agent_command = [&](const std::string& directory) {
    return std::vector<std::string>{options.agent, "--history",      directory, "--keys",
                                    "ignore",      "--insert-delay", "400"};
  };
  const auto make = [&](const char* name) {
    std::string directory = options.directory + "/" + name;
    ::mkdir(directory.c_str(), 0700);
    return directory;
  };
  story.text(
      "A client that misses an answer sends its prompt again. The idempotency key in it says that it is");
  story.text(
      "the same prompt, not a new one. This agent ignores keys, as the agents do that one can install "
      "today.");

  story.title("Without keyhop:  client - agent");
  const std::string alone = make("alone");
  const Outcome direct = send_three_times(story, agent_command(alone), alone);
  if (!direct.complete || direct.inserted != 3) return false;
  story.text("The agent's own history has the prompt " + times(direct.inserted) +
             (direct.inserted == 3 ? ": the migration would run 3 times."
                                   : ". It should be 3 times: this agent ignores keys."));

  story.title("With keyhop:  client - keyhop - agent");
  const std::string behind = make("behind");
  std::vector<std::string> command = {options.keyhop, "--ledger", behind + "/ledger.db", "--"};
  for (const std::string& word : agent_command(behind)) command.push_back(word);
  const Outcome relayed = send_three_times(story, command, behind);
  if (!relayed.complete) return false;
  const bool one = relayed.inserted == 1 && different_ids(relayed) == 1;
  story.found(one, "The agent's own history has the prompt " + times(relayed.inserted) + "; " +
                       std::to_string(relayed.message_ids.size()) + " answers, " +
                       (different_ids(relayed) == 1 ? "one messageId." : "different messageIds."));
  if (one) story.text("keyhop and the agent have ended; no process is left.");
  if (!one) return false;

  story.title("The agent dies behind keyhop");
  const std::string killed = make("killed");
  // Work that does not end by itself within the demo.
  return survive_a_kill(story,
                        {options.keyhop, "--ledger", killed + "/ledger.db", "--", options.agent, "--history",
                         killed, "--turn", "60000"},
                        killed);
}

void show_errors(const Options& options) {
  for (const char* name : {"alone", "behind", "killed"}) {
    std::ifstream errors(options.directory + "/" + name + "/stderr.txt");
    for (std::string line; std::getline(errors, line);)
      std::fprintf(stderr, "  %s: %s\n", name, line.c_str());
  }
}

bool read_options(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--help") {
      options.help = true;
      return true;
    }
    if (i + 1 == count) return false;
    const std::string value = arguments[++i];
    if (name == "--keyhop") {
      options.keyhop = value;
    } else if (name == "--agent") {
      options.agent = value;
    } else if (name == "--directory") {
      options.directory = value;
    } else {
      return false;
    }
  }
  return !options.keyhop.empty() && !options.agent.empty();
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!read_options(count, arguments, options) || options.help) {
    std::fputs(
        "keyhop-demo-client --keyhop PATH --agent PATH [--directory DIR]\n"
        "Sends one keyed prompt three times to the agent, directly and through keyhop, and counts the "
        "insertions;\n"
        "then kills the agent behind keyhop and goes on.\n"
        "  --directory DIR   where histories and logs go and stay (else: temporary, removed)\n",
        options.help ? stdout : stderr);
    return options.help ? 0 : 64;
  }
  std::signal(SIGPIPE, SIG_IGN);
  acp::demo::adopt_orphans();
  const bool temporary = options.directory.empty();
  if (temporary) {
    std::string name = (std::filesystem::temp_directory_path() / "keyhop-demo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::fprintf(stderr, "keyhop-demo-client: cannot make a temporary directory\n");
      return 73;
    }
    options.directory = name;
  }
  Story story;
  const bool good = tell(story, options);
  if (!good) {
    story.found(false, "The demo did not show what it should. What the programs wrote to stderr:");
    std::fflush(stdout);
    show_errors(options);
  }
  std::error_code ignored;
  if (temporary) std::filesystem::remove_all(options.directory, ignored);
  return good ? 0 : 1;
}
