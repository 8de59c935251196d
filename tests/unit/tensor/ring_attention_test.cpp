// Steps of a ring, made one after the other on one rank, against plain loops in double.
#include "layout/sequence.hpp"
#include "tensor/kernels/ring_attention_kernel.hpp"

#include "random_values.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(attention_of_a_ring)

using namespace lockstep;

namespace {

template <class T>
struct Result {
  std::vector<T> y, dqkv;
};

/// cos and sin of the positions, as Rotation has them.
template <class M>
std::vector<M> rotary_table(std::int64_t positions, std::int64_t head_size) {
  std::vector<M> table(static_cast<std::size_t>(positions * head_size));
  const std::int64_t half = head_size / 2;
  for (std::int64_t p = 0; p < positions; ++p)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(100, -static_cast<double>(i) / static_cast<double>(half));
      table[static_cast<std::size_t>(p * half + i)] = static_cast<M>(std::cos(angle));
      table[static_cast<std::size_t>((positions + p) * half + i)] = static_cast<M>(std::sin(angle));
    }
  return table;
}

template <class M>
Rotation<M> rotation_of(const std::vector<M>& table) {
  return table.empty() ? Rotation<M>{} : Rotation<M>{table.data(), table.data() + table.size() / 2};
}

std::vector<std::int32_t> positions_in(const std::vector<std::int64_t>& segments) {
  std::vector<std::int32_t> positions;
  for (std::size_t i = 0; i + 1 < segments.size(); ++i)
    for (std::int64_t at = segments[i]; at < segments[i + 1]; ++at)
      positions.push_back(static_cast<std::int32_t>(at - segments[i]));
  return positions;
}

/// Rows of x (N, columns) as one rank has them; padding is 0.
template <class T>
std::vector<T> gathered(const std::vector<T>& x, const std::vector<std::int64_t>& rows, std::int64_t columns) {
  std::vector<T> own(rows.size() * static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0)
      std::copy_n(x.begin() + rows[i] * columns, columns, own.begin() + static_cast<std::ptrdiff_t>(i) * columns);
  return own;
}

template <class T>
void scatter(const std::vector<T>& own, const std::vector<std::int64_t>& rows, std::int64_t columns,
             std::vector<T>& x) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0)
      std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(i) * columns, columns, x.begin() + rows[i] * columns);
}

/// What ranks of a ring compute together.
template <class T>
Result<T> by_ring(int ring, const AttentionShape& shape, const std::vector<std::int64_t>& segments,
                  const std::vector<T>& qkv, const std::vector<T>& dy, const std::vector<Math<T>>& table,
                  const AttentionDropout& dropout = {}) {
  using M = Math<T>;
  const SequenceRanks ranks{1, ring};
  const std::int64_t size = shape.head_size, around = 2 * shape.kv_heads * size, output = shape.heads * size;
  const std::vector<std::int32_t> positions = positions_in(segments);
  struct Rank {
    std::vector<std::int64_t> rows;
    std::vector<SequencePart> parts;
    std::vector<std::int32_t> positions;
    std::vector<Place> places;
    std::vector<T> qkv, kv, dy, y, dqkv;
    std::vector<M> sums, log_sums, products, dq, dkv;
  };
  std::vector<Rank> all;
  for (int r = 0; r < ring; ++r) {
    Rank rank;
    rank.rows = attended_rows(ranks, r, segments);
    rank.parts = parts_of(ranks, r, segments);
    const std::size_t count = rank.rows.size();
    rank.positions = gathered(positions, rank.rows, 1);
    if (dropout.mask)
      rank.places = gathered(std::vector<Place>(dropout.places, dropout.places + segments.back()), rank.rows, 1);
    rank.qkv = gathered(qkv, rank.rows, shape.width());
    rank.dy = gathered(dy, rank.rows, output);
    for (std::size_t i = 0; i < count; ++i)
      rank.kv.insert(rank.kv.end(), rank.qkv.begin() + static_cast<std::ptrdiff_t>(i) * shape.width() + output,
                     rank.qkv.begin() + static_cast<std::ptrdiff_t>(i + 1) * shape.width());
    rank.y.resize(count * static_cast<std::size_t>(output));
    rank.dqkv.resize(rank.qkv.size());
    rank.sums.resize(rank.y.size());
    rank.log_sums.assign(count * static_cast<std::size_t>(shape.heads), -std::numeric_limits<M>::infinity());
    rank.products.resize(rank.log_sums.size());
    rank.dq.resize(rank.y.size());
    rank.dkv.resize(count * static_cast<std::size_t>(around));
    all.push_back(std::move(rank));
  }
  const auto step = [&](const Rank& own, const Rank& theirs) {
    return RingStep{shape,
                    std::ssize(own.rows),
                    static_cast<std::int64_t>(segments.size()) - 1,
                    {own.parts.data(), own.positions.data()},
                    {theirs.parts.data(), theirs.positions.data()}};
  };
  const auto drops = [&](const Rank& rank) { return AttentionDropout{dropout.mask, rank.places.data(), 0}; };
  Result<T> result{std::vector<T>(dy.size()), std::vector<T>(qkv.size())};
  for (int r = 0; r < ring; ++r) {
    Rank& own = all[static_cast<std::size_t>(r)];
    for (int made = 0; made < ring; ++made) {
      const Rank& from = all[static_cast<std::size_t>((r - made + ring) % ring)];
      ring_attention_forward<T>(step(own, from), own.qkv.data(), from.kv.data(), rotation_of(table), own.sums.data(),
                                own.log_sums.data(), drops(own));
    }
    ring_attention_result<T>(step(own, own), own.sums.data(), own.y.data());
    ring_attention_products<T>(step(own, own), own.dy.data(), own.y.data(), own.products.data());
    scatter(own.y, own.rows, output, result.y);
  }
  for (Rank& own : all)
    for (Rank& from : all)
      ring_attention_backward<T>(step(own, from), own.dy.data(), own.qkv.data(), from.kv.data(), rotation_of(table),
                                 own.log_sums.data(), own.products.data(), own.dq.data(), from.dkv.data(), drops(own));
  for (Rank& own : all) {
    ring_attention_gradient<T>(step(own, own), own.dq.data(), own.dkv.data(), rotation_of(table), own.dqkv.data());
    scatter(own.dqkv, own.rows, shape.width(), result.dqkv);
  }
  return result;
}

/// Without a ring, one number after the other.
Result<double> by_loops(const AttentionShape& shape, const std::vector<std::int64_t>& segments,
                        const std::vector<double>& qkv, const std::vector<double>& dy) {
  Result<double> result{std::vector<double>(dy.size()), std::vector<double>(qkv.size())};
  const std::int64_t size = shape.head_size, group = shape.heads / shape.kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const auto at = [&](std::int64_t row, std::int64_t head) {
    return static_cast<std::size_t>(row * shape.width() + head * size);
  };
  for (std::size_t s = 0; s + 1 < segments.size(); ++s)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t query = segments[s]; query < segments[s + 1]; ++query) {
        const std::int64_t key_head = shape.heads + head / group, value_head = key_head + shape.kv_heads;
        const std::int64_t least = shape.window > 0 ? std::max(segments[s], query + 1 - shape.window) : segments[s];
        const auto dot = [&](const double* a, const double* b) {
          double sum = 0;
          for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
          return sum;
        };
        const std::size_t out = static_cast<std::size_t>((query * shape.heads + head) * size);
        std::vector<double> p, dp;
        double largest = -1e300, sum = 0, product = 0;
        for (std::int64_t key = least; key <= query; ++key) {
          p.push_back(scale * dot(&qkv[at(query, head)], &qkv[at(key, key_head)]));
          dp.push_back(dot(&dy[out], &qkv[at(key, value_head)]));
          largest = std::max(largest, p.back());
        }
        for (double& value : p) sum += value = std::exp(value - largest);
        for (std::size_t j = 0; j < p.size(); ++j) product += (p[j] /= sum) * dp[j];
        for (std::size_t j = 0; j < p.size(); ++j)
          for (std::int64_t i = 0; i < size; ++i) {
            const auto c = static_cast<std::size_t>(i);
            const std::int64_t key = least + static_cast<std::int64_t>(j);
            const double ds = scale * p[j] * (dp[j] - product);
            result.y[out + c] += p[j] * qkv[at(key, value_head) + c];
            result.dqkv[at(query, head) + c] += ds * qkv[at(key, key_head) + c];
            result.dqkv[at(key, key_head) + c] += ds * qkv[at(query, head) + c];
            result.dqkv[at(key, value_head) + c] += p[j] * dy[out + c];
          }
      }
  return result;
}

template <class T>
double largest_error(const std::vector<T>& values, const std::vector<double>& expected) {
  double worst = values.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(static_cast<double>(load(values[i])) - expected[i]);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

const std::vector<std::int64_t> documents{0, 1, 38, 38, 40, 240, 241};

template <class T>
void compare(double bound) {
  for (const AttentionShape& shape : {AttentionShape{3, 3, 10}, AttentionShape{4, 2, 16}, AttentionShape{2, 1, 32, 50},
                                      AttentionShape{3, 1, 6, 3}, AttentionShape{4, 2, 16, 1}}) {
    const auto qkv = random_values<T>(documents.back() * shape.width(), "qkv"),
               dy = random_values<T>(documents.back() * shape.heads * shape.head_size, "dy");
    std::vector<double> wide_qkv, wide_dy;
    for (const T value : qkv) wide_qkv.push_back(load(value));
    for (const T value : dy) wide_dy.push_back(load(value));
    const Result<double> expected = by_loops(shape, documents, wide_qkv, wide_dy);
    for (const int ring : {2, 3, 5}) {
      const Result<T> got = by_ring<T>(ring, shape, documents, qkv, dy, {});
      BOOST_TEST(largest_error(got.y, expected.y) <= bound,
                 "ring " << ring << ", " << shape.heads << " heads of " << shape.head_size << ", window "
                         << shape.window << ": differs by " << largest_error(got.y, expected.y));
      BOOST_TEST(largest_error(got.dqkv, expected.dqkv) <= 10 * bound,
                 "ring " << ring << ", " << shape.heads << " heads of " << shape.head_size << ", window "
                         << shape.window << ": gradients differ by " << largest_error(got.dqkv, expected.dqkv));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_that_of_plain_loops_in_every_type) {
  compare<double>(1e-13);
  compare<float>(4e-6);
  compare<Bf16>(0.02);
  compare<Fp16>(0.004);
}

BOOST_AUTO_TEST_CASE(with_rotary_positions_it_is_that_of_one_rank) {
  for (const AttentionShape& shape : {AttentionShape{4, 2, 8}, AttentionShape{2, 2, 16, 7}}) {
    const std::int64_t tokens = documents.back();
    const auto qkv = random_values<double>(tokens * shape.width(), "qkv"),
               dy = random_values<double>(tokens * shape.heads * shape.head_size, "dy");
    const auto table = rotary_table<double>(200, shape.head_size);
    const std::vector<std::int32_t> positions = positions_in(documents);
    const Segments segments{documents.data(), std::ssize(documents) - 1};
    std::vector<double> y(dy.size()), dqkv(qkv.size()), sums(static_cast<std::size_t>(tokens * shape.heads));
    attention_forward<double>(qkv.data(), shape, segments, rotation_of(table), positions.data(), y.data(), sums.data());
    attention_backward<double>(dy.data(), qkv.data(), nullptr, sums.data(), shape, segments, rotation_of(table),
                               positions.data(), dqkv.data());
    for (const int ring : {2, 3}) {
      const Result<double> got = by_ring<double>(ring, shape, documents, qkv, dy, table);
      BOOST_TEST(largest_error(got.y, y) <= 1e-13);
      BOOST_TEST(largest_error(got.dqkv, dqkv) <= 1e-12);
    }
  }
}

BOOST_AUTO_TEST_CASE(it_drops_what_one_rank_drops) {
  const AttentionShape shape{4, 2, 16, 60};
  const std::int64_t tokens = documents.back();
  const auto qkv = random_values<double>(tokens * shape.width(), "qkv"),
             dy = random_values<double>(tokens * shape.heads * shape.head_size, "dy");
  std::vector<Place> places;
  for (std::int64_t row = 0; row < tokens; ++row) places.push_back((row / 120) << 32 | row % 120);
  // Documents do not cross samples.
  const std::vector<std::int64_t> within{0, 7, 120, 121, 240, 241};
  const AttentionDropout dropout{dropout_mask(0.3, 11, 2, 1, DropoutSite::attention), places.data(), 0};
  const Segments segments{within.data(), std::ssize(within) - 1};
  std::vector<double> y(dy.size()), dqkv(qkv.size()), sums(static_cast<std::size_t>(tokens * shape.heads));
  attention_forward<double>(qkv.data(), shape, segments, {}, nullptr, y.data(), sums.data(), dropout);
  attention_backward<double>(dy.data(), qkv.data(), nullptr, sums.data(), shape, segments, {}, nullptr, dqkv.data(),
                             dropout);
  for (const int ring : {2, 3}) {
    const Result<double> got = by_ring<double>(ring, shape, within, qkv, dy, {}, dropout);
    BOOST_TEST(largest_error(got.y, y) <= 1e-13);
    BOOST_TEST(largest_error(got.dqkv, dqkv) <= 1e-12);
  }
}

BOOST_AUTO_TEST_SUITE_END()
