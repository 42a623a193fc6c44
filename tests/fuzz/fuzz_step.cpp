// The whole core, led by a script: whatever the two peers, the ledger and the agent's processes do, no
// request is answered twice, and nobody reads what is no message.
//
// A line of the input is one thing that happens: its first letter says what, the rest is a frame.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/input.h"
#include "tests/sim/dialogue.h"

namespace {

namespace fuzz = acp::fuzz;
namespace sim = acp::sim;
using nlohmann::json;

constexpr std::size_t lines_max = 200;

acp::Settings settings_of(char traits) {
  acp::Settings settings;
  settings.restarts = (traits & 1) != 0;
  settings.ledger = (traits & 2) != 0;
  settings.keys = (traits & 4) != 0 ? acp::KeyMode::forward : acp::KeyMode::guard;
  settings.recover_prompts = (traits & 8) != 0;
  if ((traits & 16) != 0) settings.silence_timeout = std::chrono::seconds(5);
  return settings;
}

class Script {
 public:
  explicit Script(char traits) : talk_(settings_of(traits)) {
    if ((traits & 2) != 0) talk_.use_ledger(ledger_);
  }

  void run(std::string_view line) {
    if (line.empty()) return;
    const std::string_view rest = line.substr(1);
    switch (line.front()) {
      case 'C': ask(rest); break;
      case 'A': talk_.agent(rest); break;
      case 'L': talk_.run_ledger(); break;
      case 'F': fail_commit(); break;
      case 'D': die(); break;
      case 'S': start(); break;
      case 'T': talk_.pass(std::chrono::milliseconds(1) * (1U << (rest.size() % 18))); break;
      case 'E': talk_.happen(acp::LinkEnded{acp::client_link, acp::LinkEnd::eof, 0}); break;
      default: talk_.client_bytes(line); break;
    }
    listen();
  }

 private:
  void ask(std::string_view frame) {
    const json message = json::parse(frame, nullptr, false);
    if (message.is_object() && message.contains("id")) ++asked_[message["id"].dump()];
    talk_.client(frame);
  }

  void fail_commit() {
    ledger_.fails = acp::LedgerError::full;
    ledger_.fails_once = true;
    talk_.run_ledger();
    ledger_.fails = acp::LedgerError::none;
  }

  void die() {
    if (!runs_) return;
    runs_ = false;
    talk_.agent_dies({acp::ExitStatus::Kind::signalled, 9});
  }

  // The process that was ordered.
  void start() {
    if (runs_ || talk_.epoch() == started_) return;
    runs_ = true;
    started_ = talk_.epoch();
    talk_.agent_starts();
  }

  void listen() {
    for (const std::string& line : talk_.take_client()) {
      const json message = json::parse(line, nullptr, false);
      if (message.is_discarded()) continue;  // a number or a surrogate that the other parser refuses
      fuzz::check(message.is_object());
      const bool answers = !message.contains("method") && message.contains("id") && !message["id"].is_null();
      if (answers) fuzz::check(++answered_[message["id"].dump()] <= asked_[message["id"].dump()]);
    }
    talk_.take_agent();
    for (const std::string& order : talk_.take_orders())
      fuzz::check(order != "misdirected" && order != "used twice");
  }

  sim::MemoryLedger ledger_;
  sim::Dialogue talk_;
  bool runs_ = true;
  acp::Epoch started_ = sim::agent_epoch;
  std::map<std::string, int> asked_;
  std::map<std::string, int> answered_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text = fuzz::view_of(bytes, size);
  Script script(text.front());
  text.remove_prefix(1);
  for (std::size_t count = 0; count < lines_max && !text.empty(); ++count) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    script.run(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}
