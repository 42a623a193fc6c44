#include "tests/sim/memory_ledger.h"

#include <algorithm>
#include <variant>

namespace acp::sim {
namespace {

struct Apply {
  LedgerSession& session;
  std::uint64_t run;
  bool conflict = false;

  LedgerRow* find(const Fingerprint& key) {
    const auto found =
        std::ranges::find_if(session.rows, [&](const LedgerRow& row) { return row.key == key; });
    return found == session.rows.end() ? nullptr : &*found;
  }
  void operator()(const AddLedgerRow& add) {
    if (find(add.row.key) != nullptr) conflict = true;
    session.rows.push_back(add.row);
    session.rows.back().run = run;
  }
  void operator()(const UpdateLedgerRow& update) {
    LedgerRow* const row = find(update.row.key);
    if (row == nullptr) return;
    *row = update.row;
    row->run = run;
  }
  void operator()(const RemoveLedgerRow& remove) {
    std::erase_if(session.rows, [&](const LedgerRow& row) {
      return row.key == remove.key && (row.run == run || row.run == remove.run);
    });
  }
  void operator()(const AddLedgerPrompt& add) {
    (*this)(RemoveLedgerPrompt{add.prompt.sent_at});
    session.prompts.push_back(add.prompt);
  }
  void operator()(const RemoveLedgerPrompt& remove) {
    std::erase_if(session.prompts,
                  [&](const LedgerPrompt& prompt) { return prompt.sent_at == remove.sent_at; });
  }
  void operator()(const PutLedgerMessage& put) {
    std::erase_if(session.messages,
                  [&](const LedgerMessage& known) { return known.seen_at == put.message.seen_at; });
    session.messages.push_back(put.message);
  }
  void operator()(const TrimLedgerMessages& trim) {
    std::erase_if(session.messages, [&](const LedgerMessage& known) { return known.seen_at < trim.before; });
  }
  void operator()(const SetLedgerComplete& set) { session.is_complete = set.complete; }
  void operator()(const ForgetLedgerSession&) { session = {}; }
};

}  // namespace

LedgerError MemoryLedger::apply(const LedgerBatch& batch, std::uint64_t run) {
  if (fails != LedgerError::none) return fails_once ? std::exchange(fails, LedgerError::none) : fails;
  ++commits;
  LedgerSession& stored = sessions_[{batch.agent, batch.session}];
  LedgerSession changed = stored;
  Apply apply{changed, run};
  for (const LedgerChange& change : batch.changes) std::visit(apply, change);
  if (apply.conflict) return LedgerError::conflict;
  changed.is_known = true;
  stored = std::move(changed);
  return LedgerError::none;
}

const LedgerSession& MemoryLedger::read(const std::string& agent, const std::string& session) {
  LedgerSession& found = sessions_[{agent, session}];
  std::ranges::sort(found.rows, {}, &LedgerRow::sent_at);
  std::ranges::sort(found.prompts, {}, &LedgerPrompt::sent_at);
  std::ranges::sort(found.messages, {}, &LedgerMessage::seen_at);
  found.has_living_owner = owner_lives && std::ranges::any_of(found.rows, [](const LedgerRow& row) {
                             return row.state == LedgerState::open;
                           });
  return found;
}

}  // namespace acp::sim
