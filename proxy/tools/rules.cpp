#include "proxy/tools/rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "rules/methods.h"
#include "rules/retry.h"

namespace acp::tools {
namespace {

using rules::MethodFacts;
using rules::RetryClass;
using rules::Stability;

// "v1 v2", "v2 unstable", "v1 v2 retired": one word for both where they agree.
std::string versions_text(const MethodFacts& row) {
  const auto one = [](std::string_view version, Stability stability) {
    if (stability == Stability::stable) return std::string(version);
    return fmt::format("{} {}", version, to_string(stability));
  };
  if (row.v1 == row.v2) return one("v1 v2", row.v1);
  if (row.v1 == Stability::absent) return one("v2", row.v2);
  if (row.v2 == Stability::absent) return one("v1", row.v1);
  return one("v1", row.v1) + ", " + one("v2", row.v2);
}

std::string_view direction_text(rules::Direction direction) {
  switch (direction) {
    case rules::Direction::client_to_agent: return "client -> agent";
    case rules::Direction::agent_to_client: return "agent -> client";
    case rules::Direction::both: return "both ways";
    case rules::Direction::proxy: return "proxy chain";
  }
  return "";
}

// Green: may be sent again. Yellow: under a condition. None: never.
std::string_view colour_of(RetryClass retry_class) {
  switch (retry_class) {
    case RetryClass::idempotent: return "\033[32m";
    case RetryClass::keyed:
    case RetryClass::duplicating:
    case RetryClass::as_carried: return "\033[33m";
    case RetryClass::not_retried:
    case RetryClass::mcp_defined: return "";
  }
  return "";
}

constexpr std::string_view row_format = "{:<29} {:<15}  {:<12}  {:<14}  ";

std::string text_of(const std::vector<const MethodFacts*>& rows, bool colour) {
  std::string text;
  const auto start = colour ? "\033[1m" : "";
  const auto end = colour ? "\033[0m" : "";
  text += start;
  text += fmt::format(row_format, "METHOD", "DIRECTION", "KIND", "VERSIONS");
  text += fmt::format("{:<11}  SOURCE{}\n", "CLASS", end);
  for (const auto* row : rows) {
    text += fmt::format(row_format, row->method, direction_text(row->direction), to_string(row->kind),
                        versions_text(*row));
    const auto tint = colour ? colour_of(row->retry_class) : std::string_view();
    text += fmt::format("{}{:<11}{}  {}\n", tint, to_string(row->retry_class), tint.empty() ? "" : end,
                        to_string(row->source));
  }
  return text;
}

nlohmann::ordered_json json_of(const MethodFacts& row) {
  nlohmann::ordered_json versions = nlohmann::ordered_json::object();
  if (row.v1 != Stability::absent) versions["v1"] = to_string(row.v1);
  if (row.v2 != Stability::absent) versions["v2"] = to_string(row.v2);
  return {{"method", row.method},
          {"direction", to_string(row.direction)},
          {"kind", to_string(row.kind)},
          {"versions", std::move(versions)},
          {"sessionId", to_string(row.session)},
          {"sessionEffect", to_string(row.effect)},
          {"changes", to_string(row.target)},
          {"retryClass", to_string(row.retry_class)},
          {"source", to_string(row.source)},
          {"note", row.note}};
}

std::string json_text(const std::vector<const MethodFacts*>& rows) {
  if (rows.empty()) return "[]\n";
  // One object a line: a value for programs that can still be read and compared line by line.
  std::string text = "[\n";
  for (const auto* row : rows) {
    text += "  " + json_of(*row).dump() + (row == rows.back() ? "\n" : ",\n");
  }
  return text + "]\n";
}

}  // namespace

int run_rules(const std::vector<std::string>& methods, bool json, std::FILE* out, bool colour) {
  bool all_known = true;
  for (const auto& method : methods) {
    if (!rules::rows_of(method).empty()) continue;
    all_known = false;
    const std::string_view hint = method.starts_with('_') ? "an extension: see the rows \"_*\""
                                                          : "such methods are passed on and never retried";
    fmt::print(stderr, "keyhop rules: no row for \"{}\" ({})\n", method, hint);
  }
  std::vector<const MethodFacts*> rows;
  for (const auto& row : rules::methods()) {
    if (methods.empty() || std::ranges::find(methods, row.method) != methods.end()) rows.push_back(&row);
  }
  const auto text = json ? json_text(rows) : rows.empty() ? std::string() : text_of(rows, colour);
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  if (!written) fmt::print(stderr, "keyhop rules: cannot write the table\n");
  return all_known && written ? 0 : 1;
}

}  // namespace acp::tools
