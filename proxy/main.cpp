// keyhop: the options, then the loop.
//
// Everything that is decided is decided in proxy/core; this file only joins it with the system.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <pwd.h>
#include <string>
#include <string_view>
#include <sys/random.h>
#include <unistd.h>
#include <variant>
#include <vector>

#include "proxy/core/chain.h"
#include "proxy/core/relay.h"
#include "proxy/shell/components.h"
#include "proxy/shell/launcher.h"
#include "proxy/shell/loop.h"
#include "proxy/shell/no_memory.h"
#include "proxy/shell/options.h"
#include "proxy/tools/ledger.h"
#include "proxy/tools/rules.h"

namespace {

constexpr int exit_unavailable = 69;  // EX_UNAVAILABLE of sysexits
constexpr int exit_internal = 70;     // EX_SOFTWARE

// Before any other object of the program's.
[[gnu::init_priority(101)]] const acp::shell::NoMemory no_memory;

// A relay or a chain as the shell calls it.
template <class Machine>
class CoreOf final : public acp::shell::Core {
 public:
  template <class Plan>
  explicit CoreOf(const Plan& plan) : machine_(plan) {}
  void start(acp::Instant now, acp::Actions& actions) override { machine_.start(now, actions); }
  void step(const acp::Event& event, acp::Instant now, acp::Actions& actions) override {
    machine_.step(event, now, actions);
  }
  std::optional<acp::Instant> next_deadline() const override { return machine_.next_deadline(); }

 private:
  Machine machine_;
};

bool fill_random(void* place, std::size_t size) {
  auto* next = static_cast<char*>(place);
  while (size > 0) {
    const ssize_t got = ::getrandom(next, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// What must differ from run to run; the core draws no randomness itself.
bool make_unique(acp::Settings& settings) {
  std::uint64_t run = 0;
  if (!fill_random(settings.salt.data(), settings.salt.size()) || !fill_random(&run, sizeof run))
    return false;
  if (!fill_random(&settings.seed, sizeof settings.seed)) return false;
  settings.id_prefix += fmt::format("-{:016x}-", run);
  return true;
}

bool wants_colour(int descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(descriptor) == 1 && (refused == nullptr || *refused == '\0');
}

void print(std::FILE* stream, std::string_view text) { std::fwrite(text.data(), 1, text.size(), stream); }

// On a terminal a person runs the agent's own interactive login with the configured command: keyhop is not
// there.
int become(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  variables.push_back(nullptr);
  acp::shell::reset_signals();
  ::execvpe(words[0], words.data(), variables.data());
  print(stderr, fmt::format("keyhop: cannot start {}: {}\n", command.front(), std::strerror(errno)));
  return exit_unavailable;
}

// Where the environment names no home, the system's record of users does.
void find_ledger(acp::shell::Options& options) {
  if (!options.core.ledger || !options.ledger_path.empty()) return;
  const passwd* const user = ::getpwuid(::getuid());
  if (user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] == '/') {
    options.ledger_path = acp::shell::ledger_path_in(user->pw_dir);
    return;
  }
  options.core.ledger = false;
  options.warnings.emplace_back(
      "--ledger: no home directory is known, so keys are remembered in memory only; name a file");
}

int show_ledger(acp::shell::Options& options) {
  find_ledger(options);
  if (!options.core.ledger) {
    print(stderr, "keyhop ledger: no home directory is known; name a file, as in keyhop ledger PATH\n");
    return acp::shell::exit_usage;
  }
  acp::tools::LedgerRequest request;
  request.path = options.ledger_path;
  request.forget = options.forget;
  request.json = options.json;
  request.colour = wants_colour(STDOUT_FILENO);
  request.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  return acp::tools::run_ledger(request, stdout);
}

int relay(acp::shell::Options& options) {
  if (!make_unique(options.core)) {
    print(stderr, "keyhop: the system gives no random bytes\n");
    return exit_internal;
  }
  find_ledger(options);
  acp::shell::ShellSettings settings;
  if (options.core.ledger) {
    settings.ledger.emplace();
    settings.ledger->path = options.ledger_path;
    settings.ledger->place = acp::shell::ledger_place(options);
    // Proxies of one foreign conductor share it: they are told apart by the order of their starts.
    if (options.agent.empty() && options.place.empty()) settings.ledger->siblings_of = ::getppid();
  }
  settings.components = acp::shell::components_of(options, acp::shell::agent_environment(environ));
  settings.log = {options.log_level, options.log_format, options.log_file, wants_colour(STDERR_FILENO)};
  settings.warnings = options.warnings;
  if (acp::shell::is_chain(options)) {
    const acp::ChainPlan plan = acp::shell::plan_of(options);
    CoreOf<acp::Chain> core(plan);
    acp::shell::Shell shell(core, std::move(settings));
    return shell.run();
  }
  CoreOf<acp::Relay> core(options.core);
  acp::shell::Shell shell(core, std::move(settings));
  return shell.run();
}

}  // namespace

int main(int argc, char** argv) {
  acp::shell::fill_stdio();
  const bool on_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  auto parsed = acp::shell::parse_options(argc, argv, environ, on_terminal);
  if (const auto* stop = std::get_if<acp::shell::Stop>(&parsed)) {
    print(stop->exit_status == 0 ? stdout : stderr, stop->text);
    return stop->exit_status;
  }
  auto& options = std::get<acp::shell::Options>(parsed);
  switch (options.command) {
    case acp::shell::Command::rules:
      return acp::tools::run_rules(options.methods, options.json, stdout, wants_colour(STDOUT_FILENO));
    case acp::shell::Command::ledger: return show_ledger(options);
    case acp::shell::Command::relay:
      if (on_terminal && !options.agent.empty())
        return become(options.agent, acp::shell::agent_environment(environ));
      return relay(options);
  }
  return exit_internal;
}
