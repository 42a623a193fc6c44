#include "proxy/shell/log.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include "proxy/shell/handle.h"

namespace acp::shell {
namespace {

spdlog::level::level_enum as_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel from_spdlog(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return LogLevel::debug;
  if (level == spdlog::level::info) return LogLevel::info;
  return level == spdlog::level::warn ? LogLevel::warning : LogLevel::error;
}

std::string_view word(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "error";
}

std::string_view colour_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "\033[2m";
    case LogLevel::info: return "\033[32m";
    case LogLevel::warning: return "\033[33m";
    case LogLevel::error: return "\033[31m";
  }
  return "";
}

std::string utc(std::int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, unix_ms % 1000);
}

// Length of the well-formed UTF-8 sequence at the beginning of `text`, 0 if there is none (Unicode, table
// 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
  };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const unsigned least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < least || at(1) > most) return 0;
  for (std::size_t index = 2; index < length; ++index) {
    if (at(index) < 0x80 || at(index) > 0xbf) return 0;
  }
  return length;
}

bool is_control(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  // C1 controls are U+0080 to U+009F.
  return sequence.size() == 2 && first == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;
}

// Copies `text` and escapes what must not stand in a line of that form.
void append_escaped(std::string& line, std::string_view text, bool json) {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    const auto first = static_cast<unsigned>(static_cast<unsigned char>(sequence[0]));
    if (length == 0) {
      line += json ? std::string("\\ufffd") : fmt::format("\\x{:02x}", first);
    } else if (is_control(sequence)) {
      const unsigned code = sequence.size() == 1 ? first : static_cast<unsigned char>(sequence[1]);
      line += json ? fmt::format("\\u{:04x}", code) : fmt::format("\\x{:02x}", code);
    } else {
      if (json && (first == '"' || first == '\\')) line += '\\';
      line += sequence;
    }
    text.remove_prefix(sequence.size());
  }
}

// Where a formatted line goes. Single-threaded, hence the null mutex.
class LineSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  using Write = std::function<void(std::string_view line)>;
  LineSink(const LogSettings& settings, bool with_time, Write write)
      : json_(settings.format == LogFormat::json),
        colour_(settings.colour && !with_time),
        with_time_(with_time),
        write_(std::move(write)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::int64_t unix_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch()).count();
    const LogLevel level = from_spdlog(message.level);
    const std::string_view text(message.payload.data(), message.payload.size());
    std::string line =
        json_ ? json_line(level, text, unix_ms, ::getpid())
              : text_line(level, text, with_time_ ? std::optional(unix_ms) : std::nullopt, colour_);
    line += '\n';
    write_(line);
  }
  void flush_() override {}

 private:
  bool json_;
  bool colour_;
  bool with_time_;
  Write write_;
};

void write_whole(int number, std::string_view line) {
  while (!line.empty()) {
    const ssize_t size = ::write(number, line.data(), line.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;  // a full disk does not stop the relay
    line.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace

std::string text_line(LogLevel level, std::string_view text, std::optional<std::int64_t> unix_ms,
                      bool colour) {
  std::string line;
  if (unix_ms) line += utc(*unix_ms) + ' ';
  line += "keyhop: ";
  if (colour) line += colour_of(level);
  line += word(level);
  if (colour) line += "\033[0m";
  line += ": ";
  append_escaped(line, text, false);
  return line;
}

std::string json_line(LogLevel level, std::string_view text, std::int64_t unix_ms, std::int64_t pid) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","pid":{},"message":")", utc(unix_ms), word(level), pid);
  append_escaped(line, text, true);
  line += "\"}";
  return line;
}

LogWriter::LogWriter(const LogSettings& settings, StderrWriter& errors) {
  std::vector<spdlog::sink_ptr> sinks;
  sinks.push_back(
      std::make_shared<LineSink>(settings, false, [&errors](std::string_view line) { errors.line(line); }));
  if (settings.file) {
    auto file = std::make_shared<Descriptor>(::open(
        settings.file->c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
    if (file->open()) {
      sinks.push_back(std::make_shared<LineSink>(
          settings, true, [file](std::string_view line) { write_whole(file->number(), line); }));
    } else {
      error_ = errno;
    }
  }
  logger_ = std::make_unique<spdlog::logger>("keyhop", sinks.begin(), sinks.end());
  logger_->set_level(settings.level ? as_spdlog(*settings.level) : spdlog::level::off);
}

LogWriter::~LogWriter() = default;

void LogWriter::write(LogLevel level, std::string_view text) {
  logger_->log(as_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace acp::shell
