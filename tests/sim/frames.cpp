#include "tests/sim/frames.h"

#include <array>
#include <charconv>
#include <utility>

namespace acp::sim {
namespace {

constexpr std::uint32_t null_class = 1;
constexpr std::uint32_t own_base = 1'000'000;
constexpr std::uint32_t plain_base = 10'000;
constexpr std::string_view own_prefix = "\"keyhop-";

struct OddId {
  std::uint32_t id_class;
  bool integer;  // or a string
  std::string_view token;
};
constexpr std::array odd_ids{
    OddId{2, true, "0"},           OddId{2, true, "0.0"},    OddId{3, true, "\"0\""},
    OddId{3, true, R"("\u0030")"}, OddId{4, true, "\"\""},   OddId{5, true, "-1"},
    OddId{5, true, "-10e-1"},      OddId{6, true, "1"},      OddId{6, true, "1.0"},
    OddId{6, true, "1E0"},         OddId{7, true, "\"1\""},  OddId{8, true, "123456789012345678901234567890"},
    OddId{9, false, "1.5"},        OddId{9, false, "15e-1"}, OddId{10, true, R"("a\"\\b")"},
    OddId{11, true, "1e400"},
};

constexpr std::array<std::string_view, static_cast<std::size_t>(Method::count_)> method_names{
    "initialize",         "session/new",
    "session/resume",     "session/load",
    "session/close",      "session/delete",
    "session/list",       "session/set_config_option",
    "session/prompt",     "_vendor/run",
    "future/method",      "proxy/initialize",
    "session/cancel",     "session/request_permission",
    "elicitation/create", "fs/read_text_file",
    "session/update",
};

std::string quoted(std::string_view text) { return std::string("\"").append(text).append("\""); }

}  // namespace

std::string_view name_of(Method method) noexcept { return method_names[static_cast<std::size_t>(method)]; }

Id plain_id(std::uint32_t number) { return {std::to_string(number), plain_base + number}; }
Id null_id() { return {"null", null_class}; }

Id id_of(std::string_view token) {
  if (token == "null") return null_id();
  for (const OddId& odd : odd_ids) {
    if (odd.token == token) return {std::string(token), odd.id_class};
  }
  const bool own = token.substr(0, own_prefix.size()) == own_prefix;
  const std::string_view digits = own ? token.substr(own_prefix.size()) : token;
  std::uint32_t number = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc{}) return {};
  return {std::string(token), (own ? own_base : plain_base) + number};
}

Id odd_id(Prng& random, bool integers_only) {
  for (;;) {
    const OddId& odd = odd_ids[random.below(odd_ids.size())];
    if (!integers_only || odd.integer) return {std::string(odd.token), odd.id_class};
  }
}

Id respelled(const Id& id, Prng& random) {
  std::array<const OddId*, odd_ids.size()> same{};
  std::size_t count = 0;
  for (const OddId& odd : odd_ids) {
    if (odd.id_class == id.id_class) same[count++] = &odd;
  }
  if (count == 0) return id;
  return {std::string(same[random.below(count)]->token), id.id_class};
}

Composer::Piece Composer::piece(std::string_view name, std::string_view value) {
  Piece made;
  made.text.reserve(name.size() + value.size() + 3);
  made.text.append("\"").append(name).append("\":").append(value);
  return made;
}

void Composer::join(std::vector<Piece>& members, Piece& out) {
  if (random_.chance(30)) {
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random_.below(i)]);
  }
  const bool blanks = random_.chance(15);
  out.text += '{';
  for (const Piece& member : members) {
    if (out.text.size() > 1) out.text += ',';
    if (blanks) out.text += "\t ";
    const std::size_t offset = out.text.size();
    if (member.id.end != 0) out.id = {member.id.begin + offset, member.id.end + offset};
    if (member.ref.end != 0) out.ref = {member.ref.begin + offset, member.ref.end + offset};
    out.text += member.text;
  }
  out.text += '}';
}

Composer::Piece Composer::params(std::vector<Piece> members) {
  Piece object;
  join(members, object);
  Piece made = piece("params", object.text);
  const std::size_t offset = made.text.size() - object.text.size();
  if (object.ref.end != 0) made.ref = {object.ref.begin + offset, object.ref.end + offset};
  return made;
}

void Composer::put(Frame& frame, std::vector<Piece> members) {
  members.push_back(piece("jsonrpc", "\"2.0\""));
  if (frame.id.usable()) {
    Piece id = piece("id", frame.id.token);
    id.id = {id.text.size() - frame.id.token.size(), id.text.size()};
    members.push_back(std::move(id));
  }
  members.push_back(piece("x", std::to_string(++serial_)));  // makes every line another one
  Piece whole;
  join(members, whole);
  frame.text = std::move(whole.text);
  frame.id_span = whole.id;
  frame.ref_span = whole.ref;
}

std::string Composer::session_token(int session) {
  std::string digit = std::to_string(session);
  return respells_ && random_.chance(20) ? R"("\u0073)" + digit + "\"" : "\"s" + digit + "\"";
}

std::string Composer::key_token(int key) {
  if (key == malformed_key) {
    constexpr std::string_view kinds[] = {"\"\"", "7", "true", "{}", "[]"};
    return std::string(random_.pick(kinds));
  }
  const std::string digit = std::to_string(key);
  return respells_ && random_.chance(30) ? R"("k\u002dsecret-)" + digit + "\"" : "\"k-secret-" + digit + "\"";
}

Frame Composer::request(Method method, const Id& id, int session, int key, int print) {
  Frame frame;
  frame.label = Frame::Label::request;
  frame.id = id;
  frame.method = method;
  frame.session = session;
  frame.key = key;
  frame.print = print;
  std::vector<Piece> members;
  if (session != no_session) members.push_back(piece("sessionId", session_token(session)));
  if (method == Method::prompt) {
    const std::string text = std::to_string(print);
    const bool other = respells_ && random_.chance(50);
    members.push_back(piece("prompt", other ? R"([{"n":10e-1,"text":"P)" + text + R"("}])"
                                            : R"([{"text":"\u0050)" + text + R"(","n":1}])"));
    if (random_.chance(20))
      members.push_back(piece("_meta", R"({"traceparent":)" + std::to_string(serial_) + "}"));
    if (key != no_key) {
      members.push_back(piece("idempotencyKey", key_token(key)));
    } else if (random_.chance(20)) {
      members.push_back(piece("idempotencyKey", "null"));
    }
  } else if (random_.chance(30)) {
    members.push_back(piece("big", "123456789012345678901234567890.50e-3"));
  }
  const std::string name = method == Method::session_list && respells_ && random_.chance(30)
                               ? R"(session\/list)"
                               : std::string(name_of(method));
  put(frame, {piece("method", quoted(name)), params(std::move(members))});
  return frame;
}

Frame Composer::initialize(const Id& id, int version) {
  Frame frame;
  frame.label = Frame::Label::request;
  frame.id = id;
  frame.method = Method::initialize;
  frame.version = version;
  put(frame,
      {piece("method", "\"initialize\""), params({piece("protocolVersion", std::to_string(version))})});
  return frame;
}

Frame Composer::notification(Method method, int session) {
  Frame frame;
  frame.label = Frame::Label::notification;
  frame.method = method;
  frame.session = session;
  std::vector<Piece> members;
  if (session != no_session) members.push_back(piece("sessionId", session_token(session)));
  members.push_back(piece("update", R"({"sessionUpdate":"agent_message_chunk","text":"\ud83d \u0000"})"));
  put(frame, {piece("method", quoted(name_of(method))), params(std::move(members))});
  return frame;
}

Frame Composer::cancel(const Id& named, bool usable) {
  Frame frame;
  frame.label = Frame::Label::cancel;
  std::vector<Piece> members;
  if (usable) {
    frame.ref = named;
    Piece ref = piece("requestId", named.token);
    ref.ref = {ref.text.size() - named.token.size(), ref.text.size()};
    members.push_back(std::move(ref));
  } else if (random_.chance(50)) {
    members.push_back(piece("requestId", random_.chance(50) ? "{}" : "true"));
  }
  put(frame, {piece("method", "\"$/cancel_request\""), params(std::move(members))});
  return frame;
}

Frame Composer::elicitation(const Id& id, const Id& named) {
  Frame frame;
  frame.label = Frame::Label::request;
  frame.id = id;
  frame.ref = named;
  frame.method = Method::elicitation;
  Piece ref = piece("requestId", named.token);
  ref.ref = {ref.text.size() - named.token.size(), ref.text.size()};
  put(frame,
      {piece("method", "\"elicitation/create\""), params({piece("mode", "\"form\""), std::move(ref)})});
  return frame;
}

Frame Composer::answer(const Id& id, std::string_view result) {
  Frame frame;
  frame.label = Frame::Label::answer;
  frame.id = id;
  put(frame, {piece("result", result)});
  return frame;
}

Frame Composer::error_answer(const Id& id, int code, std::string_view data) {
  Frame frame;
  frame.label = Frame::Label::answer;
  frame.id = id;
  frame.success = false;
  std::string error = R"({"code":)" + std::to_string(code) + R"(,"message":"no")";
  if (!data.empty()) error.append(",\"data\":").append(data);
  put(frame, {piece("error", error + "}")});
  return frame;
}

Frame Composer::broken_answer(const Id& id) {
  static constexpr std::array<std::string_view, 6> endings{R"(,"result":tru})",
                                                           R"(,"result":{},"error":{"code":1,"message":""}})",
                                                           R"(,"error":7})",
                                                           R"(,"result":{"a":)",
                                                           R"(,"result":1,"result":2})",
                                                           R"(,"result":{}]})"};
  Frame frame;
  frame.label = Frame::Label::answer;
  frame.id = id;
  frame.sound = false;
  frame.text = R"({"jsonrpc":"2.0","id":)" + id.token;
  const std::size_t ending = random_.below(endings.size());
  frame.text += endings[ending];
  if (ending == 0 || ending == 3 || ending == 5) frame.code = -32700;
  return frame;
}

Line Composer::line(Frame frame) {
  Line made;
  if (random_.chance(3)) made.bytes += random_.chance(50) ? "\n" : " \t\r\n";
  if (random_.chance(3)) made.bytes += "\xEF\xBB\xBF";
  made.bytes += frame.text;
  if (random_.chance(5)) made.bytes += '\r';
  made.bytes += '\n';
  made.frames.push_back(std::move(frame));
  return made;
}

Line Composer::raw_line(std::string_view text, std::vector<Frame> frames) {
  Line made;
  made.bytes.append(text).append("\n");
  made.frames = std::move(frames);
  return made;
}

}  // namespace acp::sim
