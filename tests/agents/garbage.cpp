#include "tests/agents/garbage.h"

#include <cstdio>

#include "tests/agents/raw_frame.h"

namespace acp::test_agent {
namespace {

constexpr std::size_t oversize_default = 65 * 1024 * 1024;
constexpr std::size_t depth_default = 2000;
constexpr std::size_t digits_count = 12;

std::string answer_begin(const std::string& id) { return R"({"jsonrpc":"2.0","id":)" + id; }

std::string padded(std::string begin, const std::string& end, std::size_t size) {
  if (size > begin.size() + end.size()) begin.append(size - begin.size() - end.size(), 'x');
  return begin + end;
}

// Puts text at the beginning of the first string value "text" of a frame.
std::string with_text(const std::string& frame, std::string_view text) {
  const std::string mark = R"("text":")";
  const std::size_t at = frame.find(mark);
  return at == std::string::npos ? frame : std::string(frame).insert(at + mark.size(), text);
}

std::string deep(std::size_t depth) {
  return R"({"jsonrpc":"2.0","method":"_test/deep","params":{"v":)" + std::string(depth, '[') +
         std::string(depth, ']') + "}}\n";
}

}  // namespace

bool replaces_answer(std::string_view kind) { return kind == "broken" || kind == "oversize_answer"; }

std::optional<std::string> garbage(std::string_view kind, std::size_t size, const std::string& good,
                                   const std::string& better, const std::string& id) {
  if (kind == "log") return "Loaded cached credentials.\n";
  if (kind == "json") return "{\"level\":\"info\",\"msg\":\"ready\"}\n";
  if (kind == "control") return "\x1b[2K\x1b[1G\x1b]0;agent\x07" + good + "\n";
  if (kind == "prefix") return "DEBUG: sending {it} " + good + "\n";
  if (kind == "two") return good + better + "\n";
  if (kind == "broken") return answer_begin(id) + ",\"result\":{\"messageId\":\"brok\n";
  if (kind == "unknown_id") return "{\"jsonrpc\":\"2.0\",\"id\":\"nobody-asked\",\"result\":{}}\n";
  if (kind == "second")
    return answer_begin(id) + ",\"result\":{\"messageId\":\"second\",\"stopReason\":\"second\"}}\n";
  if (kind == "batch") return "[" + good + "," + better + "]\n";
  if (kind == "utf8") return std::string("\xA4\x40\xA5\xCE\n") + with_text(good, "\xff\xfe") + "\n";
  if (kind == "oversize") {
    return padded(R"({"jsonrpc":"2.0","method":"_test/oversize","params":{"pad":")", "\"}}",
                  size == 0 ? oversize_default : size) +
           "\n";
  }
  if (kind == "oversize_answer") {
    return padded(
               answer_begin(id) + R"(,"result":{"messageId":"big","stopReason":"end_turn","_meta":{"pad":")",
               "\"}}}", size == 0 ? oversize_default : size) +
           "\n";
  }
  if (kind == "blank") return "\n   \n\r\n\n";
  if (kind == "crlf") return good + "\r\n";
  if (kind == "bom") return "\xEF\xBB\xBF" + good + "\n";
  if (kind == "null_error")
    return "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"what?\"}}\n";
  if (kind == "lone") return with_text(good, "\\ud800") + "\n";
  if (kind == "deep") return deep(size == 0 ? depth_default : size);
  if (kind == "nul") return std::string("\0\0\0\n", 4);
  return std::nullopt;
}

std::string numbered_update(const std::string& session, bool with_message_id, const std::string& message_id,
                            std::size_t size, std::size_t& digits) {
  std::string begin = R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":)" +
                      to_line(session) + R"(,"update":{"sessionUpdate":"agent_message_chunk",)";
  if (with_message_id) begin += R"("messageId":)" + to_line(message_id) + ",";
  begin += R"("content":{"type":"text","text":")";
  digits = begin.size();
  begin.append(digits_count, '0');
  return padded(begin + " ", "\"}}}}", size);
}

void put_number(std::string& frame, std::size_t digits, unsigned long long number) {
  for (std::size_t i = digits_count; i-- > 0; number /= 10)
    frame[digits + i] = static_cast<char>('0' + number % 10);
}

}  // namespace acp::test_agent
