#include "jinja/template_access.hpp"

#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

namespace lockstep::jinja {

ItemSource::ItemSource(const Value& value, TemplateMemory& memory) : value_(value), memory_(&memory) {
  if (!is_iterable(value)) throw TemplateFault(fmt::format("a {} is not iterable", type_name(value)));
}

namespace {

Value pair_tuple(const Pair& pair, TemplateMemory& memory) {
  Value* const items = memory.items<Value>(2);
  items[0] = pair.key;
  items[1] = pair.value;
  return Value::tuple(items, 2);
}

}  // namespace

bool ItemSource::next(Value& item) {
  memory_->step();
  switch (value_.content()) {
    case Content::text: {
      const std::string_view text = value_.text();
      if (at_ >= text.size()) return false;
      const std::size_t begin = at_;
      next_point(text, at_);
      item = Value::of(text.substr(begin, at_ - begin));
      return true;
    }
    case Content::sequence:
      if (at_ >= value_.sequence().size()) return false;
      item = value_.sequence()[at_++];
      return true;
    case Content::pairs: {
      if (at_ >= value_.pairs().size()) return false;
      const Pair& pair = value_.pairs()[at_++];
      item = value_.is(Kind::values) ? pair.value : value_.is(Kind::items) ? pair_tuple(pair, *memory_) : pair.key;
      return true;
    }
    case Content::range: {
      const auto& range = value_.body<RangeBody>();
      if (std::cmp_greater_equal(at_, range.length)) return false;
      item = range.at(static_cast<std::int64_t>(at_++));
      return true;
    }
    case Content::object: {
      if (!value_.is(Kind::generator)) return false;
      auto& body = value_.body<GeneratorBody>();
      const TemplateMemory::Deeper deeper(*memory_);
      return body.next(body, item);
    }
    case Content::nothing:
    case Content::number: return false;
  }
  return false;
}

std::optional<std::int64_t> ItemSource::length() const { return length_of(value_); }

bool is_iterable(const Value& value) { return facts_of(value.kind()).iterable; }

std::vector<Value> items_of(const Value& value, TemplateMemory& memory) {
  std::vector<Value> items;
  ItemSource source(value, memory);
  for (Value item; source.next(item);) {
    items.push_back(item);
    memory.require_room(items.size() * sizeof(Value));
  }
  return items;
}

Value list_from(const std::vector<Value>& items, TemplateMemory& memory) {
  Value* const kept = memory.items<Value>(items.size());
  std::ranges::copy(items, kept);
  return Value::list(kept, items.size());
}

Value list_of(const Value& value, TemplateMemory& memory) {
  if (value.is_sequence()) return Value::list(value.sequence().data(), value.sequence().size());
  return list_from(items_of(value, memory), memory);
}

std::optional<std::int64_t> length_of(const Value& value) {
  if (value.is(Kind::undefined)) return 0;
  switch (value.content()) {
    case Content::text: return static_cast<std::int64_t>(count_points(value.text()));
    case Content::sequence: return static_cast<std::int64_t>(value.sequence().size());
    case Content::pairs: return static_cast<std::int64_t>(value.pairs().size());
    case Content::range: return value.body<RangeBody>().length;
    case Content::nothing:
    case Content::number:
    case Content::object: return std::nullopt;
  }
  return std::nullopt;
}

bool contains(const Value& value, const Value& item, TemplateMemory& memory) {
  if (value.is(Kind::text)) {
    if (!item.is(Kind::text)) {
      throw TemplateFault(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    }
    memory.step(value.text().size() / 64);
    return value.text().find(item.text()) != std::string_view::npos;
  }
  if (value.is(Kind::dict) || value.is(Kind::keys)) return find(value.pairs(), item, memory) != nullptr;
  ItemSource source(value, memory);
  for (Value other; source.next(other);) {
    if (equal(other, item, memory)) return true;
  }
  return false;
}

namespace {

Value undefined_attribute(const Value& value, std::string_view name, TemplateMemory& memory) {
  return Value::undefined(memory.copy(fmt::format("a {} has no '{}'", type_name(value), name)));
}

/// What a list or dict may not do in the sandbox, as it would change.
bool changes(Kind kind, std::string_view name) {
  constexpr std::array<std::string_view, 8> of_list{"append", "clear", "pop",    "reverse",
                                                    "insert", "sort",  "extend", "remove"};
  constexpr std::array<std::string_view, 5> of_dict{"clear", "pop", "popitem", "setdefault", "update"};
  return (kind == Kind::list && std::ranges::find(of_list, name) != of_list.end()) ||
         (kind == Kind::dict && std::ranges::find(of_dict, name) != of_dict.end());
}

Value method_of(const Value& value, std::string_view name, TemplateMemory& memory) {
  if (changes(value.kind(), name))
    return Value::undefined(
        memory.copy(fmt::format("{}.{} is not allowed: a template must not modify values", type_name(value), name)));
  return Value::object(Kind::method, memory.make<MethodBody>(value, memory.copy(name)));
}

Value loop_attribute(const Value& value, std::string_view name, TemplateMemory& memory) {
  auto& loop = value.body<LoopBody>();
  const auto number = [](std::int64_t integer) { return Value::of(integer); };
  if (name == "index0") return number(loop.index0);
  if (name == "index") return number(loop.index0 + 1);
  if (name == "first") return Value::of(loop.index0 == 0);
  if (name == "last") return Value::of(loop.peek().is(Kind::missing));
  if (name == "length") return number(loop.length(memory));
  if (name == "revindex") return number(loop.length(memory) - loop.index0);
  if (name == "revindex0") return number(loop.length(memory) - loop.index0 - 1);
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "previtem") return loop.index0 == 0 ? Value::undefined("there is no previous item") : loop.before;
  if (name == "nextitem") {
    const Value next = loop.peek();
    return next.is(Kind::missing) ? Value::undefined("there is no next item") : next;
  }
  if (name == "cycle" || name == "changed") return method_of(value, name, memory);
  return undefined_attribute(value, name, memory);
}

/// An item by a key that fits; nothing if there is none.
std::optional<Value> item_if_there(const Value& value, const Value& key, TemplateMemory& memory) {
  if (value.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return std::nullopt;
    const Value* const found = find(value.pairs(), key, memory);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!key.is_integral()) return std::nullopt;
  const bool has_order = value.is(Kind::text) || value.is_sequence() || value.is(Kind::range);
  if (!has_order) return std::nullopt;
  if (value.is(Kind::text)) memory.step(value.text().size() / 32);
  const std::int64_t length = *length_of(value);
  const std::int64_t index = key.integer() < 0 ? key.integer() + length : key.integer();
  if (index < 0 || index >= length) return std::nullopt;
  if (value.is_sequence()) return value.sequence()[static_cast<std::size_t>(index)];
  if (value.is(Kind::range)) return value.body<RangeBody>().at(index);
  const std::string_view text = value.text();
  const std::size_t begin = byte_of_point(text, static_cast<std::size_t>(index));
  std::size_t end = begin;
  next_point(text, end);
  return Value::of(text.substr(begin, end - begin));
}

/// What Python's getattr gives, methods and the few numbers that numbers have.
std::optional<Value> attribute_if_there(const Value& value, std::string_view name, TemplateMemory& memory) {
  if (value.is(Kind::loop)) return loop_attribute(value, name, memory);
  if (value.is(Kind::name_space)) {
    const auto& body = value.body<NamespaceBody>();
    const Value* const found = find(std::span(body.pairs, body.count), name, memory);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (value.is(Kind::macro) && name == "name") throw TemplateFault("the attributes of macros are not supported");
  if (!has_attribute(value.kind(), name)) return std::nullopt;
  if (value.is_integral()) {
    if (name == "real" || name == "numerator") return Value::of(value.integer());
    if (name == "imag") return Value::of(std::int64_t{0});
    if (name == "denominator") return Value::of(std::int64_t{1});
  }
  if (value.is(Kind::number)) {
    if (name == "real") return value;
    if (name == "imag") return Value::of(0.0);
  }
  if (value.is(Kind::range)) {
    const auto& range = value.body<RangeBody>();
    if (name == "start") return Value::of(range.start);
    if (name == "stop") return Value::of(range.stop);
    if (name == "step") return Value::of(range.step);
  }
  return method_of(value, name, memory);
}

}  // namespace

Value attribute_of(const Value& value, std::string_view name, TemplateMemory& memory) {
  if (value.is(Kind::undefined) && name.starts_with("__"))
    throw TemplateFault(fmt::format("the attribute '{}' of a Python object is not supported", name));
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (const auto found = attribute_if_there(value, name, memory)) return *found;
  if (name.starts_with("__") && !value.is(Kind::dict))
    throw TemplateFault(fmt::format("the attribute '{}' of a Python object is not supported", name));
  if (const auto found = item_if_there(value, Value::of(name), memory)) return *found;
  return undefined_attribute(value, name, memory);
}

Value item_of(const Value& value, const Value& key, TemplateMemory& memory) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (const auto found = item_if_there(value, key, memory)) return *found;
  if (key.is(Kind::text)) {
    if (const auto found = attribute_if_there(value, key.text(), memory)) return *found;
    return undefined_attribute(value, key.text(), memory);
  }
  return Value::undefined(memory.copy(fmt::format("a {} has no such item", type_name(value))));
}

Value slice_of(const Value& value, const Value& start, const Value& stop, const Value& step, TemplateMemory& memory) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is(Kind::text) && !value.is_sequence() && !value.is(Kind::range))
    throw TemplateFault(fmt::format("a slice of a {} is not supported", type_name(value)));
  const auto bound_of = [&](const Value& bound, std::int64_t otherwise) {
    if (bound.is(Kind::missing) || bound.is(Kind::none)) return otherwise;
    if (!bound.is_integral())
      throw TemplateFault(fmt::format("slice bounds must be integers, not a {}", type_name(bound)));
    return bound.integer();
  };
  const std::int64_t stride = bound_of(step, 1);
  if (stride == 0) throw TemplateFault("slice step cannot be zero");
  if (value.is(Kind::text)) memory.step(value.text().size() / 16);
  const std::int64_t length = *length_of(value);
  const std::int64_t lowest = stride > 0 ? 0 : -1;
  const std::int64_t highest = stride > 0 ? length : length - 1;
  const auto clamped = [&](const Value& bound, std::int64_t otherwise) {
    if (bound.is(Kind::missing) || bound.is(Kind::none)) return otherwise;
    const std::int64_t given = bound_of(bound, 0);
    return std::clamp(given < 0 ? given + length : given, lowest, highest);
  };
  const std::int64_t first = clamped(start, stride > 0 ? lowest : highest);
  const std::int64_t last = clamped(stop, stride > 0 ? highest : lowest);
  std::int64_t count = 0;
  if (stride > 0 && last > first) count = (last - first - 1) / stride + 1;
  if (stride < 0 && first > last) count = (first - last - 1) / (stride == INT64_MIN ? INT64_MAX : -stride) + 1;
  memory.step(static_cast<std::uint64_t>(count));
  const auto index = [&](std::int64_t number) { return static_cast<std::size_t>(first + number * stride); };
  if (value.is(Kind::text)) {
    if (stride == 1) {
      const std::size_t begin = byte_of_point(value.text(), static_cast<std::size_t>(first));
      const std::string_view rest = value.text().substr(begin);
      return Value::of(rest.substr(0, byte_of_point(rest, static_cast<std::size_t>(count))));
    }
    const std::vector<std::string_view> points = points_of(value.text());
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) text.append(points[index(i)]);
    return Value::of(memory.copy(text));
  }
  Value* const items = memory.items<Value>(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    if (value.is(Kind::range)) throw TemplateFault("a slice of a range is not supported");
    items[i] = value.sequence()[index(i)];
  }
  const auto size = static_cast<std::size_t>(count);
  return value.is(Kind::tuple) ? Value::tuple(items, size) : Value::list(items, size);
}

bool has_attribute(Kind kind, std::string_view name) {
  static constexpr std::array<std::string_view, 47> of_text{
      "capitalize", "casefold",     "center",       "count",   "encode",     "endswith",    "expandtabs",
      "find",       "format",       "format_map",   "index",   "isalnum",    "isalpha",     "isascii",
      "isdecimal",  "isdigit",      "isidentifier", "islower", "isnumeric",  "isprintable", "isspace",
      "istitle",    "isupper",      "join",         "ljust",   "lower",      "lstrip",      "maketrans",
      "partition",  "removeprefix", "removesuffix", "replace", "rfind",      "rindex",      "rjust",
      "rpartition", "rsplit",       "rstrip",       "split",   "splitlines", "startswith",  "strip",
      "swapcase",   "title",        "translate",    "upper",   "zfill"};
  static constexpr std::array<std::string_view, 11> of_list{"append", "clear", "copy",   "count",   "extend", "index",
                                                            "insert", "pop",   "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 2> of_tuple{"count", "index"};
  static constexpr std::array<std::string_view, 11> of_dict{"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                                            "pop",   "popitem", "setdefault", "update", "values"};
  static constexpr std::array<std::string_view, 10> of_integer{
      "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
      "from_bytes",       "imag",      "numerator",  "real",      "to_bytes"};
  static constexpr std::array<std::string_view, 7> of_number{"as_integer_ratio", "conjugate", "fromhex", "hex", "imag",
                                                             "is_integer",       "real"};
  static constexpr std::array<std::string_view, 2> of_view{"isdisjoint", "mapping"};
  static constexpr std::array<std::string_view, 5> of_range{"count", "index", "start", "step", "stop"};
  static constexpr std::array<std::string_view, 3> of_cycler{"current", "next", "reset"};
  static constexpr std::array<std::string_view, 1> of_values{"mapping"};
  struct Row {
    Kind kind;
    std::span<const std::string_view> names;
  };
  static constexpr std::array rows{
      Row{Kind::text, of_text},     Row{Kind::list, of_list},       Row{Kind::tuple, of_tuple},
      Row{Kind::dict, of_dict},     Row{Kind::boolean, of_integer}, Row{Kind::integer, of_integer},
      Row{Kind::number, of_number}, Row{Kind::keys, of_view},       Row{Kind::items, of_view},
      Row{Kind::values, of_values}, Row{Kind::range, of_range},     Row{Kind::cycler, of_cycler},
  };
  const auto* const row = std::ranges::find(rows, kind, &Row::kind);
  return row != rows.end() && std::ranges::find(row->names, name) != row->names.end();
}

bool LoopBody::next(Value& item) {
  if (!after.is(Kind::missing)) {
    item = after;
    after = Value::missing();
  } else if (!source.next(item)) {
    return false;
  }
  ++index0;
  before = current;
  current = item;
  return true;
}

Value LoopBody::peek() {
  Value item;
  if (after.is(Kind::missing) && source.next(item)) after = item;
  return after;
}

std::int64_t LoopBody::length(TemplateMemory& memory) {
  if (known_length >= 0) return known_length;
  if (const auto given = source.length()) return known_length = *given;
  std::vector<Value> rest;
  for (Value item; source.next(item);) rest.push_back(item);
  known_length = static_cast<std::int64_t>(rest.size()) + index0 + 1 + (after.is(Kind::missing) ? 0 : 1);
  source = ItemSource(list_from(rest, memory), memory);
  return known_length;
}

void set_attribute(NamespaceBody& body, std::string_view name, const Value& value, TemplateMemory& memory) {
  if (name.starts_with('_'))
    throw TemplateFault(fmt::format("a namespace cannot have the attribute '{}': it begins with an underscore", name));
  const std::span pairs(body.pairs, body.count);
  const Value* const found = find(pairs, name, memory);
  if (found != nullptr) {
    *const_cast<Value*>(found) = value;  // a namespace is what changes
    return;
  }
  if (body.count == body.room) {
    body.room = std::max<std::size_t>(4, body.room * 2);
    Pair* const larger = memory.items<Pair>(body.room);
    std::ranges::copy(pairs, larger);
    body.pairs = larger;
  }
  body.pairs[body.count++] = {Value::of(name), value};
}

void CallArguments::require_positional(std::string_view what, std::size_t least, std::size_t most) const {
  if (!named.empty())
    throw TemplateFault(fmt::format("{} takes no keyword argument '{}'", what, named.front().key.text()));
  if (positional.size() < least || positional.size() > most) {
    throw TemplateFault(least == most
                            ? fmt::format("{} takes {} arguments, not {}", what, least, positional.size())
                            : fmt::format("{} takes {} to {} arguments, not {}", what, least, most, positional.size()));
  }
}

void bind_arguments(std::string_view what, const CallArguments& arguments, std::span<const std::string_view> names,
                    std::size_t required, std::span<Value> values) {
  if (arguments.positional.size() > names.size()) {
    throw TemplateFault(
        fmt::format("{} takes at most {} arguments, not {}", what, names.size(), arguments.positional.size()));
  }
  std::ranges::copy(arguments.positional, values.begin());
  for (const Pair& pair : arguments.named) {
    const auto found = std::ranges::find(names, pair.key.text());
    if (found == names.end()) throw TemplateFault(fmt::format("{} takes no argument '{}'", what, pair.key.text()));
    Value& place = values[static_cast<std::size_t>(found - names.begin())];
    if (!place.is(Kind::missing))
      throw TemplateFault(fmt::format("{} got multiple values for its argument '{}'", what, pair.key.text()));
    place = pair.value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values[i].is(Kind::missing))
      throw TemplateFault(fmt::format("{} is missing its argument '{}'", what, names[i]));
  }
}

std::int64_t integer_argument(std::string_view what, const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is_integral()) throw TemplateFault(fmt::format("{} takes an integer, not a {}", what, type_name(value)));
  return value.integer();
}

std::string_view text_argument(std::string_view what, const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is(Kind::text)) throw TemplateFault(fmt::format("{} takes text, not a {}", what, type_name(value)));
  return value.text();
}

}  // namespace lockstep::jinja
