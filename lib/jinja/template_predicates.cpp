#include "jinja/template_arithmetic.hpp"
#include "jinja/template_builtins.hpp"
#include "jinja/template_print.hpp"
#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::jinja {

namespace {

enum class TestName : std::uint8_t {
  defined,
  undefined,
  none,
  boolean,
  is_false,
  is_true,
  integer,
  floating,
  number,
  text,
  mapping,
  sequence,
  iterable,
  callable,
  same_as,
  in,
  odd,
  even,
  divisible_by,
  lower,
  upper,
  filter,
  test,
  equal,
  not_equal,
  greater,
  greater_or_equal,
  less,
  less_or_equal
};

struct NamedTest {
  std::string_view name;
  TestName test;
  std::size_t arguments = 0;
};

constexpr std::array tests{NamedTest{"defined", TestName::defined},
                           NamedTest{"undefined", TestName::undefined},
                           NamedTest{"none", TestName::none},
                           NamedTest{"boolean", TestName::boolean},
                           NamedTest{"false", TestName::is_false},
                           NamedTest{"true", TestName::is_true},
                           NamedTest{"integer", TestName::integer},
                           NamedTest{"float", TestName::floating},
                           NamedTest{"number", TestName::number},
                           NamedTest{"string", TestName::text},
                           NamedTest{"mapping", TestName::mapping},
                           NamedTest{"sequence", TestName::sequence},
                           NamedTest{"iterable", TestName::iterable},
                           NamedTest{"callable", TestName::callable},
                           NamedTest{"sameas", TestName::same_as, 1},
                           NamedTest{"in", TestName::in, 1},
                           NamedTest{"odd", TestName::odd},
                           NamedTest{"even", TestName::even},
                           NamedTest{"divisibleby", TestName::divisible_by, 1},
                           NamedTest{"lower", TestName::lower},
                           NamedTest{"upper", TestName::upper},
                           NamedTest{"filter", TestName::filter},
                           NamedTest{"test", TestName::test},
                           NamedTest{"equalto", TestName::equal, 1},
                           NamedTest{"eq", TestName::equal, 1},
                           NamedTest{"==", TestName::equal, 1},
                           NamedTest{"ne", TestName::not_equal, 1},
                           NamedTest{"!=", TestName::not_equal, 1},
                           NamedTest{"gt", TestName::greater, 1},
                           NamedTest{"greaterthan", TestName::greater, 1},
                           NamedTest{">", TestName::greater, 1},
                           NamedTest{"ge", TestName::greater_or_equal, 1},
                           NamedTest{">=", TestName::greater_or_equal, 1},
                           NamedTest{"lt", TestName::less, 1},
                           NamedTest{"lessthan", TestName::less, 1},
                           NamedTest{"<", TestName::less, 1},
                           NamedTest{"le", TestName::less_or_equal, 1},
                           NamedTest{"<=", TestName::less_or_equal, 1}};

bool is_remainder(const Value& value, const Value& divisor, std::int64_t rest, TemplateMemory& memory) {
  return equal(binary(BinaryOperator::modulo, value, divisor, memory), Value::of(rest), memory);
}

bool same(const Value& a, const Value& b) {
  const bool single = a.is(Kind::none) || a.is(Kind::boolean) || b.is(Kind::none) || b.is(Kind::boolean);
  if (!single) throw TemplateFault("the test sameas of values other than none, true and false is not supported");
  return a.kind() == b.kind() && (a.is(Kind::none) || a.boolean() == b.boolean());
}

bool is_callable(const Value& value) {
  return value.is(Kind::function) || value.is(Kind::method) || value.is(Kind::macro) || value.is(Kind::loop) ||
         value.is(Kind::joiner) || value.is(Kind::undefined);
}

}  // namespace

bool is_unsupported_builtin(std::string_view name) {
  constexpr std::array<std::string_view, 11> names{"filesizeformat", "forceescape", "pprint",    "random",
                                                   "slice",          "striptags",   "urlencode", "urlize",
                                                   "wordwrap",       "xmlattr",     "escaped"};
  return std::ranges::find(names, name) != names.end();
}

int test_index(std::string_view name) {
  const auto found = std::ranges::find(tests, name, &NamedTest::name);
  return found == tests.end() ? -1 : static_cast<int>(found - tests.begin());
}

bool apply_test(int index, const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const NamedTest& named = tests[static_cast<std::size_t>(index)];
  memory.step();
  arguments.require_positional(named.name, named.arguments, named.arguments);
  const auto compare = [&](Comparison comparison) {
    return compared(comparison, value, arguments.positional[0], memory).boolean();
  };
  switch (named.test) {
    case TestName::defined: return !value.is(Kind::undefined);
    case TestName::undefined: return value.is(Kind::undefined);
    case TestName::none: return value.is(Kind::none);
    case TestName::boolean: return value.is(Kind::boolean);
    case TestName::is_false: return value.is(Kind::boolean) && !value.boolean();
    case TestName::is_true: return value.is(Kind::boolean) && value.boolean();
    case TestName::integer: return value.is(Kind::integer);
    case TestName::floating: return value.is(Kind::number);
    case TestName::number: return value.is_numeric();
    case TestName::text: return value.is(Kind::text);
    case TestName::mapping: return value.is(Kind::dict);
    case TestName::sequence:
      return value.is(Kind::text) || value.is_sequence() || value.is(Kind::dict) || value.is(Kind::range) ||
             value.is(Kind::undefined);
    case TestName::iterable: return is_iterable(value) || value.is(Kind::loop);
    case TestName::callable: return is_callable(value);
    case TestName::same_as: return same(value, arguments.positional[0]);
    case TestName::in: return contains(arguments.positional[0], value, memory);
    case TestName::odd: return is_remainder(value, Value::of(std::int64_t{2}), 1, memory);
    case TestName::even: return is_remainder(value, Value::of(std::int64_t{2}), 0, memory);
    case TestName::divisible_by: return is_remainder(value, arguments.positional[0], 0, memory);
    case TestName::lower: return is_lower(text_of(value, memory));
    case TestName::upper: return is_upper(text_of(value, memory));
    case TestName::filter:
    case TestName::test: {
      if (!value.is(Kind::text)) return false;
      if (is_unsupported_builtin(value.text()))
        throw TemplateFault(
            fmt::format("whether '{}' is a {} cannot be tested: it is not supported", value.text(), named.name));
      return (named.test == TestName::filter ? filter_index(value.text()) : test_index(value.text())) >= 0;
    }
    case TestName::equal: return compare(Comparison::equal);
    case TestName::not_equal: return compare(Comparison::not_equal);
    case TestName::greater: return compare(Comparison::greater);
    case TestName::greater_or_equal: return compare(Comparison::greater_or_equal);
    case TestName::less: return compare(Comparison::less);
    case TestName::less_or_equal: return compare(Comparison::less_or_equal);
  }
  return false;
}

}  // namespace lockstep::jinja
