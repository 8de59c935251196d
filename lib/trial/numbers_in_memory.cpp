#include "trial/numbers_in_memory.hpp"

#include "base/error.hpp"

#include <cmath>

namespace lockstep::trial {

namespace {

template <class T>
double rounded_as(double value) {
  T stored;
  store(stored, static_cast<Math<T>>(value));
  return static_cast<double>(load(stored));
}

template <class I>
ElementType integer_type() {
  return {.bytes = sizeof(I),
          .number = Number::index,
          .read = [](const std::byte* memory, int) { return static_cast<double>(element_at<I>(memory)); },
          .write =
              [](double value, std::byte* memory) {
                const auto element = static_cast<I>(value);
                std::memcpy(memory, &element, sizeof element);
              }};
}

}  // namespace

std::string_view name_of(Number number) {
  switch (number) {
    case Number::fp32: return "fp32";
    case Number::fp64: return "fp64";
    case Number::bf16: return "bf16";
    case Number::fp16: return "fp16";
    case Number::index: return "index";
  }
  fail(ExitCode::bug, "unknown Number {}", static_cast<int>(number));
}

double roundoff(Number number) {
  switch (number) {
    case Number::fp32: return std::ldexp(1.0, -24);
    case Number::fp64: return std::ldexp(1.0, -53);
    case Number::bf16: return std::ldexp(1.0, -8);
    case Number::fp16: return std::ldexp(1.0, -11);
    case Number::index: return 0;
  }
  fail(ExitCode::bug, "unknown Number {}", static_cast<int>(number));
}

double rounded_to(double value, Number number) {
  switch (number) {
    case Number::fp32: return rounded_as<float>(value);
    case Number::bf16: return rounded_as<Bf16>(value);
    case Number::fp16: return rounded_as<Fp16>(value);
    case Number::fp64:
    case Number::index: return value;
  }
  fail(ExitCode::bug, "unknown Number {}", static_cast<int>(number));
}

template <>
const ElementType& element_type<std::int32_t>() {
  static const ElementType type = integer_type<std::int32_t>();
  return type;
}

template <>
const ElementType& element_type<std::int64_t>() {
  static const ElementType type = integer_type<std::int64_t>();
  return type;
}

template <>
const ElementType& element_type<Statistics>() {
  static const ElementType type{.bytes = sizeof(Statistics),
                                .number = Number::fp64,
                                .parts = 8,
                                .read =
                                    [](const std::byte* memory, int part) {
                                      const auto all = element_at<Statistics>(memory);
                                      const double values[]{static_cast<double>(all.finite),
                                                            static_cast<double>(all.nan),
                                                            static_cast<double>(all.infinite),
                                                            static_cast<double>(all.zeros),
                                                            all.min,
                                                            all.max,
                                                            all.mean,
                                                            all.squares};
                                      return values[part];
                                    },
                                .write =
                                    [](double, std::byte* memory) {
                                      const Statistics empty;
                                      std::memcpy(memory, &empty, sizeof empty);
                                    }};
  return type;
}

}  // namespace lockstep::trial
