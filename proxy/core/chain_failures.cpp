// A component that cannot go on: what becomes of its edge, of the edge behind it, and of the chain.
#include <fmt/format.h>
#include <utility>

#include "proxy/core/beginning.h"
#include "proxy/core/chain.h"
#include "proxy/core/own_error.h"

namespace acp {

// ---- one that did not understand its role, or never got as far as that ----

// It has ended: if it never initialized, there is something to try yet.
void Chain::note_end(std::size_t edge) {
  Station& station = stations_[edge];
  if (station.hop->end_is_misasked()) return start_afresh(edge, false);
  const bool is_beginner = !station.relay.edge().is_initialized();
  if (station.can_be_bypassed && is_beginner) start_afresh(edge, true);
}

// It has refused both spellings. True: the chain goes on without it, so that its error is nobody's business.
bool Chain::refuse_no_proxy(std::size_t edge) {
  const Station& station = stations_[edge];
  actions_->log(
      LogLevel::error,
      fmt::format("[{}] it knows neither proxy/initialize nor _proxy/initialize: it is no proxy. An agent "
                  "stands after --",
                  station.label));
  if (station.can_be_bypassed) start_afresh(edge, true);
  return station.can_be_bypassed;
}

void Chain::start_afresh(std::size_t edge, bool bypass) {
  Station& station = stations_[edge];
  // False where its edge is on its way out anyway.
  if (station.relay.start_afresh(bypass, now_, station.actions) && !bypass) {
    const bool prefixed = station.hop->spelling() == Spelling::prefixed;
    actions_->log(LogLevel::info, fmt::format("[{}] started afresh, to be asked as {}/initialize",
                                              station.label, prefixed ? "_proxy" : "proxy"));
  }
  carry_out(edge);
}

void Chain::on(const AgentStartFailed& event) {
  const std::size_t edge = component_of(event.epoch);
  const Station& station = stations_[edge];
  const bool is_beginner = !station.relay.edge().is_initialized();
  if (!station.can_be_bypassed || !is_beginner) return on_epoch(event);
  begin_bypass(edge);
  on_epoch(AgentStarted{event.epoch, 0});
}

void Chain::begin_bypass(std::size_t edge) {
  if (std::exchange(stations_[edge].is_bypassed, true)) return;
  actions_->log(LogLevel::warning, fmt::format("[{}] it cannot go on; the chain does without it (on-failure)",
                                               stations_[edge].label));
}

// ---- one that was restarted too often ----

// Too many restarts: its edge answers with errors for a while, and whatever the edge behind it asks of it
// cannot wait that long. (What it had asked is dealt with: note_lost_epoch.)
void Chain::note_spent(std::size_t edge) {
  Station& station = stations_[edge];
  if (!station.hop) return;
  const Phase phase = station.relay.phase();
  const bool is_spent = phase == Phase::spent || phase == Phase::parked;
  if (std::exchange(station.is_spent, is_spent) == is_spent || !is_spent) return;
  station.hop->drop_waiting();
}

// This edge's client is a component that does not run: what its agent asks of it gets an error now.
void Chain::refuse_spent(std::size_t edge) {
  Station& station = stations_[edge];
  station.to_client.clear();
  station.relay.replace_client(now_, station.actions);
}

// Its edge is told to go, and there is nothing else that would have to.
void Chain::end_without_process(std::size_t edge) {
  const Station& station = stations_[edge];
  if (station.exit_status) return;
  queue_.emplace_back(edge, LinkEnded{station.link, LinkEnd::eof, 0});
  queue_.emplace_back(edge, AgentEnded{station.relay.epoch()});
}

// ---- ends ----

// A component is no more and another one may follow: the edge behind it has lost its client.
void Chain::note_lost_epoch(std::size_t edge) {
  Station& station = stations_[edge];
  if (!station.hop || station.exit_status) return;
  const Phase phase = station.relay.phase();
  const bool between = phase == Phase::waiting || phase == Phase::spent || phase == Phase::parked;
  if (!between && phase != Phase::starting) return;
  const std::uint32_t lost = station.relay.epoch().value - (between ? 0 : 1);
  if (lost <= station.replaced) return;
  station.replaced = lost;
  station.hop->begin_again();
  station.to_agent.clear();
  Station& next = stations_[edge + 1];
  next.to_client.clear();
  next.relay.replace_client(now_, next.actions);
  carry_out(edge + 1);
}

// Its edge has ended. Whoever stands behind it has no client any more; if nobody wanted that, the chain is
// broken, and ends from its client on.
void Chain::on_over(std::size_t edge, int status) {
  Station& station = stations_[edge];
  station.exit_status = status;
  if (edge > 0) pause(edge, client_link, false);          // it holds up nobody's last words
  if (edge == 0 && !outer_) pause(0, client_link, true);  // whatever it still asks nobody could answer
  if (!is_last(edge) && !stations_[edge + 1].exit_status)
    queue_.emplace_back(edge + 1, LinkEnded{client_link, LinkEnd::write_failed, 0});
  if (edge > 0 && stations_[edge - 1].is_bypassed) {
    const Epoch epoch = stations_[edge - 1].relay.epoch();
    queue_.emplace_back(edge - 1, LinkEnded{client_link, LinkEnd::eof, 0});  // nothing can follow
    queue_.emplace_back(edge - 1, AgentExited{epoch, {ExitStatus::Kind::exited, status}});
    end_without_process(edge - 1);
  }
  constexpr int cannot_start = 69;
  constexpr int spent = 75;
  // Also if the client has closed meanwhile: that was why nothing went on.
  if (!broken_status_ && (status == cannot_start || status == spent)) broken_status_ = status;
  if (ending_) return;
  ending_ = true;
  broken_status_ = status;
  if (edge == 0) return;
  apply_client_pause();
  actions_->log(LogLevel::error,
                fmt::format("[{}] it has ended for good, and the chain with it", station.label));
  queue_.emplace_back(0, LinkEnded{client_link, LinkEnd::eof, 0});
}

// The edge that this belongs to has ended, and the whole chain will. Whether a component asks for the first
// time is nobody's knowledge.
void Chain::refuse_gone(Hop& hop, LinkId link, Course course, const Frame& frame) {
  std::string_view id;
  if (frame.kind == FrameKind::oversize) {
    const Beginning beginning = read_beginning(frame.text);
    if (!beginning.method.empty()) id = beginning.id;
  } else {
    scanner_.scan(frame.text, envelope_);
    if (envelope_.fault == FrameFault::none && envelope_.shape() == Shape::request)
      id = envelope_.raw(Slot::id);
  }
  if (id.empty()) return;
  std::string out;
  append_error(out, read_id(id, scratch_).usable() ? id : std::string_view{},
               {.message = "The chain has ended; this was not sent on.",
                .reason = "agent_lost",
                .outcome = course == Course::plain ? rules::Outcome::not_sent : rules::Outcome::unknown});
  std::string rest;
  give(hop, link, course, rest, out);
}

}  // namespace acp
