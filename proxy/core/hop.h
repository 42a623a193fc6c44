// One link that carries two edges: a component's. What belongs to its predecessor goes over it as it is, what
// belongs to its successor inside `proxy/successor` (ACP proxy chains).
//
// keyhop is at either end of such a link: as the conductor (the peer is a component), or as a component (the
// peer is the conductor). take() reads what the peer wrote: for which edge it is, and how that edge wants to
// read it. give() writes what an edge has for the peer. Both are splices: the inner params are copied byte
// for byte, results and errors are never touched. Invariant: an answer goes to the edge that asked; ids that
// are open on the link are unique; `$/cancel_request` is never wrapped and names the request by its id on the
// link. Lifetime: of one link; views returned are valid until the next call.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/core/envelope.h"
#include "proxy/core/framer.h"
#include "proxy/core/hop_ids.h"

namespace acp {

// Which end of the link keyhop is.
enum class HopEnd : std::uint8_t { conductor, component };

// `proxy/…` (2026-11), or `_proxy/…` as SDKs before it wrote it. Both are read always; a component is
// answered in its own, and asked in the current one first; what it understood once is remembered.
enum class Spelling : std::uint8_t { current, prefixed };

class Hop {
 public:
  // `own_ids`: what ids of keyhop's own begin with on this link, unlike any other's.
  Hop(HopEnd end, std::string own_ids, Spelling spelling = Spelling::current)
      : end_(end), own_ids_(std::move(own_ids)), spelling_(spelling) {}

  // What becomes of a frame that the peer wrote.
  enum class Fate : std::uint8_t {
    passes,    // to the edge of `course`
    answered,  // `frame` goes back to the peer: an error
    dropped,   // it may not be passed on, and nobody waits for an answer
    misasked,  // the component did not understand its initialize: it is to be started afresh, and asked in
               // the other spelling (SDKs take no second initialize in one life)
  };
  struct Taken {
    Fate fate = Fate::passes;
    Course course = Course::plain;
    Frame frame{};  // with its LF; limits::padding_bytes are readable behind it
  };
  // `frame` as the framer gave it. What is no JSON object passes plain, for that edge to judge.
  Taken take(const Frame& frame);

  // A frame of the edge of `course` for the peer, as it goes over the link, LF included. Empty: it has no
  // business there (a cancel of a request that is not open). `frame` is one whole JSON object.
  std::string_view give(Course course, const Frame& frame);

  // conductor: the component has ended. True if that may have been its way not to understand its initialize:
  // as Fate::misasked. Asked once for each end.
  bool end_is_misasked();
  // conductor: it refused both spellings.
  bool is_no_proxy() const noexcept {
    return tried(Spelling::current) == Try::refused && tried(Spelling::prefixed) == Try::refused;
  }

  // conductor: the component is started again. What was open on the link is over; what an edge has for it
  // from here on waits until it has initialized (SDKs refuse whatever comes before that), its answers
  // excepted.
  void begin_again();
  // What has waited, whole frames: to be written before anything else once take() has shown that the peer
  // initialized. Empty: nothing. Valid until the next call.
  std::string_view take_waiting();
  void drop_waiting() noexcept { waiting_.clear(); }
  std::size_t waiting_bytes() const noexcept { return waiting_.size(); }

  // The peer's, once its initialize was answered or (component) came.
  Spelling spelling() const noexcept { return spelling_; }
  // What keyhop wrote and the peer has not answered; what the peer asked and keyhop has not.
  const HopIds& asked() const noexcept { return asked_; }
  const HopIds& heard() const noexcept { return heard_; }

 private:
  struct Splice {
    Slot slot;
    std::string_view token;
  };
  // What came of asking a component in one spelling.
  enum class Try : std::uint8_t {
    none,
    ended,       // it ended before it answered
    refused,     // it did not understand
    understood,  // it initialized: the other spelling is never tried
  };
  Try& tried(Spelling spelling) noexcept { return tries_[static_cast<std::size_t>(spelling)]; }
  Try tried(Spelling spelling) const noexcept { return tries_[static_cast<std::size_t>(spelling)]; }

  Taken take_message(const Frame& frame, Shape shape);
  bool is_sound_successor() const noexcept;
  Taken take_successor(Shape shape);
  Taken take_initialize(const Frame& frame, bool is_of_proxies);
  Taken take_cancel(const Frame& frame);
  Taken take_wrapped_cancel();
  Taken take_elicitation(Course course, const Frame& frame);
  Taken take_oversize(const Frame& frame);
  Taken take_answer(const Frame& frame);
  void end_initialize();
  bool ask_otherwise(Try outcome);
  Taken refuse(Shape shape, int error_code, std::string_view reason, std::string_view message);
  static Taken pass(Course course, const Frame& frame) { return {Fate::passes, course, frame}; }

  void note_heard(Course course);

  std::string_view give_now(Course course, const Frame& frame, Shape shape);
  std::string_view give_cancel(Course course, const Frame& frame);
  std::string_view id_on_link(Course course);
  std::string_view wrap(std::string_view id_token);
  std::string_view proxy_initialize() const noexcept;

  std::string_view whole(const Frame& frame);
  void splice(std::span<Splice> splices);
  Frame finish_built();

  HopEnd end_;
  std::string own_ids_;
  Spelling spelling_;
  std::uint64_t own_ids_made_ = 0;
  EnvelopeScanner scanner_;
  Envelope envelope_;
  HopIds asked_;     // what keyhop wrote and the peer has not answered
  HopIds heard_;     // what the peer asked and keyhop has not
  HopIds::Row row_;  // of the answer at hand
  std::array<Try, 2> tries_{};
  std::string initialize_id_;  // conductor: of the initialize that the component has not answered; its token
  bool died_once_ = false;     // in its own spelling before it had initialized
  bool misasked_ = false;      // what it still says is nobody's business
  bool waits_ = false;         // it was started again and has not initialized
  std::string waiting_;        // for that
  std::string flushed_;
  std::string link_id_;
  std::string built_;
  std::string spliced_;  // the frame at hand may stand in built_
  std::string scratch_;
};

}  // namespace acp
