// What does not fit: sessions that are not tracked, full tables, requests too large to keep.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/core/limits.h"
#include "tests/unit/guard.h"

namespace acp::sim {
namespace {

const Lines none;
const std::string long_name(limits::session_id_bytes_max + 1, 'n');

std::string of_session(std::string_view id, std::string_view method, std::string_view more = "") {
  return request_line(id, method, R"({"sessionId":")" + long_name + "\"" + std::string(more) + "}");
}

TEST_CASE("a session whose name is too long is relayed, and not restored", "[edge][bounds]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  talk.client(request_line("2", "session/new", R"({"cwd":"/w"})"));
  const std::string opened = result_line("2", R"({"sessionId":")" + long_name + "\"}");
  talk.agent(opened);
  CHECK(talk.take_client() == Lines{opened});
  talk.take_agent();
  const Lines requests{of_session("3", "session/set_mode", R"(,"modeId":"m")"),
                       of_session("4", "session/set_config_option", R"(,"configId":"c","value":true)"),
                       of_session("5", "session/prompt", R"(,"prompt":[])"),
                       of_session("6", "session/resume", R"(,"cwd":"/w")"),
                       of_session("7", "session/close"),
                       of_session("8", "session/delete")};
  for (const std::string& request : requests) {
    talk.client(request);
    CHECK(talk.take_agent() == Lines{request});
    talk.agent(result_line(id_of(request)));
    CHECK(talk.take_client() == Lines{result_line(id_of(request))});
  }
  const std::string update = update_line(long_name, "user_message_chunk");
  talk.agent(update);
  CHECK(talk.take_client() == Lines{update});
  talk.agent_restarts();
  talk.agent_initializes(v2);
  CHECK(member(member(only_line(talk), "params"), "sessionId") == "\"s1\"");
}

TEST_CASE("a keyed prompt of such a session cannot be protected: refused, or left to the agent",
          "[edge][bounds]") {
  const bool guard = GENERATE(true, false);
  const bool with_ledger = GENERATE(true, false);
  Settings settings = with_ledger ? guarded() : one_epoch();
  settings.keys = guard ? KeyMode::guard : KeyMode::forward;
  MemoryLedger ledger;
  Dialogue talk(settings);
  if (with_ledger) {
    begin_run(talk, ledger);
  } else {
    talk.open();
  }
  const std::string prompt = keyed("7", "k", "hi", long_name);
  talk.client(prompt);
  CHECK(in_short(talk.take_client()) == (guard ? Lines{"7 -32603 too_many_keys not_sent"} : none));
  CHECK(talk.take_agent() == (guard ? none : Lines{prompt}));
}

TEST_CASE("too many requests of the agent's: the one that did not fit is answered", "[edge][bounds]") {
  Dialogue talk;
  talk.open();
  std::string many;
  for (std::size_t id = 0; id < limits::pending_max; ++id)
    many += request_line(std::to_string(id), "fs/read_text_file") + "\n";
  talk.agent_bytes(many);
  CHECK(talk.take_client().size() == limits::pending_max);
  talk.agent(request_line("\"more\"", "fs/read_text_file"));
  CHECK(talk.take_client().empty());
  CHECK(in_short(talk.take_agent()) == Lines{"\"more\" -32603 too_many_requests not_sent"});
  talk.client(result_line("5"));
  talk.take_agent();
  talk.agent(request_line("\"more\"", "fs/read_text_file"));
  CHECK(talk.take_client() == Lines{request_line("\"more\"", "fs/read_text_file")});
}

TEST_CASE("what was too much to keep is not sent again", "[edge][bounds][recovery]") {
  Dialogue talk(restarting());
  open_with(talk, v2);
  // Of a class that is not sent again; together they leave less than 1 MiB of room.
  const std::string large(limits::frame_bytes_default - limits::kib, 'x');
  for (std::size_t kept = 0; kept + limits::mib < limits::stored_bytes_max;
       kept += limits::frame_bytes_default) {
    talk.client(request_line(std::to_string(10 + kept), "x", "\"" + large + "\""));
    talk.take_agent();
  }
  const std::string padding = R"(,"x":")" + std::string(limits::mib, 'x') + "\"}";
  const std::string list = request_line("7", "session/list", R"({"a":1)" + padding);
  talk.client(list);
  talk.client(request_line("8", "session/status", R"({"sessionId":"s1"})"));
  talk.client(request_line("9", "initialize", R"({"protocolVersion":2)" + padding));
  talk.client(keyed("6", "k", std::string(limits::mib, 'x')));
  CHECK(talk.take_agent().size() == 4);
  talk.happen(LinkBacklog{talk.link(),
                          4 * limits::mib + limits::kib});  // not even taken, but what would be sent is lost
  talk.agent_restarts();
  talk.take_client();
  talk.agent_initializes(v2);
  const Lines sent = talk.take_agent();
  REQUIRE(sent.size() == 1);
  CHECK(method_of(sent[0]) == "session/resume");
  const Lines told = in_short(talk.take_client());
  REQUIRE(told.size() >= 2);
  CHECK(told[told.size() - 2] == "7 -32603 too_large_to_keep unknown");
  CHECK(told.back() == "9 -32603 too_large_to_keep unknown");
  talk.agent(update_line("s1", "state_update", R"(,"state":"idle")"));
  talk.agent(result_line(id_of(sent[0]), "{}"));
  CHECK(talk.take_agent() == Lines{request_line("8", "session/status", R"({"sessionId":"s1"})")});
  CHECK(in_short(talk.take_client()).back() == "6 -32603 outcome_unknown unknown");  // absent, and not kept
}

}  // namespace
}  // namespace acp::sim
