// verdict(): every combination of every fact against an expectation written apart from it, and the README's
// table row by row.
#include "rules/retry.h"

#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace acp::rules {
namespace {

constexpr std::array all_classes{RetryClass::idempotent,  RetryClass::keyed,       RetryClass::duplicating,
                                 RetryClass::not_retried, RetryClass::mcp_defined, RetryClass::as_carried};
constexpr std::array all_points{LossPoint::held, LossPoint::sent, LossPoint::cancelling};
constexpr std::array all_keys{KeyCare::none, KeyCare::forwarded, KeyCare::guarded};
constexpr unsigned flags_count = 8;

// The n-th loss, in which bit i of `flags` is the i-th yes-or-no fact.
Loss loss_of(RetryClass retry_class, LossPoint point, KeyCare key, unsigned flags) {
  const auto bit = [&](unsigned i) { return (flags >> i & 1U) != 0; };
  Loss loss;
  loss.retry_class = retry_class;
  loss.point = point;
  loss.key = key;
  loss.restarts = bit(0);
  loss.client_gone = bit(1);
  loss.cancelled = bit(2);
  loss.repeated_initialize = bit(3);
  loss.newer_change_answered = bit(4);
  loss.replay_shown = bit(5);
  loss.recover_prompt = bit(6);
  loss.session_refused = bit(7);
  return loss;
}

template <class Visit>
void for_every_loss(Visit visit) {
  for (const auto retry_class : all_classes) {
    for (const auto point : all_points) {
      for (const auto key : all_keys) {
        for (unsigned flags = 0; flags < 1U << flags_count; ++flags)
          visit(loss_of(retry_class, point, key, flags));
      }
    }
  }
}

std::string text_of(const Loss& loss) {
  std::string text;
  for (const auto word : {to_string(loss.retry_class), to_string(loss.point), to_string(loss.key)}) {
    text.append(word).append(" ");
  }
  const auto flag = [&](bool set, const char* name) { text += set ? std::string(name) + " " : ""; };
  flag(loss.restarts, "restarts");
  flag(loss.client_gone, "client_gone");
  flag(loss.cancelled, "cancelled");
  flag(loss.repeated_initialize, "repeated_initialize");
  flag(loss.newer_change_answered, "newer_change_answered");
  flag(loss.replay_shown, "replay_shown");
  flag(loss.recover_prompt, "recover_prompt");
  flag(loss.session_refused, "session_refused");
  return text;
}

constexpr Decision send{Verdict::send, Outcome::none, Reason::none, 0};
constexpr Decision resend{Verdict::resend, Outcome::none, Reason::none, 0};
constexpr Decision resolve{Verdict::resolve, Outcome::none, Reason::none, 0};
constexpr Decision drop{Verdict::drop, Outcome::none, Reason::none, 0};
constexpr Decision not_sent{Verdict::fail, Outcome::not_sent, Reason::agent_lost, -32603};
constexpr Decision not_sent_cancelled{Verdict::fail, Outcome::not_sent, Reason::cancelled, -32800};
constexpr Decision not_sent_refused{Verdict::fail, Outcome::not_sent, Reason::session_refused, 0};
constexpr Decision unknown{Verdict::fail, Outcome::unknown, Reason::agent_lost, -32603};
constexpr Decision unknown_cancelled{Verdict::fail, Outcome::unknown, Reason::cancelled, -32800};
constexpr Decision unknown_newer{Verdict::fail, Outcome::unknown, Reason::newer_change, -32603};
constexpr Decision unknown_replay{Verdict::fail, Outcome::unknown, Reason::replay_interrupted, -32603};

// The README's table as a list of rules, first match wins: written as conditions over the whole loss, so that
// it shares no structure with the code.
struct Rule {
  bool (*applies)(const Loss& loss);
  Decision decision;
};

bool is_cancelling(const Loss& loss) {
  return loss.point == LossPoint::cancelling || (loss.point == LossPoint::sent && loss.cancelled);
}
bool is_class(const Loss& loss, RetryClass retry_class) { return loss.retry_class == retry_class; }

const std::vector<Rule> rules{
    {[](const Loss& loss) { return loss.client_gone; }, drop},
    {[](const Loss& loss) { return loss.point == LossPoint::held && loss.cancelled; }, not_sent_cancelled},
    {[](const Loss& loss) { return loss.point == LossPoint::held && !loss.restarts; }, not_sent},
    {[](const Loss& loss) { return loss.point == LossPoint::held && loss.session_refused; },
     not_sent_refused},
    {[](const Loss& loss) { return loss.point == LossPoint::held; }, send},
    {[](const Loss& loss) {
       return is_cancelling(loss) && loss.restarts && is_class(loss, RetryClass::keyed) &&
              loss.key == KeyCare::guarded;
     },
     resolve},
    {[](const Loss& loss) { return is_cancelling(loss); }, unknown_cancelled},
    {[](const Loss& loss) { return !loss.restarts; }, unknown},
    {[](const Loss& loss) { return loss.repeated_initialize; }, resend},
    {[](const Loss& loss) { return is_class(loss, RetryClass::idempotent) && loss.newer_change_answered; },
     unknown_newer},
    {[](const Loss& loss) { return is_class(loss, RetryClass::idempotent) && loss.replay_shown; },
     unknown_replay},
    {[](const Loss& loss) {
       return is_class(loss, RetryClass::idempotent) || is_class(loss, RetryClass::duplicating);
     },
     resend},
    {[](const Loss& loss) { return is_class(loss, RetryClass::keyed) && loss.key == KeyCare::guarded; },
     resolve},
    {[](const Loss& loss) { return is_class(loss, RetryClass::keyed) && loss.key == KeyCare::forwarded; },
     resend},
    {[](const Loss& loss) {
       return loss.recover_prompt &&
              (is_class(loss, RetryClass::keyed) || is_class(loss, RetryClass::not_retried));
     },
     resolve},
    {[](const Loss&) { return true; }, unknown},
};

TEST_CASE("every combination of facts has the decision that the table states") {
  std::size_t compared = 0;
  std::vector<std::size_t> matches(rules.size(), 0);
  for_every_loss([&](const Loss& loss) {
    std::size_t i = 0;
    while (!rules[i].applies(loss)) ++i;
    ++matches[i];
    ++compared;
    const auto decision = decide(loss);
    if (decision == rules[i].decision && verdict(loss) == decision.verdict) return;
    FAIL_CHECK(text_of(loss) << "-> " << to_string(decision.verdict) << " " << to_string(decision.outcome)
                             << " " << to_string(decision.reason) << " " << decision.code << ", rule " << i);
  });
  CHECK(compared == 6 * 3 * 3 * 256);
  for (const auto count : matches) CHECK(count > 0);
}

TEST_CASE("whatever the facts, a decision keeps the promises") {
  for_every_loss([](const Loss& loss) {
    CAPTURE(text_of(loss));
    const auto decision = decide(loss);
    const bool fails = decision.verdict == Verdict::fail;
    // An error says what is known, and only an error does.
    const bool consistent = fails == (decision.outcome != Outcome::none) &&
                            fails == (decision.reason != Reason::none) && (fails || decision.code == 0);
    // What never left is never called unknown, what left never called not sent.
    const bool honest = !fails || (decision.outcome == Outcome::not_sent) == (loss.point == LossPoint::held);
    const bool acts = decision.verdict == Verdict::send || decision.verdict == Verdict::resend;
    // Nothing goes out without a new epoch, after a cancel, or for a client that is gone.
    const bool welcome = !acts || (loss.restarts && !loss.cancelled && !loss.client_gone &&
                                   loss.point != LossPoint::cancelling);
    // `send` is for what never left, `resend` for what did.
    const bool named = (decision.verdict != Verdict::send || loss.point == LossPoint::held) &&
                       (decision.verdict != Verdict::resend || loss.point == LossPoint::sent);
    // Nobody's second operation: what is not retried or has no key goes out again only as a repeated
    // initialize.
    const bool second =
        decision.verdict == Verdict::resend && !loss.repeated_initialize &&
        (loss.retry_class == RetryClass::not_retried || loss.retry_class == RetryClass::mcp_defined ||
         loss.retry_class == RetryClass::as_carried ||
         (loss.retry_class == RetryClass::keyed && loss.key != KeyCare::forwarded));
    if (!consistent || !honest || !welcome || !named || second) FAIL_CHECK("broken promise");
  });
}

// The README's rows: one lost request each.
struct Example {
  const char* what;
  Loss loss;
  Decision decision;
};

TEST_CASE("the README's table, row by row") {
  const auto restarting = [](RetryClass retry_class, KeyCare key = KeyCare::none) {
    Loss loss;
    loss.retry_class = retry_class;
    loss.key = key;
    loss.restarts = true;
    return loss;
  };
  const auto with = [](Loss loss, auto change) {
    change(loss);
    return loss;
  };
  const auto idempotent = restarting(RetryClass::idempotent);
  const auto prompt = restarting(RetryClass::keyed);
  const auto guarded = restarting(RetryClass::keyed, KeyCare::guarded);
  const auto forwarded = restarting(RetryClass::keyed, KeyCare::forwarded);
  const auto not_retried = restarting(RetryClass::not_retried);
  const std::vector<Example> examples{
      {"session/list", idempotent, resend},
      {"set_mode, and a later set_mode was answered",
       with(idempotent, [](Loss& loss) { loss.newer_change_answered = true; }), unknown_newer},
      {"session/load whose replay was half shown",
       with(idempotent, [](Loss& loss) { loss.replay_shown = true; }), unknown_replay},
      {"a keyed prompt, guard", guarded, resolve},
      {"a keyed prompt, forward", forwarded, resend},
      {"a prompt without key", prompt, unknown},
      {"the same, --recover-prompts=proven", with(prompt, [](Loss& loss) { loss.recover_prompt = true; }),
       resolve},
      {"a v1 prompt", not_retried, unknown},
      {"the same, --recover-prompts=proven",
       with(not_retried, [](Loss& loss) { loss.recover_prompt = true; }), resolve},
      {"session/new", restarting(RetryClass::duplicating), resend},
      {"mcp/message", restarting(RetryClass::mcp_defined), unknown},
      {"a repeated initialize", with(not_retried, [](Loss& loss) { loss.repeated_initialize = true; }),
       resend},
      {"held", with(not_retried, [](Loss& loss) { loss.point = LossPoint::held; }), send},
      {"held and cancelled",
       with(guarded,
            [](Loss& loss) {
              loss.point = LossPoint::held;
              loss.cancelled = true;
            }),
       not_sent_cancelled},
      {"held, and its session was refused",
       with(guarded,
            [](Loss& loss) {
              loss.point = LossPoint::held;
              loss.session_refused = true;
            }),
       not_sent_refused},
      {"cancelling", with(idempotent, [](Loss& loss) { loss.point = LossPoint::cancelling; }),
       unknown_cancelled},
      {"cancelling, keyed, forward", with(forwarded, [](Loss& loss) { loss.point = LossPoint::cancelling; }),
       unknown_cancelled},
      {"cancelling, keyed, guard", with(guarded, [](Loss& loss) { loss.point = LossPoint::cancelling; }),
       resolve},
      {"its client gone", with(guarded, [](Loss& loss) { loss.client_gone = true; }), drop},
      {"no restart, held",
       with(guarded,
            [](Loss& loss) {
              loss.point = LossPoint::held;
              loss.restarts = false;
            }),
       not_sent},
      {"no restart, sent", with(idempotent, [](Loss& loss) { loss.restarts = false; }), unknown},
  };
  for (const auto& example : examples) {
    CAPTURE(example.what);
    CHECK(decide(example.loss) == example.decision);
  }
}

TEST_CASE("values outside an enumeration act least") {
  Loss loss;
  loss.restarts = true;
  loss.retry_class = static_cast<RetryClass>(99);
  CHECK(decide(loss) == unknown);
  loss.retry_class = RetryClass::keyed;
  loss.key = static_cast<KeyCare>(99);
  CHECK(decide(loss) == unknown);
  loss.key = KeyCare::forwarded;
  loss.point = static_cast<LossPoint>(99);
  CHECK(decide(loss) == unknown);
}

template <class Enum>
void check_names(Enum last) {
  std::set<std::string_view> names;
  const auto count = static_cast<unsigned>(last) + 1;
  for (unsigned value = 0; value < count; ++value) names.insert(to_string(static_cast<Enum>(value)));
  CHECK(names.size() == count);
  CHECK_FALSE(names.contains("invalid"));
  CHECK(to_string(static_cast<Enum>(count)) == "invalid");
}

TEST_CASE("every value of a verdict has a name of its own") {
  check_names(RetryClass::as_carried);
  check_names(LossPoint::cancelling);
  check_names(KeyCare::guarded);
  check_names(Verdict::drop);
  check_names(Outcome::inserted);
  check_names(Reason::session_refused);
  CHECK(to_string(Outcome::not_sent) == "not_sent");
  CHECK(to_string(Reason::replay_interrupted) == "replay_interrupted");
}

TEST_CASE("classes as a user writes them") {
  CHECK(retry_class_of("idempotent") == RetryClass::idempotent);
  CHECK(retry_class_of("keyed") == RetryClass::keyed);
  CHECK(retry_class_of("duplicating") == RetryClass::duplicating);
  CHECK(retry_class_of("not-retried") == RetryClass::not_retried);
  CHECK(retry_class_of("not_retried") == RetryClass::not_retried);
  for (const auto* word : {"", "Keyed", "mcp_defined", "as_carried", "keyed "})
    CHECK_FALSE(retry_class_of(word));
}

}  // namespace
}  // namespace acp::rules
