#include "rules/retry.h"

namespace acp::rules {
namespace {

constexpr Decision fail(Outcome outcome, Reason reason, int code = code_internal_error) {
  return {Verdict::fail, outcome, reason, code};
}

// Not one byte of it left.
Decision decide_held(const Loss& loss) {
  if (loss.cancelled) return fail(Outcome::not_sent, Reason::cancelled, code_request_cancelled);
  if (!loss.restarts) return fail(Outcome::not_sent, Reason::agent_lost);
  if (loss.session_refused) return fail(Outcome::not_sent, Reason::session_refused, 0);
  return {Verdict::send};
}

// What it did is done, and nobody wants more of it. Only a guarded prompt can still learn what that was.
Decision decide_cancelling(const Loss& loss) {
  const bool guarded = loss.retry_class == RetryClass::keyed && loss.key == KeyCare::guarded;
  if (guarded && loss.restarts) return {Verdict::resolve};
  return fail(Outcome::unknown, Reason::cancelled, code_request_cancelled);
}

// RFD: "Without a key, a retry is a new operation." Only a replay can show that the first one never was.
Decision decide_without_key(const Loss& loss) {
  if (loss.recover_prompt) return {Verdict::resolve};
  return fail(Outcome::unknown, Reason::agent_lost);
}

Decision decide_keyed(const Loss& loss) {
  switch (loss.key) {
    case KeyCare::none: return decide_without_key(loss);
    case KeyCare::forwarded: return {Verdict::resend};
    case KeyCare::guarded: return {Verdict::resolve};
  }
  return fail(Outcome::unknown, Reason::agent_lost);
}

Decision decide_idempotent(const Loss& loss) {
  // RFD: "A retry sent after a later change to the same option overwrites that change."
  if (loss.newer_change_answered) return fail(Outcome::unknown, Reason::newer_change);
  if (loss.replay_shown) return fail(Outcome::unknown, Reason::replay_interrupted);
  return {Verdict::resend};
}

Decision decide_sent(const Loss& loss) {
  if (!loss.restarts) return fail(Outcome::unknown, Reason::agent_lost);
  // A new process has seen no initialize yet: there the repeat is the first.
  if (loss.repeated_initialize) return {Verdict::resend};
  switch (loss.retry_class) {
    case RetryClass::idempotent: return decide_idempotent(loss);
    case RetryClass::keyed: return decide_keyed(loss);
    case RetryClass::duplicating: return {Verdict::resend};
    case RetryClass::not_retried:
      return decide_without_key(loss);  // a v1 prompt may be recovered like an unkeyed one
    case RetryClass::mcp_defined:
    case RetryClass::as_carried: return fail(Outcome::unknown, Reason::agent_lost);
  }
  return fail(Outcome::unknown, Reason::agent_lost);
}

}  // namespace

Decision decide(const Loss& loss) noexcept {
  if (loss.client_gone) return {Verdict::drop};
  switch (loss.point) {
    case LossPoint::held: return decide_held(loss);
    case LossPoint::sent: return loss.cancelled ? decide_cancelling(loss) : decide_sent(loss);
    case LossPoint::cancelling: return decide_cancelling(loss);
  }
  return fail(Outcome::unknown, Reason::agent_lost);
}

std::string_view to_string(RetryClass value) noexcept {
  switch (value) {
    case RetryClass::idempotent: return "idempotent";
    case RetryClass::keyed: return "keyed";
    case RetryClass::duplicating: return "duplicating";
    case RetryClass::not_retried: return "not_retried";
    case RetryClass::mcp_defined: return "mcp_defined";
    case RetryClass::as_carried: return "as_carried";
  }
  return "invalid";
}

std::string_view to_string(LossPoint value) noexcept {
  switch (value) {
    case LossPoint::held: return "held";
    case LossPoint::sent: return "sent";
    case LossPoint::cancelling: return "cancelling";
  }
  return "invalid";
}

std::string_view to_string(KeyCare value) noexcept {
  switch (value) {
    case KeyCare::none: return "none";
    case KeyCare::forwarded: return "forwarded";
    case KeyCare::guarded: return "guarded";
  }
  return "invalid";
}

std::string_view to_string(Verdict value) noexcept {
  switch (value) {
    case Verdict::send: return "send";
    case Verdict::resend: return "resend";
    case Verdict::resolve: return "resolve";
    case Verdict::fail: return "fail";
    case Verdict::drop: return "drop";
  }
  return "invalid";
}

std::string_view to_string(Outcome value) noexcept {
  switch (value) {
    case Outcome::none: return "";
    case Outcome::not_sent: return "not_sent";
    case Outcome::unknown: return "unknown";
    case Outcome::inserted: return "inserted";
  }
  return "invalid";
}

std::string_view to_string(Reason value) noexcept {
  switch (value) {
    case Reason::none: return "";
    case Reason::agent_lost: return "agent_lost";
    case Reason::cancelled: return "cancelled";
    case Reason::newer_change: return "newer_change";
    case Reason::replay_interrupted: return "replay_interrupted";
    case Reason::session_refused: return "session_refused";
  }
  return "invalid";
}

std::optional<RetryClass> retry_class_of(std::string_view word) noexcept {
  if (word == "idempotent") return RetryClass::idempotent;
  if (word == "keyed") return RetryClass::keyed;
  if (word == "duplicating") return RetryClass::duplicating;
  if (word == "not-retried" || word == "not_retried") return RetryClass::not_retried;
  return std::nullopt;
}

}  // namespace acp::rules
