// Attention over a cache of keys and values: texts fed whole, in pieces and row by row, against plain loops in double.
#include "tensor/kernels/cached_attention_kernel.hpp"

#include "random_values.hpp"

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(attention_over_a_cache)

using namespace lockstep;

namespace {

/// Texts, and how they are fed.
struct Case {
  AttentionShape shape;
  std::vector<std::int64_t> lengths;
  bool rotates = false;
  std::int64_t piece = 0;     // most new rows of a text in a call; 0: all
  std::int64_t capacity = 0;  // 0: the longest text
};

std::string name_of(const Case& of) {
  return std::to_string(of.shape.heads) + "/" + std::to_string(of.shape.kv_heads) + " heads of " +
         std::to_string(of.shape.head_size) + ", window " + std::to_string(of.shape.window) + ", pieces of " +
         std::to_string(of.piece);
}

std::int64_t longest(const Case& of) { return *std::max_element(of.lengths.begin(), of.lengths.end()); }

template <class T>
std::vector<T> new_rows(const Case& of, std::size_t text) {
  return random_values<T>(of.lengths[text] * of.shape.width(), "text " + std::to_string(text));
}

/// cos, then sin, of the positions.
template <class M>
std::vector<M> angles(const Case& of) {
  const std::int64_t half = of.shape.head_size / 2, count = longest(of);
  std::vector<M> table(static_cast<std::size_t>(2 * count * half));
  for (std::int64_t i = 0; i < count * half; ++i) {
    const double angle = static_cast<double>(i / half) / static_cast<double>(1 + i % half);
    table[static_cast<std::size_t>(i)] = static_cast<M>(std::cos(angle));
    table[static_cast<std::size_t>(count * half + i)] = static_cast<M>(std::sin(angle));
  }
  return table;
}

/// A cache that holds NaN at first, with more slots than texts.
template <class T>
struct Cache {
  explicit Cache(const Case& of)
      : capacity(of.capacity > 0 ? of.capacity : longest(of)),
        slots(std::ssize(of.lengths) + 1),
        values(static_cast<std::size_t>(slots * 2 * of.shape.kv_heads * capacity * of.shape.head_size)) {
    for (T& value : values) store(value, std::numeric_limits<Math<T>>::quiet_NaN());
  }
  std::int64_t capacity, slots;
  std::vector<T> values;
};

/// The results of the texts, one after the other. Shorter texts end in earlier calls; each begins one call later than
/// the one before it.
template <class T>
std::vector<T> fed(const Case& of) {
  const AttentionShape& shape = of.shape;
  const std::int64_t width = shape.width(), output = shape.heads * shape.head_size,
                     piece = of.piece > 0 ? of.piece : longest(of);
  const std::vector<Math<T>> table = angles<Math<T>>(of);
  const Rotation<Math<T>> rotation{of.rotates ? table.data() : nullptr, table.data() + table.size() / 2};
  Cache<T> cache(of);
  std::vector<std::vector<T>> inputs, results(of.lengths.size());
  for (std::size_t t = 0; t < of.lengths.size(); ++t) inputs.push_back(new_rows<T>(of, t));
  std::vector<std::int64_t> done(of.lengths.size());
  for (std::int64_t call = 0; done != of.lengths; ++call) {
    std::vector<std::int64_t> starts{0};
    std::vector<std::int32_t> slots, positions;
    std::vector<T> qkv;
    for (std::size_t t = 0; t < of.lengths.size(); ++t) {
      const std::int64_t rows = static_cast<std::int64_t>(t) > call ? 0 : std::min(piece, of.lengths[t] - done[t]);
      slots.push_back(static_cast<std::int32_t>(of.lengths.size() - t));
      for (std::int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<std::int32_t>(done[t] + r));
      qkv.insert(qkv.end(), inputs[t].begin() + done[t] * width, inputs[t].begin() + (done[t] + rows) * width);
      starts.push_back(starts.back() + rows);
    }
    std::vector<T> y(static_cast<std::size_t>(starts.back() * output));
    cached_attention<T>(qkv.data(), shape,
                        {{starts.data(), std::ssize(slots)}, slots.data(), positions.data(), cache.capacity}, rotation,
                        cache.values.data(), y.data());
    for (std::size_t t = 0; t < of.lengths.size(); ++t) {
      results[t].insert(results[t].end(), y.begin() + starts[t] * output, y.begin() + starts[t + 1] * output);
      done[t] += starts[t + 1] - starts[t];
    }
  }
  std::vector<T> all;
  for (const std::vector<T>& result : results) all.insert(all.end(), result.begin(), result.end());
  return all;
}

/// The same, one number after the other. The cache holds keys rounded to T.
template <class T>
std::vector<double> by_loops(const Case& of) {
  const AttentionShape& shape = of.shape;
  const std::int64_t size = shape.head_size, half = size / 2, group = shape.heads / shape.kv_heads;
  const std::vector<Math<T>> table = angles<Math<T>>(of);
  const auto rounded = [](double value) {
    T stored;
    store(stored, static_cast<Math<T>>(value));
    return static_cast<double>(load(stored));
  };
  std::vector<double> results;
  for (std::size_t t = 0; t < of.lengths.size(); ++t) {
    const std::vector<T> rows = new_rows<T>(of, t);
    std::vector<double> qkv;
    for (const T value : rows) qkv.push_back(static_cast<double>(load(value)));
    const auto at = [&](std::int64_t row, std::int64_t head) { return &qkv[row * shape.width() + head * size]; };
    for (std::int64_t row = 0; of.rotates && row < of.lengths[t]; ++row)
      for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head)
        for (std::int64_t i = 0; i < half; ++i) {
          const auto angle = static_cast<std::size_t>(row * half + i);
          const double a = at(row, head)[i], b = at(row, head)[i + half], cosine = table[angle],
                       sine = table[table.size() / 2 + angle];
          at(row, head)[i] = a * cosine - b * sine;
          at(row, head)[i + half] = b * cosine + a * sine;
          if (head < shape.heads) continue;
          for (double* const key : {at(row, head) + i, at(row, head) + i + half}) *key = rounded(*key);
        }
    for (std::int64_t row = 0; row < of.lengths[t]; ++row)
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, row + 1 - shape.window) : 0;
        const std::int64_t key_head = shape.heads + head / group;
        std::vector<double> p, y(static_cast<std::size_t>(size));
        double largest = -1e300, sum = 0;
        for (std::int64_t key = first; key <= row; ++key) {
          double score = 0;
          for (std::int64_t i = 0; i < size; ++i) score += at(row, head)[i] * at(key, key_head)[i];
          p.push_back(score / std::sqrt(static_cast<double>(size)));
          largest = std::max(largest, p.back());
        }
        for (double& value : p) sum += value = std::exp(value - largest);
        for (std::int64_t key = first; key <= row; ++key)
          for (std::int64_t i = 0; i < size; ++i)
            y[static_cast<std::size_t>(i)] +=
                p[static_cast<std::size_t>(key - first)] / sum * at(key, key_head + shape.kv_heads)[i];
        results.insert(results.end(), y.begin(), y.end());
      }
  }
  return results;
}

template <class T>
double largest_difference(const std::vector<T>& values, const std::vector<double>& expected) {
  double worst = values.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(static_cast<double>(load(values[i])) - expected[i]);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

/// Feeds the texts in pieces of each of these numbers of rows.
template <class T>
void check(Case of, const std::vector<std::int64_t>& pieces, double bound) {
  const std::vector<double> expected = by_loops<T>(of);
  for (const std::int64_t piece : pieces) {
    of.piece = piece;
    const double difference = largest_difference(fed<T>(of), expected);
    BOOST_TEST(difference <= bound, name_of(of) << ": differs by " << difference);
  }
}

template <class T>
void check_shapes(double bound) {
  check<T>({{4, 2, 16}, {1, 37, 290}, true}, {1, 5, 8, 100, 0}, bound);
  check<T>({{2, 2, 64}, {70, 8}}, {1, 3, 0}, bound);
  check<T>({{6, 2, 80}, {66}, true}, {1, 7, 0}, bound);
  check<T>({{5, 1, 128}, {3, 30}, true}, {1, 0}, bound);
  check<T>({{3, 3, 7}, {40, 41}}, {1, 6, 9, 0}, bound);
  check<T>({{8, 1, 20}, {33}, true}, {1, 2, 0}, bound);
}

template <class T>
std::vector<T> with_threads(int threads, const Case& of) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  std::vector<T> result = fed<T>(of);
  at::set_num_threads(before);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(texts_fed_whole_in_pieces_and_row_by_row_are_those_of_plain_loops_in_every_type) {
  check_shapes<double>(1e-13);
  check_shapes<float>(4e-6);
  check_shapes<Bf16>(0.02);
  check_shapes<Fp16>(0.004);
}

BOOST_AUTO_TEST_CASE(windows_hide_early_positions) {
  for (const std::int64_t window : {1, 2, 16, 30, 270}) {
    check<double>({{2, 1, 16, window}, {300, 20}, true}, {1, 5, 64, 0}, 1e-13);
    check<float>({{4, 2, 10, window}, {80}}, {1, 7, 8}, 4e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_window_needs_no_more_places_than_itself_and_the_new_rows_but_one) {
  for (const std::int64_t window : {1, 20, 33})
    for (const std::int64_t piece : {1, 5, 9, 70})
      for (const std::int64_t more : {0, 3}) {
        Case of{{2, 1, 16, window}, {150, 31}, true};
        of.capacity = window + piece - 1 + more;
        check<float>(of, {piece}, 4e-6);
      }
  Case of{{2, 1, 6, 270}, {700}};
  of.capacity = 270;
  check<double>(of, {1}, 1e-13);
}

BOOST_AUTO_TEST_CASE(texts_fed_whole_are_those_of_attention_without_a_cache) {
  for (const AttentionShape& shape : {AttentionShape{4, 2, 16}, AttentionShape{3, 3, 20, 50}}) {
    const Case of{shape, {300}, true};
    const std::vector<double> qkv = new_rows<double>(of, 0), table = angles<double>(of);
    const std::vector<std::int64_t> starts{0, 300};
    std::vector<std::int32_t> positions(300);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    std::vector<double> y(static_cast<std::size_t>(300 * shape.heads * shape.head_size)),
        log_sums(static_cast<std::size_t>(300 * shape.heads));
    attention_forward<double>(qkv.data(), shape, {starts.data(), 1}, {table.data(), table.data() + table.size() / 2},
                              positions.data(), y.data(), log_sums.data());
    BOOST_TEST(largest_difference(fed<double>(of), y) <= 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(texts_have_the_same_bits_for_any_number_of_threads) {
  for (const std::int64_t piece : {1, 6, 30, 0}) {
    const Case of{{4, 2, 16, 40}, {150, 20, 300}, true, piece};
    BOOST_TEST(with_threads<float>(1, of) == with_threads<float>(2, of));
    const Case unlike{{3, 1, 10}, {150, 20, 300}, false, piece};
    BOOST_TEST(with_threads<float>(1, unlike) == with_threads<float>(3, unlike));
  }
}

BOOST_AUTO_TEST_CASE(a_text_has_the_same_bits_beside_others) {
  for (const std::int64_t piece : {1, 6, 30}) {
    const auto both = fed<float>({{4, 2, 16}, {290, 300}, true, piece}),
               alone = fed<float>({{4, 2, 16}, {290}, true, piece});
    BOOST_TEST(std::equal(alone.begin(), alone.end(), both.begin()));
  }
}

BOOST_AUTO_TEST_CASE(a_call_writes_only_the_places_of_its_rows) {
  const AttentionShape shape{2, 1, 4};
  const Case of{shape, {6, 6}};
  Cache<float> cache(of);
  const std::vector<float> qkv = random_values<float>(3 * shape.width(), "qkv");
  const std::vector<std::int64_t> starts{0, 2, 3};
  const std::vector<std::int32_t> slots{2, 0}, positions{0, 1, 0};
  std::vector<float> y(3 * 8);
  cached_attention<float>(qkv.data(), shape, {{starts.data(), 2}, slots.data(), positions.data(), 6}, {},
                          cache.values.data(), y.data());
  for (std::size_t i = 0; i < cache.values.size(); ++i) {
    const std::size_t slot = i / 48, head = i / 24 % 2, position = i / 4 % 6, column = i % 4;
    const std::size_t rows = slot == 2 ? 2 : slot == 0 ? 1 : 0, row = slot == 0 ? 2 : position;
    if (position >= rows)
      BOOST_TEST(std::isnan(cache.values[i]));
    else
      BOOST_TEST(cache.values[i] == qkv[row * 16 + 8 + head * 4 + column]);
  }
}

BOOST_AUTO_TEST_CASE(scores_may_have_any_size) {
  const AttentionShape shape{1, 1, 4};
  const std::int64_t rows = 600;  // in three chunks
  std::vector<float> cache(static_cast<std::size_t>(2 * rows * 4)), qkv(12), y(4);
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = i < 2400 ? 1e4f : static_cast<float>(i / 4 % 600);
  std::fill_n(qkv.begin(), 8, 1e4f);
  std::fill_n(qkv.begin() + 8, 4, 599.0f);
  const std::vector<std::int64_t> starts{0, 1};
  const std::vector<std::int32_t> slots{0}, positions{599};
  cached_attention<float>(qkv.data(), shape, {{starts.data(), 1}, slots.data(), positions.data(), rows}, {},
                          cache.data(), y.data());
  for (const float value : y) BOOST_TEST(std::abs(value - 299.5f) < 1e-3f);  // equal scores: the mean of the values
}

BOOST_AUTO_TEST_CASE(a_call_without_rows_does_nothing) {
  const std::vector<std::int64_t> starts{0, 0, 0};
  const std::vector<std::int32_t> slots{1, 0};
  for (const std::int64_t texts : {0, 2})
    cached_attention<float>(nullptr, {2, 1, 4}, {{starts.data(), texts}, slots.data(), nullptr, 6}, {}, nullptr,
                            nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
