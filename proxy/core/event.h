// The whole vocabulary between the core and the world: everything the core may know is an Event, everything
// it may do is an Action.
//
// Invariant: byte views in an event are valid during the step that gets it; byte views in an action until the
// next step begins (they point into the event's bytes, into a buffer of the core's, or into the actions' own
// arena). The shell carries out the actions of a step in order before it feeds the next event. Lifetime:
// plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "proxy/core/ledger.h"
#include "proxy/core/types.h"

namespace acp {

// ---- Events: past tense ----

// Bytes came from a peer. Never empty. At least limits::padding_bytes readable bytes follow the view
// (simdjson reads ahead).
struct BytesRead {
  LinkId link;
  std::string_view bytes;
};

// Why a link's reading side ended, or that its writing side failed (the peer will read no more).
enum class LinkEnd : std::uint8_t { eof, read_failed, write_failed };
struct LinkEnded {
  LinkId link;
  LinkEnd end;
  int error;  // errno value, 0 for eof
};

// How many bytes for that peer are accepted and not yet written. Told whenever it changed over a flush.
struct LinkBacklog {
  LinkId link;
  std::size_t bytes;
};

struct AgentStarted {
  Epoch epoch;
  std::int64_t pid;
};
// The command could not be executed (or no process could be made).
struct AgentStartFailed {
  Epoch epoch;
  int error;  // errno value
};
// The started process itself is gone; others of its session may live.
struct AgentExited {
  Epoch epoch;
  ExitStatus status;
};
// Nothing of that epoch lives any more (daemons that were left alone on purpose excepted).
struct AgentEnded {
  Epoch epoch;
};
struct StderrRead {
  Epoch epoch;
  std::string_view bytes;
};

enum class Signal : std::uint8_t { interrupt, terminate, hangup, report, restart };
struct SignalReceived {
  Signal signal;
  int number;
};
// The instant that Relay::next_deadline() named has come.
struct DeadlineReached {};

// The ledger can be used (once a run, unasked; only where Settings::ledger says that there is one), or not:
// then the error stays for this run. `salt` is valid during the step; null on an error.
struct LedgerOpened {
  LedgerError error;
  const Salt* salt;
};
// A batch is on the disk as a whole, or (error) not at all. In the order of the actions.
struct LedgerCommitted {
  std::uint64_t ticket;
  LedgerError error;
};
// What the ledger has of a session, all batches before included. `session` is valid during the step; null on
// an error.
struct LedgerRead {
  std::uint64_t ticket;
  LedgerError error;
  const LedgerSession* session;
};

using Event =
    std::variant<BytesRead, LinkEnded, LinkBacklog, AgentStarted, AgentStartFailed, AgentExited, AgentEnded,
                 StderrRead, SignalReceived, DeadlineReached, LedgerOpened, LedgerCommitted, LedgerRead>;

// ---- Actions: imperative ----

// Write these bytes to that peer after all bytes sent before. Whole frames with their LF, possibly in several
// actions.
struct Send {
  LinkId link;
  std::string_view bytes;
};
// Back-pressure: stop and go on reading a peer.
struct PauseReading {
  LinkId link;
};
struct ResumeReading {
  LinkId link;
};
// Nothing of that peer lives: read what its pipe still holds, then report LinkEnded{eof} even if somebody
// holds it open.
struct FinishReading {
  LinkId link;
};
// Close the writing side once all bytes sent before are written (or the link failed).
struct CloseWriting {
  LinkId link;
};

// Start the agent's command. Its stdin and stdout become `link`.
struct StartAgent {
  Epoch epoch;
  LinkId link;
  bool is_bypass = false;  // within a chain: no command, the next edge stands in its place
};
// End every process of the epoch: TERM, KILL after `grace`, until none lives; then AgentEnded. A repeat with
// a shorter grace holds.
struct EndAgent {
  Epoch epoch;
  Duration grace;
};

// Write this to the ledger, durably, then report LedgerCommitted. Never waited for on the loop. The batch is
// valid until the next step.
struct CommitLedger {
  const LedgerBatch* batch;
};
// Report what the ledger has of this agent's session.
struct ReadLedger {
  std::uint64_t ticket;
  std::string_view agent;
  std::string_view session;
};

// Raw bytes for keyhop's own stderr (the agent's words). Dropped and counted if nobody reads them.
struct WriteStderr {
  std::string_view bytes;
};
enum class LogLevel : std::uint8_t { debug, info, warning, error };
// One noteworthy event in keyhop's own words. Never a key, prompt text, env or header.
struct Log {
  LogLevel level;
  std::string_view text;
};
// End the process with this status once everything sent is written.
struct Exit {
  int status;
};

using Action = std::variant<Send, PauseReading, ResumeReading, FinishReading, CloseWriting, StartAgent,
                            EndAgent, CommitLedger, ReadLedger, WriteStderr, Log, Exit>;

}  // namespace acp
