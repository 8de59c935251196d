#include "jinja/template_arithmetic.hpp"

#include "jinja/template_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::jinja {

namespace {

std::string_view sign_of(BinaryOperator kind) {
  switch (kind) {
    case BinaryOperator::add: return "+";
    case BinaryOperator::subtract: return "-";
    case BinaryOperator::multiply: return "*";
    case BinaryOperator::divide: return "/";
    case BinaryOperator::floor_divide: return "//";
    case BinaryOperator::modulo: return "%";
    case BinaryOperator::power: return "**";
  }
  return "?";
}

[[noreturn]] void fail_types(BinaryOperator kind, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  const auto is_view = [](const Value& value) { return value.is(Kind::keys) || value.is(Kind::items); };
  if (is_view(a) || is_view(b)) throw TemplateFault("set operations on dict views are not supported");
  throw TemplateFault(fmt::format("{} {} {} is not possible", type_name(a), sign_of(kind), type_name(b)));
}

/// `result` is a reference, as it is written while the other argument is worked out.
Value fitting(bool overflows, const std::int64_t& result) {
  if (overflows) throw TemplateFault("an integer beyond 64 bits is not supported");
  return Value::of(result);
}

[[noreturn]] void fail_zero() { throw TemplateFault("division by zero"); }

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail_zero();
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::of(exponent == 0 ? std::int64_t{1} : base);
  if (base == -1) return Value::of(std::int64_t{exponent % 2 == 0 ? 1 : -1});
  std::int64_t result = 1;
  bool overflows = exponent > 63;
  for (std::int64_t i = 0; i < exponent && !overflows; ++i) overflows = __builtin_mul_overflow(result, base, &result);
  return fitting(overflows, result);
}

Value of_integers(BinaryOperator kind, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (kind) {
    case BinaryOperator::add: return fitting(__builtin_add_overflow(a, b, &result), result);
    case BinaryOperator::subtract: return fitting(__builtin_sub_overflow(a, b, &result), result);
    case BinaryOperator::multiply: return fitting(__builtin_mul_overflow(a, b, &result), result);
    case BinaryOperator::divide:
      if (b == 0) fail_zero();
      return Value::of(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOperator::floor_divide:
      if (b == 0) fail_zero();
      if (b == -1) return fitting(__builtin_sub_overflow(std::int64_t{0}, a, &result), result);
      return Value::of(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    case BinaryOperator::modulo:
      if (b == 0) fail_zero();
      if (b == -1) return Value::of(std::int64_t{0});
      return Value::of(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
    case BinaryOperator::power: return integer_power(a, b);
  }
  return {};
}

double modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  if ((rest < 0) != (b < 0)) rest += b;
  return rest;
}

/// As CPython divides: exact where the remainder is taken off first.
double floor_divided(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value of_numbers(BinaryOperator kind, double a, double b) {
  switch (kind) {
    case BinaryOperator::add: return Value::of(a + b);
    case BinaryOperator::subtract: return Value::of(a - b);
    case BinaryOperator::multiply: return Value::of(a * b);
    case BinaryOperator::divide:
      if (b == 0) fail_zero();
      return Value::of(a / b);
    case BinaryOperator::floor_divide:
      if (b == 0) fail_zero();
      return Value::of(floor_divided(a, b));
    case BinaryOperator::modulo:
      if (b == 0) fail_zero();
      return Value::of(modulo(a, b));
    case BinaryOperator::power: {
      if (a == 0 && b < 0) fail_zero();
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        throw TemplateFault("a complex number is not supported");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
        throw TemplateFault("the power is beyond the range of a float");
      return Value::of(result);
    }
  }
  return {};
}

Value repeated(const Value& value, std::int64_t times, TemplateMemory& memory) {
  times = std::max<std::int64_t>(times, 0);
  const std::size_t size = value.is(Kind::text) ? value.text().size() : value.sequence().size();
  const auto count = static_cast<std::size_t>(times);
  if (size > 0 && count > (std::size_t{1} << 32) / size)
    throw TemplateFault("a repeated value is longer than 2^32 bytes or items");
  memory.step(count * size / 16);
  if (value.is(Kind::text)) {
    if (count * size == 0) return Value::of(std::string_view());
    char* const place = memory.bytes(count * size);
    for (std::size_t i = 0; i < count; ++i) std::ranges::copy(value.text(), place + i * size);
    return Value::of(std::string_view(place, count * size));
  }
  Value* const items = memory.items<Value>(count * size);
  for (std::size_t i = 0; i < count; ++i) std::ranges::copy(value.sequence(), items + i * size);
  return value.is(Kind::list) ? Value::list(items, count * size) : Value::tuple(items, count * size);
}

Value joined(const Value& a, const Value& b, TemplateMemory& memory) {
  const auto first = a.sequence();
  const auto second = b.sequence();
  memory.step((first.size() + second.size()) / 16);
  Value* const items = memory.items<Value>(first.size() + second.size());
  std::ranges::copy(first, items);
  std::ranges::copy(second, items + first.size());
  const std::size_t size = first.size() + second.size();
  return a.is(Kind::list) ? Value::list(items, size) : Value::tuple(items, size);
}

}  // namespace

Value binary(BinaryOperator kind, const Value& a, const Value& b, TemplateMemory& memory) {
  if (a.is_safe() || b.is_safe())
    throw TemplateFault("an operation on text marked safe is not supported: it would escape text");
  if (a.is_integral() && b.is_integral()) return of_integers(kind, a.integer(), b.integer());
  if (a.is_numeric() && b.is_numeric()) return of_numbers(kind, a.number(), b.number());
  if (kind == BinaryOperator::add) {
    if (a.is(Kind::text) && b.is(Kind::text)) {
      memory.step((a.text().size() + b.text().size()) / 64);
      return Value::of(memory.joined(a.text(), b.text()));
    }
    if (a.is_sequence() && a.kind() == b.kind()) return joined(a, b, memory);
  }
  if (kind == BinaryOperator::multiply) {
    if ((a.is(Kind::text) || a.is_sequence()) && b.is_integral()) return repeated(a, b.integer(), memory);
    if ((b.is(Kind::text) || b.is_sequence()) && a.is_integral()) return repeated(b, a.integer(), memory);
  }
  if (kind == BinaryOperator::modulo && a.is(Kind::text)) return formatted(a.text(), b, memory);
  fail_types(kind, a, b);
}

Value negative(const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (value.is(Kind::number)) return Value::of(-value.number());
  if (!value.is_integral()) throw TemplateFault(fmt::format("unary - of a {} is not possible", type_name(value)));
  std::int64_t result = 0;
  return fitting(__builtin_sub_overflow(std::int64_t{0}, value.integer(), &result), result);
}

Value positive(const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (value.is(Kind::number)) return value;
  if (!value.is_integral()) throw TemplateFault(fmt::format("unary + of a {} is not possible", type_name(value)));
  return Value::of(value.integer());
}

Value compared(Comparison comparison, const Value& a, const Value& b, TemplateMemory& memory) {
  switch (comparison) {
    case Comparison::equal: return Value::of(equal(a, b, memory));
    case Comparison::not_equal: return Value::of(!equal(a, b, memory));
    case Comparison::less: return Value::of(less(a, b, memory));
    case Comparison::less_or_equal: return Value::of(less_or_equal(a, b, memory));
    case Comparison::greater: return Value::of(less(b, a, memory, ">"));
    case Comparison::greater_or_equal: return Value::of(less_or_equal(b, a, memory, ">="));
    case Comparison::in: return Value::of(contains(b, a, memory));
    case Comparison::not_in: return Value::of(!contains(b, a, memory));
  }
  return {};
}

}  // namespace lockstep::jinja
