#include "jinja/template_value.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::jinja {

Value::Value(Kind kind, const void* pointer, std::size_t size)
    : pointer_(pointer), size_(static_cast<std::uint32_t>(size)), kind_(kind) {
  if (size > std::numeric_limits<std::uint32_t>::max())
    throw TemplateFault("a value has more than 2^32 - 1 bytes or items");
}

const KindFacts& facts_of(Kind kind) {
  static constexpr auto facts = [] {
    std::array<KindFacts, static_cast<std::size_t>(Kind::joiner) + 1> table{};
    const auto add = [&](Kind of, const KindFacts& row) { table[static_cast<std::size_t>(of)] = row; };
    add(Kind::missing, {"Undefined", Content::nothing});
    add(Kind::undefined, {"Undefined", Content::nothing, true});
    add(Kind::none, {"NoneType", Content::nothing});
    add(Kind::boolean, {"bool", Content::number});
    add(Kind::integer, {"int", Content::number});
    add(Kind::number, {"float", Content::number});
    add(Kind::text, {"str", Content::text, true});
    add(Kind::list, {"list", Content::sequence, true});
    add(Kind::tuple, {"tuple", Content::sequence, true});
    add(Kind::dict, {"dict", Content::pairs, true});
    add(Kind::keys, {"dict_keys", Content::pairs, true});
    add(Kind::values, {"dict_values", Content::pairs, true});
    add(Kind::items, {"dict_items", Content::pairs, true});
    add(Kind::range, {"range", Content::range, true});
    add(Kind::generator, {"generator", Content::object, true});
    add(Kind::function, {"function"});
    add(Kind::method, {"method"});
    add(Kind::macro, {"Macro"});
    add(Kind::name_space, {"Namespace"});
    add(Kind::loop, {"LoopContext"});
    add(Kind::cycler, {"Cycler"});
    add(Kind::joiner, {"Joiner"});
    return table;
  }();
  static_assert(std::ranges::none_of(facts, [](const KindFacts& row) { return row.type_name.empty(); }));
  return facts[static_cast<std::size_t>(kind)];
}

void fail_undefined(const Value& value) { throw TemplateFault(std::string(value.text())); }

bool is_true(const Value& value) {
  switch (value.content()) {
    case Content::nothing: return false;
    case Content::number: return value.number() != 0;
    case Content::text: return !value.text().empty();
    case Content::sequence: return !value.sequence().empty();
    case Content::pairs: return !value.pairs().empty();
    case Content::range: return value.body<RangeBody>().length != 0;
    case Content::object: return true;
  }
  return false;
}

namespace {

/// -1, 0, 1; 2 where one is no number. Exact, also where an integer is no double.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral())
    return a.integer() < b.integer() ? -1 : static_cast<int>(a.integer() > b.integer());
  if (a.is(Kind::number) && b.is(Kind::number)) {
    if (std::isnan(a.number()) || std::isnan(b.number())) return 2;
    return a.number() < b.number() ? -1 : static_cast<int>(a.number() > b.number());
  }
  if (a.is(Kind::number)) {
    const int turned = compare_numbers(b, a);
    return turned == 2 ? 2 : -turned;
  }
  const double other = b.number();
  if (std::isnan(other)) return 2;
  if (other >= 0x1p63) return -1;
  if (other < -0x1p63) return 1;
  const auto whole = static_cast<std::int64_t>(other);  // towards 0
  if (a.integer() != whole) return a.integer() < whole ? -1 : 1;
  const double rest = other - static_cast<double>(whole);
  return rest > 0 ? -1 : static_cast<int>(rest < 0);
}

bool equal_sequences(std::span<const Value> a, std::span<const Value> b, TemplateMemory& memory) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i], memory)) return false;
  }
  return true;
}

bool equal_dicts(std::span<const Pair> a, std::span<const Pair> b, TemplateMemory& memory) {
  if (a.size() != b.size()) return false;
  for (const Pair& pair : a) {
    const Value* const other = find(b, pair.key, memory);
    if (other == nullptr || !equal(pair.value, *other, memory)) return false;
  }
  return true;
}

bool equal_ranges(const RangeBody& a, const RangeBody& b) {
  return a.length == b.length && (a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step)));
}

bool same_object(const Value& a, const Value& b) {
  if (a.is(Kind::function)) return a.function_id() == b.function_id();
  if (!a.is(Kind::method)) return a.pointer() == b.pointer();
  if (a.body<MethodBody>().name != b.body<MethodBody>().name) return false;
  throw TemplateFault("the comparison of methods is not supported");
}

[[noreturn]] void fail_no_comparison(const Value& value) {
  throw TemplateFault(fmt::format("the comparison of {} is not supported", type_name(value)));
}

[[noreturn]] void fail_no_order(const Value& a, const Value& b, std::string_view operation) {
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  const auto is_view = [](const Value& value) { return value.is(Kind::keys) || value.is(Kind::items); };
  if (is_view(a) && is_view(b)) throw TemplateFault("the comparison of dict views is not supported");
  throw TemplateFault(fmt::format("{} and {} cannot be compared with {}", type_name(a), type_name(b), operation));
}

/// Where two lists or tuples first differ; their shorter length if nowhere.
std::size_t first_difference(const Value& a, const Value& b, TemplateMemory& memory) {
  const std::size_t common = std::min(a.sequence().size(), b.sequence().size());
  std::size_t i = 0;
  while (i < common && equal(a.sequence()[i], b.sequence()[i], memory)) ++i;
  return i;
}

}  // namespace

bool equal(const Value& a, const Value& b, TemplateMemory& memory) {
  memory.step();
  if (a.is_numeric() && b.is_numeric()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.content()) {
    case Content::nothing: return true;
    case Content::number: return false;  // compared above
    case Content::text: memory.step(a.text().size() / 64); return a.text() == b.text();
    case Content::sequence: {
      const TemplateMemory::Deeper deeper(memory);
      return equal_sequences(a.sequence(), b.sequence(), memory);
    }
    case Content::pairs: {
      if (!a.is(Kind::dict)) fail_no_comparison(a);
      const TemplateMemory::Deeper deeper(memory);
      return equal_dicts(a.pairs(), b.pairs(), memory);
    }
    case Content::range: return equal_ranges(a.body<RangeBody>(), b.body<RangeBody>());
    case Content::object: return same_object(a, b);
  }
  return false;
}

bool less(const Value& a, const Value& b, TemplateMemory& memory, std::string_view operation) {
  memory.step();
  if (a.is_numeric() && b.is_numeric()) return compare_numbers(a, b) == -1;
  if (a.is(Kind::text) && b.is(Kind::text)) {
    memory.step(std::min(a.text().size(), b.text().size()) / 64);
    return a.text() < b.text();  // bytes of UTF-8 have the order of their code points
  }
  if (a.kind() != b.kind() || !a.is_sequence()) fail_no_order(a, b, operation);
  const TemplateMemory::Deeper deeper(memory);
  const std::size_t at = first_difference(a, b, memory);
  if (at == std::min(a.sequence().size(), b.sequence().size())) return a.sequence().size() < b.sequence().size();
  return less(a.sequence()[at], b.sequence()[at], memory, operation);
}

bool less_or_equal(const Value& a, const Value& b, TemplateMemory& memory, std::string_view operation) {
  if (a.is_numeric() && b.is_numeric()) return compare_numbers(a, b) <= 0;
  if (a.is_sequence() && a.kind() == b.kind()) {
    const TemplateMemory::Deeper deeper(memory);
    const std::size_t at = first_difference(a, b, memory);
    if (at == std::min(a.sequence().size(), b.sequence().size())) return a.sequence().size() <= b.sequence().size();
    return less_or_equal(a.sequence()[at], b.sequence()[at], memory, operation);
  }
  return !less(b, a, memory, operation);
}

void refuse_unhashable(const Value& key) {
  if (key.is(Kind::tuple)) {
    for (const Value& item : key.sequence()) refuse_unhashable(item);
  } else if (key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::keys) || key.is(Kind::items)) {
    throw TemplateFault(fmt::format("a {} cannot be a key of a dict", type_name(key)));
  }
}

const Value* find(std::span<const Pair> pairs, const Value& key, TemplateMemory& memory) {
  if (key.is(Kind::text)) return find(pairs, key.text(), memory);
  refuse_unhashable(key);
  for (const Pair& pair : pairs) {
    if (pair.key.is(key.kind()) || (pair.key.is_numeric() && key.is_numeric())) {
      if (equal(pair.key, key, memory)) return &pair.value;
    }
  }
  return nullptr;
}

const Value* find(std::span<const Pair> pairs, std::string_view key, TemplateMemory& memory) {
  memory.step(1 + pairs.size() / 16);
  for (const Pair& pair : pairs) {
    if (pair.key.is(Kind::text) && pair.key.text() == key) return &pair.value;
  }
  return nullptr;
}

Value dict_of(std::span<const Pair> pairs, TemplateMemory& memory) {
  Pair* const kept = memory.items<Pair>(pairs.size());
  std::size_t count = 0;
  for (const Pair& pair : pairs) {
    refuse_unhashable(pair.key);
    const Value* const before = find(std::span(kept, count), pair.key, memory);
    if (before != nullptr) {
      *const_cast<Value*>(before) = pair.value;  // in what is being made here
    } else {
      kept[count++] = pair;
    }
  }
  return Value::dict(kept, count);
}

Value value_of(const Json& json, TemplateMemory& memory) {
  switch (json.type()) {
    case Json::value_t::null: return Value::none();
    case Json::value_t::boolean: return Value::of(json.get<bool>());
    case Json::value_t::number_integer: return Value::of(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (!std::in_range<std::int64_t>(number))
        throw TemplateFault(fmt::format("the integer {} of the input does not fit a signed 64-bit integer", number));
      return Value::of(static_cast<std::int64_t>(number));
    }
    case Json::value_t::number_float: return Value::of(json.get<double>());
    case Json::value_t::string: return Value::of(std::string_view(json.get_ref<const std::string&>()));
    case Json::value_t::array: {
      const TemplateMemory::Deeper deeper(memory);
      Value* const items = memory.items<Value>(json.size());
      for (std::size_t i = 0; i < json.size(); ++i) items[i] = value_of(json[i], memory);
      return Value::list(items, json.size());
    }
    case Json::value_t::object: {
      const TemplateMemory::Deeper deeper(memory);
      Pair* const pairs = memory.items<Pair>(json.size());
      Pair* next = pairs;
      for (const auto& [key, value] : json.get_ref<const Json::object_t&>())
        *next++ = {Value::of(std::string_view(key)), value_of(value, memory)};
      return Value::dict(pairs, json.size());
    }
    case Json::value_t::binary:
    case Json::value_t::discarded: break;
  }
  throw TemplateFault("the input has a value that is not JSON");
}

}  // namespace lockstep::jinja
