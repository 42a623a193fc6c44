// Orders in the text of a prompt: `[die after_insert]`, `[hold]`, `[updates 100 300]` … The text stays what
// it is, it is stored and replayed with its orders.
//
// Invariant: brackets that hold no known order are plain text. Lifetime: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace acp::test_agent {

enum class OrderKind : std::uint8_t {
  // What a turn consists of; not in the text.
  insert,
  answer,
  echo,
  running,
  chunk,
  finish,
  // In the text.
  die,
  exit,
  stall,
  hang,
  no_answer,
  error,
  insert_after,
  wait,
  hold,
  release,
  permission,
  elicit,
  ext,
  notify,
  say,
  tool,
  mode,
  config,
  updates,
  flood,
  garbage,
  stderr_text,
  close_stdout,
  close_stdin,
  grandchild,
  stdout_to_child,
};

struct Order {
  OrderKind kind = OrderKind::wait;
  bool early = false;              // before the insertion
  bool always = false;             // also where it would be obeyed only once
  std::vector<std::string> words;  // what stands behind the name
  std::string text;                // the same, unsplit

  // The n-th word as a number, or `otherwise`.
  std::uint64_t number(std::size_t n, std::uint64_t otherwise) const;
  std::string word(std::size_t n) const { return n < words.size() ? words[n] : std::string{}; }
};

// The orders of a text, in their order.
std::vector<Order> parse_orders(std::string_view text);

// Whether an order is obeyed only once for one text in one history (it would otherwise strike each retry
// again).
bool is_obeyed_once(const Order& order);

}  // namespace acp::test_agent
