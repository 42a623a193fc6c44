#include "proxy/tools/ledger.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/shell/ledger_list.h"

namespace acp::tools {
namespace {

using shell::LedgerEntry;
using Json = nlohmann::ordered_json;

constexpr int exit_nothing = 1;
constexpr int exit_bad_file = 65;      // EX_DATAERR of sysexits
constexpr int exit_input_output = 74;  // EX_IOERR
constexpr int exit_locked = 75;        // EX_TEMPFAIL

int status_of(LedgerError error) {
  switch (error) {
    case LedgerError::none: return 0;
    case LedgerError::busy: return exit_locked;
    case LedgerError::newer:
    case LedgerError::broken: return exit_bad_file;
    case LedgerError::failed: return exit_bad_file;
    case LedgerError::conflict:
    case LedgerError::full:
    case LedgerError::not_writable: return exit_input_output;
  }
  return exit_input_output;
}

std::string_view state_name(LedgerState state) {
  switch (state) {
    case LedgerState::open: return "open";
    case LedgerState::inserted: return "inserted";
    case LedgerState::unknown: return "unknown";
  }
  return "";
}

std::string_view state_words(LedgerState state) {
  switch (state) {
    case LedgerState::open: return "no answer yet";
    case LedgerState::inserted: return "answered";
    case LedgerState::unknown: return "outcome unknown";
  }
  return "";
}

std::string_view colour_of(LedgerState state) {
  switch (state) {
    case LedgerState::open: return "\033[33m";
    case LedgerState::inserted: return "\033[32m";
    case LedgerState::unknown: return "\033[31m";
  }
  return "";
}

// What an agent or client chose, fit for a terminal.
std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const auto byte = static_cast<unsigned char>(text[index]);
    // C1 control characters, too: 0xc2 and 0x80 to 0x9f.
    const bool is_c1 = byte == 0xc2 && index + 1 < text.size() && (text[index + 1] & 0xe0) == 0x80;
    if (is_c1) ++index;
    shown += byte < 0x20 || byte == 0x7f || is_c1 ? '?' : text[index];
  }
  return shown;
}

Json id_value(const std::string& token) {
  if (token.empty()) return nullptr;
  Json value = Json::parse(token, nullptr, false);
  return value.is_discarded() ? Json(token) : value;
}

std::string id_text(const std::string& token) {
  if (token.empty()) return "-";
  const Json value = id_value(token);
  return printable(value.is_string() ? value.get<std::string>() : token);
}

std::string time_text(std::int64_t unix_ms, const char* format, bool local) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (local) {
    ::localtime_r(&seconds, &parts);
  } else {
    ::gmtime_r(&seconds, &parts);
  }
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string ago(std::int64_t then_ms, std::int64_t now_ms) {
  const std::int64_t seconds = (now_ms - then_ms) / 1000;
  const auto count = [](std::int64_t number, std::string_view unit) {
    return fmt::format("{} {}{} ago", number, unit, number == 1 ? "" : "s");
  };
  if (seconds < 0) return "in the future";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return count(seconds / 60, "minute");
  if (seconds < 86400) return count(seconds / 3600, "hour");
  return count(seconds / 86400, "day");
}

struct Line {
  std::string agent;
  std::string session;
  std::string sent;
  LedgerState state;
  std::string message_id;
};

std::string text_of(const std::vector<LedgerEntry>& entries, const LedgerRequest& request) {
  std::vector<Line> lines;
  std::set<std::pair<std::string, std::string>> sessions;
  std::size_t agent_width = 5;
  std::size_t session_width = 7;
  for (const LedgerEntry& entry : entries) {
    lines.push_back({printable(entry.agent), printable(entry.session),
                     fmt::format("{} ({})", time_text(entry.added, "%Y-%m-%d %H:%M", true),
                                 ago(entry.added, request.unix_ms)),
                     entry.state, id_text(entry.message_id)});
    sessions.emplace(entry.agent, entry.session);
    agent_width = std::clamp(lines.back().agent.size(), agent_width, std::size_t{24});
    session_width = std::clamp(lines.back().session.size(), session_width, std::size_t{40});
  }
  const std::string_view bold = request.colour ? "\033[1m" : "";
  const std::string_view plain = request.colour ? "\033[0m" : "";
  std::string text = fmt::format("{}{:<{}}  {:<{}}  {:<34}  {:<15}  MESSAGE ID{}\n", bold, "AGENT",
                                 agent_width, "SESSION", session_width, "SENT", "STATE", plain);
  for (const Line& line : lines) {
    text += fmt::format("{:<{}}  {:<{}}  {:<34}  {}{:<15}{}  {}\n", line.agent, agent_width, line.session,
                        session_width, line.sent, request.colour ? colour_of(line.state) : "",
                        state_words(line.state), plain, line.message_id);
  }
  return text + fmt::format("{} prompt{} in {} session{}, remembered in {}\n", lines.size(),
                            lines.size() == 1 ? "" : "s", sessions.size(), sessions.size() == 1 ? "" : "s",
                            printable(request.path));
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string json_text(const std::vector<LedgerEntry>& entries) {
  if (entries.empty()) return "[]\n";
  std::string text = "[\n";
  for (const LedgerEntry& entry : entries) {
    const Json value{{"agent", entry.agent},
                     {"session", entry.session},
                     {"state", state_name(entry.state)},
                     {"messageId", id_value(entry.message_id)},
                     {"sentAt", time_text(entry.added, "%Y-%m-%dT%H:%M:%SZ", false)},
                     {"changedAt", time_text(entry.changed, "%Y-%m-%dT%H:%M:%SZ", false)}};
    text += "  " + dumped(value) + (&entry == &entries.back() ? "\n" : ",\n");
  }
  return text + "]\n";
}

int say(std::string_view text, std::FILE* out, int status) {
  if (std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0) return status;
  fmt::print(stderr, "keyhop ledger: cannot write\n");
  return exit_nothing;
}

int refuse(const LedgerRequest& request, LedgerError error) {
  fmt::print(stderr, "keyhop ledger: {} {}\n", printable(request.path), shell::words_of(error));
  return status_of(error);
}

int run_forget(const LedgerRequest& request, std::FILE* out) {
  shell::Forgotten forgotten;
  const LedgerError error = shell::forget_in_ledger(request.path, *request.forget, forgotten);
  if (error != LedgerError::none) return refuse(request, error);
  const int status = forgotten.is_known ? 0 : exit_nothing;
  if (forgotten.is_known_to_run)
    fmt::print(stderr, "keyhop ledger: a keyhop that runs now still remembers this session until it ends\n");
  if (request.json) {
    const Json value{{"session", *request.forget}, {"forgotten", forgotten.rows}};
    return say(dumped(value) + "\n", out, status);
  }
  const std::string name = printable(*request.forget);
  if (!forgotten.is_known)
    return say(fmt::format("Nothing is remembered of session {}.\n", name), out, status);
  return say(fmt::format("Forgot {} prompt{} of session {}.\n", forgotten.rows,
                         forgotten.rows == 1 ? "" : "s", name),
             out, status);
}

}  // namespace

int run_ledger(const LedgerRequest& request, std::FILE* out) {
  if (request.forget) return run_forget(request, out);
  bool is_there = false;
  std::vector<LedgerEntry> entries;
  const LedgerError error = shell::list_ledger(request.path, is_there, entries);
  if (error != LedgerError::none) return refuse(request, error);
  if (request.json) return say(json_text(entries), out, 0);
  if (!is_there) {
    return say(fmt::format("Nothing is remembered: there is no {}.\n", printable(request.path)), out, 0);
  }
  if (entries.empty())
    return say(fmt::format("Nothing is remembered in {}.\n", printable(request.path)), out, 0);
  return say(text_of(entries, request), out, 0);
}

}  // namespace acp::tools
