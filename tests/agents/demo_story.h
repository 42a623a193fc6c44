// The words of the demo on a terminal: one line a fact, at the moment it happens.
//
// Invariant: colour only on a terminal that can show it and without NO_COLOR; every line is flushed.
// Lifetime: the program.
#pragma once

#include <chrono>
#include <string>

namespace acp::demo {

class Story {
 public:
  Story();

  void title(const std::string& text);
  void text(const std::string& text);
  // What goes to the other side and what comes from it, with the time since restart_clock().
  void sent(const std::string& text);
  void received(const std::string& text);
  // A finding: good or bad.
  void found(bool good, const std::string& text);
  void restart_clock() { begun_ = std::chrono::steady_clock::now(); }

 private:
  std::string painted(const char* colour, const std::string& text) const;
  std::string elapsed() const;
  void line(const std::string& text) const;

  bool colours_ = false;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace acp::demo
