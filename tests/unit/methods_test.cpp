// The table of methods: what the RFD says of each class, how lookups fall, names.
#include "rules/methods.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

namespace acp::rules {
namespace {

constexpr auto client = Sender::client;
constexpr auto agent = Sender::agent;
constexpr auto request = MessageKind::request;
constexpr auto notification = MessageKind::notification;

std::size_t count_rows(auto predicate) {
  return static_cast<std::size_t>(std::ranges::count_if(methods(), predicate));
}

TEST_CASE("the table holds 93 sorted rows, each about one version at least") {
  CHECK(methods().size() == 93);
  for (std::size_t i = 1; i < methods().size(); ++i) CHECK(methods()[i - 1].method <= methods()[i].method);
  CHECK(count_rows([](const auto& row) { return row.v1 != Stability::absent; }) == 60);
  CHECK(count_rows([](const auto& row) { return row.v2 != Stability::absent; }) == 52);
  CHECK(count_rows([](const auto& row) { return row.source == Source::rfd; }) == 33);
}

TEST_CASE("the RFD's audit of v2 methods stands in the table") {
  const auto [sender, kind, method, expected] = GENERATE(table<Sender, MessageKind, std::string, RetryClass>({
      {client, request, "session/prompt", RetryClass::keyed},
      {client, request, "session/new", RetryClass::duplicating},
      {client, request, "session/fork", RetryClass::duplicating},
      {client, request, "session/resume", RetryClass::idempotent},
      {client, request, "session/close", RetryClass::idempotent},
      {client, request, "session/delete", RetryClass::idempotent},
      {client, request, "session/list", RetryClass::idempotent},
      {client, request, "session/set_config_option", RetryClass::idempotent},
      {client, request, "tool_call/cancel", RetryClass::idempotent},
      {client, request, "terminal/cancel", RetryClass::idempotent},
      {client, request, "auth/login", RetryClass::idempotent},
      {client, request, "auth/logout", RetryClass::idempotent},
      {client, request, "initialize", RetryClass::not_retried},
      {client, request, "session/archive", RetryClass::idempotent},
      {client, request, "session/unarchive", RetryClass::idempotent},
      {client, request, "session/set_title", RetryClass::idempotent},
      {client, request, "providers/set", RetryClass::idempotent},
      {client, request, "providers/disable", RetryClass::idempotent},
      {client, request, "session/status", RetryClass::idempotent},
      {client, request, "session/options", RetryClass::idempotent},
      {client, request, "providers/list", RetryClass::idempotent},
      {client, request, "auth/status", RetryClass::idempotent},
      {client, request, "mcp/message", RetryClass::mcp_defined},
      {client, request, "proxy/initialize", RetryClass::as_carried},
      {agent, request, "proxy/successor", RetryClass::as_carried},
      {agent, request, "session/request_permission", RetryClass::idempotent},
      {agent, request, "elicitation/create", RetryClass::idempotent},
      {agent, request, "mcp/message", RetryClass::mcp_defined},
      {client, notification, "session/cancel", RetryClass::not_retried},
      {client, notification, "$/cancel_request", RetryClass::not_retried},
      {agent, notification, "$/cancel_request", RetryClass::not_retried},
      {agent, notification, "session/update", RetryClass::not_retried},
      {agent, notification, "elicitation/complete", RetryClass::not_retried},
      {agent, notification, "auth/status_update", RetryClass::not_retried},
  }));
  CAPTURE(method);
  const auto& facts = facts_of(sender, kind, method, Version::v2);
  CHECK(facts.method == method);
  CHECK(facts.retry_class == expected);
  CHECK(facts.source == Source::rfd);
}

TEST_CASE("v1 knows no keys and its own methods") {
  CHECK(facts_of(client, request, "session/prompt", Version::v1).retry_class == RetryClass::not_retried);
  CHECK(facts_of(client, request, "session/load", Version::v1).retry_class == RetryClass::idempotent);
  CHECK(facts_of(agent, request, "terminal/create", Version::v1).retry_class == RetryClass::not_retried);
  CHECK(facts_of(agent, request, "fs/read_text_file", Version::v1).retry_class == RetryClass::idempotent);
  CHECK(facts_of(client, request, "authenticate", Version::v1).id == MethodId::authenticate);
  CHECK(facts_of(client, request, "auth/login", Version::v2).id == MethodId::authenticate);
}

TEST_CASE("every row is found by its own sender, kind and version") {
  for (const auto& row : methods()) {
    CAPTURE(row.method);
    const bool by_client = row.direction != Direction::agent_to_client;
    const bool by_agent = row.direction != Direction::client_to_agent;
    for (const auto version : {Version::v1, Version::v2}) {
      if (stability_of(row, version) == Stability::absent) continue;
      if (by_client) CHECK(&facts_of(client, row.kind, row.method, version) == &row);
      if (by_agent) CHECK(&facts_of(agent, row.kind, row.method, version) == &row);
    }
  }
}

TEST_CASE("a method without a row is passed on and never sent again") {
  const auto sender = GENERATE(client, agent);
  const auto kind = GENERATE(request, notification);
  const auto version = GENERATE(Version::unknown, Version::v1, Version::v2);
  const auto method = GENERATE(as<std::string>(), "", "_", "_zed/thing", "_*", "session/", "session/promp",
                               "session/prompt2", "Session/prompt", "session/prompt ", "zzz", "$/progress",
                               std::string(5000, 'x'), std::string("session/prompt\0", 15), "\xff\xfe");
  CAPTURE(method);
  const auto& facts = facts_of(sender, kind, method, version);
  CHECK(facts.method == "_*");
  CHECK(facts.kind == kind);
  CHECK(facts.retry_class == RetryClass::not_retried);
  CHECK(facts.id == MethodId::other);
  CHECK(facts.effect == SessionEffect::none);
}

TEST_CASE("a method counts only for its sender, its kind and its version") {
  CHECK(facts_of(agent, request, "session/prompt", Version::v2).method == "_*");
  CHECK(facts_of(client, notification, "session/prompt", Version::v2).method == "_*");
  CHECK(facts_of(client, request, "session/load", Version::v2).method == "_*");
  CHECK(facts_of(client, request, "auth/login", Version::v1).method == "_*");
  // The same name means other things in other directions.
  CHECK(facts_of(client, notification, "mcp/message", Version::v1).retry_class == RetryClass::not_retried);
  CHECK(facts_of(client, request, "mcp/message", Version::v1).method == "_*");
  CHECK(facts_of(agent, request, "mcp/message", Version::v1).retry_class == RetryClass::mcp_defined);
}

TEST_CASE("while the version is unknown the v2 row is taken, else the v1 row") {
  CHECK(facts_of(client, request, "session/prompt", Version::unknown).retry_class == RetryClass::keyed);
  CHECK(facts_of(client, request, "session/load", Version::unknown).id == MethodId::session_load);
  for (const auto& row : methods()) {
    const auto sender = row.direction == Direction::agent_to_client ? agent : client;
    const auto& facts = facts_of(sender, row.kind, row.method, Version::unknown);
    CAPTURE(row.method);
    CHECK(facts.method == row.method);
    // Who asks before the version is known loses nothing by it: only the class and its source may differ.
    CHECK(facts.id == row.id);
    CHECK(facts.effect == row.effect);
    CHECK(facts.session == row.session);
    CHECK(facts.target == row.target);
  }
}

TEST_CASE("both spellings of the chain's methods mean one thing") {
  for (const auto* method : {"proxy/successor", "_proxy/successor", "_proxy/successor/request"}) {
    CAPTURE(method);
    CHECK(facts_of(agent, request, method, Version::v1).id == MethodId::proxy_successor);
    CHECK(facts_of(client, request, method, Version::v1).session == SessionPlace::wrapped);
  }
  CHECK(facts_of(client, request, "_proxy/initialize", Version::v2).id == MethodId::proxy_initialize);
  CHECK(facts_of(client, notification, "_proxy/successor/notification", Version::v1).id ==
        MethodId::proxy_successor);
}

TEST_CASE("what happens to a session") {
  const auto [method, version, effect, place] =
      GENERATE(table<std::string, Version, SessionEffect, SessionPlace>({
          {"session/new", Version::v2, SessionEffect::opens, SessionPlace::result},
          {"session/fork", Version::v2, SessionEffect::opens, SessionPlace::params_and_result},
          {"session/resume", Version::v1, SessionEffect::activates, SessionPlace::params},
          {"session/resume", Version::v2, SessionEffect::activates, SessionPlace::params},
          {"session/load", Version::v1, SessionEffect::activates, SessionPlace::params},
          {"session/prompt", Version::v2, SessionEffect::prompts, SessionPlace::params},
          {"session/close", Version::v2, SessionEffect::closes, SessionPlace::params},
          {"session/delete", Version::v2, SessionEffect::deletes, SessionPlace::params},
          {"session/archive", Version::v2, SessionEffect::archives, SessionPlace::params},
          {"session/unarchive", Version::v2, SessionEffect::none, SessionPlace::params},
          {"session/set_mode", Version::v1, SessionEffect::sets, SessionPlace::params},
          {"session/set_config_option", Version::v2, SessionEffect::sets, SessionPlace::params},
          {"session/list", Version::v2, SessionEffect::none, SessionPlace::result_list},
          {"session/status", Version::v2, SessionEffect::none, SessionPlace::params},
          {"initialize", Version::v2, SessionEffect::none, SessionPlace::none},
      }));
  CAPTURE(method);
  const auto& facts = facts_of(client, request, method, version);
  CHECK(facts.effect == effect);
  CHECK(facts.session == place);
  CHECK(facts_of(client, notification, "session/cancel", version).effect == SessionEffect::cancels);
  CHECK(facts_of(agent, notification, "session/update", version).effect == SessionEffect::reports);
}

TEST_CASE("changes that a late resend would undo, and only those, have a target") {
  std::set<std::string_view> changing;
  for (const auto& row : methods()) {
    if (row.target != ChangeTarget::none) changing.insert(row.method);
  }
  CHECK(changing == std::set<std::string_view>{
                        "auth/login", "auth/logout", "authenticate", "logout", "providers/disable",
                        "providers/set", "session/archive", "session/set_config_option", "session/set_mode",
                        "session/set_model", "session/set_title", "session/unarchive"});
  for (const auto& row : methods()) {
    if (row.target != ChangeTarget::none) CHECK(row.retry_class == RetryClass::idempotent);
  }
}

TEST_CASE("no notification may be sent again, by whatever name") {
  for (const auto& row : methods()) {
    CAPTURE(row.method);
    if (row.kind == notification) CHECK(row.retry_class == RetryClass::not_retried);
  }
}

TEST_CASE("keyhop's own frames are written in the current spelling") {
  CHECK(name_of(MethodId::cancel_request) == "$/cancel_request");
  CHECK(name_of(MethodId::session_cancel) == "session/cancel");
  CHECK(name_of(MethodId::proxy_initialize) == "proxy/initialize");
  CHECK(name_of(MethodId::proxy_successor) == "proxy/successor");
  CHECK(name_of(MethodId::other).empty());
  for (const auto& row : methods()) {
    CAPTURE(row.method);
    if (row.id != MethodId::other) CHECK_FALSE(name_of(row.id).empty());
  }
}

TEST_CASE("a method that is none has no name") { CHECK(name_of(static_cast<MethodId>(200)).empty()); }

TEST_CASE("where a method stands in a version; not known yet: the newer one that has it") {
  const auto [method, version, stability] = GENERATE(table<std::string, Version, Stability>({
      {"terminal/release", Version::v1, Stability::stable},
      {"terminal/release", Version::v2, Stability::absent},
      {"terminal/release", Version::unknown, Stability::stable},
      {"tool_call/cancel", Version::v1, Stability::absent},
      {"tool_call/cancel", Version::v2, Stability::stable},
      {"tool_call/cancel", Version::unknown, Stability::stable},
      {"tool_call/cancel", static_cast<Version>(99), Stability::absent},
  }));
  CAPTURE(method);
  const auto rows = rows_of(method);
  REQUIRE(rows.size() == 1);
  CHECK(stability_of(rows.front(), version) == stability);
}

template <class Enum>
void check_names(Enum last) {
  std::set<std::string_view> names;
  const auto count = static_cast<unsigned>(last) + 1;
  for (unsigned value = 0; value < count; ++value) names.insert(to_string(static_cast<Enum>(value)));
  CHECK(names.size() == count);
  CHECK_FALSE(names.contains("invalid"));
  CHECK_FALSE(names.contains(""));
  CHECK(to_string(static_cast<Enum>(count)) == "invalid");
}

TEST_CASE("every value has a name of its own") {
  check_names(Version::v2);
  check_names(Sender::agent);
  check_names(MessageKind::notification);
  check_names(Direction::proxy);
  check_names(Stability::legacy);
  check_names(SessionPlace::undefined);
  check_names(SessionEffect::reports);
  check_names(ChangeTarget::authentication);
  check_names(MethodId::mcp_message);
  check_names(Source::derived);
}

}  // namespace
}  // namespace acp::rules
