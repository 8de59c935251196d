#include "tensor/gemm.hpp"

#include "random_values.hpp"

#include <boost/test/unit_test.hpp>

#include <malloc.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <thread>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(matrix_products)

using namespace lockstep;

#if defined(_OPENMP) && !defined(__SANITIZE_ADDRESS__)
namespace {
constexpr int unlimited = 1 << 30;
std::atomic<int> aligned_allocations_left{unlimited};
}  // namespace

/// Takes the place of the C library's in this program, so that memory can be made to run out at any allocation of the
/// kernels.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return aligned_allocations_left-- > 0 ? memalign(alignment, size) : nullptr;
}
#endif

namespace {

template <class T>
double element(const std::vector<T>& stored, Trans trans, std::int64_t stride, std::int64_t row, std::int64_t column) {
  return load(stored[static_cast<std::size_t>(trans == Trans::no ? row * stride + column : column * stride + row)]);
}

/// The rows of a matrix, or those of its transpose, one after another in double.
template <class T>
std::vector<double> rows_in_double(const std::vector<T>& stored, Trans trans, std::int64_t stride, std::int64_t rows,
                                   std::int64_t columns) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      values.push_back(element(stored, trans, stride, row, column));
  return values;
}

/// The largest error of gemm against sums in double, over every combination of forms; strides are larger than rows.
template <class T>
double worst_error(std::int64_t m, std::int64_t n, std::int64_t k, double beta) {
  double worst = 0;
  for (const Trans form_a : {Trans::no, Trans::yes}) {
    for (const Trans form_b : {Trans::no, Trans::yes}) {
      const std::int64_t stride_a = (form_a == Trans::no ? k : m) + 3, stride_b = (form_b == Trans::no ? n : k) + 2,
                         stride_c = n + 1;
      const auto a = random_values<T>((form_a == Trans::no ? m : k) * stride_a + 1, "a");
      const auto b = random_values<T>((form_b == Trans::no ? k : n) * stride_b + 1, "b");
      const auto before = random_values<Math<T>>(m * stride_c + 1, "c");
      auto c = before;
      if (beta == 0) std::fill(c.begin(), c.end(), std::numeric_limits<Math<T>>::quiet_NaN());
      gemm(m, n, k, 0.5, MatrixView<T>{a.data(), stride_a, form_a}, MatrixView<T>{b.data(), stride_b, form_b}, beta,
           c.data(), stride_c);
      const std::vector<double> left = rows_in_double(a, form_a, stride_a, m, k);
      const std::vector<double> right = rows_in_double(b, form_b == Trans::no ? Trans::yes : Trans::no, stride_b, n, k);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const double *row = left.data() + i * k, *column = right.data() + j * k;
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) sum += row[l] * column[l];
          const auto place = static_cast<std::size_t>(i * stride_c + j);
          const double expected = 0.5 * sum + (beta == 0 ? 0 : beta * static_cast<double>(before[place]));
          const double error = std::abs(static_cast<double>(c[place]) - expected);
          worst = std::isnan(error) ? error : std::max(worst, error);
        }
      }
    }
  }
  return worst;
}

struct Shape2 {
  std::int64_t m, n;
};

template <class T>
double sum_at(const std::vector<T>& a, const std::vector<T>& b, const Shape2& shape, std::int64_t k, std::int64_t i,
              std::int64_t j) {
  double sum = 0;
  for (std::int64_t l = 0; l < k; ++l) sum += element(a, Trans::no, k, i, l) * element(b, Trans::no, shape.n, l, j);
  return sum;
}

/// The largest distance of gemm_rounded from sums in double plus bias, beyond the noise of sums in fp32, in units of
/// the last place of T.
template <class T>
double worst_rounding(const Shape2& shape, std::int64_t k) {
  const auto a = random_values<T>(shape.m * k, "a"), b = random_values<T>(k * shape.n, "b"),
             bias = random_values<T>(shape.n, "bias");
  std::vector<T> y(static_cast<std::size_t>(shape.m * shape.n));
  gemm_rounded<T>(shape.m, shape.n, k, MatrixView<T>{a.data(), k}, MatrixView<T>{b.data(), shape.n}, bias.data(),
                  y.data(), shape.n);
  constexpr int digits = std::is_same_v<T, Bf16>   ? 8
                         : std::is_same_v<T, Fp16> ? 11
                                                   : std::numeric_limits<Math<T>>::digits;
  const double noise = 1e-6 * static_cast<double>(k);
  double worst = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      const double expected =
          sum_at(a, b, shape, k, i, j) + static_cast<double>(load(bias[static_cast<std::size_t>(j)]));
      const double unit = std::ldexp(1.0, std::ilogb(std::max(1e-3, std::abs(expected))) + 1 - digits);
      const double error = std::abs(static_cast<double>(load(y[static_cast<std::size_t>(i * shape.n + j)])) - expected);
      worst = std::isnan(error) ? error : std::max(worst, (error - noise) / unit);
    }
  }
  return worst;
}

template <class T>
double worst_sum_add(const Shape2& shape, std::int64_t k) {
  const auto a = random_values<T>(std::max<std::int64_t>(1, shape.m * k), "a"),
             b = random_values<T>(std::max<std::int64_t>(1, k * shape.n), "b");
  const auto bias = random_values<T>(shape.n, "bias");
  const auto base = random_values<Math<T>>(shape.m * shape.n, "base");
  std::vector<Math<T>> y(base.size());
  gemm_add<T>(shape.m, shape.n, k, MatrixView<T>{a.data(), k}, MatrixView<T>{b.data(), shape.n}, base.data(),
              bias.data(), y.data());
  double worst = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      const auto place = static_cast<std::size_t>(i * shape.n + j);
      const double expected = sum_at(a, b, shape, k, i, j) + static_cast<double>(base[place]) +
                              static_cast<double>(load(bias[static_cast<std::size_t>(j)]));
      worst = std::max(worst, std::abs(static_cast<double>(y[place]) - expected));
    }
  }
  return worst;
}

#ifdef _OPENMP
/// Elements of the three kinds of products that differ between one thread and several.
template <class T>
int bits_depend_on_threads(const Shape2& shape, std::int64_t k, Trans form_b = Trans::no) {
  const auto a = random_values<T>(shape.m * k, "a"), b = random_values<T>(k * shape.n, "b"),
             bias = random_values<T>(shape.n, "bias");
  const MatrixView<T> left{a.data(), k}, right{b.data(), form_b == Trans::no ? shape.n : k, form_b};
  const auto base = random_values<float>(shape.m * shape.n, "base");
  const auto products = [&](int threads) {
    omp_set_num_threads(threads);
    std::vector<float> results(3 * base.size());
    float* const plain = results.data();
    float* const added = plain + base.size();
    std::vector<T> rounded(base.size());
    gemm(shape.m, shape.n, k, 1, left, right, 0, plain, shape.n);
    gemm_add<T>(shape.m, shape.n, k, left, right, base.data(), bias.data(), added);
    gemm_rounded<T>(shape.m, shape.n, k, left, right, bias.data(), rounded.data(), shape.n);
    std::transform(rounded.begin(), rounded.end(), added + base.size(), [](T value) { return load(value); });
    return results;
  };
  const std::vector<float> alone = products(1);
  int different = 0;
  for (const int threads : {2, 3}) {
    const std::vector<float> together = products(threads);
    for (std::size_t i = 0; i < alone.size(); ++i) different += together[i] != alone[i];
  }
  return different;
}
#endif

/// With what this processor has beyond the BLAS, and by the BLAS alone.
template <class Check>
void both_ways(const Check& check) {
  for (const bool wanted : {true, false}) {
    want_matrix_unit(wanted);
    enable_vectors(wanted);
    BOOST_TEST_CONTEXT((uses_matrix_unit() ? "on the matrix unit" : uses_vectors() ? "by vectors" : "by the library"))
    check();
  }
  want_matrix_unit(true);
  enable_vectors(true);
}

/// Elements of products that depend on what lies beyond the rows of the factors, or on a row or column of the factors
/// that is not theirs: all of it is not a number.
template <class T>
int strange_elements(const Shape2& shape, std::int64_t k) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  int strange = 0;
  for (const Trans form_a : {Trans::no, Trans::yes}) {
    for (const Trans form_b : {Trans::no, Trans::yes}) {
      const auto padded = [&](std::int64_t outer, std::int64_t bad, Trans form, bool outer_is_rows) {
        const bool rows_are_outer = (form == Trans::no) == outer_is_rows;
        const std::int64_t rows = rows_are_outer ? outer : k, columns = rows_are_outer ? k : outer;
        std::vector<T> values(static_cast<std::size_t>(rows * (columns + 5)));
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < columns + 5; ++c) {
            const bool usual = c < columns && (rows_are_outer ? r : c) != bad;
            store(values[static_cast<std::size_t>(r * (columns + 5) + c)], usual ? 1 : nan);
          }
        }
        return values;
      };
      const std::int64_t row = shape.m / 2, column = shape.n - 1;
      const auto a = padded(shape.m, row, form_a, true), b = padded(shape.n, column, form_b, false);
      std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n));
      gemm(shape.m, shape.n, k, 1, MatrixView<T>{a.data(), (form_a == Trans::no ? k : shape.m) + 5, form_a},
           MatrixView<T>{b.data(), (form_b == Trans::no ? shape.n : k) + 5, form_b}, 0, c.data(), shape.n);
      for (std::int64_t i = 0; i < shape.m; ++i) {
        for (std::int64_t j = 0; j < shape.n; ++j) {
          const float value = c[static_cast<std::size_t>(i * shape.n + j)];
          strange += i == row || j == column ? !std::isnan(value) : value != static_cast<float>(k);
        }
      }
    }
  }
  return strange;
}

/// Elements of the rows of a product of eight rows that differ from the product of that row alone.
template <class T>
int bits_depend_on_other_rows(std::int64_t n, std::int64_t k) {
  constexpr std::int64_t m = 8;
  const auto a = random_values<T>(m * k, "a"), b = random_values<T>(k * n, "b");
  int different = 0;
  for (const Trans form : {Trans::no, Trans::yes}) {
    const MatrixView<T> right{b.data(), form == Trans::no ? n : k, form};
    std::vector<float> together(static_cast<std::size_t>(m * n)), alone(static_cast<std::size_t>(n));
    gemm(m, n, k, 1, MatrixView<T>{a.data(), k}, right, 0, together.data(), n);
    for (std::int64_t row = 0; row < m; ++row) {
      gemm(1, n, k, 1, MatrixView<T>{a.data() + row * k, k}, right, 0, alone.data(), n);
      for (std::int64_t i = 0; i < n; ++i)
        different += together[static_cast<std::size_t>(row * n + i)] != alone[static_cast<std::size_t>(i)];
    }
  }
  return different;
}

/// Root mean square over the elements of a product of its error, in units of the sum of the absolute values of its
/// terms.
double mean_error(const Shape2& shape, std::int64_t k, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n));
  gemm(shape.m, shape.n, k, 1, MatrixView<float>{a.data(), k}, MatrixView<float>{b.data(), shape.n}, 0, c.data(),
       shape.n);
  double squares = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double term = element(a, Trans::no, k, i, l) * element(b, Trans::no, shape.n, l, j);
        sum += term;
        size += std::abs(term);
      }
      const double error = (static_cast<double>(c[static_cast<std::size_t>(i * shape.n + j)]) - sum) / size;
      squares += error * error;
    }
  }
  return std::sqrt(squares / static_cast<double>(shape.m * shape.n));
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_all_forms_and_types_equal_sums_in_double) {
  both_ways([] {
    for (const double beta : {0.0, 1.0, 2.0}) {
      BOOST_TEST(worst_error<double>(5, 7, 11, beta) < 1e-13);
      BOOST_TEST(worst_error<float>(5, 7, 11, beta) < 1e-5);
      BOOST_TEST(worst_error<float>(33, 65, 129, beta) < 1e-4);
      BOOST_TEST(worst_error<float>(97, 131, 113, beta) < 1e-4);
      BOOST_TEST(worst_error<Bf16>(33, 65, 128, beta) < 1e-4);
      BOOST_TEST(worst_error<Bf16>(1, 1, 1, beta) < 1e-6);
      BOOST_TEST(worst_error<Fp16>(33, 65, 128, beta) < 1e-4);
      BOOST_TEST(worst_error<Fp16>(1, 1, 1, beta) < 1e-6);
    }
  });
}

// Beyond one strip, one block and one packed panel of the matrix unit in each direction, with remainders; a depth that
// is summed in parts.
BOOST_AUTO_TEST_CASE(large_products_equal_sums_in_double) {
  both_ways([] {
    BOOST_TEST(worst_error<Bf16>(70, 413, 801, 1) < 1e-3);
    BOOST_TEST(worst_error<Bf16>(413, 70, 801, 0) < 1e-3);
    BOOST_TEST(worst_error<Bf16>(261, 300, 40, 0) < 1e-4);
    BOOST_TEST(worst_error<Bf16>(34, 33, 64000, 1) < 1e-2);
    BOOST_TEST(worst_error<Bf16>(300, 34, 1777, 2) < 1e-3);
    BOOST_TEST(worst_error<Fp16>(257, 300, 1025, 2) < 1e-3);
    BOOST_TEST(worst_error<float>(70, 813, 270, 1) < 1e-3);
    BOOST_TEST(worst_error<float>(813, 70, 270, 0) < 1e-3);
    BOOST_TEST(worst_error<float>(65, 64, 22000, 1) < 1e-2);
  });
}

// One to eight rows, and the next number of rows, which other kernels compute. Depths and columns with every kind of
// remainder: of vectors, of the rows of the right factor that are read together, and of the columns whose sums are
// kept.
BOOST_AUTO_TEST_CASE(products_of_few_rows_equal_sums_in_double) {
  both_ways([] {
    for (std::int64_t m = 1; m <= 9; ++m) {
      for (const Shape2& sides : {Shape2{1, 1}, Shape2{5, 3}, Shape2{33, 16}, Shape2{70, 67}, Shape2{2, 1031}}) {
        for (const double beta : {0.0, 2.0}) {
          BOOST_TEST(worst_error<float>(m, sides.m, sides.n, beta) < 1e-4);
          BOOST_TEST(worst_error<Bf16>(m, sides.m, sides.n, beta) < 1e-4);
          BOOST_TEST(worst_error<Fp16>(m, sides.m, sides.n, beta) < 1e-4);
        }
      }
    }
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{6}}) {
      BOOST_TEST(worst_error<float>(m, 1093, 39, 2) < 1e-4);
      BOOST_TEST(worst_error<Bf16>(m, 1093, 39, 2) < 1e-4);
      BOOST_TEST(worst_error<Fp16>(m, 1093, 39, 2) < 1e-4);
      BOOST_TEST(worst_error<double>(m, 33, 77, 2) < 1e-13);
    }
  });
}

// Beyond a depth that depends on the number of rows, other kernels compute them.
BOOST_AUTO_TEST_CASE(deep_products_of_few_rows_equal_sums_in_double) {
  both_ways([] {
    BOOST_TEST(worst_error<float>(4, 3, 32768, 1) < 1e-2);
    BOOST_TEST(worst_error<float>(4, 3, 32769, 1) < 1e-2);
    BOOST_TEST(worst_error<Bf16>(4, 3, 32769, 1) < 1e-2);
    BOOST_TEST(worst_error<Fp16>(4, 3, 32769, 1) < 1e-2);
    BOOST_TEST(worst_rounding<Bf16>({4, 3}, 32769) <= 0.51);
  });
}

// Of an odd depth, half a word of the last pair of bf16 elements lies beyond.
BOOST_AUTO_TEST_CASE(what_is_not_a_number_reaches_its_row_and_column_and_nothing_else) {
  both_ways([] {
    for (const std::int64_t k : {std::int64_t{64}, std::int64_t{77}, std::int64_t{801}}) {
      for (const Shape2& shape : {Shape2{1, 9}, Shape2{8, 50}, Shape2{9, 48}, Shape2{61, 83}, Shape2{150, 70}}) {
        BOOST_TEST(strange_elements<Bf16>(shape, k) == 0);
        BOOST_TEST(strange_elements<Fp16>(shape, k) == 0);
        BOOST_TEST(strange_elements<float>(shape, k) == 0);
      }
    }
  });
}

// The claim that lets training in fp32 use it.
BOOST_AUTO_TEST_CASE(fp32_products_on_the_matrix_unit_are_no_less_exact_than_the_librarys) {
  if (!uses_matrix_unit()) {
    BOOST_TEST_MESSAGE("skipped: this processor has no matrix unit");
    return;
  }
  const Shape2 shape{80, 96};
  for (const std::int64_t k : {std::int64_t{150}, std::int64_t{700}, std::int64_t{4000}}) {
    const auto plain = random_values<float>(shape.m * k, "a"), right = random_values<float>(k * shape.n, "b");
    auto wide = plain;  // magnitudes over thirty powers of two
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = std::ldexp(wide[i], static_cast<int>(i * 7919 % 31) - 15);
    for (const auto& left : {plain, wide}) {
      const double on_unit = mean_error(shape, k, left, right);
      want_matrix_unit(false);
      const double by_library = mean_error(shape, k, left, right);
      want_matrix_unit(true);
      BOOST_TEST(on_unit <= by_library);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rounded_product_is_the_sum_with_its_bias_rounded_once) {
  both_ways([] {
    for (const Shape2& shape : {Shape2{1, 65}, Shape2{8, 1100}, Shape2{33, 65}, Shape2{300, 200}}) {
      for (const std::int64_t k : {std::int64_t{31}, std::int64_t{900}}) {
        BOOST_TEST(worst_rounding<Bf16>(shape, k) <= 0.51);
        BOOST_TEST(worst_rounding<Fp16>(shape, k) <= 0.51);
        BOOST_TEST(worst_rounding<float>(shape, k) <= 0.51);
      }
    }
    BOOST_TEST(worst_rounding<Bf16>({34, 33}, 64000) <= 0.51);
  });
}

BOOST_AUTO_TEST_CASE(a_product_onto_a_residual_adds_residual_and_bias) {
  both_ways([] {
    BOOST_TEST(worst_sum_add<Bf16>({33, 65}, 128) < 1e-4);
    BOOST_TEST(worst_sum_add<Bf16>({300, 40}, 800) < 1e-3);
    BOOST_TEST(worst_sum_add<Fp16>({300, 40}, 1100) < 1e-3);
    BOOST_TEST(worst_sum_add<float>({33, 65}, 128) < 1e-4);
    BOOST_TEST(worst_sum_add<float>({300, 70}, 800) < 1e-3);
    BOOST_TEST(worst_sum_add<double>({33, 65}, 128) < 1e-12);
    BOOST_TEST(worst_sum_add<Bf16>({3, 5}, 0) < 1e-6);
    for (const Shape2& shape : {Shape2{1, 65}, Shape2{8, 1100}}) {
      BOOST_TEST(worst_sum_add<float>(shape, 128) < 1e-4);
      BOOST_TEST(worst_sum_add<Bf16>(shape, 128) < 1e-4);
      BOOST_TEST(worst_sum_add<Fp16>(shape, 128) < 1e-4);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_product_without_terms_is_beta_times_what_was_there) {
  BOOST_TEST(worst_error<float>(3, 4, 0, 0) == 0);
  BOOST_TEST(worst_error<double>(3, 4, 0, 2) < 1e-15);
  BOOST_TEST(worst_error<Bf16>(3, 4, 0, 1) == 0);
  BOOST_TEST(worst_error<Fp16>(3, 4, 0, 1) == 0);
  BOOST_TEST(worst_error<float>(0, 4, 3, 0) == 0);
  BOOST_TEST(worst_error<float>(4, 0, 3, 0) == 0);
}

#ifdef _OPENMP
BOOST_AUTO_TEST_CASE(products_have_the_same_bits_for_any_number_of_threads) {
  const int before = omp_get_max_threads();
  both_ways([] {
    for (const Shape2& shape : {Shape2{768, 128}, Shape2{128, 384}, Shape2{61, 413}, Shape2{413, 61}}) {
      BOOST_TEST(bits_depend_on_threads<float>(shape, 700) == 0);
      BOOST_TEST(bits_depend_on_threads<Bf16>(shape, 700) == 0);
      BOOST_TEST(bits_depend_on_threads<Fp16>(shape, 700) == 0);
    }
    BOOST_TEST(bits_depend_on_threads<float>({640, 512}, 700) == 0);  // which is left to the library whole
    for (const Trans form : {Trans::no, Trans::yes}) {
      for (const Shape2& shape : {Shape2{1, 2093}, Shape2{4, 1301}, Shape2{8, 1100}}) {
        BOOST_TEST(bits_depend_on_threads<float>(shape, 205, form) == 0);
        BOOST_TEST(bits_depend_on_threads<Bf16>(shape, 205, form) == 0);
        BOOST_TEST(bits_depend_on_threads<Fp16>(shape, 205, form) == 0);
      }
    }
  });
  omp_set_num_threads(before);
}
#endif

// Generation of a text thus does not depend on the few others of its batch.
BOOST_AUTO_TEST_CASE(a_row_of_a_product_of_few_rows_has_the_same_bits_in_a_product_of_its_own) {
  both_ways([] {
    for (const std::int64_t k : {std::int64_t{48}, std::int64_t{1031}}) {
      BOOST_TEST(bits_depend_on_other_rows<float>(71, k) == 0);
      BOOST_TEST(bits_depend_on_other_rows<Bf16>(71, k) == 0);
      BOOST_TEST(bits_depend_on_other_rows<Fp16>(71, k) == 0);
    }
  });
}

// The memory plan of bf16 counts on this.
BOOST_AUTO_TEST_CASE(rounded_products_of_few_rows_need_no_memory_for_sums) {
  for (const Multiplier by : {Multiplier::vectors, Multiplier::matrix_unit, Multiplier::library})
    BOOST_TEST(rounding_scratch_bytes(8, 300, 700, by) == 0);
  BOOST_TEST(rounding_scratch_bytes(9, 300, 700, Multiplier::library) == 9 * 300 * 4);
}

#if defined(_OPENMP) && !defined(__SANITIZE_ADDRESS__)
BOOST_AUTO_TEST_CASE(memory_that_runs_out_on_any_thread_of_a_product_is_an_exception) {
  if (!uses_matrix_unit() && !uses_vectors()) {
    BOOST_TEST_MESSAGE("skipped: products are the library's");
    return;
  }
  const auto a = random_values<Bf16>(600 * 700, "a"), b = random_values<Bf16>(700 * 900, "b");
  int failures = 0;
  for (int granted = 0; failures == granted; ++granted) {  // until there is enough
    std::thread([&, granted] {  // with threads of its own, whose scratch memory is yet to be allocated
      std::vector<float> c(600 * 900);
      omp_set_num_threads(2);
      aligned_allocations_left = granted;
      try {
        gemm(600, 900, 700, 1, MatrixView<Bf16>{a.data(), 700}, MatrixView<Bf16>{b.data(), 900}, 0, c.data(), 900);
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      aligned_allocations_left = unlimited;
    })
        .join();
  }
  BOOST_TEST(failures >= 3);  // of what is packed, and sums, on two threads
}
#endif

BOOST_AUTO_TEST_SUITE_END()
