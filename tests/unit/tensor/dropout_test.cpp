// Dropout against its formula, written out here once more, and against products with masks in plain tensor operations.
#include "tensor/functions/dropout.hpp"
#include "random_values.hpp"
#include "tensor/functions/attention.hpp"
#include "tensor/functions/dispatch.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(dropouts)

using namespace lockstep;

namespace {

struct Words {
  std::uint64_t of[4];
};

/// Philox 4x32-10 as its authors give it.
Words draw(Words counter, std::uint64_t key0, std::uint64_t key1) {
  constexpr std::uint64_t low = 0xffffffff;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = counter.of[0] * 0xD2511F53, b = counter.of[2] * 0xCD9E8D57;
    counter = {{(b >> 32) ^ counter.of[1] ^ key0, b & low, (a >> 32) ^ counter.of[3] ^ key1, a & low}};
    key0 = (key0 + 0x9E3779B9) & low;
    key1 = (key1 + 0xBB67AE85) & low;
  }
  return counter;
}

struct Site {
  std::uint64_t seed = 5, step = 7, layer = 2, site = 3;
  double rate = 0.25;
};

/// What a value is multiplied with.
double factor(const Site& of, std::uint64_t sample, std::uint64_t index, std::uint64_t head, std::uint64_t column) {
  const Words key =
      draw({{of.step & 0xffffffff, of.step >> 32, of.layer, of.site}}, of.seed & 0xffffffff, of.seed >> 32);
  const Words words = draw({{column / 8, index, sample, head}}, key.of[0], key.of[1]);
  const std::uint64_t bits = words.of[column % 8 / 2] >> (column % 2 == 0 ? 0 : 16) & 0xffff;
  const auto dropped = static_cast<std::uint64_t>(std::lround(of.rate * 65536));
  return bits < dropped ? 0 : 65536.0 / static_cast<double>(65536 - dropped);
}

DropoutMask mask_of(const Site& of) {
  return dropout_mask(of.rate, of.seed, static_cast<std::int64_t>(of.step), static_cast<std::int64_t>(of.layer),
                      static_cast<DropoutSite>(of.site));
}

Place place(std::int64_t sample, std::int64_t index) { return sample << 32 | index; }

/// Factors of all columns of rows.
std::vector<double> factors(const Site& of, const std::vector<Place>& places, std::int64_t columns) {
  std::vector<double> result;
  for (const Place at : places)
    for (std::int64_t c = 0; c < columns; ++c)
      result.push_back(at < 0 ? 1
                              : factor(of, static_cast<std::uint64_t>(at) >> 32,
                                       static_cast<std::uint64_t>(at) & 0xffffffff, 0, static_cast<std::uint64_t>(c)));
  return result;
}

at::Tensor as_tensor(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kDouble).view(shape);
}

template <class T>
void rows_equal_the_formula(double tolerance) {
  const std::vector<Place> places{place(0, 0), place(0, 1), -1, place(1, 0), place(70000, 1 << 20), place(3, 12)};
  const auto rows = std::ssize(places);
  const Site site{.seed = 0x123456789abcdef0, .step = (std::uint64_t{1} << 33) + 5};
  for (const std::int64_t columns : {1, 15, 64, 70, 130, 384}) {
    const std::vector<double> want = factors(site, places, columns);
    const auto x = random_values<Math<T>>(rows * columns, "x"), base = random_values<Math<T>>(rows * columns, "base");
    const auto bias = random_values<T>(columns, "bias");
    std::vector<T> y(x.size());
    dropout<T>(mask_of(site), places.data(), rows, columns, x.data(), y.data());
    for (const T* with : {bias.data(), static_cast<const T*>(nullptr)}) {
      auto sum = x;
      dropout_add<T>(mask_of(site), places.data(), rows, columns, base.data(), with, sum.data());
      double worst = 0, worst_sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = static_cast<double>(x[i]) * want[i];
        const double added = with ? static_cast<double>(load(with[i % static_cast<std::size_t>(columns)])) : 0;
        const double total = static_cast<double>(base[i]) + (static_cast<double>(x[i]) + added) * want[i];
        worst = std::max(worst, std::abs(static_cast<double>(load(y[i])) - value) / (1 + std::abs(value)));
        worst_sum = std::max(worst_sum, std::abs(static_cast<double>(sum[i]) - total));
      }
      BOOST_TEST(worst <= tolerance);
      BOOST_TEST(worst_sum <= (std::is_same_v<T, double> ? 1e-14 : 2e-6));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_dropped_as_the_formula_says_in_each_type) {
  rows_equal_the_formula<double>(1e-15);
  rows_equal_the_formula<float>(1e-7);
  rows_equal_the_formula<Bf16>(0x1p-8);
  rows_equal_the_formula<Fp16>(0x1p-11);
}

BOOST_AUTO_TEST_CASE(the_threshold_is_the_nearest_65536th_and_drops_something_and_not_all) {
  const auto threshold = [](double rate) { return dropout_mask(rate, 1, 0, 0, DropoutSite::embedding).threshold; };
  BOOST_TEST(threshold(0) == 0u);
  BOOST_TEST(threshold(0.1) == 6554u);
  BOOST_TEST(threshold(1e-9) == 1u);
  BOOST_TEST(threshold(0.9999999) == 65535u);
  BOOST_TEST(!dropout_mask(0, 1, 0, 0, DropoutSite::embedding));
}

BOOST_AUTO_TEST_CASE(masks_have_their_rate_and_nothing_to_do_with_those_of_neighbours) {
  constexpr std::int64_t rows = 64, columns = 256;
  constexpr double count = rows * columns;
  const auto kept_by = [&](const Site& site, std::int64_t sample, std::int64_t first) {
    std::vector<Place> places;
    for (std::int64_t r = 0; r < rows; ++r) places.push_back(place(sample, first + r));
    std::vector<double> values(static_cast<std::size_t>(count), 1);
    dropout<double>(mask_of(site), places.data(), rows, columns, values.data(), values.data());
    return at::tensor(values, at::kDouble).ne(0).to(at::kDouble);
  };
  for (const double rate : {0.01, 0.1, 0.5, 0.9}) {
    const Site site{.rate = rate};
    const at::Tensor kept = kept_by(site, 3, 0);
    const double deviation = std::sqrt(rate * (1 - rate) / count);
    BOOST_TEST(std::abs(kept.mean().item<double>() - (1 - rate)) < 5 * deviation);
    const auto correlation = [&](const at::Tensor& other) {
      return std::abs(((kept - (1 - rate)) * (other - (1 - rate))).mean().item<double>()) / (rate * (1 - rate));
    };
    const double bound = 5 / std::sqrt(count);
    Site other = site;
    other.step = 8;
    BOOST_TEST(correlation(kept_by(other, 3, 0)) < bound);
    other = site;
    other.layer = 1;
    BOOST_TEST(correlation(kept_by(other, 3, 0)) < bound);
    other = site;
    other.site = 4;
    BOOST_TEST(correlation(kept_by(other, 3, 0)) < bound);
    other = site;
    other.seed = 6;
    BOOST_TEST(correlation(kept_by(other, 3, 0)) < bound);
    BOOST_TEST(correlation(kept_by(site, 4, 0)) < bound);
    BOOST_TEST(correlation(kept_by(site, 3, 1)) < bound);
    for (const std::int64_t shift : {1, 2, 8}) BOOST_TEST(correlation(kept.roll(shift)) < bound);
  }
}

BOOST_AUTO_TEST_CASE(attention_drops_probabilities_and_differentiates_through_them) {
  struct Case {
    std::vector<std::int64_t> starts;
    AttentionShape shape;
    std::int64_t row;  // tokens of a sample
  };
  for (const auto& [starts, shape, row] :
       {Case{{0, 5, 10}, {4, 2, 6}, 5}, Case{{0, 70, 70, 200}, {3, 1, 16}, 200},
        Case{{0, 3, 9, 13, 150}, {2, 2, 16, 40}, 150}, Case{{0, 150}, {2, 1, 4, 7}, 75}}) {
    const std::int64_t tokens = starts.back(), first_head = 5;
    const Site site{.layer = 1, .site = 2, .rate = 0.3};
    std::vector<Place> at_place;
    for (std::int64_t t = 0; t < tokens; ++t) at_place.push_back(place(9 + t / row, t % row));
    // A row of scores has the probabilities of its segment alone; documents of a sample go on counting.
    at::Tensor visible = at::zeros({tokens, tokens}, at::kBool),
               left = at::ones({shape.heads, tokens, tokens}, at::kDouble);
    for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
      for (std::int64_t q = starts[s]; q < starts[s + 1]; ++q) {
        for (std::int64_t k = starts[s]; k <= q; ++k) {
          visible[q][k] = shape.window == 0 || q - k < shape.window;
          const std::int64_t key_index = starts[s] % row + k - starts[s];
          for (std::int64_t h = 0; h < shape.heads; ++h)
            left[h][q][k] = factor(site, static_cast<std::uint64_t>(9 + q / row), static_cast<std::uint64_t>(q % row),
                                   static_cast<std::uint64_t>(first_head + h), static_cast<std::uint64_t>(key_index));
        }
      }
    }
    const auto reference = [&](const at::Tensor& qkv) {
      const auto part = [&](std::int64_t begin, std::int64_t heads) {
        return qkv.slice(1, begin * shape.head_size, (begin + heads) * shape.head_size)
            .view({tokens, heads, shape.head_size})
            .transpose(0, 1);
      };
      const std::int64_t group = shape.heads / shape.kv_heads;
      const at::Tensor keys = part(shape.heads, shape.kv_heads).repeat_interleave(group, 0);
      const at::Tensor values = part(shape.heads + shape.kv_heads, shape.kv_heads).repeat_interleave(group, 0);
      const at::Tensor scores =
          at::matmul(part(0, shape.heads), keys.transpose(1, 2)) / std::sqrt(static_cast<double>(shape.head_size));
      const at::Tensor hidden = scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
      return at::matmul(at::softmax(hidden, 2) * left, values).transpose(0, 1).reshape({tokens, -1});
    };
    const auto random = [](std::int64_t rows, std::int64_t columns, const char* name) {
      return as_tensor(random_values<double>(rows * columns, name), {rows, columns});
    };
    const at::Tensor x = random(tokens, shape.width(), "qkv"), dy = random(tokens, shape.heads * shape.head_size, "dy");
    const at::Tensor exact = x.clone().requires_grad_(true);
    const at::Tensor expected = reference(exact);
    torch::autograd::backward({expected}, {dy});
    const Dropout dropout{mask_of(site), at::tensor(at_place, at::kLong)};
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const double tolerance = type == at::kDouble ? 1e-12 : 1e-5;
      const at::Tensor input = x.to(type).clone().requires_grad_(true);
      const at::Tensor y = causal_attention(input, shape, at::tensor(starts, at::kLong), at::zeros({tokens}, at::kInt),
                                            {}, dropout, first_head);
      torch::autograd::backward({y}, {dy.to(type)});
      BOOST_TEST((y.to(at::kDouble) - expected).abs().max().item<double>() < tolerance);
      BOOST_TEST((input.grad().to(at::kDouble) - exact.grad()).abs().max().item<double>() < tolerance);
    }
  }
}

BOOST_AUTO_TEST_CASE(padding_draws_nothing) {
  const std::vector<Place> places(3, -1);
  std::vector<float> values(3 * 40, 2);
  const std::vector<float> before = values;
  dropout<float>(mask_of({}), places.data(), 3, 40, values.data(), values.data());
  BOOST_TEST(values == before);
  dropout_keys<float>(mask_of({}), -1, 0, 3, 40, values.data());
  BOOST_TEST(values == before);
}

BOOST_AUTO_TEST_SUITE_END()
