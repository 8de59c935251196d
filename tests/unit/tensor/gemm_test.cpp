#include "tensor/gemm.hpp"

#include "random_values.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace lockstep;

namespace {

template <class T>
double element(const std::vector<T>& stored, Form form, std::int64_t stride, std::int64_t row, std::int64_t column) {
  return load(stored[static_cast<std::size_t>(form == Form::plain ? row * stride + column : column * stride + row)]);
}

/// The largest error of gemm against sums in double, over every combination of forms; strides are larger than rows.
template <class T>
double worst_error(std::int64_t m, std::int64_t n, std::int64_t k, double beta) {
  double worst = 0;
  for (const Form form_a : {Form::plain, Form::transposed}) {
    for (const Form form_b : {Form::plain, Form::transposed}) {
      const std::int64_t stride_a = (form_a == Form::plain ? k : m) + 3, stride_b = (form_b == Form::plain ? n : k) + 2, stride_c = n + 1;
      const auto a = random_values<T>(std::max(m, k) * stride_a + 1, "a"), b = random_values<T>(std::max(n, k) * stride_b + 1, "b");
      const auto before = random_values<Math<T>>(m * stride_c + 1, "c");
      auto c = before;
      if (beta == 0) std::fill(c.begin(), c.end(), std::numeric_limits<Math<T>>::quiet_NaN());
      gemm(m, n, k, 0.5, Factor<T>{a.data(), stride_a, form_a}, Factor<T>{b.data(), stride_b, form_b}, beta, c.data(), stride_c);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) sum += element(a, form_a, stride_a, i, l) * element(b, form_b, stride_b, l, j);
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

}  // namespace

BOOST_AUTO_TEST_SUITE(matrix_products)

BOOST_AUTO_TEST_CASE(products_of_all_forms_and_types_equal_sums_in_double) {
  for (const double beta : {0.0, 1.0, 2.0}) {
    BOOST_TEST(worst_error<double>(5, 7, 11, beta) < 1e-13);
    BOOST_TEST(worst_error<float>(5, 7, 11, beta) < 1e-5);
    BOOST_TEST(worst_error<float>(33, 65, 129, beta) < 1e-4);
    BOOST_TEST(worst_error<Bf16>(33, 65, 128, beta) < 1e-4);
    BOOST_TEST(worst_error<Bf16>(1, 1, 1, beta) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_product_without_terms_is_beta_times_what_was_there) {
  BOOST_TEST(worst_error<float>(3, 4, 0, 0) == 0);
  BOOST_TEST(worst_error<double>(3, 4, 0, 2) < 1e-15);
  BOOST_TEST(worst_error<Bf16>(3, 4, 0, 1) == 0);
  BOOST_TEST(worst_error<float>(0, 4, 3, 0) == 0);
  BOOST_TEST(worst_error<float>(4, 0, 3, 0) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
