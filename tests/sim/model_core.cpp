#include "tests/sim/model_core.h"

#include <utility>

#include "proxy/core/limits.h"

namespace acp::sim {
namespace {

void put(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& out, const Fingerprint& print) {
  out.append(reinterpret_cast<const char*>(print.bytes.data()), print.bytes.size());
}
void put(std::string& out, std::string_view bytes) {
  put(out, bytes.size());
  out.append(bytes);
}

// What an event says beside its bytes and its ledger session.
struct Facts {
  std::string& out;

  void operator()(const BytesRead& event) { put(out, event.link.value); }
  void operator()(const LinkEnded& event) {
    put(out, event.link.value);
    put(out, static_cast<std::uint64_t>(event.end));
  }
  void operator()(const LinkBacklog& event) { put(out, event.bytes); }
  void operator()(const AgentStarted& event) { put(out, event.epoch.value); }
  void operator()(const AgentStartFailed& event) { put(out, event.epoch.value); }
  void operator()(const AgentExited& event) {
    put(out, event.epoch.value);
    put(out, static_cast<std::uint64_t>(event.status.as_shell_status()));
  }
  void operator()(const AgentEnded& event) { put(out, event.epoch.value); }
  void operator()(const StderrRead& event) { put(out, event.bytes); }
  void operator()(const SignalReceived& event) { put(out, static_cast<std::uint64_t>(event.number)); }
  void operator()(const DeadlineReached&) {}
  void operator()(const LedgerOpened& event) { put(out, static_cast<std::uint64_t>(event.error)); }
  void operator()(const LedgerCommitted& event) {
    put(out, event.ticket);
    put(out, static_cast<std::uint64_t>(event.error));
  }
  void operator()(const LedgerRead& event) { put(out, event.ticket); }
};

}  // namespace

void tell_ledger_session(const LedgerSession& session, std::string& out) {
  put(out, session.rows.size());
  for (const LedgerRow& row : session.rows) {
    put(out, row.key);
    put(out, row.print);
    put(out, row.content);
    put(out, static_cast<std::uint64_t>(row.state) * 2 + (row.is_command ? 1 : 0));
    put(out, row.sent_at);
    put(out, row.message_id);
  }
  put(out, session.prompts.size());
  for (const LedgerPrompt& prompt : session.prompts) {
    put(out, prompt.content);
    put(out, prompt.sent_at * 2 + (prompt.is_command ? 1 : 0));
  }
  put(out, session.messages.size());
  for (const LedgerMessage& message : session.messages) {
    put(out, message.id);
    put(out, message.content);
    put(out, message.seen_at * 4 + (message.is_content_known ? 2 : 0) + (message.is_given ? 1 : 0));
  }
  put(out,
      (session.is_known ? 4U : 0U) + (session.is_complete ? 2U : 0U) + (session.has_living_owner ? 1U : 0U));
}

const Actions& ModelCore::start(Instant now) {
  auto told = std::make_shared<Told>();
  told->now = now;
  return add(std::move(told));
}

const Actions& ModelCore::tell(const Event& event, Instant now) {
  auto told = std::make_shared<Told>();
  told->now = now;
  told->event = event;
  return add(std::move(told));
}

const Actions& ModelCore::read(LinkId link, std::string_view bytes, Instant now) {
  auto told = std::make_shared<Told>();
  told->now = now;
  told->bytes.reserve(bytes.size() + limits::padding_bytes);
  told->bytes.append(bytes).append(limits::padding_bytes, '"');
  told->event = BytesRead{link, std::string_view(told->bytes).substr(0, bytes.size())};
  return add(std::move(told));
}

const Actions& ModelCore::ledger_read(std::uint64_t ticket, const LedgerSession& session, Instant now) {
  auto told = std::make_shared<Told>();
  told->now = now;
  told->session = session;
  told->event = LedgerRead{ticket, LedgerError::none, &told->session};
  return add(std::move(told));
}

void ModelCore::play(Live& live, const Told& told) {
  live.actions.clear();
  if (told.event) {
    live.relay.step(*told.event, told.now, live.actions);
  } else {
    live.relay.start(told.now, live.actions);
  }
}

ModelCore::Live& ModelCore::live() {
  if (!live_) {
    live_ = std::make_unique<Live>(*settings_);
    for (const auto& told : told_) play(*live_, *told);
  }
  return *live_;
}

const Actions& ModelCore::add(std::shared_ptr<Told> told) {
  Live& now = live();
  std::string facts;
  put(facts, static_cast<std::uint64_t>(told->now.time_since_epoch().count()));
  if (told->event) {
    put(facts, told->event->index() + 1);
    std::visit(Facts{facts}, *told->event);
    put(facts, told->bytes);
    if (std::holds_alternative<LedgerRead>(*told->event)) tell_ledger_session(told->session, facts);
  }
  static constexpr Salt salt{};
  print_ = SaltedHash(salt, 'c').add(print_).add(facts).print();
  play(now, *told);
  told_.push_back(std::move(told));
  deadline_ = now.relay.next_deadline();
  return now.actions;
}

}  // namespace acp::sim
