// Filters over the items of a value: map, select, sort …
#include "jinja/template_arithmetic.hpp"
#include "jinja/template_builtins.hpp"
#include "jinja/template_print.hpp"
#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace lockstep::jinja {

namespace {

CallArguments kept(const CallArguments& arguments, std::size_t first, TemplateMemory& memory) {
  const auto rest = arguments.positional.subspan(std::min(first, arguments.positional.size()));
  Value* const positional = memory.items<Value>(rest.size());
  std::ranges::copy(rest, positional);
  Pair* const named = memory.items<Pair>(arguments.named.size());
  std::ranges::copy(arguments.named, named);
  return {.positional = {positional, rest.size()}, .named = {named, arguments.named.size()}};
}

/// What "a.b.0" leads to from an item; the item itself without a path.
Value by_path(Value item, const Value& path, const Value& otherwise, TemplateMemory& memory) {
  const auto step = [&](const Value& key) {
    item = item_of(item, key, memory);
    if (item.is(Kind::undefined) && !otherwise.is(Kind::missing) && !otherwise.is(Kind::none)) item = otherwise;
  };
  if (path.is(Kind::missing) || path.is(Kind::none)) return item;
  if (!path.is(Kind::text)) {
    step(path);
    return item;
  }
  for (const std::string_view part : split_at(path.text(), ".", -1, false)) {
    std::int64_t index = 0;
    const bool digits =
        !part.empty() && part.size() < 18 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) std::from_chars(part.data(), part.data() + part.size(), index);
    step(digits ? Value::of(index) : Value::of(part));
  }
  return item;
}

Value without_case(const Value& value, TemplateMemory& memory) {
  return value.is(Kind::text) ? Value::of(memory.copy(to_lower(value.text()))) : value;
}

bool folds_case(const Value& case_sensitive) { return case_sensitive.is(Kind::missing) || !is_true(case_sensitive); }

struct ListGenerator : GeneratorBody {
  std::span<const Value> items;
  std::size_t at = 0;
};

struct MapGenerator : GeneratorBody {
  explicit MapGenerator(ItemSource items) : source(items) {}
  ItemSource source;
  TemplateMemory* memory = nullptr;
  int filter = -1;  // or a path
  CallArguments arguments = {};
  Value path = Value::missing();
  Value otherwise = Value::missing();
};

struct SelectGenerator : GeneratorBody {
  explicit SelectGenerator(ItemSource items) : source(items) {}
  ItemSource source;
  TemplateMemory* memory = nullptr;
  Value path = Value::missing();
  int test = -1;  // -1: whether the item is true
  CallArguments arguments = {};
  bool wanted = true;
};

struct UniqueGenerator : GeneratorBody {
  explicit UniqueGenerator(ItemSource items) : source(items) {}
  ItemSource source;
  TemplateMemory* memory = nullptr;
  Value path = Value::missing();
  bool folds = true;
  Pair* seen = nullptr;
  std::size_t count = 0;
  std::size_t room = 0;
};

}  // namespace

Value generator_over(const Value& list, TemplateMemory& memory) {
  auto* const body = memory.make<ListGenerator>();
  body->items = list.sequence();
  body->next = [](GeneratorBody& self, Value& item) {
    auto& generator = static_cast<ListGenerator&>(self);
    if (generator.at == generator.items.size()) return false;
    item = generator.items[generator.at++];
    return true;
  };
  return Value::object<GeneratorBody>(Kind::generator, body);
}

namespace {

/// Jinja finds out as the items are asked for.
void require_items(std::string_view what, const Value& value) {
  if (!is_iterable(value))
    throw TemplateFault(fmt::format("{} over a {} is not supported: it is not iterable", what, type_name(value)));
}

}  // namespace

Value map_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  if (!is_true(value)) return generator_over(Value::list(nullptr, 0), memory);
  require_items("map", value);
  auto* const body = memory.make<MapGenerator>(ItemSource(value, memory));
  body->memory = &memory;
  if (arguments.positional.empty()) {
    constexpr std::array<std::string_view, 2> names{"attribute", "default"};
    const auto [path, otherwise] = bound<2>("map", arguments, names, 1);
    body->path = path;
    body->otherwise = otherwise;
  } else {
    const std::string_view name = text_argument("map", arguments.positional[0]);
    body->filter = filter_index(name);
    if (body->filter < 0) throw TemplateFault(fmt::format("the filter '{}' is not supported", name));
    body->arguments = kept(arguments, 1, memory);
  }
  body->next = [](GeneratorBody& self, Value& item) {
    auto& map = static_cast<MapGenerator&>(self);
    Value from;
    if (!map.source.next(from)) return false;
    item = map.filter < 0 ? by_path(from, map.path, map.otherwise, *map.memory)
                          : apply_filter(map.filter, from, map.arguments, *map.memory);
    return true;
  };
  return Value::object<GeneratorBody>(Kind::generator, body);
}

Value select_items(SelectMode selecting, const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  if (!is_true(value)) return generator_over(Value::list(nullptr, 0), memory);
  require_items("select", value);
  auto* const body = memory.make<SelectGenerator>(ItemSource(value, memory));
  body->memory = &memory;
  const bool by_attribute =
      selecting == SelectMode::select_by_attribute || selecting == SelectMode::reject_by_attribute;
  body->wanted = selecting == SelectMode::select || selecting == SelectMode::select_by_attribute;
  const std::size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first)
    throw TemplateFault("selectattr and rejectattr need the name of an attribute");
  if (by_attribute) body->path = arguments.positional[0];
  if (arguments.positional.size() > first) {
    const std::string_view name = text_argument("select", arguments.positional[first]);
    body->test = test_index(name);
    if (body->test < 0) throw TemplateFault(fmt::format("the test '{}' is not supported", name));
    body->arguments = kept(arguments, first + 1, memory);
  }
  body->next = [](GeneratorBody& self, Value& item) {
    auto& select = static_cast<SelectGenerator&>(self);
    while (select.source.next(item)) {
      const Value judged = by_path(item, select.path, Value::missing(), *select.memory);
      const bool holds =
          select.test < 0 ? is_true(judged) : apply_test(select.test, judged, select.arguments, *select.memory);
      if (holds == select.wanted) return true;
    }
    return false;
  };
  return Value::object<GeneratorBody>(Kind::generator, body);
}

Value unique_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [case_sensitive, path] = bound<2>("unique", arguments, {"case_sensitive", "attribute"});
  auto* const body = memory.make<UniqueGenerator>(ItemSource(value, memory));
  body->memory = &memory;
  body->path = path;
  body->folds = folds_case(case_sensitive);
  body->next = [](GeneratorBody& self, Value& item) {
    auto& unique = static_cast<UniqueGenerator&>(self);
    TemplateMemory& memory_of = *unique.memory;
    while (unique.source.next(item)) {
      Value key = by_path(item, unique.path, Value::missing(), memory_of);
      if (unique.folds) key = without_case(key, memory_of);
      refuse_unhashable(key);
      if (find(std::span(unique.seen, unique.count), key, memory_of) != nullptr) continue;
      if (unique.count == unique.room) {
        unique.room = std::max<std::size_t>(8, unique.room * 2);
        Pair* const larger = memory_of.items<Pair>(unique.room);
        std::copy_n(unique.seen, unique.count, larger);
        unique.seen = larger;
      }
      unique.seen[unique.count++] = {key, Value::none()};
      return true;
    }
    return false;
  };
  return Value::object<GeneratorBody>(Kind::generator, body);
}

namespace {

/// Items in the order of their keys, equal ones in the order that they have.
std::vector<Value> sorted_by_key(const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse,
                                 TemplateMemory& memory) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return reverse ? less(keys[b], keys[a], memory) : less(keys[a], keys[b], memory);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

bool asks(const Value& value) { return !value.is(Kind::missing) && is_true(value); }

}  // namespace

Value sorted_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [reverse, case_sensitive, attribute] =
      bound<3>("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(value, memory);
  std::vector<std::string_view> paths;
  if (attribute.is(Kind::text)) paths = split_at(attribute.text(), ",", -1, false);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    if (paths.empty()) parts.push_back(by_path(item, attribute, Value::missing(), memory));
    for (const std::string_view path : paths) parts.push_back(by_path(item, Value::of(path), Value::missing(), memory));
    if (folds_case(case_sensitive)) {
      for (Value& part : parts) part = without_case(part, memory);
    }
    keys.push_back(list_from(parts, memory));
  }
  return list_from(sorted_by_key(items, keys, asks(reverse), memory), memory);
}

Value sorted_pairs(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [case_sensitive, by, reverse] = bound<3>("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is(Kind::dict)) throw TemplateFault(fmt::format("dictsort takes a dict, not a {}", type_name(value)));
  const std::string_view place = by.is(Kind::missing) ? "key" : text_argument("dictsort", by);
  if (place != "key" && place != "value") throw TemplateFault("dictsort sorts by 'key' or 'value'");
  const std::vector<Value> items = items_of(Value::view(Kind::items, value), memory);
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = item.sequence()[place == "key" ? 0 : 1];
    keys.push_back(folds_case(case_sensitive) ? without_case(key, memory) : key);
  }
  return list_from(sorted_by_key(items, keys, asks(reverse), memory), memory);
}

Value grouped_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [attribute, otherwise, case_sensitive] =
      bound<3>("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool folds = folds_case(case_sensitive);
  const auto key_of = [&](const Value& item) {
    const Value key = by_path(item, attribute, otherwise, memory);
    return folds ? without_case(key, memory) : key;
  };
  const std::vector<Value> items = items_of(value, memory);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  const std::vector<Value> sorted = sorted_by_key(items, keys, false, memory);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < sorted.size();) {
    const Value key = key_of(sorted[begin]);
    std::size_t end = begin + 1;
    while (end < sorted.size() && equal(key_of(sorted[end]), key, memory)) ++end;
    Value* const group = memory.items<Value>(2);
    group[0] = folds ? by_path(sorted[begin], attribute, otherwise, memory) : key;
    group[1] = list_from(
        {sorted.begin() + static_cast<std::ptrdiff_t>(begin), sorted.begin() + static_cast<std::ptrdiff_t>(end)},
        memory);
    groups.push_back(Value::tuple(group, 2));
    begin = end;
  }
  return list_from(groups, memory);
}

Value sum_of_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [attribute, start] = bound<2>("sum", arguments, {"attribute", "start"});
  Value sum = start.is(Kind::missing) ? Value::of(std::int64_t{0}) : start;
  if (sum.is(Kind::text)) throw TemplateFault("sum cannot add strings: use join");
  ItemSource source(value, memory);
  for (Value item; source.next(item);)
    sum = binary(BinaryOperator::add, sum, by_path(item, attribute, Value::missing(), memory), memory);
  return sum;
}

Value joined_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [separator, attribute] = bound<2>("join", arguments, {"d", "attribute"});
  const std::string_view between = separator.is(Kind::missing) ? std::string_view() : text_of(separator, memory);
  std::string out;
  bool first = true;
  ItemSource source(value, memory);
  for (Value item; source.next(item); first = false) {
    if (!first) out.append(between);
    append_text(out, by_path(item, attribute, Value::missing(), memory), memory);
    memory.require_room(out.size());
  }
  return Value::of(memory.copy(out));
}

Value batched_items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [count, fill] = bound<2>("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = integer_argument("batch", count);
  if (size < 1) throw TemplateFault("batch needs a line count of at least 1");
  std::vector<Value> batches;
  std::vector<Value> batch;
  const auto close = [&] {
    if (!batch.empty()) batches.push_back(list_from(batch, memory));
    batch.clear();
  };
  for (const Value& item : items_of(value, memory)) {
    if (std::cmp_equal(batch.size(), size)) close();
    batch.push_back(item);
  }
  const bool fills = !fill.is(Kind::missing) && !fill.is(Kind::none);
  while (fills && !batch.empty() && std::cmp_less(batch.size(), size)) {
    batch.push_back(fill);
    memory.step();
    memory.require_room(batch.size() * sizeof(Value));
  }
  close();
  return generator_over(list_from(batches, memory), memory);
}

Value extreme_item(Extreme extreme, const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [case_sensitive, attribute] = bound<2>("min and max", arguments, {"case_sensitive", "attribute"});
  Value found = Value::undefined("min or max of an empty sequence");
  Value found_key = Value::missing();
  ItemSource source(value, memory);
  for (Value item; source.next(item);) {
    Value key = by_path(item, attribute, Value::missing(), memory);
    if (folds_case(case_sensitive)) key = without_case(key, memory);
    const bool better = found_key.is(Kind::missing) ||
                        (extreme == Extreme::least ? less(key, found_key, memory) : less(found_key, key, memory, ">"));
    if (!better) continue;
    found = item;
    found_key = key;
  }
  return found;
}

}  // namespace lockstep::jinja
