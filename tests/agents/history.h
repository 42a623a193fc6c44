// What the agent remembers and what it did, on disk: the record that a test counts, never the sends.
//
// Files of the directory, all append-only JSON lines, each line synced before anybody is told of it:
//   session-ID.jsonl  what a session consists of (the message and its key in one line)
//   acted.jsonl       every effect: {"effect","method","pid","epoch",…}
//   epochs.jsonl      one line a start
//   orders.jsonl      orders that are obeyed only once
//   pids              "PID MODE" of every process that an order spawned
// A last line without its line feed is a torn write: it is cut off at the next start. Several processes may
// append at one time (an old agent that outlives its successor): each append holds the file's lock.
//
// Invariant: a message that a session file holds is in acted.jsonl too, at the latest after the next start.
// Lifetime: the process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/agents/raw_frame.h"

namespace acp::test_agent {

struct StoredMessage {
  bool from_user = false;
  std::string message_id;
  Json content;  // array of content blocks, as replayed
  std::string
      text_before;  // user messages: the prompt as it was sent (differs from content if that is rewritten)
  std::string key;  // empty: none
};

struct StoredSession {
  std::string id;
  std::string cwd;
  std::string title;
  std::string mode = "code";
  std::map<std::string, std::string> config = {{"model", "m1"}, {"effort", "low"}};
  bool archived = false;
  bool deleted = false;
  std::vector<StoredMessage> messages;
};

class HistoryStore {
 public:
  // Opens (and makes) the directory, mends torn lines, completes acted.jsonl, counts this start. An empty
  // directory name keeps everything in memory. False: the directory cannot be used.
  bool open(const std::string& directory, bool sync);

  std::uint64_t epoch() const { return epoch_; }
  // An id that no other start of this agent gave: PREFIX-EPOCH-N.
  std::string fresh_id(const char* prefix);

  // The session as the record has it now, read anew. Nothing: unknown or deleted.
  std::optional<StoredSession> load(const std::string& id) const;
  std::vector<StoredSession> list() const;

  // Appends one line to a session's file: {"t":"session"|"user"|"agent"|"mode"|"config"|"title"|"archived"|
  // "deleted", …}. Durable on return.
  void append(const std::string& id, const Json& line);
  void append_message(const std::string& id, const StoredMessage& message);

  // Records an effect. pid and epoch are added here. Durable on return.
  void acted(Json effect);

  // True the first time that this mark is made in this history.
  bool mark_order(const std::string& mark);

  // Where spawned processes write their pid; empty without a directory.
  std::string pids_path() const { return directory_.empty() ? std::string{} : directory_ + "/pids"; }
  std::string faults_path() const { return directory_ + "/faults"; }

 private:
  std::string session_path(const std::string& id) const;
  std::vector<std::string> session_paths() const;
  std::vector<Json> lines_of(const std::string& path) const;
  void append_line(const std::string& path, const Json& line);
  void complete_acted();

  std::string directory_;
  bool sync_ = true;
  std::uint64_t epoch_ = 1;
  std::uint64_t next_id_ = 1;
  std::map<std::string, std::vector<Json>> memory_;  // path -> lines, without a directory
};

// A prompt's content as one comparable line.
std::string content_line(const Json& content);
// FNV-1a of a text, as 16 hex digits.
std::string text_hash(const std::string& text);

}  // namespace acp::test_agent
