// INVARIANT: a condition whose failure is a bug of ours, checked in production too.
//
// For what peers send there are values (Envelope::malformed), for what the system refuses there are error
// codes; this is for neither. A failure prints the condition and its place, no data, and ends the process
// with exit status 70, upon which the watchdog ends the agent. One condition per INVARIANT.
#pragma once

namespace acp {

// Prints to stderr and ends the process with status 70. Never returns.
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace acp

#define INVARIANT(condition)                           \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::acp::invariant_failed(#condition, __FILE__, __LINE__))
