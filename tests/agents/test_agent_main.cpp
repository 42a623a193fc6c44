// keyhop-test-agent: options, then the loop. See --help.
#include <csignal>
#include <cstdio>
#include <unistd.h>

#include "tests/agents/agent.h"

int main(int count, char** arguments) {
  namespace test_agent = acp::test_agent;
  std::string error;
  test_agent::Options options = test_agent::parse_options({arguments + 1, arguments + count}, error);
  if (!error.empty()) {
    std::fprintf(stderr, "keyhop-test-agent: %s (--help lists all)\n", error.c_str());
    return 64;
  }
  if (options.help) {
    std::fputs(test_agent::help_text(), stdout);
    return 0;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_IGN);  // what we spawn is reaped by the system
  if (options.personality.ignore_term) {
    for (const int number : {SIGTERM, SIGHUP, SIGINT}) std::signal(number, SIG_IGN);
  }
  test_agent::HistoryStore history;
  if (!history.open(options.history, options.sync)) {
    std::fprintf(stderr, "keyhop-test-agent: cannot use the history directory %s\n", options.history.c_str());
    return 66;
  }
  options.faults.set_epoch(history.epoch());
  options.faults.limit(options.fault_times, history.faults_path());
  test_agent::Agent agent(std::move(options), history);
  return agent.run();
}
