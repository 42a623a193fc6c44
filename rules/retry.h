// What to do with a request whose agent went away before it answered: one pure, total function.
//
// Invariant: verdict() depends on nothing but its argument, and every combination of values has an answer. A
// client that is gone, a cancel and the lack of a new agent go before every class. It decides and spends
// nothing: attempts, budget and the answer's text are the caller's. Sources: the RFD "v2 Idempotency Keys"
// (classes), keyhop's own table of losses (README). Lifetime: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace acp::rules {

// How often a request may take effect. The first four are the RFD's; the last two defer to something else.
enum class RetryClass : std::uint8_t {
  idempotent,   // again as it is: no effect beyond the first
  keyed,        // again with the same idempotencyKey; without one it is a new operation
  duplicating,  // again as it is: leaves something unused behind
  not_retried,  // never again
  mcp_defined,  // depends on the MCP message inside, for which MCP defines nothing: never again
  as_carried,  // proxy/…: the class of the message inside, which the caller looks up; unresolved: never again
};

// How far a request got when its epoch ended.
enum class LossPoint : std::uint8_t {
  held,        // not one byte of it was written to the agent
  sent,        // at least one byte was
  cancelling,  // sent, and then the client asked to cancel it
};

// Who looks after the request's idempotency key.
enum class KeyCare : std::uint8_t {
  none,       // no key (absent or null), or a version and method that know none
  forwarded,  // the successor: --keys=forward, a method made keyed by --rule, an edge between components
  guarded,    // keyhop itself: a keyed session/prompt before the agent, --keys=guard
};

// Everything that a verdict depends on.
struct Loss {
  RetryClass retry_class = RetryClass::not_retried;  // after --rule; of the carried message for proxy/…
  LossPoint point = LossPoint::sent;
  KeyCare key = KeyCare::none;
  bool restarts = false;               // a new epoch follows, to which something can be sent
  bool client_gone = false;            // whoever asked will read no answer
  bool cancelled = false;              // cancelled since the loss, or while held
  bool repeated_initialize = false;    // an `initialize` after one that succeeded
  bool newer_change_answered = false;  // a later request that changes the same thing was answered
  bool replay_shown = false;           // a load or resume of which the client already saw part of the replay
  bool recover_prompt = false;         // a session/prompt without a key under --recover-prompts=proven
  bool session_refused = false;        // needs an active session, and the new epoch refused to restore it
};

enum class Verdict : std::uint8_t {
  send,     // for the first time: it never left
  resend,   // again, the original bytes, hence the same key
  resolve,  // look into the replay (or the remembered answer) before anything else
  fail,     // answer with an error
  drop,     // forget it: no answer is owed
};

// What is known about the request's effect; `data.outcome` of keyhop's errors. none: no error is made now.
// verdict() never says `inserted`: that is what resolving may find.
enum class Outcome : std::uint8_t { none, not_sent, unknown, inserted };

// Why a request fails; `data.reason` of keyhop's errors.
enum class Reason : std::uint8_t {
  none,
  agent_lost,          // the agent went, and the class allows no second try (or no new agent comes)
  cancelled,           // the client had asked for this
  newer_change,        // sending it again would undo a later change
  replay_interrupted,  // a second replay would be appended to a part of the first
  session_refused,     // the agent's own error goes to the client unchanged
};

inline constexpr int code_internal_error = -32603;
inline constexpr int code_request_cancelled = -32800;

struct Decision {
  Verdict verdict = Verdict::fail;
  Outcome outcome = Outcome::none;
  Reason reason = Reason::none;
  int code =
      0;  // the error to answer with; 0 unless the verdict is fail, and for session_refused (the agent's own)
  bool operator==(const Decision&) const = default;
};

// The decision for one lost request. A v1 session/prompt that a session/cancel ended while it was held is
// owed `stopReason:"cancelled"` and not an error: the caller knows the version and who cancelled.
Decision decide(const Loss& loss) noexcept;
// Only what to do.
inline Verdict verdict(const Loss& loss) noexcept { return decide(loss).verdict; }

// Stable names, as in `keyhop rules --json` and error data. Never empty but for Outcome::none and
// Reason::none.
std::string_view to_string(RetryClass value) noexcept;
std::string_view to_string(LossPoint value) noexcept;
std::string_view to_string(KeyCare value) noexcept;
std::string_view to_string(Verdict value) noexcept;
std::string_view to_string(Outcome value) noexcept;
std::string_view to_string(Reason value) noexcept;

// A class as a user writes it in --rule: idempotent, keyed, duplicating, not-retried (or not_retried).
std::optional<RetryClass> retry_class_of(std::string_view word) noexcept;

}  // namespace acp::rules
