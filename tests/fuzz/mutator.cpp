#include "fuzz/mutator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace lockstep::test {

namespace {

constexpr std::array<const char*, 22> extreme_numbers{"0",
                                                      "-1",
                                                      "1",
                                                      "2147483647",
                                                      "2147483648",
                                                      "4294967295",
                                                      "4294967296",
                                                      "9007199254740993",
                                                      "9223372036854775807",
                                                      "9223372036854775808",
                                                      "18446744073709551615",
                                                      "18446744073709551616",
                                                      "-9223372036854775808",
                                                      "99999999999999999999999999",
                                                      "1e308",
                                                      "1e999",
                                                      "-0.0",
                                                      "1e-320",
                                                      "0.5",
                                                      "nan",
                                                      "-inf",
                                                      "0x10"};
constexpr std::array<std::uint64_t, 12> extreme_integers{0,
                                                         1,
                                                         0x7f,
                                                         0x80,
                                                         0xff,
                                                         0x7fff'ffff,
                                                         0x8000'0000,
                                                         0xffff'ffff,
                                                         std::uint64_t{1} << 40,
                                                         0x7fff'ffff'ffff'ffff,
                                                         0x8000'0000'0000'0000,
                                                         0xffff'ffff'ffff'ffff};
// Not UTF-8: a lone byte, an overlong slash, a surrogate, beyond U+10FFFF, a cut sequence; then what is valid but rare.
constexpr std::array<const char*, 9> strange_text{
    "\xFF",         "\xC0\xAF",     "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82",
    "\xEF\xBB\xBF", "\xE2\x80\xA8", "\x01",         "\xF0\x9F\x98\x80"};

void replace_number(std::string& text, Dice& dice) {
  const std::size_t from = dice.below(text.size());
  const auto digit = [&](std::size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
  std::size_t begin = from;
  while (begin < text.size() && !digit(begin)) ++begin;
  std::size_t end = begin;
  while (end < text.size() && digit(end)) ++end;
  text.replace(begin, end - begin, dice.pick(extreme_numbers));
}

void overwrite_integer(std::string& text, Dice& dice) {
  const std::size_t size = std::size_t{1} << dice.below(4);
  if (text.size() < size) return;
  const std::uint64_t value = dice.pick(extreme_integers);
  std::memcpy(text.data() + dice.below(text.size() - size + 1), &value, size);
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

void insert_nesting(std::string& text, Dice& dice) {
  static constexpr std::array<std::string_view, 6> openings{"[", "{\"a\":", "(", "{a: ", "- ", "[{"};
  const std::size_t depth = dice.one_in(3) ? 30'000 : 1 + dice.below(80);
  text.insert(dice.below(text.size() + 1), repeated(dice.pick(openings), depth));
}

struct Line {
  std::size_t begin = 0;
  std::size_t size = 0;
};

Line some_line(const std::string& text, Dice& dice) {
  const std::size_t at = dice.below(text.size());
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = text.find('\n', begin);
  return {begin, (end == std::string::npos ? text.size() : end + 1) - begin};
}

void collect(Json& tree, std::vector<Json*>& nodes) {
  nodes.push_back(&tree);
  if (tree.is_structured()) {
    for (Json& child : tree) collect(child, nodes);
  }
}

Json strange_value(Dice& dice) {
  switch (dice.below(12)) {
    case 0: return nullptr;
    case 1: return dice.one_in(2);
    case 2: return Json::array();
    case 3: return Json::object();
    case 4: return "";
    case 5: return dice.pick(strange_text);
    case 6: return dice.pick(extreme_numbers);  // as text
    case 7: return static_cast<std::int64_t>(dice.pick(extreme_integers));
    case 8: return dice.pick(extreme_integers);
    case 9: return 0.5;
    case 10: return -1;
    default: return std::string(1 + dice.below(5000), 'x');
  }
}

}  // namespace

Dice::Dice(std::uint64_t seed, std::string_view target, std::uint64_t number)
    : stream_(seed, fmt::format("{} {}", target, number)) {}

void overwrite(std::string& text, Dice& dice) {
  if (text.empty()) return;
  char& byte = text[dice.below(text.size())];
  switch (dice.below(4)) {
    case 0:
    case 1: byte = static_cast<char>(byte ^ (1 << dice.below(8))); break;
    case 2: byte = static_cast<char>(dice.bits()); break;
    default: overwrite_integer(text, dice); break;
  }
}

Mutator::Mutator(std::vector<std::string> seeds, std::vector<std::string> words) : words_(std::move(words)) {
  for (std::string& text : seeds) {
    Json tree = Json::parse(text, nullptr, false);
    const bool is_json = !tree.is_discarded() && tree.is_structured();
    seeds_.push_back({std::move(text), is_json ? std::optional(std::move(tree)) : std::nullopt});
  }
}

std::string Mutator::mutated(Dice& dice) const {
  const Seed& seed = seeds_[dice.below(seeds_.size())];
  if (!seed.tree || dice.one_in(3)) return with_faulty_bytes(seed.text, dice);
  std::string text = with_faulty_tree(*seed.tree, dice);
  return dice.one_in(6) ? with_faulty_bytes(std::move(text), dice) : text;
}

std::string Mutator::with_faulty_bytes(std::string text, Dice& dice) const {
  constexpr std::size_t longest = std::size_t{4} << 20;
  for (std::size_t faults = 1 + dice.length(5); faults > 0 && text.size() < longest; --faults) {
    const std::size_t at = dice.below(text.size() + 1);
    const std::size_t size = dice.length(text.size() - at);
    switch (dice.below(16)) {
      case 0:
      case 1:
      case 2:
      case 9: overwrite(text, dice); break;
      case 3: text.resize(at); break;
      case 4: text.erase(at, size); break;
      case 5: text.insert(dice.below(text.size() + 1), text.substr(at, size)); break;
      case 6: {
        const std::string& other = dice.pick(seeds_).text;
        text = text.substr(0, at) + other.substr(dice.below(other.size() + 1));
        break;
      }
      case 7:
      case 8: replace_number(text, dice); break;
      case 10: insert_nesting(text, dice); break;
      case 11: text.insert(at, dice.pick(strange_text)); break;
      case 12: text.insert(at, dice.one_in(8) ? 300'000 : dice.length(2000), "x 9\n\"\\\0a"[dice.below(8)]); break;
      case 13:
        if (!words_.empty()) text.insert(at, dice.pick(words_));
        break;
      case 14: {
        const Line line = some_line(text, dice);
        text.insert(some_line(text, dice).begin, text.substr(line.begin, line.size));
        break;
      }
      default: {
        const Line line = some_line(text, dice);
        text.erase(line.begin, line.size);
        break;
      }
    }
  }
  return text;
}

std::string Mutator::with_faulty_tree(Json tree, Dice& dice) const {
  for (std::size_t faults = 1 + dice.length(3); faults > 0; --faults) {
    std::vector<Json*> nodes;
    collect(tree, nodes);
    Json& node = *nodes[dice.below(nodes.size())];
    switch (dice.below(9)) {
      case 0:
      case 1: node = strange_value(dice); break;
      case 2: node = Json(*nodes[dice.below(nodes.size())]); break;
      case 3:
        if (node.is_array() && !node.empty()) node.erase(dice.below(node.size()));
        break;
      case 4:
        if (node.is_object() && !node.empty())
          node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(dice.below(node.size()))).key());
        break;
      case 5:
        if (node.is_object()) node[words_.empty() || dice.one_in(2) ? "x" : dice.pick(words_)] = strange_value(dice);
        break;
      case 6:
        if (node.is_array() && !node.empty())
          node.insert(node.end(), dice.length(300), Json(node[dice.below(node.size())]));
        break;
      case 7:
        for (std::size_t depth = dice.length(60); depth > 0; --depth) node = Json::array({std::move(node)});
        break;
      default:
        if (node.is_string())
          node = with_faulty_bytes(node.get<std::string>(), dice);
        else if (node.is_number())
          node = node.get<double>() + static_cast<double>(dice.below(3)) - 1;
        break;
    }
  }
  return tree.dump(dice.one_in(2) ? -1 : 1, ' ', false, Json::error_handler_t::ignore);
}

}  // namespace lockstep::test
