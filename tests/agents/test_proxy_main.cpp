// keyhop-test-proxy: a pass-through component for chains, with a record and faults on order. See --help.
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <unistd.h>

#include "tests/agents/pass_through.h"

namespace {

using namespace std::string_literals;
namespace test_agent = acp::test_agent;

constexpr char help_text[] =
    R"(keyhop-test-proxy: passes everything on, in an envelope to its successor, without it to its predecessor

  --spelling proxy|_proxy  proxy: what stands in front of /initialize and /successor
  --wrong-spelling HOW     refuse: the other spelling gets -32601; pass: is passed on; exit: ends the process
  --cancels plain|wrapped  plain: how it cancels what it sent in an envelope
  --ids fresh|keep|text    fresh: the ids of what it sends: 0, 1, 2 …; those that came; strings
  --name NAME              hop: in its string ids and in the record
  --record FILE            appends "= PID NAME" at the start, then every line, '<' as it came, '>' as it went
  --die-at N               --fault read@N=kill
  --fault POINT[:METHOD]@COUNT[/START]=ACTION      as keyhop-test-agent's, repeatable. Points: start, input,
                           read, acted, write, written, output, and of passed answers answer, answered.
                           METHOD is the carried one; answers are read and acted as =METHOD.
                           START: from that start of the record on
  --fault-times N          each fault strikes so often over all processes with this record
)";

struct Options {
  test_agent::HopOptions hop;
  test_agent::FaultPlan faults;
  std::string record;
  std::size_t fault_times = 0;
};

bool set_count(std::size_t& target, const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9)
    return false;
  target = std::stoul(text);
  return true;
}

bool set_ids(test_agent::HopIds& target, const std::string& text) {
  if (text == "fresh") target = test_agent::HopIds::fresh;
  if (text == "keep") target = test_agent::HopIds::keep;
  if (text == "text") target = test_agent::HopIds::text;
  return text == "fresh" || text == "keep" || text == "text";
}

bool set_wrong(test_agent::WrongSpelling& target, const std::string& text) {
  if (text == "refuse") target = test_agent::WrongSpelling::refuse;
  if (text == "pass") target = test_agent::WrongSpelling::pass;
  if (text == "exit") target = test_agent::WrongSpelling::exit;
  return text == "refuse" || text == "pass" || text == "exit";
}

bool set(Options& options, const std::string& name, const std::string& value) {
  if (name == "--spelling") return options.hop.spelling = value, value == "proxy" || value == "_proxy";
  if (name == "--wrong-spelling") return set_wrong(options.hop.wrong, value);
  if (name == "--cancels") {
    options.hop.wrapped_cancels = value == "wrapped";
    return value == "wrapped" || value == "plain";
  }
  if (name == "--ids") return set_ids(options.hop.ids, value);
  if (name == "--name") return options.hop.name = value, value.find_first_of("\"\\ \n") == std::string::npos;
  if (name == "--record") return options.record = value, !value.empty();
  if (name == "--die-at") return options.faults.add("read@" + value + "=kill");
  if (name == "--fault") return options.faults.add(value);
  if (name == "--fault-times") return set_count(options.fault_times, value);
  return false;
}

// What is wrong with the command line, or nothing.
std::string parse(Options& options, int count, char** arguments) {
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) return name + " is unknown or needs a value";
    if (!set(options, name, arguments[i + 1])) return name + " cannot be '" + arguments[i + 1] + "'";
  }
  return options.fault_times > 0 && options.record.empty() ? "--fault-times needs --record"s : ""s;
}

// Marks this start in the record. Its number, counted from 1; 0: the record cannot be written.
std::uint64_t begin_record(const std::string& path, const std::string& name) {
  std::uint64_t starts = 1;
  char last = '\n';
  std::ifstream record(path);
  for (std::string line; std::getline(record, line);) {
    starts += line.substr(0, 2) == "= " ? 1 : 0;
    last = record.eof() ? 'x' : '\n';  // a kill may have cut the last line off
  }
  const std::string mark = (last == '\n' ? "= " : "\n= ") + std::to_string(::getpid()) + ' ' + name + '\n';
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && ::write(file, mark.data(), mark.size()) == static_cast<ssize_t>(mark.size());
  if (file >= 0) ::close(file);
  return written ? starts : 0;
}

void pass_on(test_agent::PassThrough& hop, test_agent::Wire& wire) {
  std::vector<std::string> lines;
  while (!wire.output_broken() && (!wire.at_end() || wire.backlog() > 0)) {
    pollfd ends[2] = {{wire.reads() ? STDIN_FILENO : -1, POLLIN, 0}, {-1, POLLOUT, 0}};
    if (wire.backlog() > 0) ends[1].fd = STDOUT_FILENO;
    if (::poll(ends, 2, -1) <= 0) continue;
    if (ends[1].revents != 0) wire.flush();
    if (ends[0].revents == 0) continue;
    lines.clear();
    wire.read(lines);
    for (const std::string& line : lines) {
      hop.take(line);
      wire.flush();  // a fault at the next line finds this one gone
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && arguments[1] == "--help"s) return std::fputs(help_text, stdout) < 0;
  Options options;
  const std::string problem = parse(options, count, arguments);
  if (!problem.empty()) {
    std::fprintf(stderr, "keyhop-test-proxy: %s (--help lists all)\n", problem.c_str());
    return 64;
  }
  std::signal(SIGPIPE, SIG_IGN);
  if (!options.record.empty()) {
    const std::uint64_t start = begin_record(options.record, options.hop.name);
    if (start == 0) {
      std::fprintf(stderr, "keyhop-test-proxy: cannot write the record %s\n", options.record.c_str());
      return 66;
    }
    options.faults.set_epoch(start);
    options.faults.limit(options.fault_times, options.record + ".faults");
  }
  test_agent::Wire wire(options.faults, options.record, false);
  test_agent::PassThrough hop(options.hop, wire);
  pass_on(hop, wire);
  return 0;
}
