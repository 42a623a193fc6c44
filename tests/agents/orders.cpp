#include "tests/agents/orders.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

namespace acp::test_agent {
namespace {

struct Known {
  std::string_view name;
  OrderKind kind;
  bool early;
  bool once;
};

constexpr Known known_orders[] = {
    {"close_stdin", OrderKind::close_stdin, false, true},
    {"close_stdout", OrderKind::close_stdout, false, true},
    {"config", OrderKind::config, false, false},
    {"die", OrderKind::die, false, true},
    {"elicit", OrderKind::elicit, true, false},
    {"error", OrderKind::error, true, true},
    {"exit", OrderKind::exit, false, true},
    {"ext", OrderKind::ext, false, false},
    {"flood", OrderKind::flood, false, false},
    {"garbage", OrderKind::garbage, false, false},
    {"grandchild", OrderKind::grandchild, false, false},
    {"hang", OrderKind::hang, true, true},
    {"hold", OrderKind::hold, false, false},
    {"insert_after", OrderKind::insert_after, true, false},
    {"mode", OrderKind::mode, false, false},
    {"no_answer", OrderKind::no_answer, true, true},
    {"notify", OrderKind::notify, false, false},
    {"permission", OrderKind::permission, false, false},
    {"release", OrderKind::release, false, false},
    {"say", OrderKind::say, false, false},
    {"stall", OrderKind::stall, false, true},
    {"stderr", OrderKind::stderr_text, false, false},
    {"stdout_to_child", OrderKind::stdout_to_child, false, false},
    {"tool", OrderKind::tool, false, false},
    {"updates", OrderKind::updates, false, false},
    {"wait", OrderKind::wait, false, false},
};

std::optional<Order> parse_order(std::string text) {
  Order order;
  if (text.rfind("early ", 0) == 0) {
    order.early = true;
    text.erase(0, 6);
  }
  std::istringstream stream(text);
  std::string name;
  stream >> name;
  if (!name.empty() && name.back() == '!') {
    order.always = true;
    name.pop_back();
  }
  const auto known = std::find_if(std::begin(known_orders), std::end(known_orders),
                                  [&](const Known& row) { return row.name == name; });
  if (known == std::end(known_orders)) return std::nullopt;
  order.kind = known->kind;
  order.early = order.early || known->early;
  for (std::string word; stream >> word;) order.words.push_back(word);
  const std::size_t space = text.find(' ');
  if (space != std::string::npos) order.text = text.substr(space + 1);
  return order;
}

}  // namespace

std::uint64_t Order::number(std::size_t n, std::uint64_t otherwise) const {
  const std::string text_of_word = word(n);
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text_of_word.data(), text_of_word.data() + text_of_word.size(), value);
  const bool whole = error == std::errc{} && end == text_of_word.data() + text_of_word.size();
  return whole && !text_of_word.empty() ? value : otherwise;
}

std::vector<Order> parse_orders(std::string_view text) {
  std::vector<Order> orders;
  for (std::size_t open = text.find('['); open != std::string_view::npos; open = text.find('[', open + 1)) {
    const std::size_t close = text.find(']', open);
    if (close == std::string_view::npos) break;
    if (auto order = parse_order(std::string(text.substr(open + 1, close - open - 1)))) {
      orders.push_back(std::move(*order));
    }
  }
  return orders;
}

bool is_obeyed_once(const Order& order) {
  if (order.always) return false;
  if (order.kind == OrderKind::garbage)
    return order.word(0) == "broken" || order.word(0) == "oversize_answer";
  return std::any_of(std::begin(known_orders), std::end(known_orders),
                     [&](const Known& row) { return row.kind == order.kind && row.once; });
}

}  // namespace acp::test_agent
