#include "tests/sim/messages.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/core/limits.h"
#include "proxy/core/relay.h"
#include "tests/sim/invariants.h"
#include "tests/sim/json_scan.h"
#include "tests/sim/prng.h"

namespace acp::sim {
namespace {

constexpr LinkId agent_link{2};
constexpr std::size_t batch_max = 40;  // messages of one read, at most

void add_string(Prng& random, std::string& out) {
  static constexpr std::string_view parts[] = {
      "text",    "\\n",     "\\\"",           "\\\\",     "\\/",          "\\u0000",
      "\\ud800", "\\udC00", "\\ud83d\\ude00", "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80",
      "\x7F",    " ",       "{[,:]}",         "id"};
  out += '"';
  for (std::size_t i = random.below(6); i > 0; --i) out += random.pick(parts);
  out += '"';
}

void add_number(Prng& random, std::string& out) {
  static constexpr std::string_view numbers[] = {"0",
                                                 "-0",
                                                 "0.0",
                                                 "1.50e1",
                                                 "1E400",
                                                 "-1e-400",
                                                 "123456789012345678901234567890",
                                                 "1e+2",
                                                 "0.1",
                                                 "-17",
                                                 "9007199254740993",
                                                 "3.14159265358979323846264338327950288"};
  if (random.chance(60)) {
    out += random.pick(numbers);
  } else {
    out += std::to_string(random.next() >> random.below(60));
  }
}

void add_blanks(Prng& random, std::string& out) {
  if (random.chance(10)) out += random.chance(50) ? " " : "\t \t";
}

void add_value(Prng& random, std::string& out, std::size_t depth) {
  add_blanks(random, out);
  const std::size_t kind = random.below(depth > 6 ? 5 : 8);
  switch (kind) {
    case 0: out += "null"; break;
    case 1: out += random.chance(50) ? "true" : "false"; break;
    case 2: add_number(random, out); break;
    case 3:
    case 4: add_string(random, out); break;
    default: {
      const bool object = kind == 5 || kind == 6;
      out += object ? '{' : '[';
      for (std::size_t i = 0, count = random.below(5); i < count; ++i) {
        if (i > 0) out += ',';
        if (object) {
          add_string(random, out);
          out += ':';
        }
        add_value(random, out, depth + 1);
      }
      out += object ? '}' : ']';
    }
  }
  add_blanks(random, out);
}

// A message and where its id stands, if a relay may change it.
struct Message {
  std::string text;
  std::string id;        // as it was written
  std::string id_after;  // of an answer: as the asker wrote it
  bool asks = false;
  std::size_t id_begin = 0;
  std::size_t id_end = 0;
};

class Crossing {
 public:
  explicit Crossing(std::uint64_t seed) : random_(seed), relay_(settings_) {}

  MessageReport run(std::uint64_t count) {
    relay_.start({}, actions_);
    relay_.step(AgentStarted{Epoch{1}, 1}, {}, actions_);
    actions_.clear();
    read_whole(client_link,
               R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}})");
    read_whole(agent_link, R"({"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}})");
    out_[0].clear();
    out_[1].clear();
    for (const LinkId link : {client_link, agent_link}) cross(link, 1, limits::frame_bytes_default - 512);
    while (report_.messages < count && report_.failure.empty()) {
      const LinkId link = report_.messages % 2 == 0 ? client_link : agent_link;
      const bool large = random_.below(4000) == 0;
      cross(link, large ? 1 : 1 + random_.below(batch_max),
            large               ? limits::mib + random_.below(7 * limits::mib)
            : random_.chance(2) ? random_.below(100'000)
                                : 0);
    }
    return report_;
  }

 private:
  // Some messages written by one side; all must come out at the other.
  void cross(LinkId from, std::size_t count, std::size_t filling) {
    std::vector<Message> sent;
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
      sent.push_back(make(from, filling));
      bytes.append(sent.back().text).append("\n");
    }
    read_in_pieces(from, bytes);
    std::string& out = out_[from == client_link ? 1 : 0];
    std::size_t at = 0;
    for (const Message& message : sent) {
      const std::size_t lf = out.find('\n', at);
      if (lf == std::string::npos) return fail(Invariant::due, "a message did not come out", message.text);
      compare(from, message, std::string_view(out).substr(at, lf - at));
      at = lf + 1;
    }
    if (at != out.size())
      fail(Invariant::due, "more came out than went in", std::string_view(out).substr(at));
    out.clear();
    if (!out_[from == client_link ? 0 : 1].empty())
      fail(Invariant::one_answer, "a message was answered", out_[from == client_link ? 0 : 1]);
    report_.messages += sent.size();
    report_.bytes += bytes.size();
  }

  void compare(LinkId from, const Message& message, std::string_view got) {
    const std::string_view before = std::string_view(message.text).substr(0, message.id_begin);
    const std::string_view after = std::string_view(message.text).substr(message.id_end);
    if (message.id_end == 0) {
      if (got != message.text) fail(Invariant::bytes, "a byte differs", got);
      return;
    }
    if (!got.starts_with(before) || !got.ends_with(after) || got.size() <= before.size() + after.size())
      return fail(Invariant::bytes, "a byte differs outside the id", got);
    const std::string_view id = got.substr(before.size(), got.size() - before.size() - after.size());
    const bool right =
        message.asks ? id == message.id || id.starts_with("\"keyhop-") : id == message.id_after;
    if (!right) fail(Invariant::ids, "a wrong id came out", got);
    remember(from, message, id);
  }

  // A request is answered under the id that it came out with.
  void remember(LinkId from, const Message& message, std::string_view id) {
    if (message.asks) owed_[from == client_link ? 1 : 0].push_back({std::string(id), message.id});
  }

  Message make(LinkId from, std::size_t filling) {
    std::vector<std::string> members{R"("jsonrpc":"2.0")"};
    std::string& body = members.emplace_back();
    std::string id;
    std::deque<Owed>& owed = owed_[from == client_link ? 0 : 1];
    std::string id_after;
    const bool answers = !owed.empty() && random_.chance(owed.size() > 50 ? 90 : 45);
    if (answers) {
      id = owed.front().wire;
      id_after = owed.front().asked;
      owed.pop_front();
      body = random_.chance(80) ? "\"result\":" : R"("error":{"code":-32000,"message":"no","data":)";
      const bool error = body[1] == 'e';
      add_value(random_, body, 0);
      if (error) body += '}';
    } else {
      static constexpr std::string_view methods[] = {"session/prompt", "session\\/list",    "_vendor/x",
                                                     "future",         "fs/read_text_file", ""};
      if (random_.chance(70)) {
        id = make_id();
      }
      body = fmt::format(R"("method":"{}")", random_.pick(methods));
      std::string& params = members.emplace_back("\"params\":");
      if (random_.chance(70)) {
        add_object(params, filling);
      } else {
        add_value(random_, params, 0);
      }
    }
    Message message = join(std::move(members), id, filling);
    message.id = id;
    message.id_after = id_after;
    message.asks = !answers && !id.empty();
    return message;
  }

  void add_object(std::string& out, std::size_t filling) {
    out += R"({"sessionId":"s1","filling":")";
    out.append(filling / 2, 'y').append("\",\"value\":");
    add_value(random_, out, 0);
    out += '}';
  }

  Message join(std::vector<std::string> members, const std::string& id, std::size_t filling) {
    if (!id.empty()) members.push_back(fmt::format("\"id\":{}", id));
    for (std::size_t i = random_.below(3); i > 0; --i) {
      std::string& unknown = members.emplace_back(fmt::format("\"unknown {}\":", i));
      add_value(random_, unknown, 0);
    }
    if (filling > 0) members.push_back(fmt::format("\"filling\":\"{}\"", std::string(filling / 2, 'x')));
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random_.below(i)]);
    Message message;
    message.text.push_back('{');
    for (const std::string& written : members) {
      if (message.text.size() > 1) message.text += ',';
      add_blanks(random_, message.text);
      message.text += written;
      if (!id.empty() && written.starts_with("\"id\":")) {
        message.id_end = message.text.size();
        message.id_begin = message.id_end - id.size();
      }
    }
    message.text += '}';
    return message;
  }

  // Now and then an id that is open already, so that the one on the wire must be another.
  std::string make_id() {
    const std::string serial = std::to_string(random_.chance(90) ? ++serial_ : serial_ - random_.below(5));
    switch (random_.below(4)) {
      case 0: return serial;
      case 1: return fmt::format(R"("{}\u0041\ud800")", serial);
      case 2: return fmt::format("-{}123456789012345678901234567890", serial);
      default: return fmt::format("\"{}\xE4\xB8\xAD\"", serial);
    }
  }

  void read_whole(LinkId link, std::string_view line) { read_in_pieces(link, std::string(line) + "\n"); }

  void read_in_pieces(LinkId link, std::string_view bytes) {
    const std::size_t piece_max = random_.chance(20) ? 40 : limits::read_bytes;
    while (!bytes.empty()) {
      const std::size_t size = std::min(
          bytes.size(), bytes.size() > limits::mib ? limits::read_bytes : 1 + random_.below(piece_max));
      buffer_.assign(bytes.substr(0, size)).append(limits::padding_bytes, '"');
      bytes.remove_prefix(size);
      relay_.step(BytesRead{link, std::string_view(buffer_).substr(0, size)}, {}, actions_);
      for (const Action& action : actions_.list()) {
        if (const auto* send = std::get_if<Send>(&action))
          out_[send->link == client_link ? 0 : 1] += send->bytes;
      }
      actions_.clear();
    }
  }

  void fail(Invariant invariant, std::string_view what, std::string_view text) {
    if (report_.failure.empty())
      report_.failure = fmt::format("{}: {}: {}", name_of(invariant), what, text.substr(0, 500));
  }

  Prng random_;
  Settings settings_;
  Relay relay_;
  Actions actions_;
  MessageReport report_;
  std::string out_[2];  // to the client, to the agent
  struct Owed {
    std::string wire;
    std::string asked;
  };
  std::deque<Owed> owed_[2];  // what the client, the agent has to answer
  std::string buffer_;
  std::uint64_t serial_ = 10;
};

}  // namespace

MessageReport cross_messages(std::uint64_t count, std::uint64_t seed) { return Crossing(seed).run(count); }

}  // namespace acp::sim
