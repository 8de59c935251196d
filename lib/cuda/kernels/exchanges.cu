#include "cuda/kernels/exchanges.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"

#include <type_traits>

namespace lockstep::cuda {

namespace {

constexpr int copy_threads = 256;
constexpr std::int64_t bytes_of_block = std::int64_t{copy_threads} * 16 * 4;

/// Copies that are handed over with a launch; their blocks lie one behind the other.
struct Copies {
  static constexpr int most = 96;  // arguments have 4 KiB
  int count = 0;
  MemoryCopy pieces[most];
  unsigned first_block[most];
};

/// Copies the bytes of one piece from `begin` on, as words of the size in which both addresses are aligned.
template <class Word>
__device__ void copy_part(const MemoryCopy& piece, std::int64_t begin) {
  const std::int64_t left = piece.bytes - begin, bytes = left < bytes_of_block ? left : bytes_of_block;
  const std::int64_t words = bytes / static_cast<std::int64_t>(sizeof(Word));
  const Word* const from = reinterpret_cast<const Word*>(piece.from + begin);
  Word* const to = reinterpret_cast<Word*>(piece.to + begin);
  for (std::int64_t i = threadIdx.x; i < words; i += copy_threads) to[i] = from[i];
  const std::int64_t rest = words * static_cast<std::int64_t>(sizeof(Word)) + threadIdx.x;
  if (rest < bytes) piece.to[begin + rest] = piece.from[begin + rest];
}

__global__ void __launch_bounds__(copy_threads, 1) copy_kernel(Copies copies) {
  int low = 0, high = copies.count;  // the piece of this block is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (copies.first_block[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle;
  }
  const MemoryCopy piece = copies.pieces[low];
  const std::int64_t begin = std::int64_t{blockIdx.x - copies.first_block[low]} * bytes_of_block;
  const auto addresses = reinterpret_cast<std::uintptr_t>(piece.from) | reinterpret_cast<std::uintptr_t>(piece.to);
  if (addresses % 16 == 0) return copy_part<Pack<std::uint32_t, 4>>(piece, begin);
  if (addresses % 4 == 0) return copy_part<std::uint32_t>(piece, begin);
  if (addresses % 2 == 0) return copy_part<std::uint16_t>(piece, begin);
  copy_part<std::uint8_t>(piece, begin);
}

/// The sum is rounded to the type of its operands before it enters its place, as on the host.
template <class From, class To>
struct SumOperands {
  using Wide = std::common_type_t<Math<From>, Math<To>>;
  static constexpr int lanes = lanes_of_access<From>;
  const From* operands;
  std::int64_t distance;  // elements
  int count;
  bool packed;
  To* place;
  bool place_packed;
  bool adds;

  __device__ void operator()(std::int64_t, std::int64_t column, int filled) const {
    Math<From> sums[lanes];
    load_values(operands + column, filled, packed, sums);
    for (int operand = 1; operand < count; ++operand) {
      Math<From> values[lanes];
      load_values(operands + operand * distance + column, filled, packed, values);
#pragma unroll
      for (int i = 0; i < lanes; ++i) sums[i] += values[i];
    }
    Math<To> old[lanes] = {};
    if (adds) load_values(static_cast<const To*>(place) + column, filled, place_packed, old);
    Math<To> results[lanes];
#pragma unroll
    for (int i = 0; i < lanes; ++i) {
      From rounded;
      narrow(sums[i], rounded);
      Wide value = widened(rounded);
      if (adds) value = static_cast<Wide>(old[i]) + value;
      results[i] = static_cast<Math<To>>(value);
    }
    store_values(results, filled, place_packed, place + column);
  }
};

template <class From, class To>
void sum_into(const OperandSum& sum) {
  using Body = SumOperands<From, To>;
  const auto* const operands = reinterpret_cast<const From*>(sum.operands);
  auto* const place = reinterpret_cast<To*>(sum.place);
  const std::int64_t distance = sum.distance / static_cast<std::int64_t>(sizeof(From));
  over_rows_in(exchange_stream(), 1, sum.elements,
               Body{operands, distance, sum.count, packable(distance, Body::lanes, {operands}), place,
                    packable(0, Body::lanes, {place}), sum.adds});
}

template <class From>
void sum_from(const OperandSum& sum) {
  switch (sum.place_dtype) {
    case DType::f64: return sum_into<From, double>(sum);
    case DType::f32: return sum_into<From, float>(sum);
    case DType::bf16: return sum_into<From, Bf16>(sum);
    case DType::f16: return sum_into<From, Fp16>(sum);
    default: check_launch(invalid_launch);
  }
}

}  // namespace

void copy_pieces(const MemoryCopy* copies, int count) {
  for (int next = 0; next < count;) {
    Copies some;
    std::int64_t blocks = 0;
    for (; next < count && some.count < Copies::most; ++next) {
      if (copies[next].bytes == 0) continue;
      some.pieces[some.count] = copies[next];
      some.first_block[some.count] = static_cast<unsigned>(blocks);
      blocks += (copies[next].bytes + bytes_of_block - 1) / bytes_of_block;
      ++some.count;
    }
    launch_in(exchange_stream(), copy_kernel, blocks, copy_threads, 0, some);
  }
}

void sum_operands(const OperandSum& sum) {
  switch (sum.dtype) {
    case DType::f64: return sum_from<double>(sum);
    case DType::f32: return sum_from<float>(sum);
    case DType::bf16: return sum_from<Bf16>(sum);
    case DType::f16: return sum_from<Fp16>(sum);
    default: check_launch(invalid_launch);
  }
}

}  // namespace lockstep::cuda
