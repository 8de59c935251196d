#include "comm/reduction.hpp"

#include "base/error.hpp"
#include "quant/bfloat16.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace lockstep {

namespace {

constexpr std::size_t block = 64;   // elements reduced at once: a constant trip count, so that the inner loops become vector instructions

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

template <class Element>
void reduce_elements(const std::byte* operands, int parts, std::span<std::byte> into, Reduce reduce) {
  using Stored = typename Element::Stored;
  using Sum = typename Element::Sum;
  const std::size_t count = into.size() / sizeof(Stored);
  std::array<Stored, block> stored;
  std::array<Sum, block> sums;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t bytes = std::min(block, count - begin) * sizeof(Stored);
    stored.fill(Stored{});
    std::memcpy(stored.data(), operands + begin * sizeof(Stored), bytes);
    for (std::size_t i = 0; i < block; ++i) sums[i] = Element::load(stored[i]);
    for (int part = 1; part < parts; ++part) {
      std::memcpy(stored.data(), operands + static_cast<std::size_t>(part) * into.size() + begin * sizeof(Stored), bytes);
      if (reduce == Reduce::sum) {
        for (std::size_t i = 0; i < block; ++i) sums[i] += Element::load(stored[i]);
      } else {
        for (std::size_t i = 0; i < block; ++i) sums[i] = combine<Sum>(sums[i], Element::load(stored[i]), reduce);
      }
    }
    for (std::size_t i = 0; i < block; ++i) stored[i] = Element::store(sums[i]);
    std::memcpy(into.data() + begin * sizeof(Stored), stored.data(), bytes);
  }
}

}  // namespace

void reduce_in_order(std::span<const std::byte> operands, int parts, std::span<std::byte> into, DType dtype, Reduce reduce) {
  switch (dtype) {
    case DType::f64: return reduce_elements<Plain<double>>(operands.data(), parts, into, reduce);
    case DType::f32: return reduce_elements<Plain<float>>(operands.data(), parts, into, reduce);
    case DType::bf16: return reduce_elements<Bf16>(operands.data(), parts, into, reduce);
    case DType::i64: return reduce_elements<Plain<std::int64_t>>(operands.data(), parts, into, reduce);
    case DType::u64: return reduce_elements<Plain<std::uint64_t>>(operands.data(), parts, into, reduce);
    case DType::i32: return reduce_elements<Plain<std::int32_t>>(operands.data(), parts, into, reduce);
    default: fail(ExitCode::bug, "no reduction of {} elements", name_of(dtype));
  }
}

}  // namespace lockstep
