// Copies of pieces and sums of ranks' operands on the device, run on the host: sums have the bits of the CPU's.
#include "cuda_on_host/cuda_on_host.hpp"

#include "comm/exchange_kernels.hpp"
#include "cuda/kernels/exchanges.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

#include <numeric>

BOOST_AUTO_TEST_SUITE(cuda_exchanges)

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Bytes = std::vector<std::byte>;

Bytes any_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  Bytes bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(generator());
  return bytes;
}

/// Pieces that lie in another order at their destination, with gaps, and begin at any address of `step` bytes.
void check_copies(int pieces, std::int64_t longest, std::int64_t step) {
  std::mt19937 generator(static_cast<std::uint32_t>(pieces + longest + step));
  const auto any = [&](std::int64_t high) { return std::uniform_int_distribution<std::int64_t>(0, high)(generator); };
  std::vector<std::int64_t> lengths, from_at, to_at;
  std::int64_t from_end = step, to_end = 3 * step;
  for (int i = 0; i < pieces; ++i) lengths.push_back(any(longest));
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::shuffle(order, generator);
  from_at.resize(lengths.size());
  to_at.resize(lengths.size());
  const auto behind = [&](std::int64_t end) { return (end + step - 1) / step * step + any(2) * step; };
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    from_at[i] = behind(from_end);
    from_end = from_at[i] + lengths[i];
    to_at[order[i]] = behind(to_end);
    to_end = to_at[order[i]] + lengths[order[i]];
  }
  // The vectors begin where memory of the system does, at 16 bytes.
  const Bytes from = any_bytes(static_cast<std::size_t>(from_end), 1);
  const Bytes before = any_bytes(static_cast<std::size_t>(to_end), 2);
  Bytes wanted = before, found = before;
  std::vector<MemoryCopy> copies;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    copies.push_back({from.data() + from_at[i], found.data() + to_at[i], lengths[i]});
    std::copy_n(from.begin() + from_at[i], lengths[i], wanted.begin() + to_at[i]);
  }
  cuda::copy_pieces(copies.data(), pieces);
  BOOST_TEST((found == wanted), pieces << " pieces of up to " << longest << " bytes at multiples of " << step);
}

template <class T>
constexpr DType dtype = std::is_same_v<T, double>  ? DType::f64
                        : std::is_same_v<T, float> ? DType::f32
                        : std::is_same_v<T, Bf16>  ? DType::bf16
                                                   : DType::f16;

template <class T>
Bytes number_bytes(std::int64_t count, std::uint32_t seed, double deviation) {
  Bytes bytes(static_cast<std::size_t>(count) * sizeof(T));
  std::size_t at = 0;
  for (const double value : normal_values(count, seed, deviation)) {
    const T number = rounded<T>(value);
    std::memcpy(bytes.data() + at, &number, sizeof number);
    at += sizeof number;
  }
  return bytes;
}

template <class From, class To>
void check_sum(int operands, std::int64_t elements, bool adds, std::size_t shift) {
  const std::int64_t distance = (elements + 7) / 8 * 8 + (shift == 0 ? 8 : 3);
  Bytes from = number_bytes<From>(shift + operands * distance, 3, 5);
  if (elements > 2) {
    const From odd = rounded<From>(std::numeric_limits<double>::infinity());
    std::memcpy(from.data() + (shift + 1) * sizeof(From), &odd, sizeof odd);
  }
  const Bytes before = number_bytes<To>(static_cast<std::int64_t>(shift) + elements + 1, 4, 1);
  const auto sum_with = [&](void (*sum_operands)(const OperandSum&)) {
    Bytes place = before;
    sum_operands({.operands = from.data() + shift * sizeof(From),
                  .distance = distance * static_cast<std::int64_t>(sizeof(From)),
                  .count = operands,
                  .elements = elements,
                  .dtype = dtype<From>,
                  .place = place.data() + shift * sizeof(To),
                  .place_dtype = dtype<To>,
                  .adds = adds});
    return place;
  };
  BOOST_TEST((sum_with(cuda::sum_operands) == sum_with(cpu_exchange_kernels().sum_operands)),
             operands << " operands of " << elements << " " << name_of(dtype<From>) << " into " << name_of(dtype<To>)
                      << (adds ? ", added" : ""));
}

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_of_any_length_and_alignment_are_copied) {
  for (const std::int64_t step : {1, 2, 4, 16})
    for (const int pieces : {1, 7, 96, 97, 250}) check_copies(pieces, 300, step);
  for (const std::int64_t step : {1, 2, 16}) check_copies(5, 70000, step);  // several blocks
  cuda::copy_pieces(nullptr, 0);
}

BOOST_AUTO_TEST_CASE(sums_of_every_type_into_every_type_have_the_bits_of_the_cpu) {
  for_each_type([]<class From>(const std::string&) {
    for_each_type([]<class To>(const std::string&) {
      for (const int operands : {1, 2, 5})
        for (const bool adds : {false, true}) {
          check_sum<From, To>(operands, 8 * 37 + 5, adds, 0);
          check_sum<From, To>(operands, 3, adds, 1);
        }
    });
  });
}

BOOST_AUTO_TEST_CASE(operands_may_lie_gigabytes_apart) {
  constexpr std::int64_t distance = std::int64_t{5} << 30;
  DistantMemory<float> operands(2 * distance + 2);
  for (int i = 0; i < 3; ++i) operands.data()[i * distance + 1] = 10;
  std::vector<float> place(2, 1);
  cuda::sum_operands({.operands = reinterpret_cast<const std::byte*>(operands.data()),
                      .distance = distance * static_cast<std::int64_t>(sizeof(float)),
                      .count = 3,
                      .elements = 2,
                      .dtype = DType::f32,
                      .place = reinterpret_cast<std::byte*>(place.data()),
                      .place_dtype = DType::f32,
                      .adds = true});
  BOOST_TEST(place[0] == 1);
  BOOST_TEST(place[1] == 31);
}

BOOST_AUTO_TEST_SUITE_END()
