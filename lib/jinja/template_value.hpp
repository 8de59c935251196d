// Values of a template: the Python values that chat templates use. A value is small and is copied. Its contents are in
// the memory of the rendering, in the template or in the input. Values are immutable, as in Jinja's immutable sandbox,
// except namespaces and the state of loops and generators.
#pragma once

#include "base/json_fwd.hpp"
#include "jinja/template_memory.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::jinja {

enum class Kind : std::uint8_t {
  missing,    // a variable that was never set; templates cannot hold it
  undefined,  // holds the error message for its use
  none,
  boolean,
  integer,
  number,
  text,
  list,
  tuple,
  dict,
  keys,  // keys, values and items are views of a dict
  values,
  items,
  range,
  generator,  // can be iterated once
  function,   // of the environment
  method,     // of a value
  macro,
  name_space,
  loop,
  cycler,
  joiner
};

/// The content of a value. Most questions about a value have one answer for each.
enum class Content : std::uint8_t { nothing, number, text, sequence, pairs, range, object };

struct KindFacts {
  std::string_view type_name;  // Python's name of the type: "str", "list", "NoneType"
  Content content = Content::object;
  bool iterable = false;
};
/// The facts about a kind.
const KindFacts& facts_of(Kind kind);

struct Pair;
struct RangeBody;
struct GeneratorBody;
struct MethodBody;
struct MacroBody;
struct NamespaceBody;
struct LoopBody;
struct CyclerBody;
struct JoinerBody;

class Value {
 public:
  Value() : integer_(0) {}
  static Value none() { return Value(Kind::none); }
  static Value missing() { return Value(Kind::missing); }
  /// `hint`, the text of the error message, must outlive the rendering.
  static Value undefined(std::string_view hint) { return Value(Kind::undefined, hint.data(), hint.size()); }
  static Value of(bool truth) {
    Value value(Kind::boolean);
    value.integer_ = truth ? 1 : 0;
    return value;
  }
  static Value of(std::int64_t number) {
    Value value(Kind::integer);
    value.integer_ = number;
    return value;
  }
  static Value of(double number) {
    Value value(Kind::number);
    value.number_ = number;
    return value;
  }
  static Value of(std::string_view text) { return Value(Kind::text, text.data(), text.size()); }
  static Value list(const Value* items, std::size_t count) { return Value(Kind::list, items, count); }
  static Value tuple(const Value* items, std::size_t count) { return Value(Kind::tuple, items, count); }
  static Value dict(const Pair* pairs, std::size_t count) { return Value(Kind::dict, pairs, count); }
  static Value view(Kind kind, const Value& dict) { return Value(kind, dict.pointer_, dict.size_); }
  static Value function(int id) {
    Value value(Kind::function);
    value.integer_ = id;
    return value;
  }
  template <class Body>
  static Value object(Kind kind, Body* body) {
    return Value(kind, body, 0);
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  Content content() const { return facts_of(kind_).content; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_numeric() const { return is_integral() || kind_ == Kind::number; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }

  std::int64_t integer() const { return integer_; }  // also of a boolean
  bool boolean() const { return integer_ != 0; }
  double number() const { return kind_ == Kind::number ? number_ : static_cast<double>(integer_); }
  std::string_view text() const { return {static_cast<const char*>(pointer_), size_}; }  // also the hint of undefined
  std::span<const Value> sequence() const { return {static_cast<const Value*>(pointer_), size_}; }
  std::span<const Pair> pairs() const;  // of a dict or a view of it
  int function_id() const { return static_cast<int>(integer_); }
  template <class Body>
  Body& body() const {
    return *const_cast<Body*>(static_cast<const Body*>(pointer_));
  }
  const void* pointer() const { return pointer_; }

  /// Text that the filter `safe` returned. Operations on it would escape other text in Jinja, so they are refused.
  bool is_safe() const { return safe_; }
  Value marked_safe() const {
    Value value = *this;
    value.safe_ = true;
    return value;
  }

 private:
  explicit Value(Kind kind) : integer_(0), kind_(kind) {}
  Value(Kind kind, const void* pointer, std::size_t size);

  union {
    std::int64_t integer_;
    double number_;
    const void* pointer_;
  };
  std::uint32_t size_ = 0;
  Kind kind_ = Kind::missing;
  bool safe_ = false;
};

struct Pair {
  Value key;
  Value value;
};

inline std::span<const Pair> Value::pairs() const { return {static_cast<const Pair*>(pointer_), size_}; }

struct RangeBody {
  std::int64_t start = 0;
  std::int64_t stop = 0;  // as requested
  std::int64_t step = 1;
  std::int64_t length = 0;
  Value at(std::int64_t index) const { return Value::of(start + index * step); }
};

/// A generator: makes values one at a time. Implementations derive from it and live in the memory of the rendering.
struct GeneratorBody {
  /// Sets the next item; false at the end.
  bool (*next)(GeneratorBody& self, Value& item) = nullptr;
};

struct MethodBody {
  Value self;
  std::string_view name;
};

struct NamespaceBody {
  Pair* pairs = nullptr;
  std::size_t count = 0;
  std::size_t room = 0;
};

struct CyclerBody {
  std::span<const Value> items;
  std::size_t position = 0;
};

struct JoinerBody {
  Value separator;
  bool used = false;
};

inline std::string_view type_name(const Value& value) { return facts_of(value.kind()).type_name; }

bool is_true(const Value& value);

/// Python's ==. Throws TemplateFault for values that are nested too deeply.
bool equal(const Value& a, const Value& b, TemplateMemory& memory);
/// Python's <. Throws TemplateFault for types without an order.
bool less(const Value& a, const Value& b, TemplateMemory& memory, std::string_view operation = "<");
/// Python's <=. For NaN it differs from the negation of >.
bool less_or_equal(const Value& a, const Value& b, TemplateMemory& memory, std::string_view operation = "<=");

/// Throws TemplateFault if the value cannot be a key of a dict.
void refuse_unhashable(const Value& key);
/// The value of a key; null if there is none.
const Value* find(std::span<const Pair> pairs, const Value& key, TemplateMemory& memory);
const Value* find(std::span<const Pair> pairs, std::string_view key, TemplateMemory& memory);

/// A dict of pairs. If keys are equal, the last value counts, in the place of the first pair.
Value dict_of(std::span<const Pair> pairs, TemplateMemory& memory);

/// Converts JSON. Texts refer to it, so it must outlive the value. Throws TemplateFault.
Value value_of(const Json& json, TemplateMemory& memory);

/// Throws TemplateFault with the hint of an undefined value.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace lockstep::jinja
