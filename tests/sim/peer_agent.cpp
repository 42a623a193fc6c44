#include <algorithm>
#include <array>

#include "proxy/core/limits.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/peers.h"

namespace acp::sim {
namespace {

// Which of the composer's sessions or keys a token names: its last digits, whatever the spelling.
int number_of(std::string_view token) {
  std::size_t begin = token.size();
  while (begin > 0 && (token[begin - 1] < '0' || token[begin - 1] > '9')) --begin;
  std::size_t first = begin;
  while (first > 0 && token[first - 1] >= '0' && token[first - 1] <= '9') --first;
  int number = 0;
  for (const char digit : token.substr(first, begin - first)) number = number * 10 + (digit - '0');
  return number;
}

int key_of(std::string_view token) {
  if (token.empty() || token == "null") return no_key;
  return token.find("secret-") == std::string_view::npos ? malformed_key : number_of(token);
}

}  // namespace

Frame AgentModel::error_for(const Held& held) {
  struct Data {
    std::string_view text;
    bool keeps_key;
  };
  static constexpr std::array<Data, 5> all{
      Data{"", false}, Data{R"({"source":"keyhop","outcome":"not_sent"})", false},
      Data{R"({"source":"keyhop","outcome":"unknown"})", true},
      Data{R"({"source":"other","outcome":"unknown"})", false}, Data{R"(["keyhop"])", false}};
  const Data& data = random_.pick(all);
  Frame frame = composer_.error_answer(held.id, random_.chance(50) ? -32603 : -32800, data.text);
  frame.keeps_key = data.keeps_key;
  return frame;
}

Frame AgentModel::answer_to(const Held& held) {
  if (held.method == "initialize") {
    const int version = plan_.has(Kind::downgrade) ? 1 : held.version;
    Frame frame = composer_.answer(held.id, R"({"protocolVersion":)" + std::to_string(version) + "}");
    frame.version = version;
    return frame;
  }
  if (plan_.has(Kind::agent_errors) && random_.chance(30)) return error_for(held);
  if (held.method == "session/new") {
    const int session = static_cast<int>(random_.below(3));
    Frame frame = composer_.answer(held.id, R"({"sessionId":)" + composer_.session_token(session) + "}");
    frame.opened = session;
    return frame;
  }
  if (held.method == "session/prompt" && random_.chance(90)) {
    const std::string id = R"("m\u002d)" + std::to_string(++messages_) + "\"";
    Frame frame = composer_.answer(held.id, R"({"messageId":)" + id + R"(,"stopReason":"end_turn"})");
    frame.message_id = id;
    return frame;
  }
  return composer_.answer(held.id, random_.chance(50) ? "null" : R"({"a":[1.0,{}]})");
}

std::optional<Line> AgentModel::speak() {
  const std::size_t roll = random_.below(100);
  if (roll < 6 && plan_.has(Kind::agent_bad)) return say_badly();
  if (roll < 9 && plan_.has(Kind::stray_answers)) return say_strangely();
  if (roll < 11 && (plan_.has(Kind::oversize) || plan_.has(Kind::unreadable))) return say_too_much();
  if (roll < 25 && plan_.has(Kind::agent_requests)) return say_request();
  if (roll < 30 && plan_.has(Kind::cancels)) {
    Id named = plan_.has(Kind::stray_answers) && random_.chance(20) ? plain_id(7777)
               : asked_.empty()                                     ? plain_id(8888)
                                                                    : random_.pick(asked_);
    if (plan_.has(Kind::respelling)) named = respelled(named, random_);
    return composer_.line(composer_.cancel(named, !random_.chance(10)));
  }
  if (roll < 55 && !held_.empty()) return say_answer();
  const Method method = random_.chance(80) ? Method::update : Method::extension;
  return composer_.line(
      composer_.notification(method, random_.chance(85) ? static_cast<int>(random_.below(4)) : no_session));
}

Line AgentModel::say_answer() {
  const std::size_t which = random_.below(held_.size());
  Held held = held_[which];
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  on_wire_.push_back(held);
  former_.push_back(held.id);
  if (former_.size() > 8) former_.pop_front();
  if (plan_.has(Kind::respelling)) held.id = respelled(held.id, random_);
  if (plan_.has(Kind::broken_answers) && random_.chance(15)) {
    Frame frame = composer_.broken_answer(held.id);
    const std::string text = frame.text;
    return Composer::raw_line(text, {std::move(frame)});
  }
  return composer_.line(answer_to(held));
}

std::optional<Line> AgentModel::answer_one() {
  if (held_.empty()) return std::nullopt;
  const Held held = held_.front();
  held_.erase(held_.begin());
  on_wire_.push_back(held);
  return composer_.line(answer_to(held));
}

Line AgentModel::say_request() {
  Id id = plain_id(next_id_++);
  if (plan_.has(Kind::id_clashes) && random_.chance(40)) {
    id = asked_.empty() || random_.chance(50) ? odd_id(random_, false) : random_.pick(asked_);
  }
  asked_.push_back(id);
  if (random_.chance(30)) {
    const Id named = held_.empty() || random_.chance(20) ? plain_id(5555) : random_.pick(held_).id;
    return composer_.line(composer_.elicitation(id, named));
  }
  const Method method = random_.chance(50) ? Method::permission : Method::read_file;
  return composer_.line(composer_.request(method, id, static_cast<int>(random_.below(3))));
}

Line AgentModel::say_badly() {
  static constexpr std::string_view noise[] = {"Loaded cached credentials.",
                                               "\xA4\x40\xA5\xCE",
                                               R"({"level":"info","msg":"ready"})",
                                               "[]",
                                               "17",
                                               R"({"jsonrpc":"2.0","method":"x","params":tru})",
                                               R"([{"jsonrpc":"2.0","method":"x"}])",
                                               R"({"jsonrpc":"1.0","method":"x"})",
                                               "trace: k-secret-0 k-secret-1 k-secret-2"};
  const std::size_t roll = random_.below(10);
  if (roll < 5) return Composer::raw_line(random_.pick(noise), {});
  if (roll == 5) {
    Frame frame;
    frame.label = Frame::Label::refused;
    frame.id.token = "6666";
    frame.code = -32600;
    frame.reason = "malformed_request";
    return Composer::raw_line(R"({"jsonrpc":"2.0","id":6666,"method":[]})", {std::move(frame)});
  }
  // Good messages among other text.
  std::vector<Frame> frames{composer_.notification(Method::update, 0)};
  std::string text = frames[0].text;
  if (roll == 6) text.insert(0, "\x1B[2K");
  if (roll == 7) text.append(" done");
  if (roll > 7) {
    frames.push_back(composer_.notification(Method::extension, no_session));
    text.append(" ").append(frames[1].text);
  }
  return Composer::raw_line(text, std::move(frames));
}

// Answers that nobody waits for, and the error that belongs to no request.
Line AgentModel::say_strangely() {
  if (random_.chance(30)) return composer_.line(composer_.error_answer(null_id(), -32700, {}));
  const Id id = former_.empty() || random_.chance(30) ? plain_id(9999) : random_.pick(former_);
  const bool held = std::any_of(held_.begin(), held_.end(),
                                [&](const Held& other) { return other.id.id_class == id.id_class; });
  if (held) return composer_.line(composer_.notification(Method::update, 1));
  return composer_.line(composer_.answer(id, "{}"));
}

Line AgentModel::say_too_much() {
  std::string text;
  Frame frame;
  if (plan_.has(Kind::unreadable) && random_.chance(30)) {
    frame.label = Frame::Label::unreadable;
    text = random_.chance(50) ? R"({"params":{"a":")" : R"({"jsonrpc":"2.0","result":{"a":")";
  } else if (!plan_.has(Kind::oversize) || held_.empty()) {
    text = R"({"jsonrpc":"2.0","method":"session/update","params":{"a":")";
  } else {
    const Held held = held_.back();
    held_.pop_back();
    on_wire_.push_back(held);
    frame.label = Frame::Label::answer;
    frame.id = held.id;
    frame.sound = false;
    text = R"({"jsonrpc":"2.0","id":)" + held.id.token + R"(,"result":{"a":")";
  }
  text.append(plan_.settings.frame_bytes_max + random_.below(3000), 'x').append("\"}}");
  Line line = Composer::raw_line(text, {std::move(frame)});
  line.oversize = true;
  return line;
}

std::string AgentModel::last_words() {
  return "fatal: lost k-secret-" + std::to_string(random_.below(4)) + "\n\x1B[31mbye\x1B[0m\n";
}

void AgentModel::sent(const Frame& frame) {
  if (frame.label != Frame::Label::answer) return;
  // A stray answer may meet a request of a former one's id: then it has answered that.
  for (auto* list : {&on_wire_, &held_}) {
    const auto found = std::find_if(list->begin(), list->end(),
                                    [&](const Held& held) { return held.id.id_class == frame.id.id_class; });
    if (found == list->end()) continue;
    list->erase(found);
    return;
  }
}

void AgentModel::hear(std::string_view line) {
  TopLevel top;
  if (!read_top_level(line, top) || top.jsonrpc != "\"2.0\"") return findings_.report(Invariant::valid, line);
  const std::string_view id_token = top.id;
  if (top.method.empty()) {
    const Id id = id_of(id_token);
    const auto found = std::find_if(asked_.begin(), asked_.end(),
                                    [&](const Id& ask) { return ask.id_class == id.id_class; });
    if (id_token == "6666") return;  // of its malformed request
    if (found == asked_.end()) return findings_.report(Invariant::one_answer, line);
    asked_.erase(found);
  } else if (!id_token.empty()) {
    hear_request(line, top);
  }
}

void AgentModel::hear_request(std::string_view line, const TopLevel& top) {
  Held held{id_of(top.id), std::string(top.method), {}, no_key, 0};
  if (top.method == name_of(Method::prompt)) {
    held.session = member(top.params, "sessionId");
    held.key = key_of(member(top.params, "idempotencyKey"));
  }
  if (top.method == name_of(Method::initialize))
    held.version = number_of(member(top.params, "protocolVersion"));
  if (!held.id.usable()) findings_.report(Invariant::valid, line);
  if (held.key == malformed_key && plan_.version == 2 && plan_.settings.keys == KeyMode::guard &&
      !plan_.has(Kind::downgrade))
    findings_.report(Invariant::valid, line);
  // It may have answered a request before it came, where clients use ids again.
  const bool guesses = plan_.has(Kind::stray_answers) && plan_.has(Kind::id_clashes);
  const bool keyed = !guesses && held.key >= 0 && !held.session.empty() && plan_.version == 2 &&
                     !plan_.has(Kind::downgrade) &&
                     !plan_.has(Kind::silence);  // a prompt given up is still here
  for (const auto* list : {&held_, &on_wire_}) {
    for (const Held& other : *list) {
      if (other.id.id_class == held.id.id_class && !guesses) findings_.report(Invariant::ids, line);
      if (keyed && other.key == held.key && number_of(other.session) == number_of(held.session) &&
          !other.session.empty())
        findings_.report(Invariant::one_insertion, line);
    }
  }
  held_.push_back(std::move(held));
}

}  // namespace acp::sim
