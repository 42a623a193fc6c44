// keyhop's own words: one line an event, to stderr and, with --log-file, to a file too. stdout is protocol.
//
// Invariant: a line is one line: control characters in its text are escaped, so that nothing an agent chose
// can fake a line or drive a terminal. Callers keep keys, prompt texts, environments and headers out.
// Lifetime: owned by the Shell, after the StderrWriter it writes to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/core/event.h"
#include "proxy/shell/options.h"
#include "proxy/shell/stderr_writer.h"

namespace spdlog {
class logger;
}

namespace acp::shell {

struct LogSettings {
  std::optional<LogLevel> level = LogLevel::info;  // the least that is said; nullopt: nothing
  LogFormat format = LogFormat::text;
  std::optional<std::string> file;
  bool colour = false;  // of the level word on stderr
};

class LogWriter {
 public:
  // Opens the file (appending, mode 0600); where that fails, error() is the errno value and stderr alone is
  // written.
  LogWriter(const LogSettings& settings, StderrWriter& errors);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void write(LogLevel level, std::string_view text);
  int error() const noexcept { return error_; }

 private:
  std::unique_ptr<spdlog::logger> logger_;
  int error_ = 0;
};

// A log line without its LF. Text: `keyhop: warning: text`; with a time (milliseconds since 1970) in front if
// given. JSON: one object with time, level, pid and message; what is not UTF-8 becomes U+FFFD.
std::string text_line(LogLevel level, std::string_view text, std::optional<std::int64_t> unix_ms,
                      bool colour);
std::string json_line(LogLevel level, std::string_view text, std::int64_t unix_ms, std::int64_t pid);

}  // namespace acp::shell
