// The norms of the device, run on the host, against sums in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/norms.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_norms)

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Case {
  std::int64_t rows, channels;
  Start start = Start::aligned;
  bool has_mean = true, has_bias = true, has_residual = true;
  double beta = 0.5;
};

constexpr double eps = 1e-3;

template <class T>
struct Inputs {
  explicit Inputs(const Case& of)
      : x(normal_values(of.rows * of.channels, 1), of.start),
        dy(normal_values(of.rows * of.channels, 2), of.start),
        weight(normal_values(of.channels, 3), of.start),
        bias(normal_values(of.channels, 4), of.start),
        residual(normal_values(of.rows * of.channels, 5), of.start) {}
  Values<Math<T>> x;
  Values<T> dy, weight, bias;
  Values<Math<T>> residual;
};

/// y, mean, rstd, dx, dweight, dbias.
template <class T>
Results expected(const Case& of, const Inputs<T>& in) {
  Results all(6);
  all[4] = all[5] = normal_values(of.channels, 6);
  for (std::int64_t c = 0; c < of.channels; ++c)
    all[4][c] = all[5][c] = of.beta * static_cast<double>(load(rounded<Math<T>>(all[4][c])));
  const auto count = static_cast<double>(of.channels);
  for (std::int64_t r = 0; r < of.rows; ++r) {
    const std::int64_t at = r * of.channels;
    double mean = 0, squares = 0, sum = 0, products = 0;
    for (std::int64_t c = 0; c < of.channels; ++c) mean += of.has_mean ? in.x[at + c] / count : 0;
    for (std::int64_t c = 0; c < of.channels; ++c) squares += std::pow(in.x[at + c] - mean, 2);
    const double scale = 1 / std::sqrt(squares / count + eps);
    all[1].push_back(mean);
    all[2].push_back(scale);
    for (std::int64_t c = 0; c < of.channels; ++c) {
      const double normal = (in.x[at + c] - mean) * scale, g = in.dy[at + c];
      all[0].push_back(normal * in.weight[c] + (of.has_mean && of.has_bias ? in.bias[c] : 0));
      sum += g * in.weight[c];
      products += g * in.weight[c] * normal;
      all[4][c] += g * normal;
      all[5][c] += g;
    }
    for (std::int64_t c = 0; c < of.channels; ++c) {
      const double normal = (in.x[at + c] - mean) * scale;
      const double shift = of.has_mean ? sum / count : 0;
      all[3].push_back((of.has_residual ? in.residual[at + c] : 0) +
                       scale * (in.dy[at + c] * in.weight[c] - shift - normal * products / count));
    }
  }
  return all;
}

template <class T>
Results computed(const Case& of, Inputs<T>& in) {
  Values<T> y(of.rows * of.channels, of.start);
  Values<Math<T>> mean(of.rows), rstd(of.rows), dx(of.rows * of.channels, of.start);
  Values<Math<T>> dweight(normal_values(of.channels, 6)), dbias(normal_values(of.channels, 6));
  if (of.beta == 0) dweight = dbias = Values<Math<T>>(of.channels);
  T* const bias = of.has_bias ? in.bias.data() : nullptr;
  Math<T>* const residual = of.has_residual ? in.residual.data() : nullptr;
  Math<T>* const bias_gradient = of.has_bias ? dbias.data() : nullptr;
  if (of.has_mean) {
    cuda::layer_norm_forward<T>(in.x.data(), in.weight.data(), bias, eps, of.rows, of.channels, y.data(), mean.data(),
                                rstd.data());
    cuda::layer_norm_backward<T>(in.dy.data(), in.x.data(), in.weight.data(), mean.data(), rstd.data(), residual,
                                 of.rows, of.channels, dx.data(), dweight.data(), of.beta, bias_gradient, of.beta);
  } else {
    cuda::rms_norm_forward<T>(in.x.data(), in.weight.data(), eps, of.rows, of.channels, y.data(), rstd.data());
    cuda::rms_norm_backward<T>(in.dy.data(), in.x.data(), in.weight.data(), rstd.data(), residual, of.rows, of.channels,
                               dx.data(), dweight.data(), of.beta);
  }
  return {y.all(), mean.all(), rstd.all(), dx.all(), dweight.all(), dbias.all()};
}

template <class T>
void check(const Case& of, const std::string& type) {
  Inputs<T> in(of);
  const Results wanted = expected(of, in), found = in_any_order([&] { return computed<T>(of, in); });
  const std::string name =
      type + " " + std::to_string(of.rows) + "x" + std::to_string(of.channels) + (of.has_mean ? " layer" : " rms");
  check_near(found[0], wanted[0], 4 * rounding<T>, name + ", y");
  if (of.has_mean) check_near(found[1], wanted[1], rounding<Math<T>>, name + ", mean");
  check_near(found[2], wanted[2], rounding<Math<T>>, name + ", rstd");
  check_near(found[3], wanted[3], 8 * rounding<Math<T>>, name + ", dx");
  check_near(found[4], wanted[4], 8 * rounding<Math<T>>, name + ", dweight");
  if (of.has_mean && of.has_bias) check_near(found[5], wanted[5], 8 * rounding<Math<T>>, name + ", dbias");
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_any_length_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    check<T>({3, 1}, type);
    check<T>({2, 7}, type);
    check<T>({5, 96, Start::aligned, false}, type);
    check<T>({3, 1032}, type);
    check<T>({2, 1100, Start::unaligned, false, false}, type);
  });
}

BOOST_AUTO_TEST_CASE(more_rows_than_blocks_are_summed) { check<float>({700, 9}, "fp32"); }

BOOST_AUTO_TEST_CASE(sums_of_columns_too_wide_for_shared_memory_agree) {
  check<float>({3, 5300}, "fp32");
  check<double>({2, 2600}, "fp64");
}

BOOST_AUTO_TEST_CASE(bias_residual_and_old_gradients_are_optional) {
  check<float>({4, 40, Start::aligned, true, false}, "fp32");
  check<float>({4, 40, Start::aligned, true, true, false}, "fp32");
  check<Bf16>({4, 40, Start::unaligned, false, false, false}, "bf16");
  check<Bf16>({4, 40, Start::aligned, true, true, true, 0}, "bf16");
}

BOOST_AUTO_TEST_CASE(rows_may_have_more_than_2_to_the_32_values) {
  constexpr std::int64_t rows = 5000000, channels = 1000;
  DistantMemory<float> x(rows * channels), y(rows * channels), mean(rows), rstd(rows);
  x.data()[rows * channels - 1] = 1000;
  Values<float> weight(std::vector<double>(channels, 2));
  const on_host::LastBlocks only(1);
  cuda::layer_norm_forward<float>(x.data(), weight.data(), nullptr, eps, rows, channels, y.data(), mean.data(),
                                  rstd.data());
  BOOST_TEST(mean.data()[rows - 1] == 1);
  BOOST_TEST(near(y.data()[rows * channels - 1], 2 * std::sqrt(999.0), 1e-5));
}

BOOST_AUTO_TEST_CASE(one_nan_spoils_its_row_alone) {
  Values<float> x(normal_values(3 * 40, 1)), weight(normal_values(40, 2)), y(3 * 40), rstd(3);
  x.data()[40 + 7] = NAN;
  cuda::rms_norm_forward<float>(x.data(), weight.data(), eps, 3, 40, y.data(), rstd.data());
  for (std::int64_t i = 0; i < 3 * 40; ++i) BOOST_TEST(std::isnan(y[i]) == (i / 40 == 1));
}

BOOST_AUTO_TEST_CASE(no_rows_leave_only_the_old_gradients) {
  Values<float> none(0), weight(normal_values(8, 1)), dweight(normal_values(8, 2));
  std::vector<double> half = dweight.all();
  for (double& value : half) value *= 0.5;
  cuda::rms_norm_backward<float>(none.data(), none.data(), weight.data(), none.data(), nullptr, 0, 8, none.data(),
                                 dweight.data(), 0.5);
  check_near(dweight.all(), half, 0, "dweight");
}

BOOST_AUTO_TEST_SUITE_END()
