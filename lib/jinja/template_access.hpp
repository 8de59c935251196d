// Access to the contents of values: iteration, attributes, items by key, slices; and the arguments of calls.
#pragma once

#include "jinja/template_value.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

/// Iterates over the items of a value, as Python's iter does.
class ItemSource {
 public:
  /// Throws TemplateFault if the value is not iterable.
  ItemSource(const Value& value, TemplateMemory& memory);
  bool next(Value& item);
  std::optional<std::int64_t> length() const;  // of the value; nothing for a generator

 private:
  Value value_;
  TemplateMemory* memory_;
  std::size_t at_ = 0;  // bytes of text, or number of items
};

bool is_iterable(const Value& value);
/// Python's list(value); its items are in the memory of the rendering.
Value list_of(const Value& value, TemplateMemory& memory);
std::vector<Value> items_of(const Value& value, TemplateMemory& memory);
Value list_from(const std::vector<Value>& items, TemplateMemory& memory);
/// Python's len(value); nothing if it has none.
std::optional<std::int64_t> length_of(const Value& value);
/// Python's item in value.
bool contains(const Value& value, const Value& item, TemplateMemory& memory);

/// value.name and value[key]; undefined if there is none, as in Jinja's sandbox.
Value attribute_of(const Value& value, std::string_view name, TemplateMemory& memory);
Value item_of(const Value& value, const Value& key, TemplateMemory& memory);
/// value[start:stop:step]; each of the three may be missing.
Value slice_of(const Value& value, const Value& start, const Value& stop, const Value& step, TemplateMemory& memory);

/// Whether Python's type has the attribute, including methods that are not supported here.
bool has_attribute(Kind kind, std::string_view name);

struct LoopBody {
  explicit LoopBody(ItemSource items) : source(items) {}
  bool next(Value& item);
  Value peek();  // missing at the end
  std::int64_t length(TemplateMemory& memory);

  ItemSource source;
  std::int64_t index0 = -1;
  Value after = Value::missing();
  Value current = Value::missing();
  Value before = Value::missing();
  Value last_changed = Value::missing();
  std::int64_t known_length = -1;
};

/// Sets an attribute of a namespace. Throws TemplateFault if the name begins with an underscore.
void set_attribute(NamespaceBody& body, std::string_view name, const Value& value, TemplateMemory& memory);

struct CallArguments {
  std::span<const Value> positional;
  std::span<const Pair> named;  // the keys are texts

  /// Throws TemplateFault "WHAT takes …" unless there are `least` to `most` positional arguments.
  void require_positional(std::string_view what, std::size_t least, std::size_t most) const;
};

/// The arguments in the order of the parameters `names`. The first `required` must be given; others are missing if not
/// given.
template <std::size_t count>
std::array<Value, count> bound(std::string_view what, const CallArguments& arguments,
                               const std::array<std::string_view, count>& names, std::size_t required = 0);

std::int64_t integer_argument(std::string_view what, const Value& value);
std::string_view text_argument(std::string_view what, const Value& value);
void bind_arguments(std::string_view what, const CallArguments& arguments, std::span<const std::string_view> names,
                    std::size_t required, std::span<Value> values);

template <std::size_t count>
std::array<Value, count> bound(std::string_view what, const CallArguments& arguments,
                               const std::array<std::string_view, count>& names, std::size_t required) {
  std::array<Value, count> values;
  bind_arguments(what, arguments, names, required, values);
  return values;
}

}  // namespace lockstep::jinja
