// A relay of the production core's, together with everything that it was ever told.
//
// The core reads no clock, draws nothing and does no I/O (relay.h): its settings, the events and their
// instants decide what it is. So `print()`, a hash over all events in their order, stands for the core's
// whole state without a look inside, and a copy is the list of events, told to a fresh relay when it is
// needed. Invariant: two cores of equal prints behave alike (but for a 2^-128 chance). Lifetime: copied
// freely; the settings outlive all copies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/relay.h"
#include "proxy/core/salted_hash.h"

namespace acp::sim {

class ModelCore {
 public:
  explicit ModelCore(const Settings& settings) : settings_(&settings) {}
  ModelCore(const ModelCore& other)
      : settings_(other.settings_), told_(other.told_), print_(other.print_), deadline_(other.deadline_) {}
  ModelCore& operator=(const ModelCore& other) {
    if (this != &other) *this = ModelCore(other);
    return *this;
  }
  ModelCore(ModelCore&&) noexcept = default;
  ModelCore& operator=(ModelCore&&) noexcept = default;
  ~ModelCore() = default;

  // Everything below: one step; the actions are valid until the next one.
  const Actions& start(Instant now);
  // `event`: without views; those of BytesRead and LedgerRead are made by the two below.
  const Actions& tell(const Event& event, Instant now);
  const Actions& read(LinkId link, std::string_view bytes, Instant now);
  const Actions& ledger_read(std::uint64_t ticket, const LedgerSession& session, Instant now);

  const Fingerprint& print() const noexcept { return print_; }
  std::optional<Instant> deadline() const noexcept { return deadline_; }
  std::size_t open_requests() { return live().relay.edge().open_requests(); }

 private:
  // One event, with what its views show. Never changed, so copies of the core share it.
  struct Told {
    Instant now;
    std::string bytes;
    LedgerSession session;
    std::optional<Event> event;  // none: the start
  };
  struct Live {
    explicit Live(const Settings& settings) : relay(settings) {}
    Relay relay;
    Actions actions;
  };
  Live& live();
  static void play(Live& live, const Told& told);
  const Actions& add(std::shared_ptr<Told> told);

  const Settings* settings_;
  std::vector<std::shared_ptr<const Told>> told_;
  Fingerprint print_;
  std::optional<Instant> deadline_;
  std::unique_ptr<Live> live_;  // null: not needed since it was copied
};

// All that counts of a session in the ledger, as bytes.
void tell_ledger_session(const LedgerSession& session, std::string& out);

}  // namespace acp::sim
