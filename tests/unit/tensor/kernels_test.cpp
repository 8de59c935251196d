#include "tensor/kernels/activation_kernel.hpp"
#include "tensor/kernels/attention_kernel.hpp"
#include "tensor/kernels/column_sums.hpp"
#include "tensor/kernels/cross_entropy.hpp"
#include "tensor/kernels/embedding_kernel.hpp"
#include "tensor/kernels/norm_kernel.hpp"

#include "random_values.hpp"

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

BOOST_AUTO_TEST_SUITE(kernels)

using namespace lockstep;

namespace {

/// Runs `compute` with 1 and with 3 threads and says whether the results have the same bits.
template <class Compute>
bool same_with_other_threads(const Compute& compute) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto first = compute();
  at::set_num_threads(3);
  const auto second = compute();
  at::set_num_threads(before);
  return first == second;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_exponential_is_exact_to_3_units_in_the_last_place) {
  double worst = 0;
  for (float x = -87.0f; x < 88.0f; x += 0.00317f) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp(x)) - exact) / exact);
  }
  BOOST_TEST(worst < 3 * 5.97e-8);
  BOOST_TEST(exp(-std::numeric_limits<float>::infinity()) == 0.0f);
  BOOST_TEST(exp(-1000.0f) == 0.0f);
  BOOST_TEST(std::isfinite(exp(1000.0f)));
  BOOST_TEST(std::isnan(exp(std::numeric_limits<float>::quiet_NaN())));
}

BOOST_AUTO_TEST_CASE(rounding_to_bf16_is_to_nearest_even_and_keeps_what_is_not_finite) {
  const auto rounded = [](float value) {
    Bf16 result{};
    store(result, value);
    return load(result);
  };
  BOOST_TEST(rounded(1.0f + 0x1p-8f) == 1.0f);  // half way: the even neighbour
  BOOST_TEST(rounded(1.0f + 3 * 0x1p-8f) == 1.0f + 0x1p-6f);
  BOOST_TEST(rounded(1.0f + 0x1p-8f + 0x1p-20f) == 1.0f + 0x1p-7f);
  BOOST_TEST(rounded(-3.0f) == -3.0f);
  BOOST_TEST(rounded(std::numeric_limits<float>::infinity()) == std::numeric_limits<float>::infinity());
  BOOST_TEST(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  BOOST_TEST(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))));  // a payload in the low bits only
}

BOOST_AUTO_TEST_CASE(column_sums_have_the_same_bits_for_any_number_of_threads) {
  const std::int64_t rows = 1234, columns = 37;
  const auto values = random_values<float>(rows * columns, "values");
  BOOST_TEST(same_with_other_threads([&] {
    std::vector<float> sums(columns, std::numeric_limits<float>::quiet_NaN());
    column_sums<float>(values.data(), rows, columns, columns, 0, sums.data());
    return sums;
  }));
  std::vector<float> sums(columns, 1);
  column_sums<float>(values.data(), rows, columns, columns, 1, sums.data());
  for (std::int64_t c = 0; c < columns; ++c) {
    double expected = 1;
    for (std::int64_t r = 0; r < rows; ++r)
      expected += static_cast<double>(values[static_cast<std::size_t>(r * columns + c)]);
    BOOST_TEST(std::abs(static_cast<double>(sums[static_cast<std::size_t>(c)]) - expected) < 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(column_sums_of_no_rows_are_zero) {
  std::vector<float> sums(3, std::numeric_limits<float>::quiet_NaN());
  column_sums<float>(nullptr, 0, 3, 3, 0, sums.data());
  BOOST_TEST(sums == std::vector<float>(3, 0));
}

/// Result and gradient, one after the other.
template <class T>
std::vector<T> attention(const AttentionShape& shape, const std::vector<std::int64_t>& starts,
                         const std::vector<T>& qkv, const std::vector<T>& dy) {
  std::vector<T> y(dy.size()), sums(static_cast<std::size_t>(starts.back() * shape.heads)), dqkv(qkv.size());
  const Segments segments{starts.data(), static_cast<std::int64_t>(starts.size()) - 1};
  attention_forward<T>(qkv.data(), shape, segments, {}, nullptr, y.data(), sums.data());
  attention_backward<T>(dy.data(), qkv.data(), nullptr, sums.data(), shape, segments, {}, nullptr, dqkv.data());
  y.insert(y.end(), dqkv.begin(), dqkv.end());
  return y;
}

BOOST_AUTO_TEST_CASE(attention_has_the_same_bits_for_any_number_of_threads) {
  const std::vector<std::int64_t> starts{0, 100, 101, 101, 230};
  for (const AttentionShape& shape :
       {AttentionShape{4, 2, 8}, AttentionShape{4, 2, 32}, AttentionShape{4, 2, 32, 40}}) {
    const auto qkv = random_values<float>(starts.back() * shape.width(), "qkv"),
               dy = random_values<float>(starts.back() * shape.heads * shape.head_size, "dy");
    BOOST_TEST(same_with_other_threads([&] { return attention(shape, starts, qkv, dy); }));
  }
}

// With heads that fill vectors and heads that do not; fp64, which never uses them, is tested against LibTorch.
BOOST_AUTO_TEST_CASE(attention_in_fp32_is_that_in_fp64) {
  const std::vector<std::int64_t> starts{0, 1, 64, 64, 81, 300};
  for (const AttentionShape& shape :
       {AttentionShape{3, 3, 20}, AttentionShape{4, 2, 16}, AttentionShape{2, 1, 80}, AttentionShape{3, 3, 20, 30},
        AttentionShape{4, 2, 16, 1}, AttentionShape{4, 2, 16, 50}, AttentionShape{2, 1, 80, 129}}) {
    const auto qkv = random_values<float>(starts.back() * shape.width(), "qkv"),
               dy = random_values<float>(starts.back() * shape.heads * shape.head_size, "dy");
    const std::vector<double> wide_qkv(qkv.begin(), qkv.end()), wide_dy(dy.begin(), dy.end());
    const auto values = attention(shape, starts, qkv, dy);
    const auto expected = attention(shape, starts, wide_qkv, wide_dy);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = std::abs(static_cast<double>(values[i]) - expected[i]);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
    BOOST_TEST(worst < 1e-4, "heads of " << shape.head_size << ", window " << shape.window << ": " << worst);
  }
}

// Keys and values that no query sees may hold anything: whole vectors before a tile's windows are not touched.
BOOST_AUTO_TEST_CASE(what_lies_before_all_windows_of_a_tile_is_not_multiplied) {
  const std::vector<std::int64_t> starts{0, 256};
  for (const AttentionShape& shape : {AttentionShape{2, 1, 16, 20}, AttentionShape{2, 1, 6, 20}}) {
    auto qkv = random_values<float>(starts.back() * shape.width(), "qkv");
    const auto dy = random_values<float>(starts.back() * shape.heads * shape.head_size, "dy");
    const auto clean = attention(shape, starts, qkv, dy);
    for (std::int64_t i = 0; i < 160 * shape.width(); ++i)
      qkv[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    const auto values = attention(shape, starts, qkv, dy);
    const auto first = 192 * shape.heads * shape.head_size;  // of the last tile
    BOOST_TEST(std::equal(clean.begin() + first, clean.begin() + starts.back() * shape.heads * shape.head_size,
                          values.begin() + first));
  }
}

BOOST_AUTO_TEST_CASE(attention_survives_scores_of_any_size) {
  const AttentionShape shape{1, 1, 4};
  std::vector<float> qkv(static_cast<std::size_t>(2 * shape.width()));
  for (std::size_t i = 0; i < qkv.size(); ++i)
    qkv[i] = i % 12 < 8 ? 1e4f : static_cast<float>(i);  // queries and keys huge
  const std::vector<std::int64_t> starts{0, 2};
  std::vector<float> y(8), sums(2);
  attention_forward<float>(qkv.data(), shape, {starts.data(), 1}, {}, nullptr, y.data(), sums.data());
  BOOST_TEST(y == (std::vector<float>{8, 9, 10, 11, 14, 15, 16, 17}));  // equal scores: the mean of the values seen
}

/// The largest errors of GELU and its slope by tanh against formulas in double, in units of the last place of T, of x
/// or 1 where that is larger.
template <class T>
std::pair<double, double> gelu_errors(std::int64_t rows, std::int64_t columns) {
  std::vector<T> u(static_cast<std::size_t>(rows * columns)), bias(static_cast<std::size_t>(columns)), y(u.size()),
      du(u.size());
  const auto dy = random_values<T>(rows * columns, "dy");
  for (std::size_t i = 0; i < u.size(); ++i)
    store(u[i], 30 * static_cast<float>(i) / static_cast<float>(u.size()) - 15);
  for (std::size_t c = 0; c < bias.size(); ++c) store(bias[c], static_cast<float>(c) / 64);
  activation_forward<T>(Activation::gelu_tanh, u.data(), bias.data(), rows, columns, y.data());
  activation_backward<T>(Activation::gelu_tanh, dy.data(), u.data(), bias.data(), rows, columns, du.data());
  const double unit = std::is_same_v<T, Bf16> ? 0x1p-8 : 0x1p-24;
  double value_error = 0, slope_error = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double x = static_cast<double>(load(u[i]) + load(bias[i % bias.size()]));
    const double factor = std::sqrt(2 / std::acos(-1.0)), t = std::tanh(factor * (x + 0.044715 * x * x * x));
    const double value = 0.5 * x * (1 + t), gradient = static_cast<double>(load(dy[i]));
    const double slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * factor * (1 + 3 * 0.044715 * x * x);
    const double scale = unit * std::max(1.0, std::abs(x));
    const double off = std::abs(static_cast<double>(load(y[i])) - value) / scale;
    const double slope_off = std::abs(static_cast<double>(load(du[i])) - gradient * slope) / scale;
    value_error = std::isnan(off) ? off : std::max(value_error, off);
    slope_error =
        std::isnan(slope_off) ? slope_off : std::max(slope_error, slope_off / std::max(1.0, std::abs(gradient)));
  }
  return {value_error, slope_error};
}

// Rows of whole vectors and such with a rest.
BOOST_AUTO_TEST_CASE(gelu_and_its_slope_are_those_of_double_precision) {
  for (const std::int64_t columns : {64, 77, 5}) {
    const auto [value, slope] = gelu_errors<float>(40, columns);
    BOOST_TEST(value < 4);
    BOOST_TEST(slope < 16);
    const auto [rounded_value, rounded_slope] = gelu_errors<Bf16>(40, columns);
    BOOST_TEST(rounded_value < 1.01);
    BOOST_TEST(rounded_slope < 1.3);
  }
}

BOOST_AUTO_TEST_CASE(gelu_of_any_size_is_finite_and_keeps_what_is_not_a_number) {
  const float huge = 1e9f, nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> u{huge, -huge, 0, nan}, dy(4, 1);
  std::vector<float> y(4), du(4);
  activation_forward<float>(Activation::gelu_tanh, u.data(), nullptr, 1, 4, y.data());
  activation_backward<float>(Activation::gelu_tanh, dy.data(), u.data(), nullptr, 1, 4, du.data());
  BOOST_TEST(y[0] == huge);
  BOOST_TEST(std::abs(y[1]) < 1e-20f);
  BOOST_TEST(y[2] == 0.0f);
  BOOST_TEST(std::isnan(y[3]));
  BOOST_TEST(du[0] == 1.0f);
  BOOST_TEST(std::abs(du[1]) < 1e-3f);
  BOOST_TEST(du[2] == 0.5f);
  BOOST_TEST(std::isnan(du[3]));
}

/// Result, gradient of the input, and gradients of weight and bias of a norm with a residual, one after the other.
template <class T>
std::vector<double> norm(bool centred, std::int64_t rows, std::int64_t channels) {
  const auto widened = [&](std::string_view name, std::int64_t count) {
    const auto values = random_values<Bf16>(count, name);  // exact in every type
    std::vector<Math<T>> wide(values.size());
    std::transform(values.begin(), values.end(), wide.begin(), [](Bf16 value) { return load(value); });
    return wide;
  };
  const auto narrowed = [&](std::string_view name, std::int64_t count) {
    const auto wide = widened(name, count);
    std::vector<T> values(wide.size());
    for (std::size_t i = 0; i < wide.size(); ++i) store(values[i], wide[i]);
    return values;
  };
  const auto x = widened("x", rows * channels), residual = widened("residual", rows * channels);
  const auto weight = narrowed("weight", channels), bias = narrowed("bias", channels),
             dy = narrowed("dy", rows * channels);
  std::vector<T> y(dy.size());
  std::vector<Math<T>> mean(static_cast<std::size_t>(rows)), rstd(mean.size()), dx(x.size()), dweight(weight.size(), 7),
      dbias(weight.size(), 7);
  if (centred) {
    layer_norm_forward<T>(x.data(), weight.data(), bias.data(), 1e-5, rows, channels, y.data(), mean.data(),
                          rstd.data());
    layer_norm_backward<T>(dy.data(), x.data(), weight.data(), mean.data(), rstd.data(), residual.data(), rows,
                           channels, dx.data(), dweight.data(), 0, dbias.data(), 0);
  } else {
    rms_norm_forward<T>(x.data(), weight.data(), 1e-5, rows, channels, y.data(), rstd.data());
    rms_norm_backward<T>(dy.data(), x.data(), weight.data(), rstd.data(), residual.data(), rows, channels, dx.data(),
                         dweight.data(), 0);
  }
  std::vector<double> all;
  for (const T value : y) all.push_back(load(value));
  for (const auto& part : {dx, dweight, dbias}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// fp64 is tested against LibTorch. Rows of whole vectors and such with a rest; only the result is rounded to bf16 or
// fp16.
BOOST_AUTO_TEST_CASE(norms_in_narrower_types_are_those_in_fp64) {
  for (const bool centred : {true, false}) {
    for (const std::int64_t channels : {128, 77, 5}) {
      const std::int64_t rows = 70;
      const auto exact = norm<double>(centred, rows, channels);
      const auto worst = [&](const std::vector<double>& values, std::size_t first, std::size_t last) {
        double error = 0;
        for (std::size_t i = first; i < last; ++i) {
          const double off = std::abs(values[i] - exact[i]);
          error = std::isnan(off) ? off : std::max(error, off);
        }
        return error;
      };
      const auto results = static_cast<std::size_t>(rows * channels);
      const auto bf16 = norm<Bf16>(centred, rows, channels), fp16 = norm<Fp16>(centred, rows, channels);
      BOOST_TEST(worst(norm<float>(centred, rows, channels), 0, exact.size()) < 4e-5);
      BOOST_TEST(worst(bf16, results, exact.size()) < 4e-5);
      BOOST_TEST(worst(fp16, results, exact.size()) < 4e-5);
      BOOST_TEST(worst(bf16, 0, results) < 0.04);   // half a unit of values below 16
      BOOST_TEST(worst(fp16, 0, results) < 0.005);  // the same
    }
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_labels_outside_the_vocabulary_and_does_not_overflow) {
  const std::vector<float> logits{1000, 0, -1000, 1, 2, 3};
  const std::vector<std::int32_t> labels{2, -100};
  std::vector<double> losses(2, -1);
  std::vector<float> derivative(6, -1);
  cross_entropy<float>(logits.data(), labels.data(), {2, 3}, {}, losses.data(), derivative.data());
  BOOST_TEST(losses == (std::vector<double>{2000, 0}));
  BOOST_TEST(derivative == (std::vector<float>{1, 0, -1, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_label_with_the_largest_logit_is_a_hit_and_one_that_does_not_count_is_none) {
  const std::vector<float> logits{1, 3, 2, 1, 3, 2, 1, 3, 2};
  const std::vector<std::int32_t> labels{1, 2, -100};
  std::vector<double> losses(3, -1), correct(3, -1);
  cross_entropy_loss<float>(logits.data(), labels.data(), {3, 3}, {}, losses.data(), correct.data());
  BOOST_TEST(correct == (std::vector<double>{1, 0, 0}));
  BOOST_TEST(losses[1] - losses[0] == 1);
  BOOST_TEST(losses[2] == 0);
}

BOOST_AUTO_TEST_CASE(cross_entropy_with_a_target_is_the_sum_over_the_vocabulary_as_it_is_written) {
  const std::vector<double> logits{0.5, -1, 2, 0, 3, 1, -2, 0.25};
  const std::vector<std::int32_t> labels{2, 0};
  const TargetDistribution target{0.05, 0.8};
  std::vector<double> losses(2), correct(2), alone(2), derivative(8);
  cross_entropy<double>(logits.data(), labels.data(), {2, 4}, target, losses.data(), derivative.data());
  cross_entropy_loss<double>(logits.data(), labels.data(), {2, 4}, target, alone.data(), correct.data());
  for (std::size_t r = 0; r < 2; ++r) {
    double sum = 0, loss = 0;
    for (std::size_t v = 0; v < 4; ++v) sum += std::exp(logits[4 * r + v]);
    for (std::size_t v = 0; v < 4; ++v) {
      const double p = std::exp(logits[4 * r + v]) / sum, wanted = labels[r] == static_cast<int>(v) ? 0.85 : 0.05;
      loss -= wanted * std::log(p);
      BOOST_TEST(std::abs(derivative[4 * r + v] - (p - wanted)) <= 1e-15);
    }
    BOOST_TEST(losses[r] == loss, boost::test_tools::tolerance(1e-14));
  }
  BOOST_TEST(alone == losses);
}

BOOST_AUTO_TEST_CASE(cross_entropy_of_columns_that_are_put_together_is_that_of_the_whole_row) {
  constexpr std::int64_t rows = 4, vocabulary = 7, first_part = 3;
  const std::vector<double> logits = random_values<double>(rows * vocabulary, "logits");
  const std::vector<std::int32_t> labels{1, 5, -100, 3};
  const auto part_of = [&](std::int64_t first, std::int64_t columns) {
    std::vector<double> part;
    for (std::int64_t r = 0; r < rows; ++r)
      part.insert(part.end(), logits.begin() + r * vocabulary + first,
                  logits.begin() + r * vocabulary + first + columns);
    return part;
  };
  const std::vector<std::pair<std::int64_t, std::int64_t>> parts{{0, first_part},
                                                                 {first_part, vocabulary - first_part}};
  for (const TargetDistribution target : {TargetDistribution{}, TargetDistribution{0.3 / vocabulary, 0.7}}) {
    std::vector<double> losses(rows), derivative(rows * vocabulary);
    cross_entropy<double>(logits.data(), labels.data(), {rows, vocabulary}, target, losses.data(), derivative.data());
    std::vector<RowStatistics> whole(rows, {.largest = -1e300});
    for (const auto& [first, columns] : parts) {
      std::vector<RowStatistics> statistics(rows);
      row_statistics<double>(part_of(first, columns).data(), labels.data(), {rows, columns}, first, target,
                             statistics.data());
      for (std::size_t r = 0; r < rows; ++r) {
        const double largest = std::max(whole[r].largest, statistics[r].largest);
        whole[r] = {largest,
                    whole[r].sum * std::exp(whole[r].largest - largest) +
                        statistics[r].sum * std::exp(statistics[r].largest - largest),
                    whole[r].wanted + statistics[r].wanted};
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      if (labels[r] < 0)
        whole[r] = {};
      else
        BOOST_TEST(std::log(whole[r].sum) + whole[r].largest - whole[r].wanted == losses[r],
                   boost::test_tools::tolerance(1e-14));
    }
    for (const auto& [first, columns] : parts) {
      const std::vector<double> part = part_of(first, columns);
      std::vector<double> got(part.size());
      cross_entropy_derivative<double>(part.data(), labels.data(), {rows, columns}, first, target, whole.data(),
                                       got.data());
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t v = 0; v < columns; ++v)
          BOOST_TEST(std::abs(got[static_cast<std::size_t>(r * columns + v)] -
                              derivative[static_cast<std::size_t>(r * vocabulary + first + v)]) <= 1e-15);
    }
  }
}

BOOST_AUTO_TEST_CASE(padding_behind_logits_is_not_read_and_becomes_zero_in_a_derivative) {
  constexpr std::int64_t rows = 4, columns = 7, stride = 11;
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> logits = random_values<double>(rows * columns, "logits");
  const std::vector<std::int32_t> labels{1, 6, -100, 3};
  std::vector<double> padded(rows * stride, nothing);
  for (std::size_t i = 0; i < logits.size(); ++i) padded[i / columns * stride + i % columns] = logits[i];
  for (const TargetDistribution target : {TargetDistribution{}, TargetDistribution{0.3 / columns, 0.7}}) {
    std::vector<double> losses(rows), wanted_losses(rows), correct(rows), wanted_correct(rows);
    std::vector<double> derivative(rows * stride, nothing), wanted(rows * columns);
    std::vector<RowStatistics> statistics(rows), wanted_statistics(rows);
    const auto check = [&] {
      BOOST_TEST(losses == wanted_losses);
      for (std::size_t i = 0; i < derivative.size(); ++i) {
        const std::size_t column = i % stride;
        BOOST_TEST(derivative[i] == (column < columns ? wanted[i / stride * columns + column] : 0));
      }
    };
    cross_entropy<double>(logits.data(), labels.data(), {rows, columns}, target, wanted_losses.data(), wanted.data());
    cross_entropy<double>(padded.data(), labels.data(), {rows, columns, stride}, target, losses.data(),
                          derivative.data());
    check();
    cross_entropy_loss<double>(logits.data(), labels.data(), {rows, columns}, target, wanted_losses.data(),
                               wanted_correct.data());
    cross_entropy_loss<double>(padded.data(), labels.data(), {rows, columns, stride}, target, losses.data(),
                               correct.data());
    BOOST_TEST(correct == wanted_correct);
    row_statistics<double>(logits.data(), labels.data(), {rows, columns}, 0, target, wanted_statistics.data());
    row_statistics<double>(padded.data(), labels.data(), {rows, columns, stride}, 0, target, statistics.data());
    for (std::size_t r = 0; r < rows; ++r) BOOST_TEST(statistics[r].sum == wanted_statistics[r].sum);
    statistics[2] = {};
    cross_entropy_derivative<double>(logits.data(), labels.data(), {rows, columns}, 0, target, statistics.data(),
                                     wanted.data());
    std::ranges::fill(derivative, nothing);
    cross_entropy_derivative<double>(padded.data(), labels.data(), {rows, columns, stride}, 0, target,
                                     statistics.data(), derivative.data());
    check();
    std::vector<double> in_place = padded;
    cross_entropy<double>(in_place.data(), labels.data(), {rows, columns, stride}, target, losses.data(),
                          in_place.data());
    derivative = in_place;
    cross_entropy<double>(logits.data(), labels.data(), {rows, columns}, target, wanted_losses.data(), wanted.data());
    check();
  }
}

BOOST_AUTO_TEST_CASE(an_embedding_gives_nothing_for_what_another_rank_has_and_gets_nothing) {
  const std::vector<double> table{1, 2, 3, 4}, dy{1, 2, 3, 4};
  const std::vector<std::int32_t> tokens{-1, 1};
  std::vector<double> y(4, 9);
  embedding_forward<double>(table.data(), tokens.data(), 2, 2, StoreMode::overwrite, y.data());
  BOOST_TEST(y == (std::vector<double>{0, 0, 3, 4}));
  embedding_forward<double>(table.data(), tokens.data(), 2, 2, StoreMode::add, y.data());
  BOOST_TEST(y == (std::vector<double>{0, 0, 6, 8}));
  std::vector<double> gradient(4, 5);
  embedding_backward<double>(dy.data(), tokens.data(), 2, 2, 2, 0, gradient.data());
  BOOST_TEST(gradient == (std::vector<double>{0, 0, 3, 4}));
}

BOOST_AUTO_TEST_CASE(embedding_gradients_add_repeated_tokens_and_do_not_read_what_beta_0_replaces) {
  const std::vector<double> dy{1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> tokens{2, 0, 2};
  std::vector<double> table(6, std::numeric_limits<double>::quiet_NaN());
  embedding_backward<double>(dy.data(), tokens.data(), 3, 2, 3, 0, table.data());
  BOOST_TEST(table == (std::vector<double>{3, 4, 0, 0, 6, 8}));
  embedding_backward<double>(dy.data(), tokens.data(), 3, 2, 3, 1, table.data());
  BOOST_TEST(table == (std::vector<double>{6, 8, 0, 0, 12, 16}));
}

BOOST_AUTO_TEST_SUITE_END()
