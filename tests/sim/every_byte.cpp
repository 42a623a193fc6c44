#include "tests/sim/every_byte.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/sim/recorded.h"

namespace acp::sim {
namespace {

std::vector<std::filesystem::path> files_in(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void add(ByteReport& sum, const Recorded& recorded, const RunReport& run, const std::string& where) {
  sum.duplicates += run.duplicates;
  sum.wrong_answers += run.wrong_answers;
  sum.hung += run.hung;
  if (sum.failure.empty() && !run.failure.empty())
    sum.failure = fmt::format("{}, {}: {}", recorded.name, where, run.failure);
}

ByteReport kill_everywhere(const std::filesystem::path& path) {
  ByteReport sum;
  sum.dialogues = 1;
  Recorded recorded;
  if (!recorded.read(path)) {
    sum.failure = fmt::format("{}: a line that is none", path.filename().string());
    return sum;
  }
  const RunReport whole = run_recorded(recorded, {});
  add(sum, recorded, whole, "without a death");
  if (whole.output != recorded.agents_half() && sum.failure.empty())
    sum.failure = fmt::format("{}: the agent does not say what was recorded", recorded.name);
  for (std::size_t n = 0; n < whole.output.size() && sum.failure.empty(); ++n, ++sum.output_bytes)
    add(sum, recorded, run_recorded(recorded, {n, Death::never}), fmt::format("after {} bytes written", n));
  for (std::size_t n = 0; n < whole.input && sum.failure.empty(); ++n, ++sum.input_bytes)
    add(sum, recorded, run_recorded(recorded, {Death::never, n}), fmt::format("after {} bytes taken", n));
  return sum;
}

}  // namespace

ByteReport kill_at_every_byte(const std::string& directory, unsigned jobs) {
  const std::vector<std::filesystem::path> files = files_in(directory);
  ByteReport sum;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      const ByteReport one = kill_everywhere(files[i]);
      const std::lock_guard lock(mutex);
      sum.dialogues += one.dialogues;
      sum.output_bytes += one.output_bytes;
      sum.input_bytes += one.input_bytes;
      sum.duplicates += one.duplicates;
      sum.wrong_answers += one.wrong_answers;
      sum.hung += one.hung;
      if (sum.failure.empty()) sum.failure = one.failure;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < jobs; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (files.empty()) sum.failure = fmt::format("no dialogues in {}", directory);
  return sum;
}

bool record_dialogues(const std::string& directory) {
  for (const std::filesystem::path& path : files_in(directory)) {
    Recorded recorded;
    if (!recorded.read(path)) return false;
    const RunReport whole = run_recorded(recorded, {});
    std::ifstream old(path);
    std::string text;
    std::size_t said = 0;
    for (std::string line; std::getline(old, line);) {
      if (line.starts_with("A> ")) continue;
      text += line + "\n";
      if (line.empty() || line[0] != 'C') continue;
      std::string words = whole.interleaved[said++];
      std::erase(words, '\r');
      if (words.starts_with("\xEF\xBB\xBF")) words.erase(0, 3);
      std::size_t at = 0;
      for (std::size_t lf = words.find('\n'); lf != std::string::npos; lf = words.find('\n', at)) {
        text += "A> " + words.substr(at, lf + 1 - at);
        at = lf + 1;
      }
    }
    std::ofstream(path) << text;
  }
  return true;
}

}  // namespace acp::sim
