// The sessions that went through this relay: which are active on the agent, and how much they have said.
//
// Sources: session/new, fork, resume and load make a session active, close, archive and delete end that (RFD,
// ACP v2 session lifecycle). Invariant: a row number is never given to another session id. Bounded by
// limits::sessions_max: sessions beyond it are relayed and not tracked. Lifetime: rows live as long as the
// relay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/history.h"
#include "proxy/core/id_index.h"
#include "proxy/core/ledger.h"
#include "proxy/core/session_values.h"
#include "proxy/core/types.h"

namespace acp {

enum class SessionState : std::uint8_t {
  mentioned,  // the client named it; whether the agent has it active is not known
  active,
  inactive,  // closed, archived or deleted: prompts need a resume first
};

// How far a session is rebuilt on the present epoch.
enum class Restore : std::uint8_t {
  none,     // nothing to rebuild: it was not active, or the agent offers no way
  due,      // waits for the epoch's initialize
  asked,    // session/resume or session/load is on its way
  setting,  // its values are being set again
  done,
  refused,  // tried again before the next request that needs it, after a pause
  refused_for_good,
  needs_login,  // tried again once the client has authenticated
};

// What is known here of what the ledger has of a session.
enum class LedgerReading : std::uint8_t {
  unread,
  reading,
  waiting,  // an earlier run's processes still live: its agent could still insert
  failed,   // it could not be read; tried again with the next keyed prompt
  read,
};

// A prompt without a key that is not settled by any replay yet.
struct LostUnkeyed {
  LedgerPrompt prompt;
  Saved saved = {};
};

// What the file must not have any more.
struct LedgerRemoval {
  LedgerChange change;
  Fingerprint content;  // of a keyed prompt
  Saved saved = {};
};

struct Session {
  std::string id;  // decoded
  SessionState state = SessionState::mentioned;
  std::uint64_t updates = 0;       // session/update notifications from the agent
  std::uint32_t open_prompts = 0;  // session/prompt requests that are with the agent
  std::uint32_t open_unkeyed = 0;  // those of them without a key that the guard follows

  Restore restore = Restore::none;
  bool is_restorable = false;   // a new, load, resume or fork of it succeeded, and its params are known
  std::string restore_members;  // `,"cwd":…` and so on, as the client last gave them; raw
  bool hides_history = false;   // the replay that comes was asked for by keyhop, not by the client
  std::string refusal;          // the agent's error object, raw
  Instant last_restore{};       // when it was last tried
  Instant restore_alive{};      // the last frame of this session while it is rebuilt
  SessionValues values;
  SessionValues restored_values;             // what the restore's answer reported
  std::vector<SessionValues::Value> to_set;  // in order; those tried once stay behind the rest once more
  std::size_t next_to_set = 0;
  std::size_t first_tries = 0;  // entries of to_set that are first tries

  // ---- the guard (edge_guard.cpp, edge_history.cpp) ----
  LedgerReading ledger = LedgerReading::unread;
  std::uint64_t ledger_ticket = 0;  // of the reading
  Instant ledger_asked{};           // when it was first asked for
  Instant ledger_look_again{};      // waiting: when
  bool is_undecidable = false;      // more prompts were lost than are kept
  bool is_loaded = false;           // what earlier runs knew of its messages was added
  bool has_living_owner = false;    // its open rows cannot be decided yet
  bool needs_reading = false;       // its rows were not held against what the present epoch shows
  bool asks_replay = false;         // the restore at hand asked for the history
  // Who asked for the replay that is being read: a resume of the client's (its row), or keyhop (no_row).
  std::uint32_t replay_reader = UINT32_MAX;
  bool replay_refused = false;   // the present epoch does not show it
  bool precedes_resume = false;  // the restore at hand comes before the client's own resume
  bool hides_rest = false;       // what may still come of the replay, until news of the state
  SessionHistory history;
  std::vector<LostUnkeyed> lost_prompts;  // in the order in which they were sent
  std::vector<LedgerRemoval> removals;    // that are not on the disk yet
  bool must_save = false;                 // a batch is due at the end of the step

  Instant last_traffic{};  // any frame of this session, either way; kept only with --silence-timeout
};

class SessionTable {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  // The row of a session, made if it is new; none if the table is full or the id is longer than
  // limits::session_id_bytes_max.
  std::uint32_t intern(std::string_view id);
  // The row of a session that is known already, or none.
  std::uint32_t find(std::string_view id) const noexcept;
  Session& at(std::uint32_t row) noexcept { return rows_[row]; }
  const Session& at(std::uint32_t row) const noexcept { return rows_[row]; }
  std::size_t size() const noexcept { return rows_.size(); }

 private:
  std::deque<Session> rows_;
  IdIndex index_;
  mutable std::uint32_t last_found_ = none;  // most frames belong to the session of the frame before
};

}  // namespace acp
