// The types of elements in the arguments of kernels: their bytes, their values, and how exactly they hold a value.
#pragma once

#include "base/statistics.hpp"
#include "tensor/kernels/number.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lockstep::trial {

enum class Number : std::uint8_t { fp32, fp64, bf16, fp16, index };

/// The number type that the storage type T of a kernel table holds.
template <class T>
constexpr Number number_of = Number::index;
template <>
inline constexpr Number number_of<float> = Number::fp32;
template <>
inline constexpr Number number_of<double> = Number::fp64;
template <>
inline constexpr Number number_of<Bf16> = Number::bf16;
template <>
inline constexpr Number number_of<Fp16> = Number::fp16;
template <>
inline constexpr Number number_of<Statistics> = Number::fp64;

/// Returns its name: "bf16".
std::string_view name_of(Number number);
/// The type of computations on numbers of that type.
constexpr Number math_of(Number number) { return number == Number::fp64 ? Number::fp64 : Number::fp32; }

/// The largest relative error of rounding to the type: 2^-p for p significant bits; 0 for integers.
double roundoff(Number number);
/// The value rounded to the type; integers unchanged.
double rounded_to(double value, Number number);

/// An element type. A structure has several parts, each with values of its own.
struct ElementType {
  std::size_t bytes = 0;
  Number number = Number::index;
  int parts = 1;
  double (*read)(const std::byte* element, int part) = nullptr;
  void (*write)(double value, std::byte* element) = nullptr;  // a structure is written as an empty one
};

template <class E>
E element_at(const std::byte* memory) {
  E value;
  std::memcpy(&value, memory, sizeof value);
  return value;
}

/// Describes the element type E: a number type, an integer, or Statistics.
template <class E>
const ElementType& element_type() {
  static const ElementType type{
      .bytes = sizeof(E),
      .number = number_of<E>,
      .read = [](const std::byte* memory, int) { return static_cast<double>(load(element_at<E>(memory))); },
      .write =
          [](double value, std::byte* memory) {
            E element;
            store(element, static_cast<Math<E>>(value));
            std::memcpy(memory, &element, sizeof element);
          }};
  return type;
}
template <>
const ElementType& element_type<std::int32_t>();
template <>
const ElementType& element_type<std::int64_t>();
template <>
const ElementType& element_type<Statistics>();

}  // namespace lockstep::trial
