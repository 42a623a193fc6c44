// Actions: what an edge orders, as the shell is to do it.
#include <algorithm>
#include <fmt/format.h>

#include "proxy/core/chain.h"
#include "proxy/core/invariant.h"
#include "proxy/core/limits.h"

namespace acp {

// Nothing that an edge orders makes another one order anything but at the end of an epoch or of an edge.
void Chain::carry_out(std::size_t edge) {
  Station& station = stations_[edge];
  while (station.carried < station.actions.list().size()) {
    const Action action = station.actions.list()[station.carried++];
    carry(edge, action);
  }
  station.actions.seal();
  note_lost_epoch(edge);
  note_spent(edge);
}

void Chain::carry(std::size_t edge, const Action& action) {
  if (const auto* sent = std::get_if<Send>(&action)) return send(edge, *sent);
  if (const auto* paused = std::get_if<PauseReading>(&action)) return pause(edge, paused->link, true);
  if (const auto* resumed = std::get_if<ResumeReading>(&action)) return pause(edge, resumed->link, false);
  if (const auto* started = std::get_if<StartAgent>(&action)) return start_component(edge, *started);
  if (const auto* exit = std::get_if<Exit>(&action)) return on_over(edge, exit->status);
  if (const auto* log = std::get_if<Log>(&action))
    return actions_->log(log->level, fmt::format("[{}] {}", stations_[edge].label, log->text));
  if (const auto* finished = std::get_if<FinishReading>(&action)) {
    actions_->add(FinishReading{outside(edge, finished->link)});
  } else if (const auto* closed = std::get_if<CloseWriting>(&action)) {
    close_writing(edge, closed->link);
  } else if (const auto* ended = std::get_if<EndAgent>(&action)) {
    if (runs_process(edge)) return actions_->add(EndAgent{outside(edge, ended->epoch), ended->grace});
    end_without_process(edge);
  } else if (const auto* commit = std::get_if<CommitLedger>(&action)) {
    actions_->add(*commit);
  } else if (const auto* reading = std::get_if<ReadLedger>(&action)) {
    actions_->add(*reading);
  } else {
    actions_->add(std::get<WriteStderr>(action));
  }
}

void Chain::start_component(std::size_t edge, const StartAgent& order) {
  Station& station = stations_[edge];
  station.link = order.link;
  if (order.is_bypass) begin_bypass(edge);
  if (!runs_process(edge)) return queue_.emplace_back(edge, AgentStarted{order.epoch, 0}), void();
  station.framer = Framer(frame_bytes_max_);
  station.is_closed = false;
  station.agent_side_pauses = false;
  station.paused = false;
  actions_->add(StartAgent{outside(edge, order.epoch), outside(edge, order.link)});
}

void Chain::close_writing(std::size_t edge, LinkId link) {
  if (runs_process(edge)) {
    stations_[edge].is_closed = true;
    return actions_->add(CloseWriting{outside(edge, link)});
  }
  if (stations_[edge].is_bypassed && !stations_[edge + 1].exit_status)
    queue_.emplace_back(edge + 1, LinkEnded{client_link, LinkEnd::eof, 0});
}

// ---- frames ----

void Chain::send(std::size_t edge, const Send& order) {
  const bool to_client = order.link == client_link;
  Station& station = stations_[edge];
  if (to_client && edge > 0) {
    Station& before = stations_[edge - 1];
    if (before.is_bypassed) return cross(edge - 1, Side::agent, station.to_client, order.bytes);
    if (before.is_spent) return refuse_spent(edge);
    return give(*before.hop, outside(edge - 1, before.link), Course::wrapped, station.to_client, order.bytes);
  }
  if (to_client) {
    if (!outer_) return actions_->send(client_link, order.bytes);
    return give(*outer_, client_link, Course::plain, station.to_client, order.bytes);
  }
  if (!has_process(edge)) return give(*outer_, client_link, Course::wrapped, station.to_agent, order.bytes);
  const LinkId link = outside(edge, order.link);
  if (station.is_bypassed) return cross(edge + 1, Side::client, station.to_agent, order.bytes);
  if (!station.hop) return actions_->send(link, order.bytes);
  give(*station.hop, link, Course::plain, station.to_agent, order.bytes);
}

// `from`: who wrote it, as the edge that reads it sees it.
void Chain::cross(std::size_t edge, Side from, std::string& rest, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    rest += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    crossings_.push_back({edge, from, std::move(rest)});
    rest.clear();
  }
}

// `rest`: the beginning of a frame whose other parts come.
void Chain::give(Hop& hop, LinkId link, Course course, std::string& rest, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      rest += bytes;
      return;
    }
    rest += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    const std::size_t size = rest.size();
    rest.append("\n").append(limits::padding_bytes, ' ');
    const std::string_view text(rest);
    write(link, hop.give(course, {FrameKind::whole, text.substr(0, size), text.substr(0, size + 1)}));
    rest.clear();
  }
}

void Chain::write(LinkId link, std::string_view line) {
  const bool is_lost = link != client_link && stations_[component_of(link)].is_closed;
  if (!is_lost) actions_->send_copy(link, line);
}

// What has waited for a component goes before whatever its initialize lets loose.
void Chain::flush_hop(std::size_t edge) {
  Station& station = stations_[edge];
  if (station.hop->waiting_bytes() == 0) return;
  const std::string_view waited = station.hop->take_waiting();
  write(outside(edge, station.link), waited);
}

// ---- reading and not reading ----

void Chain::pause(std::size_t edge, LinkId link, bool pauses) {
  // Joined edges know of what is behind each other's peer, and pause their own.
  const std::size_t component = link == client_link ? edge - 1 : edge;
  if (component < size() && stations_[component].is_bypassed) return;
  if (link == client_link && edge > 0) {
    stations_[edge - 1].client_side_pauses = pauses;
    return apply_pause(edge - 1);
  }
  if (link == client_link) {
    client_side_pauses_ = pauses;
    return apply_client_pause();
  }
  if (!has_process(edge)) {
    conductor_side_pauses_ = pauses;
    return apply_client_pause();
  }
  stations_[edge].agent_side_pauses = pauses;
  apply_pause(edge);
}

void Chain::apply_pause(std::size_t edge) {
  Station& station = stations_[edge];
  const bool pauses = station.agent_side_pauses || station.client_side_pauses;
  if (std::exchange(station.paused, pauses) == pauses) return;
  const LinkId link = outside(edge, station.link);
  if (pauses) {
    actions_->add(PauseReading{link});
  } else {
    actions_->add(ResumeReading{link});
  }
}

void Chain::apply_client_pause() {
  // Once the chain is broken its first edge has seen the client's end: a line that is half read stays so.
  const bool is_broken = broken_status_.has_value() && !outer_;
  const bool pauses = client_side_pauses_ || conductor_side_pauses_ || is_broken;
  if (std::exchange(client_paused_, pauses) == pauses) return;
  if (pauses) {
    actions_->add(PauseReading{client_link});
  } else {
    actions_->add(ResumeReading{client_link});
  }
}

// ---- SIGUSR1 ----

void Chain::report(std::size_t edge) {
  Station& station = stations_[edge];
  std::string line = fmt::format("keyhop: chain: {} of {}: {}, epoch {}", edge + 1, size(),
                                 station.relay.component(), station.relay.epoch().value);
  if (station.is_bypassed) {
    line += ", bypassed";
  } else if (station.hop) {
    line += fmt::format(", spoken to as {}/...; open on its link: to it ",
                        station.hop->spelling() == Spelling::current ? "proxy" : "_proxy");
    station.hop->asked().describe(line);
    line += ", from it ";
    station.hop->heard().describe(line);
  }
  line += '\n';
  actions_->add(WriteStderr{actions_->arena().add(line)});
  tell(edge, SignalReceived{Signal::report, 0});
}

}  // namespace acp
