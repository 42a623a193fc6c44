// The layer rule and the shape of the sources, read from the source tree itself.
//
// rules/ knows nobody. proxy/core does no I/O and has no clock, randomness or environment. proxy/shell knows
// no tools. Includes are root-relative. No file is too long; every header opens with a comment.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::size_t lines_max = 450;

struct Source {
  std::string path;  // from the root
  std::vector<std::string> lines;
  bool is_under(std::string_view folder) const { return path.starts_with(folder); }
};

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    const fs::path root = KEYHOP_SOURCE_DIR;
    std::vector<Source> found;
    for (const char* folder : {"rules", "proxy", "tests", "bench"}) {
      for (auto at = fs::recursive_directory_iterator(root / folder);
           at != fs::recursive_directory_iterator(); ++at) {
        if (at->path().filename() == "node_modules") at.disable_recursion_pending();
        const std::string extension = at->path().extension();
        if (extension != ".h" && extension != ".cpp" && extension != ".c") continue;
        found.push_back({fs::relative(at->path(), root).generic_string(), lines_of(at->path())});
      }
    }
    return found;
  }();
  return all;
}

// The line without its comment; good enough for a tree that has no block comments.
std::string_view code_of(std::string_view line) {
  const std::size_t comment = line.find("//");
  return comment == std::string_view::npos ? line : line.substr(0, comment);
}

// What a line includes: `"…"` or `<…>` with its marks; empty if nothing.
std::string_view included_by(std::string_view line) {
  if (!line.starts_with("#include ")) return {};
  const std::size_t begin = line.find_first_of("\"<");
  const std::size_t end = line.find_last_of("\">");
  return begin == std::string_view::npos || end <= begin ? std::string_view{}
                                                         : line.substr(begin, end - begin + 1);
}

bool contains_word(std::string_view text, std::string_view word) {
  const auto is_letter = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool starts = at == 0 || !is_letter(text[at - 1]) || !is_letter(word.front());
    const bool ends = end == text.size() || !is_letter(text[end]) || !is_letter(word.back());
    if (starts && ends) return true;
  }
  return false;
}

// Every line of code under `folder` that names one of `words`.
std::vector<std::string> uses(std::string_view folder, const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const Source& source : sources()) {
    if (!source.is_under(folder)) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      for (const auto& word : words) {
        if (contains_word(code_of(source.lines[i]), word)) {
          found.push_back(source.path + ":" + std::to_string(i + 1) + ": " + word);
        }
      }
    }
  }
  return found;
}

// Every include under `folder` that begins with one of `beginnings` (marks included).
std::vector<std::string> includes(std::string_view folder, const std::vector<std::string>& beginnings) {
  std::vector<std::string> found;
  for (const Source& source : sources()) {
    if (!source.is_under(folder)) continue;
    for (const auto& line : source.lines) {
      for (const auto& beginning : beginnings) {
        if (included_by(line).starts_with(beginning)) found.push_back(source.path + ": " + line);
      }
    }
  }
  return found;
}

const std::vector<std::string> nothing;

}  // namespace

TEST_CASE("the source tree is there", "[include]") {
  CHECK(sources().size() > 30);
  CHECK(included_by("#include \"a/b.h\"") == "\"a/b.h\"");
  CHECK(included_by("#include <uv.h>  // \"x\"") != "<uv.h>");
  CHECK(included_by("// #include <uv.h>").empty());
  CHECK(contains_word("x = ::getenv(a)", "getenv"));
  CHECK_FALSE(contains_word("forgetenv(a)", "getenv"));
}

TEST_CASE("rules/ includes nothing of ours and nothing of others", "[include]") {
  CHECK(includes("rules/", {"\"proxy/", "\"tests/", "\"bench/"}) == nothing);
  CHECK(includes("rules/", {"<uv", "<simdjson", "<fmt", "<spdlog", "<CLI", "<nlohmann", "<sodium", "<sqlite",
                            "<unistd", "<sys/", "<fstream", "<iostream", "<filesystem", "<chrono", "<random",
                            "<cstdio"}) == nothing);
}

TEST_CASE("proxy/core does no I/O and knows no clock, randomness or environment", "[include]") {
  CHECK(includes("proxy/core/",
                 {"\"proxy/shell/", "\"proxy/tools/", "\"tests/",    "\"bench/", "<uv",     "<nlohmann",
                  "<spdlog",        "<CLI",           "<sqlite",     "<random",  "<thread", "<mutex",
                  "<fstream",       "<iostream",      "<filesystem", "<sys/",    "<fcntl",  "<signal",
                  "<csignal",       "<poll",          "<ctime",      "<time.h"}) == nothing);
  CHECK(uses("proxy/core/",
             {"system_clock", "steady_clock", "high_resolution_clock", "clock_gettime", "gettimeofday",
              "::now(", "random_device", "mt19937", "rand(", "srand(", "randombytes_buf", "getenv",
              "secure_getenv", "environ", "uv_loop_t", "uv_now", "uv_hrtime"}) == nothing);
}

TEST_CASE("the one write of the core's is that of a broken invariant", "[include]") {
  for (const auto& use : includes("proxy/core/", {"<unistd.h>", "<cstdio>", "<cstdlib>"})) {
    CAPTURE(use);
    CHECK(use.starts_with("proxy/core/invariant.cpp"));
  }
}

TEST_CASE("proxy/shell knows no tools, and no part of the proxy its tests", "[include]") {
  CHECK(includes("proxy/shell/", {"\"proxy/tools/", "<nlohmann"}) == nothing);
  CHECK(includes("proxy/", {"\"tests/", "\"bench/"}) == nothing);
}

TEST_CASE("includes are root-relative", "[include]") {
  for (const Source& source : sources()) {
    for (const auto& line : source.lines) {
      const std::string_view included = included_by(line);
      if (included.empty()) continue;
      CAPTURE(source.path, line);
      CHECK(included.find("..") == std::string_view::npos);
      if (included.front() != '"') continue;
      CHECK(fs::exists(fs::path(KEYHOP_SOURCE_DIR) / included.substr(1, included.size() - 2)));
    }
  }
}

TEST_CASE("no source is too long, and every header opens with a comment", "[include]") {
  for (const Source& source : sources()) {
    CAPTURE(source.path, source.lines.size());
    CHECK(source.lines.size() <= lines_max);
    if (!source.path.ends_with(".h")) continue;
    REQUIRE_FALSE(source.lines.empty());
    CHECK(source.lines.front().starts_with("// "));
    const auto& lines = source.lines;
    CHECK(std::find(lines.begin(), lines.end(), "#pragma once") != lines.end());
  }
}

TEST_CASE("no namespace is opened to everybody", "[include]") {
  CHECK(uses("proxy/", {"using namespace"}) == nothing);
  CHECK(uses("rules/", {"using namespace"}) == nothing);
}

TEST_CASE("nothing sleeps in a test", "[include]") {
  std::vector<std::string> sleepers;
  for (const auto& use : uses("tests/", {"sleep_for", "sleep_until", "usleep", "nanosleep", "sleep("})) {
    if (!use.starts_with("tests/unit/include_test.cpp")) sleepers.push_back(use);
  }
  CHECK(sleepers == nothing);
}

TEST_CASE("the root has the known folders only", "[include]") {
  const std::set<std::string> known{"bench", "build", "proxy", "rules", "tests"};
  for (const auto& entry : fs::directory_iterator(KEYHOP_SOURCE_DIR)) {
    const std::string name = entry.path().filename();
    if (name.front() == '.' || !entry.is_directory()) continue;
    CAPTURE(name);
    CHECK(known.count(name) == 1);
  }
  for (const Source& source : sources()) {
    CAPTURE(source.path);
    for (const char* name : {"/util", "/utils", "/common", "/helper", "/misc", "/manager"}) {
      CHECK(source.path.find(std::string(name) + "/") == std::string::npos);
      CHECK(source.path.find(std::string(name) + ".") == std::string::npos);
    }
  }
}
