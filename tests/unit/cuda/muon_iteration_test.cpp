// The kernels around the products of Muon's iteration, run on the host, against plain loops.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/muon_iteration.cu"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_muon_iteration)

using namespace lockstep;
using namespace lockstep::test;

namespace {

template <class M>
void check_transpose(std::int64_t rows, std::int64_t cols, Start start) {
  Values<M> from(normal_values(rows * cols, 1), start);
  const Results found = in_any_order([&]() -> Results {
    Values<M> to(rows * cols, start);
    cuda::transpose<M>(from.data(), rows, cols, to.data());
    return {to.all()};
  });
  std::vector<double> wanted;
  for (std::int64_t c = 0; c < cols; ++c)
    for (std::int64_t r = 0; r < rows; ++r) wanted.push_back(from[r * cols + c]);
  check_near(found[0], wanted, 0, std::to_string(rows) + " × " + std::to_string(cols));
}

template <class M>
void check_division(std::int64_t count, double square_sum, Start start) {
  const std::vector<double> drawn = normal_values(count, 2);
  const Values<M> before(drawn, start);
  const Results found = in_any_order([&]() -> Results {
    Values<M> values(drawn, start);
    cuda::divide_by_norm<M>(values.data(), count, &square_sum, 1e-7);
    return {values.all()};
  });
  std::vector<double> wanted;
  for (const double value : before.all()) wanted.push_back(value / std::max(std::sqrt(square_sum), 1e-7));
  check_near(found[0], wanted, rounding<M>, std::to_string(count) + " values");
}

}  // namespace

BOOST_AUTO_TEST_CASE(matrices_of_any_shape_are_transposed) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {33, 31}, {64, 32}, {5, 200}, {100, 3}})
    for (const Start start : {Start::aligned, Start::unaligned}) {
      check_transpose<float>(rows, cols, start);
      check_transpose<double>(rows, cols, start);
    }
}

BOOST_AUTO_TEST_CASE(values_are_divided_by_their_norm_or_by_the_least_one) {
  for (const double square_sum : {4.0, 1e-30, 0.0})
    for (const std::int64_t count : {1, 7, 1029})
      for (const Start start : {Start::aligned, Start::unaligned}) {
        check_division<float>(count, square_sum, start);
        check_division<double>(count, square_sum, start);
      }
}

BOOST_AUTO_TEST_SUITE_END()
