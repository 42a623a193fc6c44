#include "tests/agents/history.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace acp::test_agent {
namespace {

// A history that cannot be written must stop the agent: an acknowledged effect that is not recorded would
// make every count that a test takes worthless.
[[noreturn]] void give_up(const char* what, const std::string& path) {
  std::fprintf(stderr, "keyhop-test-agent: cannot %s %s\n", what, path.c_str());
  ::_exit(74);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// Session ids come from peers: only what is harmless in a file name stays, the rest becomes its hash.
std::string file_name(const std::string& id) {
  const bool plain =
      !id.empty() && id.size() < 100 && id[0] != '.' &&
      id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
          std::string::npos;
  return plain ? id : "hash." + text_hash(id);
}

// Cuts a torn last line off, under the lock that every append takes.
void mend(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  ::flock(file, LOCK_EX);
  const off_t size = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  // A start must not cost more the longer the history is.
  if (size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n') {
    const std::string content = read_file(path);
    const std::size_t end = content.rfind('\n');
    const std::size_t whole = end == std::string::npos ? 0 : end + 1;
    if (::ftruncate(file, static_cast<off_t>(whole)) != 0) give_up("mend", path);
  }
  ::close(file);
}

// The last line of a mended file, without its line feed.
std::string last_line(const std::string& path) {
  constexpr off_t window = 64 * 1024;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const off_t size = ::lseek(file, 0, SEEK_END);
  std::string content(static_cast<std::size_t>(std::min(size, window)), '\0');
  const ssize_t count = ::pread(file, content.data(), content.size(), size - std::min(size, window));
  ::close(file);
  content.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (content.empty()) return {};
  content.pop_back();
  std::size_t begin = content.rfind('\n');
  if (begin == std::string::npos && size > window) {  // one very long line
    content = read_file(path);
    content.pop_back();
    begin = content.rfind('\n');
  }
  return begin == std::string::npos ? content : content.substr(begin + 1);
}

void apply(StoredSession& session, const Json& line) {
  const std::string kind = string_member(line, "t").value_or("");
  const auto text = [&](const char* name) { return string_member(line, name).value_or(""); };
  if (kind == "session") {
    // A fixed session id can be made anew: the new session begins empty.
    session = StoredSession{};
    session.id = text("sessionId");
    session.cwd = text("cwd");
  } else if (kind == "user" || kind == "agent") {
    const Json* content = member(line, "content");
    session.messages.push_back(StoredMessage{kind == "user", text("messageId"),
                                             content != nullptr ? *content : Json::array(), text("sent"),
                                             text("key")});
  } else if (kind == "mode") {
    session.mode = text("value");
  } else if (kind == "config") {
    session.config[text("configId")] = text("value");
  } else if (kind == "title") {
    session.title = text("value");
  } else if (kind == "archived") {
    session.archived = text("value") == "yes";
  } else if (kind == "deleted") {
    session.deleted = true;
  }
}

}  // namespace

std::string content_line(const Json& content) { return to_line(content); }

std::string text_hash(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

bool HistoryStore::open(const std::string& directory, bool sync) {
  directory_ = directory;
  sync_ = sync;
  if (directory_.empty()) return true;
  ::mkdir(directory_.c_str(), 0700);
  DIR* entries = ::opendir(directory_.c_str());
  if (entries == nullptr) return false;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.size() > 6 && name.substr(name.size() - 6) == ".jsonl") mend(directory_ + "/" + name);
  }
  ::closedir(entries);

  // The count and the new line belong together: two starts at one moment must not share an epoch.
  const std::string path = directory_ + "/epochs.jsonl";
  const int lock = ::open((directory_ + "/epochs.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return false;
  ::flock(lock, LOCK_EX);
  epoch_ = lines_of(path).size() + 1;
  append_line(path, Json{{"epoch", epoch_}, {"pid", ::getpid()}});
  complete_acted();
  ::close(lock);
  return true;
}

std::string HistoryStore::fresh_id(const char* prefix) {
  return std::string(prefix) + "-" + std::to_string(epoch_) + "-" + std::to_string(next_id_++);
}

std::string HistoryStore::session_path(const std::string& id) const {
  return directory_ + "/session-" + file_name(id) + ".jsonl";
}

std::vector<Json> HistoryStore::lines_of(const std::string& path) const {
  if (directory_.empty()) {
    const auto found = memory_.find(path);
    return found == memory_.end() ? std::vector<Json>{} : found->second;
  }
  std::vector<Json> lines;
  std::istringstream content(read_file(path));
  for (std::string line; std::getline(content, line);) {
    if (content.eof()) break;  // no line feed behind it: torn, or still being written
    Json value = Json::parse(line, nullptr, false);
    if (!value.is_discarded()) lines.push_back(std::move(value));
  }
  return lines;
}

void HistoryStore::append_line(const std::string& path, const Json& line) {
  if (directory_.empty()) {
    memory_[path].push_back(line);
    return;
  }
  const std::string bytes = to_line(line) + "\n";
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) give_up("open", path);
  ::flock(file, LOCK_EX);
  for (std::size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::write(file, bytes.data() + written, bytes.size() - written);
    if (count <= 0) give_up("write", path);
    written += static_cast<std::size_t>(count);
  }
  if (sync_ && ::fsync(file) != 0) give_up("sync", path);
  ::close(file);
}

std::optional<StoredSession> HistoryStore::load(const std::string& id) const {
  StoredSession session;
  for (const Json& line : lines_of(session_path(id))) apply(session, line);
  if (session.id != id || session.deleted) return std::nullopt;
  return session;
}

std::vector<std::string> HistoryStore::session_paths() const {
  std::vector<std::string> paths;
  if (directory_.empty()) {
    for (const auto& [path, lines] : memory_) paths.push_back(path);
  } else if (DIR* entries = ::opendir(directory_.c_str())) {
    while (const dirent* entry = ::readdir(entries)) paths.push_back(directory_ + "/" + entry->d_name);
    ::closedir(entries);
  }
  const auto is_other = [](const std::string& path) { return path.find("/session-") == std::string::npos; };
  paths.erase(std::remove_if(paths.begin(), paths.end(), is_other), paths.end());
  return paths;
}

std::vector<StoredSession> HistoryStore::list() const {
  std::map<std::string, StoredSession> by_id;
  for (const std::string& path : session_paths()) {
    StoredSession session;
    for (const Json& line : lines_of(path)) apply(session, line);
    if (!session.id.empty() && !session.deleted) by_id[session.id] = std::move(session);
  }
  std::vector<StoredSession> sessions;
  for (auto& [id, session] : by_id) sessions.push_back(std::move(session));
  return sessions;
}

void HistoryStore::append(const std::string& id, const Json& line) { append_line(session_path(id), line); }

void HistoryStore::append_message(const std::string& id, const StoredMessage& message) {
  Json line{{"t", message.from_user ? "user" : "agent"},
            {"messageId", message.message_id},
            {"content", message.content}};
  if (message.from_user) line["sent"] = message.text_before;
  if (!message.key.empty()) line["key"] = message.key;
  append(id, line);
}

void HistoryStore::acted(Json effect) {
  effect["pid"] = ::getpid();
  effect["epoch"] = epoch_;
  append_line(directory_ + "/acted.jsonl", effect);
}

bool HistoryStore::mark_order(const std::string& mark) {
  const std::string path = directory_ + "/orders.jsonl";
  for (const Json& line : lines_of(path)) {
    if (string_member(line, "order") == mark) return false;
  }
  append_line(path, Json{{"order", mark}});
  return true;
}

// A kill between the two appends leaves a message that was inserted and not yet counted: it is the last line
// of its session, since nothing follows a kill.
void HistoryStore::complete_acted() {
  std::string counted;
  for (const std::string& path : session_paths()) {
    const Json line = Json::parse(last_line(path), nullptr, false);
    if (line.is_discarded() || string_member(line, "t") != "user") continue;
    if (counted.empty()) counted = read_file(directory_ + "/acted.jsonl");
    const std::string id = string_member(line, "messageId").value_or("");
    // An insertion always names its message in these words; other effects name one only after it.
    if (counted.find("\"messageId\":" + to_line(id)) != std::string::npos) continue;
    StoredSession session;
    for (const Json& earlier : lines_of(path)) apply(session, earlier);
    const std::string sent = string_member(line, "sent").value_or("");
    const Json prompt = Json::parse(sent, nullptr, false);
    Json effect{{"effect", "insert"},      {"method", "session/prompt"},
                {"sessionId", session.id}, {"messageId", id},
                {"hash", text_hash(sent)}, {"prompt", prompt.is_discarded() ? Json::array() : prompt},
                {"completed", true}};
    if (const auto key = string_member(line, "key")) effect["key"] = *key;
    acted(std::move(effect));
  }
}

}  // namespace acp::test_agent
