#include "store/fingerprint.hpp"

#include "base/hash.hpp"
#include "base/vector_clones.hpp"
#include "base/vector_intrinsics.hpp"
#include "layout/box_runs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace lockstep {

namespace {

constexpr std::size_t table_size = 1024;
constexpr std::uint64_t first_seed = 0x6c6f636b73746570;
constexpr std::uint64_t second_seed = 0x66696e6765727072;

constexpr std::uint64_t mix(std::uint64_t x) {  // the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// 32-bit weights: a 32-bit element times one of them is exact in 64 bits, which is one vector multiplication.
constexpr std::array<std::uint32_t, table_size> make_table(std::uint64_t seed) {
  std::array<std::uint32_t, table_size> table{};
  for (std::size_t j = 0; j < table_size; ++j) table[j] = static_cast<std::uint32_t>(mix(seed + j) >> 32) | 1;
  return table;
}
alignas(64) constexpr auto first_table = make_table(first_seed);
alignas(64) constexpr auto second_table = make_table(second_seed);

// The table holds the sums of the weights before each place: (bits + 1) · weight is summed as bits · weight, and the
// weights are added in one go.
constexpr std::array<std::uint64_t, table_size + 1> make_sums(const std::array<std::uint32_t, table_size>& table) {
  std::array<std::uint64_t, table_size + 1> sums{};
  for (std::size_t j = 0; j < table_size; ++j) sums[j + 1] = sums[j] + table[j];
  return sums;
}
constexpr auto first_sums = make_sums(first_table);
constexpr auto second_sums = make_sums(second_table);

std::uint64_t factor(std::uint64_t seed, std::uint64_t block) {
  return mix(seed + (std::uint64_t{1} << 32) + block) | 1;
}

using Sums = std::array<std::uint64_t, 2>;

// bits · weight summed over `count` units at `bytes`, whose weights begin at table place `begin`.
template <class Unit>
inline __attribute__((always_inline)) Sums add_up(const std::byte* bytes, std::size_t begin, std::size_t count) {
  Sums sums{};
  for (std::size_t j = 0; j < count; ++j) {
    Unit unit;
    std::memcpy(&unit, bytes + j * sizeof(Unit), sizeof(Unit));
    const std::uint32_t bits = unit;
    sums[0] += std::uint64_t{bits} * first_table[begin + j];
    sums[1] += std::uint64_t{bits} * second_table[begin + j];
  }
  return sums;
}

// The whole table with bounds that the compiler knows, so that it uses vectors.
template <class Unit>
LOCKSTEP_CLONES Sums add_up_table(const std::byte* bytes) {
  return add_up<Unit>(bytes, 0, table_size);
}

#ifdef LOCKSTEP_INTRINSICS
#define LOCKSTEP_WIDE __attribute__((target("avx512f")))

template <class Unit>
LOCKSTEP_WIDE inline __m512i load_units(const std::byte* bytes) {  // sixteen, each in 32 bits
  if constexpr (sizeof(Unit) == 1)
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  if constexpr (sizeof(Unit) == 2)
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
  if constexpr (sizeof(Unit) == 4) return _mm512_loadu_si512(bytes);
}

// The same as add_up. The multiplication takes the even units; compilers multiply 64 by 64 bits here, which takes twice
// the time of all this.
template <class Unit>
LOCKSTEP_WIDE Sums add_up_wide(const std::byte* bytes, std::size_t begin, std::size_t count) {
  constexpr std::size_t units = 16;
  constexpr std::size_t ahead_bytes =
      1 << 16;  // what follows is on its way while this is summed: callers pass over memory in such chunks
  __m512i first_even = _mm512_setzero_si512(), first_odd = first_even, second_even = first_even,
          second_odd = first_even;
  std::size_t j = 0;
  for (; j + units <= count; j += units) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes + j * sizeof(Unit)) + ahead_bytes, _MM_HINT_T1);
    const __m512i even = load_units<Unit>(bytes + j * sizeof(Unit)), odd = _mm512_srli_epi64(even, 32);
    const __m512i first = _mm512_loadu_si512(&first_table[begin + j]),
                  second = _mm512_loadu_si512(&second_table[begin + j]);
    first_even = _mm512_add_epi64(first_even, _mm512_mul_epu32(even, first));
    second_even = _mm512_add_epi64(second_even, _mm512_mul_epu32(even, second));
    first_odd = _mm512_add_epi64(first_odd, _mm512_mul_epu32(odd, _mm512_srli_epi64(first, 32)));
    second_odd = _mm512_add_epi64(second_odd, _mm512_mul_epu32(odd, _mm512_srli_epi64(second, 32)));
  }
  alignas(64) std::array<std::uint64_t, 8> lanes[2];
  _mm512_store_si512(lanes[0].data(), _mm512_add_epi64(first_even, first_odd));
  _mm512_store_si512(lanes[1].data(), _mm512_add_epi64(second_even, second_odd));
  Sums sums = add_up<Unit>(bytes + j * sizeof(Unit), begin + j, count - j);
  for (std::size_t k = 0; k < 2; ++k) sums[k] = std::accumulate(lanes[k].begin(), lanes[k].end(), sums[k]);
  return sums;
}
#endif

template <class Unit>
Sums products(const std::byte* bytes, std::size_t begin, std::size_t count) {
#ifdef LOCKSTEP_INTRINSICS
  static const bool wide = __builtin_cpu_supports("avx512f");
  if (wide) return add_up_wide<Unit>(bytes, begin, count);
#endif
  return count == table_size ? add_up_table<Unit>(bytes) : add_up<Unit>(bytes, begin, count);
}

// `count` units of type Unit at `bytes`; the first is number `index` of the logical tensor.
template <class Unit>
void add_run(Fingerprint& sum, const std::byte* bytes, std::uint64_t index, std::uint64_t count) {
  while (count > 0) {
    const std::uint64_t begin = index % table_size;
    const std::uint64_t units = std::min(count, table_size - begin);
    const Sums part = products<Unit>(bytes, begin, units);
    sum.first += (part[0] + first_sums[begin + units] - first_sums[begin]) * factor(first_seed, index / table_size);
    sum.second += (part[1] + second_sums[begin + units] - second_sums[begin]) * factor(second_seed, index / table_size);
    bytes += units * sizeof(Unit);
    index += units;
    count -= units;
  }
}

void add_elements(Fingerprint& sum, int element_bytes, const std::byte* bytes, std::uint64_t index,
                  std::uint64_t count) {
  switch (element_bytes) {
    case 1: return add_run<std::uint8_t>(sum, bytes, index, count);
    case 2: return add_run<std::uint16_t>(sum, bytes, index, count);
    case 4: return add_run<std::uint32_t>(sum, bytes, index, count);
    // Two sign bits that flip would cancel in a 64-bit sum (2^63 times an even number), so 8 bytes are two units.
    default: return add_run<std::uint32_t>(sum, bytes, 2 * index, 2 * count);
  }
}

}  // namespace

Fingerprint fingerprint(const Shape& global, DType dtype, const Box& box, std::span<const std::byte> bytes,
                        std::int64_t first) {
  Fingerprint sum;
  const int size = size_of(dtype);
  const std::int64_t last = first + static_cast<std::int64_t>(bytes.size()) / size;
  for_each_run(box, whole(global), box, [&](const BoxRun& run) {
    const std::int64_t begin = std::max(run.in_b, first);
    const std::int64_t end = std::min(run.in_b + run.length, last);
    if (begin >= end) return;
    add_elements(sum, size, bytes.data() + (begin - first) * size,
                 static_cast<std::uint64_t>(run.in_a + begin - run.in_b), static_cast<std::uint64_t>(end - begin));
  });
  return sum;
}

std::string to_hex(const Fingerprint& value) { return to_hex(Hash128{value.first, value.second}); }

Fingerprint fingerprint_from_hex(std::string_view digits) {
  const Hash128 halves = hash_from_hex(digits);
  return {halves.high, halves.low};
}

}  // namespace lockstep
