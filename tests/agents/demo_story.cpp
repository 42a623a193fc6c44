#include "tests/agents/demo_story.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace acp::demo {

Story::Story() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  colours_ = ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
             terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::string Story::painted(const char* colour, const std::string& text) const {
  if (!colours_) return text;
  std::string sequence = "\x1b[";
  sequence.append(colour).append("m").append(text).append("\x1b[0m");
  return sequence;
}

std::string Story::elapsed() const {
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  char text[32];
  std::snprintf(text, sizeof text, "%5.2f s", seconds);
  return text;
}

void Story::line(const std::string& text) const {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Story::title(const std::string& text) {
  line({});
  line(painted("1", text));
}
void Story::text(const std::string& text) { line("  " + text); }
void Story::sent(const std::string& text) { line(painted("2", elapsed()) + painted("36", "  --> ") + text); }
void Story::received(const std::string& text) {
  line(painted("2", elapsed()) + painted("33", "  <-- ") + text);
}
void Story::found(bool good, const std::string& text) { line("  " + painted(good ? "1;32" : "1;31", text)); }

}  // namespace acp::demo
