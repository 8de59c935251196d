#include "store/fingerprint.hpp"

#include "base/hash.hpp"
#include "base/vector_clones.hpp"
#include "store/box_runs.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {

namespace {

constexpr std::size_t table_size = 1024;
constexpr std::uint64_t first_seed = 0x6c6f636b73746570;
constexpr std::uint64_t second_seed = 0x66696e6765727072;

constexpr std::uint64_t mix(std::uint64_t x) {   // the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// 32-bit weights: a 32-bit element times one of them is exact in 64 bits, which compilers turn into vector multiplications.
constexpr std::array<std::uint32_t, table_size> make_table(std::uint64_t seed) {
  std::array<std::uint32_t, table_size> table{};
  for (std::size_t j = 0; j < table_size; ++j) table[j] = static_cast<std::uint32_t>(mix(seed + j) >> 32) | 1;
  return table;
}
constexpr auto first_table = make_table(first_seed);
constexpr auto second_table = make_table(second_seed);

std::uint64_t factor(std::uint64_t seed, std::uint64_t block) { return mix(seed + (std::uint64_t{1} << 32) + block) | 1; }

// (bits + 1) · weight summed over `count` units at `bytes`, whose weights begin at table place `begin`. As bits · weight + weight: the
// product of two 32-bit numbers is one vector instruction.
template <class Unit>
inline __attribute__((always_inline)) std::array<std::uint64_t, 2> add_up(const std::byte* bytes, std::size_t begin, std::size_t count) {
  std::array<std::uint64_t, 2> sum{};
  for (std::size_t j = 0; j < count; ++j) {
    Unit unit;
    std::memcpy(&unit, bytes + j * sizeof(Unit), sizeof(Unit));
    const std::uint32_t bits = unit;
    sum[0] += std::uint64_t{bits} * first_table[begin + j] + first_table[begin + j];
    sum[1] += std::uint64_t{bits} * second_table[begin + j] + second_table[begin + j];
  }
  return sum;
}

// The whole table with bounds that the compiler knows, so that it uses vectors.
template <class Unit>
LOCKSTEP_CLONES std::array<std::uint64_t, 2> add_up_table(const std::byte* bytes) {
  return add_up<Unit>(bytes, 0, table_size);
}

// `count` units of type Unit at `bytes`; the first is number `index` of the logical tensor.
template <class Unit>
void add_run(Fingerprint& sum, const std::byte* bytes, std::uint64_t index, std::uint64_t count) {
  while (count > 0) {
    const std::uint64_t begin = index % table_size;
    const std::uint64_t units = std::min(count, table_size - begin);
    const auto part = units == table_size ? add_up_table<Unit>(bytes) : add_up<Unit>(bytes, begin, units);
    sum.first += part[0] * factor(first_seed, index / table_size);
    sum.second += part[1] * factor(second_seed, index / table_size);
    bytes += units * sizeof(Unit);
    index += units;
    count -= units;
  }
}

void add_elements(Fingerprint& sum, int element_bytes, const std::byte* bytes, std::uint64_t index, std::uint64_t count) {
  switch (element_bytes) {
    case 1: return add_run<std::uint8_t>(sum, bytes, index, count);
    case 2: return add_run<std::uint16_t>(sum, bytes, index, count);
    case 4: return add_run<std::uint32_t>(sum, bytes, index, count);
    // Two sign bits that flip would cancel in a 64-bit sum (2^63 times an even number), so 8 bytes are two units.
    default: return add_run<std::uint32_t>(sum, bytes, 2 * index, 2 * count);
  }
}

}  // namespace

Fingerprint fingerprint(const Shape& global, DType dtype, const Box& box, std::span<const std::byte> bytes, std::int64_t first) {
  Fingerprint sum;
  const int size = size_of(dtype);
  const std::int64_t last = first + static_cast<std::int64_t>(bytes.size()) / size;
  for_each_run(box, whole(global), box, [&](const BoxRun& run) {
    const std::int64_t begin = std::max(run.in_b, first);
    const std::int64_t end = std::min(run.in_b + run.length, last);
    if (begin >= end) return;
    add_elements(sum, size, bytes.data() + (begin - first) * size, static_cast<std::uint64_t>(run.in_a + begin - run.in_b),
                 static_cast<std::uint64_t>(end - begin));
  });
  return sum;
}

std::string to_hex(const Fingerprint& value) { return to_hex(Hash128{value.first, value.second}); }

Fingerprint fingerprint_from_hex(std::string_view digits) {
  const Hash128 halves = hash_from_hex(digits);
  return {halves.high, halves.low};
}

}  // namespace lockstep
