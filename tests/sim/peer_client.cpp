#include <algorithm>
#include <array>

#include "proxy/core/limits.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/peers.h"

namespace acp::sim {
namespace {

struct Misshapen {
  std::string_view text;
  int code;
  std::string_view reason;
  std::string_view id;  // under which it is refused; empty: null
};
constexpr std::array misshapen{
    Misshapen{"{not json", -32700, "not_json", ""},
    Misshapen{"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"\xFF\"}", -32700, "not_utf8", ""},
    Misshapen{R"({"jsonrpc":"2.0","id":77,"method":"session/list","params":{"a":1 2}})", -32700, "not_json",
              ""},
    Misshapen{"[]", -32600, "batch", ""},
    Misshapen{R"([{"jsonrpc":"2.0","id":77,"method":"session/list"}])", -32600, "batch", ""},
    Misshapen{"42", -32600, "not_an_object", ""},
    Misshapen{R"({"jsonrpc":"2.0","id":{},"method":"session/list"})", -32600, "bad_id", ""},
    Misshapen{R"({"jsonrpc":"2.0","id":77,"method":7})", -32600, "no_method", "77"},
    Misshapen{R"({"jsonrpc":"1.0","id":"a","method":"session/list"})", -32600, "bad_version", "\"a\""},
    Misshapen{R"({"jsonrpc":"2.0","id":77,"method":"x","params":{"sessionId":"s0","sessionId":"s1"}})",
              -32600, "duplicate_member", "77"},
    Misshapen{R"({"jsonrpc":"2.0","id":7,"id":8,"method":"session/list"})", -32600, "duplicate_member", ""},
};

void erase_class(std::vector<Id>& ids, std::uint32_t id_class) {
  const auto found =
      std::find_if(ids.begin(), ids.end(), [&](const Id& id) { return id.id_class == id_class; });
  if (found != ids.end()) ids.erase(found);
}

}  // namespace

void Findings::report(Invariant invariant, std::string_view what) {
  if (!none()) return;
  broken = invariant;
  first.append(name_of(invariant)).append(": ").append(what.substr(0, 600));
}

Id ClientModel::fresh_id() {
  if (plan_.has(Kind::id_clashes) && random_.chance(30)) {
    if (!open_.empty() && random_.chance(40)) return random_.pick(open_);
    return odd_id(random_, plan_.version == 2);
  }
  return plain_id(next_id_++);
}

Line ClientModel::begin() {
  begun_ = true;
  return composer_.line(composer_.initialize(plain_id(next_id_++), plan_.version));
}

std::optional<Line> ClientModel::speak() {
  if (!begun_) {
    if (plan_.has(Kind::client_bad) && random_.chance(20)) return say_badly();
    return begin();
  }
  // A client that wants v2 and may get v1 must not send ahead.
  if (!answered_once_ && plan_.has(Kind::downgrade)) return std::nullopt;
  const std::size_t roll = random_.below(100);
  if (roll < 8 && plan_.has(Kind::client_bad)) return say_badly();
  if (roll < 10 && plan_.has(Kind::oversize)) return say_too_much();
  if (roll < 20 && plan_.has(Kind::cancels)) return say_cancel();
  if (roll < 35 && (!asked_.empty() || !cancelled_asks_.empty() || plan_.has(Kind::stray_answers)))
    return say_answer();
  if (roll < 45) {
    const Method method = random_.chance(70) ? Method::session_cancel : Method::extension;
    return composer_.line(composer_.notification(method, random_.chance(80) ? any_session() : no_session));
  }
  return roll < 75 ? say_prompt() : say_request();
}

Line ClientModel::say_prompt() {
  int key = no_key;
  int print = static_cast<int>(random_.below(3));
  if (random_.chance(75)) {
    key = static_cast<int>(plan_.has(Kind::duplicates) ? random_.below(4) : random_.below(1000));
    if (!plan_.has(Kind::other_prompts)) print = 0;
    if (plan_.has(Kind::malformed_keys) && random_.chance(10)) key = malformed_key;
  }
  const int session = random_.chance(97) ? any_session() : no_session;
  return composer_.line(composer_.request(Method::prompt, fresh_id(), session, key, print));
}

Line ClientModel::say_request() {
  static constexpr Method methods[] = {Method::session_list, Method::set_config, Method::extension,
                                       Method::future};
  static constexpr Method ends[] = {Method::session_close, Method::session_delete, Method::session_new,
                                    Method::session_resume, Method::session_load};
  Method method = random_.pick(methods);
  if (plan_.has(Kind::session_ends) && random_.chance(50)) method = random_.pick(ends);
  if (plan_.has(Kind::client_bad) && random_.chance(3)) method = Method::proxy_initialize;
  const bool bare =
      method == Method::session_list || method == Method::session_new || method == Method::proxy_initialize;
  return composer_.line(composer_.request(method, fresh_id(), bare ? no_session : any_session()));
}

Line ClientModel::say_cancel() {
  if (random_.chance(10)) return composer_.line(composer_.cancel({}, false));
  Id named = plain_id(static_cast<std::uint32_t>(90 + random_.below(40)));
  if (!open_.empty() && random_.chance(85)) named = random_.pick(open_);
  if (plan_.has(Kind::respelling)) named = respelled(named, random_);
  return composer_.line(composer_.cancel(named, true));
}

Line ClientModel::say_answer() {
  if (plan_.has(Kind::stray_answers) && random_.chance(25)) {
    const Id stray = done_asks_.empty() || random_.chance(30)
                         ? plain_id(static_cast<std::uint32_t>(next_id_ + 500))
                         : random_.pick(done_asks_);
    return composer_.line(composer_.answer(stray, "{}"));
  }
  std::vector<Id>& from =
      asked_.empty() || (!cancelled_asks_.empty() && random_.chance(50)) ? cancelled_asks_ : asked_;
  if (from.empty()) return say_prompt();
  const std::size_t which = random_.below(from.size());
  Id id = from[which];
  from.erase(from.begin() + static_cast<std::ptrdiff_t>(which));
  done_asks_.push_back(id);
  if (plan_.has(Kind::respelling)) id = respelled(id, random_);
  if (plan_.has(Kind::broken_answers) && random_.chance(20)) {
    Frame frame = composer_.broken_answer(id);
    const std::string text = frame.text;
    return Composer::raw_line(text, {std::move(frame)});
  }
  if (random_.chance(20)) return composer_.line(composer_.error_answer(id, -32601, {}));
  return composer_.line(composer_.answer(id, R"({"outcome":{"outcome":"selected","optionId":"y"}})"));
}

std::optional<Line> ClientModel::answer_one() {
  std::vector<Id>& from = asked_.empty() ? cancelled_asks_ : asked_;
  if (from.empty()) return std::nullopt;
  const Id id = from.back();
  from.pop_back();
  return composer_.line(composer_.answer(id, R"({"outcome":{"outcome":"cancelled"}})"));
}

Line ClientModel::say_badly() {
  const Misshapen& bad = misshapen[random_.below(misshapen.size())];
  Frame frame;
  frame.label = Frame::Label::refused;
  frame.text = bad.text;
  frame.code = bad.code;
  frame.reason = bad.reason;
  frame.id.token = bad.id.empty() ? "null" : bad.id;
  return Composer::raw_line(bad.text, {std::move(frame)});
}

Line ClientModel::say_too_much() {
  Frame frame;
  frame.label = Frame::Label::refused;
  frame.code = -32600;
  frame.reason = "frame_too_large";
  frame.id.token = "null";
  std::string text = R"({"jsonrpc":"2.0","method":"session/list","params":{"a":")";
  if (random_.chance(50)) {
    frame.id.token = "4444";
    text.insert(1, R"("id":4444,)");
  } else if (!asked_.empty()) {
    const Id id = asked_.back();
    asked_.pop_back();
    frame = Frame{};
    frame.label = Frame::Label::answer;
    frame.id = id;
    frame.sound = false;
    text = R"({"jsonrpc":"2.0","id":)" + id.token + R"(,"result":{"a":")";
  }
  text.append(plan_.settings.frame_bytes_max + random_.below(3000), 'x').append("\"}}");
  Line line = Composer::raw_line(text, {std::move(frame)});
  line.oversize = true;
  return line;
}

void ClientModel::sent(const Frame& frame) {
  if (frame.label == Frame::Label::request) open_.push_back(frame.id);
}

void ClientModel::hear(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top) || top.jsonrpc != "\"2.0\"") return findings_.report(Invariant::valid, line);
  const std::string_view method = top.method;
  const std::string_view token = top.id;
  const Id id = id_of(token);
  if (method.empty()) {
    if (token == "null" && !top.error.empty()) return;                 // of a line that could not be read
    if (token == "77" || token == "4444" || token == "\"a\"") return;  // of a refused one
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Id& mine) { return mine.id_class == id.id_class; });
    if (found == open_.end()) return findings_.report(Invariant::one_answer, line);
    open_.erase(found);
    answered_once_ = true;
  } else if (method == "$/cancel_request") {
    const Id named = id_of(member(top.params, "requestId"));
    const bool open = std::any_of(asked_.begin(), asked_.end(),
                                  [&](const Id& ask) { return ask.id_class == named.id_class; });
    if (!open) return;
    erase_class(asked_, named.id_class);
    cancelled_asks_.push_back(named);
  } else if (!token.empty()) {
    // It may have answered a request before it came, where agents use ids again.
    const bool guesses = plan_.has(Kind::stray_answers);
    for (const Id& ask : asked_) {
      if (!guesses && ask.id_class == id.id_class) return findings_.report(Invariant::ids, line);
    }
    asked_.push_back(id);
  }
}

}  // namespace acp::sim
