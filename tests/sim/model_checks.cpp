// What the exhaustive model holds keyhop to (invariants.h): at most one insertion, one answer, the right one.
#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "proxy/core/salted_hash.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/model_world.h"

namespace acp::sim {
namespace {

// The place of the request with that id, or SIZE_MAX.
std::size_t place_of_id(std::string_view token, std::size_t count) {
  std::size_t number = 0;
  std::from_chars(token.data(), token.data() + token.size(), number);
  return number >= 1 && number <= count ? number - 1 : SIZE_MAX;
}

}  // namespace

// Nothing leaves before its row is on the disk, twice, or once its client has been answered.
void ModelWorld::check_leaving(std::size_t who, std::string_view line) {
  if (unquoted(member(line, "method")) != "session/prompt") return;
  Side& side = sides_[who];
  const std::size_t place = place_of_id(member(line, "id"), side.asks.size());
  if (place == SIZE_MAX || side.asks[place].kind != Ask::Kind::prompt)
    return fail(Invariant::own_requests, fmt::format("a prompt of nobody's: {}", line));
  Ask& ask = side.asks[place];
  if (!ask.open) fail(Invariant::row_first, fmt::format("sent, and answered before: {}", line));
  if (ask.is_final) fail(Invariant::cancelled, fmt::format("sent again after its cancel: {}", line));
  ask.sent = true;
  for (const ModelPrompt& prompt : side.process->prompts) {
    if (prompt.work == ask.work)
      fail(Invariant::one_insertion, fmt::format("its key is pending at the agent: {}", line));
  }
  const Fingerprint hash = SaltedHash(ledger_.salt(), 'k').add(key_name(ask.work.key)).print();
  const LedgerSession& known = ledger_.read("A", session_name(ask.work.session));
  if (std::ranges::none_of(known.rows, [&](const LedgerRow& row) { return row.key == hash; }))
    fail(Invariant::row_first, fmt::format("left before its row was written: {}", line));
}

void ModelWorld::hear(std::size_t who, std::string_view line) {
  if (trace_ != nullptr) tell("  to the client", line);
  Side& side = sides_[who];
  if (!member(line, "method").empty()) return;
  const std::size_t place = place_of_id(member(line, "id"), side.asks.size());
  if (place == SIZE_MAX) return fail(Invariant::one_answer, fmt::format("an answer to nothing: {}", line));
  Ask& ask = side.asks[place];
  if (!ask.open) return fail(Invariant::one_answer, fmt::format("a second answer: {}", line));
  ask.open = false;
  const bool success = member(line, "error").empty();
  if (ask.kind == Ask::Kind::resume && success) side.active[ask.work.session] = true;
  if (ask.kind != Ask::Kind::prompt) return;
  return success ? hear_prompt_result(ask, line) : hear_prompt_error(ask, line);
}

void ModelWorld::hear_prompt_result(const Ask& ask, std::string_view line) {
  const ModelMessage* message = disk_.find(unquoted(member(line, "result", "messageId")));
  if (message == nullptr)
    return fail(Invariant::own_message, fmt::format("a message that never was: {}", line));
  if (message->work != ask.work)
    fail(Invariant::own_message,
         fmt::format("another prompt's message, of {} in {}: {}", key_name(message->work.key),
                     session_name(message->work.session), line));
}

void ModelWorld::hear_prompt_error(const Ask& ask, std::string_view line) {
  const std::string_view data = member(line, "error", "data");
  if (unquoted(member(data, "source")) != "keyhop") return;
  const std::string_view outcome = unquoted(member(data, "outcome"));
  const bool is_there = ask.message != ModelPrompt::not_inserted && !disk_.messages[ask.message].gone;
  if (outcome == "not_sent" && is_there)
    fail(Invariant::acted, fmt::format("said not to be sent, and inserted: {}", line));
  if (outcome == "inserted" && std::ranges::none_of(disk_.messages, [&](const ModelMessage& message) {
        return message.work == ask.work;
      }))
    fail(Invariant::acted, fmt::format("said to be inserted, and is not: {}", line));
  if (unquoted(member(data, "reason")) == "key_reused")
    fail(Invariant::own_answer, fmt::format("no other work had that key: {}", line));
  const bool decidable = !decidable_.empty() && decidable_[ask.work.session];
  if (decidable && outcome == "unknown")
    fail(Invariant::decidable, fmt::format("unknown, though everything is known: {}", line));
}

}  // namespace acp::sim
