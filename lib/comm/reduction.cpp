#include "comm/reduction.hpp"

#include "base/error.hpp"
#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace lockstep {

namespace {

constexpr std::size_t block = 64;  // elements whose sums are kept at once

template <class T>
T combine(T a, T b, Reduce reduce) {
  if (reduce == Reduce::sum) return a + b;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return (reduce == Reduce::min) == (b < a) ? b : a;
}

/// One way to hold an element in memory and in the accumulator.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum load(Stored value) { return value; }
  static Stored store(Sum value) { return value; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum load(Stored value) { return from_bf16(value); }
  static Stored store(Sum value) { return to_bf16(value); }
};
struct Fp16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum load(Stored value) { return from_f16(value); }
  static Stored store(Sum value) { return to_f16(value); }
};

template <class Stored>
Stored read_at(const std::byte* at, std::size_t index) {
  Stored value;
  std::memcpy(&value, at + index * sizeof(Stored), sizeof(Stored));
  return value;
}

/// Reduces `count` elements from `begin` of each operand into `into`. Inlined with a constant count it becomes vector
/// instructions.
template <class Element>
inline void reduce_some(std::span<const std::byte* const> operands, std::size_t begin, std::byte* into,
                        std::size_t count, Reduce reduce) {
  using Stored = typename Element::Stored;
  const std::size_t offset = begin * sizeof(Stored);
  std::array<typename Element::Sum, block> sums;
  for (std::size_t i = 0; i < count; ++i) sums[i] = Element::load(read_at<Stored>(operands[0] + offset, i));
  for (std::size_t part = 1; part < operands.size(); ++part) {
    const std::byte* operand = operands[part] + offset;
    if (reduce == Reduce::sum) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += Element::load(read_at<Stored>(operand, i));
    } else {
      for (std::size_t i = 0; i < count; ++i)
        sums[i] = combine(sums[i], Element::load(read_at<Stored>(operand, i)), reduce);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Stored value = Element::store(sums[i]);
    std::memcpy(into + offset + i * sizeof(Stored), &value, sizeof(Stored));
  }
}

template <class Element>
void reduce_elements(std::span<const std::byte* const> operands, std::span<std::byte> into, Reduce reduce) {
  const std::size_t count = into.size() / sizeof(typename Element::Stored);
  std::size_t begin = 0;
  for (; begin + block <= count; begin += block) reduce_some<Element>(operands, begin, into.data(), block, reduce);
  if (begin < count) reduce_some<Element>(operands, begin, into.data(), count - begin, reduce);
}

template <class From, class To>
void put_elements(std::span<const std::byte> sum, std::span<std::byte> place, SumInto::Mode how) {
  using Wide = std::common_type_t<typename From::Sum, typename To::Sum>;
  for (std::size_t i = 0; i < sum.size() / sizeof(typename From::Stored); ++i) {
    Wide value = From::load(read_at<typename From::Stored>(sum.data(), i));
    if (how == SumInto::Mode::add) value = To::load(read_at<typename To::Stored>(place.data(), i)) + value;
    const typename To::Stored stored = To::store(static_cast<typename To::Sum>(value));
    std::memcpy(place.data() + i * sizeof(stored), &stored, sizeof(stored));
  }
}

template <class From>
void put_into(std::span<const std::byte> sum, std::span<std::byte> place, DType dtype, SumInto::Mode how) {
  if (const auto type = weight_type(dtype)) {
    switch (*type) {
      case WeightType::f64: return put_elements<From, Plain<double>>(sum, place, how);
      case WeightType::f32: return put_elements<From, Plain<float>>(sum, place, how);
      case WeightType::bf16: return put_elements<From, Bf16>(sum, place, how);
      case WeightType::f16: return put_elements<From, Fp16>(sum, place, how);
    }
  }
  fail(ExitCode::bug, "cannot sum into {} elements", name_of(dtype));
}

}  // namespace

void write_sum(std::span<const std::byte> sum, DType dtype, std::span<std::byte> place, const SumInto& into) {
  const DType there = into.dtype.value_or(dtype);
  if (there == dtype && into.how == SumInto::Mode::replace) {
    if (place.data() != sum.data()) std::memcpy(place.data(), sum.data(), sum.size());
    return;
  }
  if (there == dtype) {
    const std::array<const std::byte*, 2> both{place.data(), sum.data()};
    return reduce_in_order(both, place, dtype, Reduce::sum);
  }
  if (const auto type = weight_type(dtype)) {
    switch (*type) {
      case WeightType::f64: return put_into<Plain<double>>(sum, place, there, into.how);
      case WeightType::f32: return put_into<Plain<float>>(sum, place, there, into.how);
      case WeightType::bf16: return put_into<Bf16>(sum, place, there, into.how);
      case WeightType::f16: return put_into<Fp16>(sum, place, there, into.how);
    }
  }
  fail(ExitCode::bug, "cannot sum {} elements into another type", name_of(dtype));
}

void reduce_in_order(std::span<const std::byte* const> operands, std::span<std::byte> into, DType dtype,
                     Reduce reduce) {
  if (const auto type = weight_type(dtype)) {
    switch (*type) {
      case WeightType::f64: return reduce_elements<Plain<double>>(operands, into, reduce);
      case WeightType::f32: return reduce_elements<Plain<float>>(operands, into, reduce);
      case WeightType::bf16: return reduce_elements<Bf16>(operands, into, reduce);
      case WeightType::f16: return reduce_elements<Fp16>(operands, into, reduce);
    }
  }
  if (dtype == DType::i64) return reduce_elements<Plain<std::int64_t>>(operands, into, reduce);
  if (dtype == DType::u64) return reduce_elements<Plain<std::uint64_t>>(operands, into, reduce);
  if (dtype == DType::i32) return reduce_elements<Plain<std::int32_t>>(operands, into, reduce);
  fail(ExitCode::bug, "cannot reduce {} elements", name_of(dtype));
}

}  // namespace lockstep
