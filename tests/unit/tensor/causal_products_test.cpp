#include "tensor/kernels/causal_products.hpp"

#include "random_values.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

BOOST_AUTO_TEST_SUITE(products_of_causal_attention)

using namespace lockstep;

namespace {

using Values = std::vector<float>;

/// Aligned memory whose elements are NaN until something is written.
struct Turned {
  explicit Turned(std::int64_t elements) : memory(static_cast<std::size_t>(elements) + 16, not_a_number) {
    void* start = memory.data();
    std::size_t room = memory.size() * sizeof(float);
    values = static_cast<float*>(
        std::align(turned_alignment, static_cast<std::size_t>(elements) * sizeof(float), start, room));
  }
  static constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  Values memory;
  float* values;
};

/// The sum over `count` of a[i · a_step] · b[i · b_step] in double.
double dot(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
  return sum;
}

double distance(float value, double expected) {
  const double error = std::abs(static_cast<double>(value) - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

struct Case {
  CausalTile tile;
  std::int64_t width() const { return tile.first + tile.rows; }
  Values factor = random_values<float>(width() * tile.head_size, "factor");
  Values x = random_values<float>(tile.rows * tile.head_size, "x");

  /// Zeros where they are hidden, as a soft-max leaves them.
  Values probabilities() const {
    Values p = random_values<float>(tile.rows * tile.score_stride, "p");
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      float* const row = p.data() + r * tile.score_stride;
      std::fill(row, row + hidden_keys(tile.first + r, tile.window), 0.0f);
      std::fill(row + tile.first + r + 1, row + tile.score_stride, 0.0f);
    }
    return p;
  }

  double worst_score() const {
    Turned turned(turned_elements(width(), tile.head_size));
    turn_rows(factor.data(), width(), tile.head_size, turned.values);
    Values scores(static_cast<std::size_t>(tile.rows * tile.score_stride), Turned::not_a_number);
    causal_scores(tile, x.data(), turned.values, scores.data());
    double worst = 0;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t key = hidden_keys(tile.first + r, tile.window); key <= tile.first + r; ++key) {
        const double expected =
            dot(x.data() + r * tile.head_size, 1, factor.data() + key * tile.head_size, 1, tile.head_size);
        worst = std::max(worst, distance(scores[static_cast<std::size_t>(r * tile.score_stride + key)], expected));
      }
    }
    return worst;
  }

  double worst_combination() const {
    const Values p = probabilities();
    Values y(static_cast<std::size_t>(tile.rows * tile.head_size), Turned::not_a_number);
    causal_combine(tile, p.data(), factor.data(), y.data());
    double worst = 0;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t c = 0; c < tile.head_size; ++c) {
        const double expected = dot(p.data() + r * tile.score_stride, 1, factor.data() + c, tile.head_size, width());
        worst = std::max(worst, distance(y[static_cast<std::size_t>(r * tile.head_size + c)], expected));
      }
    }
    return worst;
  }

  double worst_spread() const {
    const Values p = probabilities(), before = random_values<float>(width() * tile.head_size, "before");
    Values y = before;
    causal_spread(tile, p.data(), x.data(), y.data());
    double worst = 0;
    for (std::int64_t key = 0; key < width(); ++key) {
      for (std::int64_t c = 0; c < tile.head_size; ++c) {
        const auto place = static_cast<std::size_t>(key * tile.head_size + c);
        const double expected = static_cast<double>(before[place]) +
                                dot(p.data() + key, tile.score_stride, x.data() + c, tile.head_size, tile.rows);
        worst = std::max(worst, distance(y[place], expected));
      }
    }
    return worst;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(they_equal_sums_in_double_for_tiles_of_all_sizes) {
  if (!has_causal_products(16)) {
    BOOST_TEST_MESSAGE("skipped: this processor has no AVX-512");
    return;
  }
  for (const std::int64_t first : {0, 64, 192}) {
    for (const std::int64_t rows : {1, 7, 8, 20, 64}) {
      for (const std::int64_t size : {16, 32, 48, 64, 80, 128}) {
        for (const std::int64_t window : {std::int64_t{1}, std::int64_t{19}, std::int64_t{100}, all_keys}) {
          const Case one{{first, rows, size, (first + rows + 15) / 16 * 16, window}};
          BOOST_TEST_CONTEXT("first " << first << ", rows " << rows << ", head size " << size << ", window "
                                      << window) {
            BOOST_TEST(one.worst_score() < 1e-4);
            BOOST_TEST(one.worst_combination() < 1e-4);
            BOOST_TEST(one.worst_spread() < 1e-4);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_that_do_not_fill_vectors_are_left_to_others) {
  BOOST_TEST(!has_causal_products(12));
  BOOST_TEST(!has_causal_products(40));
}

BOOST_AUTO_TEST_SUITE_END()
