// Events: whose they are, and what a component's frames become.
#include "proxy/core/chain.h"

#include <algorithm>
#include <fmt/format.h>

#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"
#include "proxy/core/own_error.h"

namespace acp {

Chain::Station::Station(const ChainEdge& edge)
    : relay(edge.settings),
      label(edge.label),
      framer(edge.settings.frame_bytes_max),
      can_be_bypassed(edge.settings.is_bypassed) {}

Chain::Chain(const ChainPlan& plan)
    : is_component_(plan.is_component),
      frame_bytes_max_(plan.edges.front().settings.frame_bytes_max),
      outer_framer_(frame_bytes_max_) {
  INVARIANT(!plan.edges.empty());
  for (const ChainEdge& edge : plan.edges) stations_.emplace_back(edge);
  for (std::size_t edge = 0; edge < size(); ++edge) {
    if (is_proxy(edge))
      stations_[edge].hop.emplace(HopEnd::conductor, plan.edges[edge].settings.id_prefix + "hop-");
  }
  if (is_component_) outer_.emplace(HopEnd::component, plan.edges.front().settings.id_prefix + "outer-");
}

LinkId Chain::outside(std::size_t edge, LinkId link) noexcept {
  return {link.value | static_cast<std::uint32_t>(edge) << component_shift};
}
Epoch Chain::outside(std::size_t edge, Epoch epoch) noexcept {
  return {epoch.value | static_cast<std::uint32_t>(edge) << component_shift};
}

void Chain::start(Instant now, Actions& actions) {
  actions_ = &actions;
  now_ = now;
  for (std::size_t edge = 0; edge < size(); ++edge) {
    stations_[edge].relay.start(now, stations_[edge].actions);
    carry_out(edge);
  }
  tell_own();
}

void Chain::step(const Event& event, Instant now, Actions& actions) {
  if (over_) return;
  actions_ = &actions;
  now_ = now;
  for (Station& station : stations_) {
    station.actions.clear();
    station.carried = 0;
  }
  std::visit([&](const auto& happened) { on(happened); }, event);
  tell_own();
  const bool all_over = std::all_of(stations_.begin(), stations_.end(),
                                    [](const Station& station) { return station.exit_status.has_value(); });
  if (!all_over) return;
  over_ = true;
  constexpr int signal_base = 128;
  const int last = has_process(size() - 1) ? *stations_.back().exit_status : 0;
  actions.add(Exit{signal_ != 0 ? signal_base + signal_ : broken_status_.value_or(last)});
}

// What follows from the event within the chain.
void Chain::tell_own() {
  while (!queue_.empty() || !crossings_.empty()) {
    if (!crossings_.empty()) {  // first what an edge said, then that it has ended
      const Crossing crossing = std::move(crossings_.front());
      crossings_.pop_front();
      take(crossing.edge, crossing.from, padded(crossing.text));
      continue;
    }
    const auto [edge, event] = queue_.front();
    queue_.pop_front();
    tell(edge, event);
  }
  for (std::size_t edge = 0; edge + 1 < size(); ++edge) {
    const Station& station = stations_[edge];
    if (station.hop->waiting_bytes() != station.told_waiting) tell_waiting(edge);
  }
}

std::optional<Instant> Chain::next_deadline() const noexcept {
  std::optional<Instant> first;
  for (const Station& station : stations_) {
    const auto deadline = station.relay.next_deadline();
    if (deadline && (!first || *deadline < *first)) first = deadline;
  }
  return over_ ? std::nullopt : first;
}

void Chain::tell(std::size_t edge, const Event& event) {
  stations_[edge].relay.step(event, now_, stations_[edge].actions);
  carry_out(edge);
}

void Chain::take(std::size_t edge, Side from, const Frame& frame) {
  stations_[edge].relay.take(from, frame, now_, stations_[edge].actions);
  carry_out(edge);
}

// ---- what peers write ----

void Chain::on(const BytesRead& event) {
  if (event.link == client_link) {
    if (!outer_) return tell(0, event);
    outer_framer_.feed(event.bytes);
    while (const auto frame = outer_framer_.next()) read_conductor(*frame);
    return;
  }
  const std::size_t edge = component_of(event.link);
  if (!is_proxy(edge)) return tell(edge, BytesRead{inside(event.link), event.bytes});
  Station& station = stations_[edge];
  if (inside(event.link) != station.link) return;  // what still comes from an epoch that was closed
  station.framer.feed(event.bytes);
  while (const auto frame = station.framer.next()) read_component(edge, *frame);
}

// A frame in memory that outlives the step.
Frame Chain::padded(std::string_view text) {
  scratch_.assign(text).append("\n").append(limits::padding_bytes, ' ');
  const std::string_view copy = actions_->arena().add(scratch_);
  return {FrameKind::whole, copy.substr(0, text.size()), copy.substr(0, text.size() + 1)};
}

void Chain::read_component(std::size_t edge, const Frame& frame) {
  Station& station = stations_[edge];
  const bool could_be_proxy = !station.hop->is_no_proxy();
  const Hop::Taken taken = station.hop->take(frame);
  if (could_be_proxy && station.hop->is_no_proxy() && refuse_no_proxy(edge)) return;
  flush_hop(edge);
  switch (taken.fate) {
    case Hop::Fate::dropped: return;
    case Hop::Fate::answered: return write(outside(edge, station.link), taken.frame.line);
    case Hop::Fate::misasked: return start_afresh(edge, false);
    case Hop::Fate::passes: break;
  }
  const bool is_built = taken.frame.text.data() != frame.text.data();
  Frame stable = is_built ? padded(taken.frame.text) : taken.frame;
  stable.kind = taken.frame.kind;
  if (taken.course == Course::plain) return take(edge, Side::agent, stable);
  if (stations_[edge + 1].exit_status)
    return refuse_gone(*station.hop, outside(edge, station.link), Course::wrapped, stable);
  take(edge + 1, Side::client, stable);
}

void Chain::read_conductor(const Frame& frame) {
  const Hop::Taken taken = outer_->take(frame);
  if (taken.fate == Hop::Fate::answered) return write(client_link, taken.frame.line);
  if (taken.fate != Hop::Fate::passes) return;
  const bool is_built = taken.frame.text.data() != frame.text.data();
  Frame stable = is_built ? padded(taken.frame.text) : taken.frame;
  stable.kind = taken.frame.kind;
  if (taken.course == Course::plain && stations_.front().exit_status)
    return refuse_gone(*outer_, client_link, Course::plain, stable);
  if (taken.course == Course::plain) return take(0, Side::client, stable);
  take(size() - 1, Side::agent, stable);
}

void Chain::on(const LinkEnded& event) {
  if (event.link == client_link) {
    if (outer_ && event.end != LinkEnd::write_failed) {
      if (const auto frame = outer_framer_.finish()) read_conductor(*frame);
    }
    ending_ = true;
    tell(0, event);
    if (is_component_) end_without_process(size() - 1);
    return;
  }
  const std::size_t edge = component_of(event.link);
  Station& station = stations_[edge];
  const bool is_present = inside(event.link) == station.link;
  if (is_proxy(edge) && is_present && event.end != LinkEnd::write_failed) {
    if (const auto frame = station.framer.finish()) {
      Frame stable = padded(frame->text);  // the end of its epoch ends the framer, too, maybe in this step
      stable.kind = frame->kind;
      read_component(edge, stable);
    }
  }
  if (is_proxy(edge) && is_present && event.end == LinkEnd::eof) note_end(edge);
  if (is_proxy(edge) && is_present && event.end == LinkEnd::write_failed) forget_backlog(edge);
  tell(edge, LinkEnded{inside(event.link), event.end, event.error});
}

void Chain::on(const LinkBacklog& event) {
  if (event.link == client_link) {
    tell_client_backlog(0, event.bytes);
    if (outer_) tell_agent_backlog(size() - 1, stations_.back().link, event.bytes);
    return;
  }
  const std::size_t edge = component_of(event.link);
  tell_agent_backlog(edge, inside(event.link), event.bytes);
  if (!is_proxy(edge) || inside(event.link) != stations_[edge].link) return;
  stations_[edge].backlog = event.bytes;
  tell_waiting(edge);
}

// What waits for a component to initialize is as good as unwritten: whoever it came from is to be paused.
void Chain::tell_waiting(std::size_t edge) {
  Station& station = stations_[edge];
  station.told_waiting = station.hop->waiting_bytes();
  tell_client_backlog(edge + 1, station.backlog + station.told_waiting);
}

// Nobody reads it any more: it holds up nobody, least of all the component's own last words.
void Chain::forget_backlog(std::size_t edge) {
  stations_[edge].backlog = 0;
  tell_waiting(edge);
}

// Where edges are joined, what the outer one's peer has not taken is as much the inner one's business.
void Chain::tell_client_backlog(std::size_t edge, std::size_t bytes) {
  tell(edge, LinkBacklog{client_link, bytes});
  for (; stations_[edge].is_bypassed; ++edge) tell(edge + 1, LinkBacklog{client_link, bytes});
}

void Chain::tell_agent_backlog(std::size_t edge, LinkId link, std::size_t bytes) {
  tell(edge, LinkBacklog{link, bytes});
  for (; edge > 0 && stations_[edge - 1].is_bypassed; --edge)
    tell(edge - 1, LinkBacklog{stations_[edge - 1].link, bytes});
}

// ---- processes, signals, time ----

void Chain::on(const AgentExited& event) {
  const std::size_t edge = component_of(event.epoch);
  Station& station = stations_[edge];
  const bool is_present = inside(event.epoch) == station.relay.epoch();
  if (is_proxy(edge) && is_present) note_end(edge);
  on_epoch(event);
}

void Chain::on(const AgentEnded& event) {
  const std::size_t edge = component_of(event.epoch);
  if (is_proxy(edge) && inside(event.epoch) == stations_[edge].relay.epoch()) forget_backlog(edge);
  on_epoch(event);
}

// The shell reads a component from its start on.
void Chain::on(const AgentStarted& event) {
  const std::size_t edge = component_of(event.epoch);
  stations_[edge].paused = false;
  on_epoch(event);
  apply_pause(edge);
}

template <class OfLedger>
void Chain::on_ledger(const OfLedger& event) {
  tell(size() - 1, event);
}

void Chain::on(const SignalReceived& event) {
  const std::size_t processes = size() - (is_component_ ? 1 : 0);
  switch (event.signal) {
    case Signal::report:
      for (std::size_t edge = 0; edge < size(); ++edge) report(edge);
      return;
    case Signal::restart:
      if (processes > 0) tell(processes - 1, event);
      return;
    case Signal::interrupt:
    case Signal::terminate:
    case Signal::hangup: break;
  }
  if (signal_ == 0) signal_ = event.number;
  ending_ = true;
  for (std::size_t edge = 0; edge < size(); ++edge) {
    if (!stations_[edge].exit_status) tell(edge, event);
  }
  if (is_component_) end_without_process(size() - 1);
}

void Chain::on(const DeadlineReached& event) {
  for (std::size_t edge = 0; edge < size(); ++edge) {
    const auto deadline = stations_[edge].relay.next_deadline();
    if (deadline && *deadline <= now_) tell(edge, event);
  }
}

}  // namespace acp
