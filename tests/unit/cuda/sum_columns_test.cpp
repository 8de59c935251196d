// Sums over rows on the device, run on the host, against sums in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/sum_columns.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_sum_columns)

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Case {
  std::int64_t rows, columns, stride;
  double beta = 0.5;
  Start start = Start::aligned;
};

template <class T>
void check(const Case& of, const std::string& type) {
  Values<T> values(normal_values((of.rows - 1) * of.stride + of.columns, 1), of.start);
  Values<Math<T>> old(normal_values(of.columns, 2));
  const Results found = in_any_order([&]() -> Results {
    Values<Math<T>> target = of.beta == 0 ? Values<Math<T>>(of.columns) : old;
    cuda::column_sums<T>(values.data(), of.rows, of.columns, of.stride, of.beta, target.data());
    return {target.all()};
  });
  std::vector<double> wanted;
  for (std::int64_t c = 0; c < of.columns; ++c) {
    wanted.push_back(of.beta * old[c]);
    for (std::int64_t r = 0; r < of.rows; ++r) wanted.back() += values[r * of.stride + c];
  }
  check_near(found[0], wanted, 2 * rounding<Math<T>>, type + " " + std::to_string(of.columns) + " columns");
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_of_any_width_agree_with_double) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>({70, 5, 5}, type);
    check<T>({33, 264, 272}, type);
    check<T>({9, 130, 131, 0}, type);
    check<T>({1, 33, 33, 1, Start::unaligned}, type);
  });
}

BOOST_AUTO_TEST_CASE(more_rows_than_blocks_of_32_are_summed) { check<float>({9000, 4, 4}, "fp32"); }

BOOST_AUTO_TEST_CASE(rows_may_lie_gigabytes_apart) {
  constexpr std::int64_t stride = std::int64_t{5} << 30;
  DistantMemory<float> values(2 * stride + 2);
  for (std::int64_t r = 0; r < 3; ++r) values.data()[r * stride + 1] = 10;
  Values<float> target(2);
  cuda::column_sums<float>(values.data(), 3, 2, stride, 0, target.data());
  check_near(target.all(), {0, 30}, 0, "sums");
}

BOOST_AUTO_TEST_SUITE_END()
