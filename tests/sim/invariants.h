// Everything that the simulated worlds hold keyhop to, each with its name in a finding and the sentence that
// it stands for. There is no other list.
//
// Whose promise it is: the RFD on idempotency keys and retries, the protocol (ACP, JSON-RPC and their
// framing), or keyhop's own. Invariant: a finding names one of these, so a name that is not here does not
// compile. Lifetime: constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace acp::sim {

enum class Invariant : std::uint8_t {
  bytes,
  due,
  ids,
  one_answer,
  own_answer,
  one_insertion,
  cancelled,
  whole_lines,
  valid,
  secrets,
  pressure,
  phases,
  exit,
  rest,
  dead_epochs,
  one_life,
  initialize,
  restore,
  once,
  again,
  held,
  acted,
  order,
  news,
  replay,
  questions,
  moot,
  own_requests,
  values,
  budget,
  own_message,
  row_first,
  decidable,
  one_history,
  apart,
  keys,
  scope,
  count_,
};

enum class Promise : std::uint8_t { rfd, protocol, keyhop };

struct InvariantFacts {
  Invariant invariant;
  std::string_view name;
  Promise promise;
  std::string_view sentence;
};

inline constexpr InvariantFacts invariants[] = {
    {Invariant::bytes, "bytes", Promise::keyhop,
     "A message goes on as it came, to the byte, but for the spans that must differ on the next hop."},
    {Invariant::due, "due", Promise::keyhop,
     "What is owed comes in the same step, in order, the answers of one key side by side; nothing else "
     "comes."},
    {Invariant::ids, "ids", Promise::protocol,
     "An answer bears the id of its request; two open requests on a wire never share one, and an id differs "
     "from its sender's only where it must."},
    {Invariant::one_answer, "one answer", Promise::protocol,
     "Every request gets exactly one answer, none once its client is gone, and nothing else is answered."},
    {Invariant::own_answer, "own answer", Promise::keyhop,
     "An answer is the one that the agent gave to that request; an error of keyhop's own tells the truth."},
    {Invariant::one_insertion, "one insertion", Promise::rfd,
     "While a prompt with a key is pending at the agent, the same key is not sent to it again."},
    {Invariant::cancelled, "cancelled", Promise::protocol,
     "A cancel goes out once, under the id that its receiver knows; what was cancelled is not sent (again)."},
    {Invariant::whole_lines, "whole lines", Promise::protocol,
     "What is written to a peer is whole lines, and nothing after its stdin was closed."},
    {Invariant::valid, "valid", Promise::protocol,
     "Nothing reaches a peer that is no message, bears an unusable id or a key outside the schema."},
    {Invariant::secrets, "secrets", Promise::rfd,
     "A key is its client's secret: it is in no word of keyhop's own, neither logs nor errors."},
    {Invariant::pressure, "pressure", Promise::keyhop,
     "A peer whose bytes fill the other's queue is not read; it is read again once that has drained."},
    {Invariant::phases, "phases", Promise::keyhop,
     "A life has its order, and Exit comes once, when everything is settled."},
    {Invariant::exit, "exit", Promise::keyhop,
     "The exit status is the agent's, 0 where keyhop ended it after its client, 128+n after a signal."},
    {Invariant::rest, "rest", Promise::keyhop,
     "Without faults everything comes to rest: no request stays open, no table holds one, keyhop ends."},
    {Invariant::dead_epochs, "dead epochs", Promise::keyhop,
     "Not a byte goes to a process that is over, and none of its words is believed."},
    {Invariant::one_life, "one life", Promise::keyhop,
     "A process is started only when nothing of the one before it lives."},
    {Invariant::initialize, "initialize", Promise::protocol,
     "A new process gets initialize first, and nothing else before it has answered."},
    {Invariant::restore, "restore", Promise::rfd,
     "A session that was active is restored once, with the params that the client last gave, before any "
     "frame of it."},
    {Invariant::once, "once", Promise::rfd,
     "What must not be repeated acts at most once: a keyed prompt is inserted once, whatever dies."},
    {Invariant::again, "again", Promise::rfd,
     "What may be repeated is sent again after a loss; it is not failed while another process follows."},
    {Invariant::held, "held", Promise::keyhop, "What no process took a byte of is sent, not called lost."},
    {Invariant::acted, "acted", Promise::rfd,
     "A success means that the agent acted, inserted that it did, not_sent that it did not."},
    {Invariant::order, "order", Promise::protocol,
     "Requests of one session reach each process in the order in which the client sent them."},
    {Invariant::news, "news", Promise::keyhop,
     "Every update of a living process reaches the client, in order, never held back; no answer overtakes "
     "it."},
    {Invariant::replay, "replay", Promise::keyhop,
     "The history that keyhop's own restore asked for never reaches the client; the state does."},
    {Invariant::questions, "questions", Promise::protocol,
     "The agent's requests have ids of their own over all processes; an answer reaches the one that asked."},
    {Invariant::moot, "moot", Promise::keyhop,
     "When a process is over, each request of its that is open at the client is cancelled there once."},
    {Invariant::own_requests, "own requests", Promise::keyhop,
     "keyhop asks nothing but initialize, resume, load and set_*, never session/new, and no client sees it."},
    {Invariant::values, "values", Promise::keyhop,
     "After a restore, mode and options are what they were last known to be."},
    {Invariant::budget, "budget", Promise::keyhop,
     "Starts keep to --restart-limit, and wait after lives that did not serve."},
    {Invariant::own_message, "own message", Promise::rfd,
     "The message in an answer is one that was inserted for this very prompt."},
    {Invariant::row_first, "row first", Promise::keyhop,
     "A prompt with a key leaves after its row is on the disk, and not once it was said not to be sent."},
    {Invariant::decidable, "decidable", Promise::rfd,
     "Where the agent's history says what became of a prompt, its retry is not answered unknown."},
    {Invariant::one_history, "one history", Promise::keyhop, "One seed gives one history."},
    {Invariant::apart, "apart", Promise::keyhop,
     "The end of a chain's component starts and ends no other component's process."},
    {Invariant::keys, "keys", Promise::rfd,
     "A key reaches the agent as the client gave it, through every component before it."},
    {Invariant::scope, "scope", Promise::protocol,
     "An elicitation that belongs to a request names it by the id that its receiver knows."},
};

constexpr std::string_view name_of(Invariant invariant) noexcept {
  return invariants[static_cast<std::size_t>(invariant)].name;
}

constexpr std::string_view name_of(Promise promise) noexcept {
  constexpr std::string_view names[] = {"RFD", "protocol", "keyhop"};
  return names[static_cast<std::size_t>(promise)];
}

static_assert(std::size(invariants) == static_cast<std::size_t>(Invariant::count_));
static_assert([] {
  for (std::size_t i = 0; i < std::size(invariants); ++i) {
    if (static_cast<std::size_t>(invariants[i].invariant) != i) return false;
  }
  return true;
}());

}  // namespace acp::sim
