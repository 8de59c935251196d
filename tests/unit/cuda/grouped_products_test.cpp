// Products of experts on the device, run on the host, against plain loops in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/grouped_products.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_grouped_products)

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Case {
  std::vector<std::int64_t> rows;  // by group
  std::int64_t n, k;
  Start start = Start::aligned;

  std::vector<std::int64_t> offsets() const {
    std::vector<std::int64_t> offsets{0};
    for (const std::int64_t count : rows) offsets.push_back(offsets.back() + count);
    return offsets;
  }
  std::int64_t groups() const { return std::ssize(rows); }
};

/// The bound follows from the storage type, and from sums of `terms` products in the math type.
template <class T>
double bound(std::int64_t terms) {
  return rounding<T> + static_cast<double>(terms) * (std::is_same_v<T, double> ? 1e-15 : 3e-7);
}

template <class T>
void check(const Case& of, const std::string& type) {
  const std::vector<std::int64_t> offsets = of.offsets();
  const RowGroups groups{offsets.data(), of.groups()};
  const std::int64_t rows = offsets.back(), n = of.n, k = of.k;
  Values<T> x(normal_values(rows * k, 1), of.start), dy(normal_values(rows * n, 2), of.start);
  const Values<T> weights(normal_values(of.groups() * n * k, 3), of.start);
  const std::string name = type + ", " + std::to_string(rows) + " rows";
  for (const Trans trans : {Trans::no, Trans::yes}) {
    Values<T> factors = weights;
    const Results found = in_any_order([&]() -> Results {
      Values<T> y(rows * n, of.start);
      cuda::grouped_gemm_rounded<T>(groups, n, k, x.data(), factors.data(), trans, y.data());
      return {y.all()};
    });
    std::vector<double> wanted;
    for (std::int64_t g = 0; g < of.groups(); ++g)
      for (std::int64_t r = offsets[static_cast<std::size_t>(g)]; r < offsets[static_cast<std::size_t>(g) + 1]; ++r)
        for (std::int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i)
            sum += x[r * k + i] * weights[g * n * k + (trans == Trans::no ? i * n + c : c * k + i)];
          wanted.push_back(sum);
        }
    check_near(found[0], wanted, bound<T>(k), name + (trans == Trans::no ? "" : ", transposed"));
  }
  for (const double beta : {0.0, 0.5}) {
    const std::vector<double> old = normal_values(of.groups() * n * k, 4);
    const Results found = in_any_order([&]() -> Results {
      Values<Math<T>> sums = beta == 0 ? Values<Math<T>>(std::ssize(old)) : Values<Math<T>>(old);
      cuda::grouped_weight_gemm<T>(groups, n, k, dy.data(), x.data(), beta, sums.data());
      return {sums.all()};
    });
    const Values<Math<T>> before(old);
    std::vector<double> wanted;
    for (std::int64_t g = 0; g < of.groups(); ++g)
      for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t i = 0; i < k; ++i) {
          double sum = beta == 0 ? 0 : beta * before[(g * n + c) * k + i];
          for (std::int64_t r = offsets[static_cast<std::size_t>(g)]; r < offsets[static_cast<std::size_t>(g) + 1]; ++r)
            sum += dy[r * n + c] * x[r * k + i];
          wanted.push_back(sum);
        }
    check_near(found[0], wanted, bound<Math<T>>(rows), name + ", weights");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_of_any_size_are_multiplied_with_their_matrices) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>({{3, 0, 70, 1}, 67, 33, Start::unaligned}, type);
    check<T>({{0, 0, 5}, 5, 130}, type);
  });
  check<float>({{64, 128}, 64, 16}, "fp32, whole tiles");
}

BOOST_AUTO_TEST_CASE(blocks_go_on_from_tile_to_tile) {
  check<float>({{1, 2, 1, 1}, 64 * 140 + 1, 1}, "fp32, more tiles than blocks");
}

BOOST_AUTO_TEST_CASE(rows_may_lie_gigabytes_behind_the_first) {
  constexpr std::int64_t first = (std::int64_t{1} << 31) + 5, n = 3, k = 4;
  const std::vector<std::int64_t> offsets{first, first, first + 2};  // as if groups before had had all other rows
  const RowGroups groups{offsets.data(), 2};
  DistantMemory<float> x((first + 2) * k), y((first + 2) * n);
  std::vector<float> weights(2 * n * k), sums(2 * n * k);
  for (std::int64_t i = 0; i < k; ++i) x.data()[(first + 1) * k + i] = static_cast<float>(i + 1);
  for (std::size_t i = 0; i < n * k; ++i) weights[n * k + i] = 10;
  cuda::grouped_gemm_rounded<float>(groups, n, k, x.data(), weights.data(), Trans::no, y.data());
  BOOST_TEST(y.data()[first * n] == 0);
  BOOST_TEST(y.data()[(first + 2) * n - 1] == 100);
  cuda::grouped_weight_gemm<float>(groups, n, k, y.data(), x.data(), 0, sums.data());
  BOOST_TEST(sums.front() == 0);
  BOOST_TEST(sums.back() == 400);
}

BOOST_AUTO_TEST_CASE(weights_of_the_last_group_may_lie_behind_billions_of_others) {
  for (const int bits : {31, 32}) {
    constexpr std::int64_t grid = 528, n = 64 * grid, k = 1024;  // the last block has the last tile
    const std::int64_t count = (std::int64_t{1} << bits) / (n * k) + 2, last = (count - 1) * n * k;
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(count), 0);
    offsets.push_back(1);  // one row, of the last group
    DistantMemory<float> weights(count * n * k);
    std::vector<float> x(k), y(n);
    const on_host::LastBlocks only(1);
    x[3] = 2;
    weights.data()[last + 3 * n + n - 5] = 10;  // (k, n)
    cuda::grouped_gemm_rounded<float>({offsets.data(), count}, n, k, x.data(), weights.data(), Trans::no, y.data());
    BOOST_TEST(y[n - 5] == 20);
    BOOST_TEST(y[n - 6] == 0);
    x[3] = 0;
    x[1005] = 3;
    weights.data()[last + (n - 7) * k + 1005] = 100;  // (n, k)
    cuda::grouped_gemm_rounded<float>({offsets.data(), count}, n, k, x.data(), weights.data(), Trans::yes, y.data());
    BOOST_TEST(y[n - 7] == 300);
    BOOST_TEST(y[n - 6] == 0);
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_the_last_group_may_lie_behind_billions_of_others) {
  for (const int bits : {31, 32}) {
    constexpr std::int64_t n = 64, k = 64, grid = 528;  // a tile for each group
    // The last block has the last group.
    const std::int64_t count = ((std::int64_t{1} << bits) / (n * k) / grid + 1) * grid;
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(count), 0);
    offsets.push_back(2);
    DistantMemory<float> dweights(count * n * k);
    std::vector<float> dy(2 * n), x(2 * k);
    dy[n + 63] = 2;
    x[k + 62] = 5;
    const on_host::LastBlocks only(1);
    cuda::grouped_weight_gemm<float>({offsets.data(), count}, n, k, dy.data(), x.data(), 0, dweights.data());
    BOOST_TEST(dweights.data()[count * n * k - 2] == 10);
    BOOST_TEST(dweights.data()[count * n * k - 1] == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
