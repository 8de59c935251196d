// Routing, the ways of rows and products of groups, each against sums spelled out in double, and a layer of experts
// against plain operations of LibTorch, differentiated by autograd.
#include "tensor/functions/experts.hpp"
#include "tensor/functions/activation.hpp"
#include "tensor/grouped_gemm.hpp"
#include "tensor/unit.hpp"

#include "random_values.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(experts)

using namespace lockstep;

namespace {

template <class M>
struct Routed {
  std::vector<std::int32_t> chosen;
  std::vector<M> weights, probabilities;
};

template <class M>
Routed<M> routed(const std::vector<M>& logits, const RoutingShape& shape, std::vector<std::int32_t> given = {}) {
  const Choose choose = given.empty() ? Choose::largest : Choose::given;
  const auto pairs = static_cast<std::size_t>(shape.tokens * shape.per_token);
  Routed<M> result{std::move(given), std::vector<M>(pairs), std::vector<M>(logits.size())};
  result.chosen.resize(pairs);
  route<M>(logits.data(), shape, choose, result.chosen.data(), result.weights.data(), result.probabilities.data());
  return result;
}

template <class T>
std::vector<T> values(std::int64_t count, std::string_view name) {
  return random_values<T>(count, name);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// What `compute` gives with one thread and with three.
template <class Compute>
void check_threads(const Compute& compute) {
#ifdef _OPENMP
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = compute();
  omp_set_num_threads(3);
  BOOST_TEST(same_bits(one, compute()));
  omp_set_num_threads(before);
#else
  compute();
#endif
}

template <class T>
constexpr double tolerance = std::is_same_v<T, double>  ? 1e-12
                             : std::is_same_v<T, float> ? 1e-4
                                                        : 0.1;

}  // namespace

BOOST_AUTO_TEST_CASE(of_equal_logits_the_first_experts_win) {
  const RoutingShape shape{.tokens = 4, .experts = 5, .per_token = 2, .normalised = true};
  const std::vector<double> logits{1,  1, 1, 1, 1,  //
                                   0,  3, 1, 3, 3,  //
                                   2,  0, 2, 7, 2,  //
                                   -1, 0, 5, 0, 0};
  const std::vector<std::int32_t> wanted{0, 1, 1, 3, 0, 3, 1, 2};
  BOOST_TEST(routed(logits, shape).chosen == wanted, boost::test_tools::per_element());
  BOOST_TEST(routed(std::vector<float>(logits.begin(), logits.end()), shape).chosen == wanted,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_tie_that_rounding_breaks_is_routed_as_the_first_time_where_choices_are_given) {
  const RoutingShape shape{.tokens = 1, .experts = 3, .per_token = 1, .normalised = false};
  const std::vector<double> before{0.5, 0.5, 0.1}, after{0.5, 0.5 + 1e-15, 0.1};
  const Routed<double> first = routed(before, shape);
  BOOST_TEST(routed(after, shape).chosen != first.chosen);
  const Routed<double> again = routed(after, shape, first.chosen);
  BOOST_TEST(again.chosen == first.chosen);
  BOOST_TEST(again.weights[0] == first.weights[0], boost::test_tools::tolerance(1e-14));
}

BOOST_AUTO_TEST_CASE(logits_that_are_no_numbers_are_routed_somewhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RoutingShape shape{.tokens = 2, .experts = 3, .per_token = 2, .normalised = true};
  for (const std::int32_t expert : routed(std::vector<double>{nan, nan, nan, 1, nan, 2}, shape).chosen)
    BOOST_TEST((expert >= 0 && expert < 3));
}

BOOST_AUTO_TEST_CASE(weights_are_the_softmax_of_the_largest_logits_normalised_or_not) {
  for (const bool normalised : {false, true}) {
    const RoutingShape shape{.tokens = 37, .experts = 7, .per_token = 3, .normalised = normalised};
    const auto logits = values<float>(37 * 7, "logits");
    const Routed<float> got = routed(logits, shape);
    for (std::size_t token = 0; token < 37; ++token) {
      double all = 0, own = 0;
      std::vector<std::pair<double, int>> order;
      for (int e = 0; e < 7; ++e) {
        const double value = logits[token * 7 + static_cast<std::size_t>(e)];
        all += std::exp(value);
        order.emplace_back(-value, e);
      }
      std::sort(order.begin(), order.end());
      std::vector<int> wanted{order[0].second, order[1].second, order[2].second};
      std::sort(wanted.begin(), wanted.end());
      for (const int e : wanted) own += std::exp(logits[token * 7 + static_cast<std::size_t>(e)]);
      for (std::size_t j = 0; j < 3; ++j) {
        BOOST_TEST(got.chosen[token * 3 + j] == wanted[j]);
        const double value = std::exp(logits[token * 7 + static_cast<std::size_t>(wanted[j])]);
        BOOST_TEST(std::abs(got.weights[token * 3 + j] - value / (normalised ? own : all)) < 1e-6);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_are_grouped_by_expert_in_the_order_of_their_tokens) {
  const RoutingShape shape{.tokens = 4, .experts = 4, .per_token = 2, .normalised = true};
  const std::vector<std::int32_t> chosen{0, 3, 1, 3, 0, 1, 0, 3};
  std::vector<std::int64_t> offsets(5);
  std::vector<std::int32_t> places(8);
  group_by_expert(chosen.data(), nullptr, shape, offsets.data(), places.data());
  BOOST_TEST(offsets == (std::vector<std::int64_t>{0, 3, 5, 5, 8}), boost::test_tools::per_element());
  BOOST_TEST(places == (std::vector<std::int32_t>{0, 5, 3, 6, 1, 4, 2, 7}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(padding_goes_to_no_expert_and_what_it_would_have_given_is_nothing) {
  const RoutingShape shape{.tokens = 4, .experts = 3, .per_token = 2, .normalised = true};
  const std::vector<std::int32_t> chosen{0, 2, 0, 1, 1, 2, 0, 1}, samples{0, -1, 1, -1};
  std::vector<std::int64_t> offsets(4);
  std::vector<std::int32_t> places(8);
  group_by_expert(chosen.data(), samples.data(), shape, offsets.data(), places.data());
  BOOST_TEST(offsets == (std::vector<std::int64_t>{0, 1, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST(places == (std::vector<std::int32_t>{0, 2, -1, -1, 1, 3, -1, -1}), boost::test_tools::per_element());
  const std::vector<double> x{1, 2, 3, 4}, weights(8, 0.5), residual{10, 20, 30, 40};
  std::vector<double> rows(4), y(4), dx(4), drows(4), dweights(8, 7);
  dispatch_rows(x.data(), places.data(), shape, 1, rows.data());
  BOOST_TEST(rows == (std::vector<double>{1, 3, 1, 3}), boost::test_tools::per_element());
  combine_rows(residual.data(), rows.data(), weights.data(), places.data(), shape, 1, y.data());
  BOOST_TEST(y == (std::vector<double>{11, 20, 33, 40}), boost::test_tools::per_element());
  combine_backward(x.data(), rows.data(), weights.data(), places.data(), shape, 1, drows.data(), dweights.data());
  BOOST_TEST(dweights == (std::vector<double>{1, 1, 0, 0, 9, 9, 0, 0}), boost::test_tools::per_element());
  dispatch_backward(rows.data(), places.data(), shape, 1, dx.data());
  BOOST_TEST(dx == (std::vector<double>{2, 0, 6, 0}), boost::test_tools::per_element());
}

namespace {

/// Against sums in double; groups are empty, of one row, odd, and large.
template <class T>
void check_grouped(const std::vector<std::int64_t>& sizes, std::int64_t n, std::int64_t k) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : sizes) offsets.push_back(offsets.back() + size);
  const RowGroups groups{offsets.data(), std::ssize(sizes)};
  const auto x = values<T>(offsets.back() * k, "x"), weights = values<T>(groups.count * n * k, "w");
  const auto dy = values<T>(offsets.back() * n, "dy");
  std::vector<T> stored_nk(static_cast<std::size_t>(offsets.back() * n)), stored_kn = stored_nk;
  grouped_gemm_rounded<T>(groups, n, k, x.data(), weights.data(), Trans::yes, stored_nk.data());
  grouped_gemm_rounded<T>(groups, n, k, x.data(), weights.data(), Trans::no, stored_kn.data());
  const auto before = values<Math<T>>(groups.count * n * k, "before");
  std::vector<Math<T>> dw(before.size(), std::numeric_limits<Math<T>>::quiet_NaN()), more = before;
  grouped_weight_gemm<T>(groups, n, k, dy.data(), x.data(), 0, dw.data());
  grouped_weight_gemm<T>(groups, n, k, dy.data(), x.data(), 1, more.data());
  const auto at = [](const auto& of, std::int64_t i) {
    return static_cast<double>(load(of[static_cast<std::size_t>(i)]));
  };
  const double bound = tolerance<T> * std::sqrt(static_cast<double>(k));
  double worst = 0;
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const std::int64_t w = g * n * k;
    for (std::int64_t row = offsets[static_cast<std::size_t>(g)]; row < offsets[static_cast<std::size_t>(g) + 1];
         ++row) {
      for (std::int64_t j = 0; j < n; ++j) {
        double nk = 0, kn = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          nk += at(x, row * k + i) * at(weights, w + j * k + i);
          kn += at(x, row * k + i) * at(weights, w + i * n + j);
        }
        worst = std::max({worst, std::abs(at(stored_nk, row * n + j) - nk), std::abs(at(stored_kn, row * n + j) - kn)});
      }
    }
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        double sum = 0;
        for (std::int64_t row = offsets[static_cast<std::size_t>(g)]; row < offsets[static_cast<std::size_t>(g) + 1];
             ++row)
          sum += at(dy, row * n + j) * at(x, row * k + i);
        const std::int64_t place = w + j * k + i;
        // NaN is never less than anything.
        if (!(std::abs(at(dw, place) - sum) < bound)) worst = bound;
        worst = std::max(worst, std::abs(at(more, place) - sum - at(before, place)));
      }
    }
  }
  BOOST_TEST(worst < bound, fmt::format("{} > {}", worst, bound));
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_groups_are_those_of_each_group_and_empty_ones_have_no_gradient) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{5, 0, 1, 17, 0}, {0, 0}, {64, 3, 9}}) {
    for (const auto& [n, k] : {std::pair{7, 5}, {33, 20}}) {
      check_grouped<double>(sizes, n, k);
      check_grouped<float>(sizes, n, k);
      check_grouped<Bf16>(sizes, n, k);
      check_grouped<Fp16>(sizes, n, k);
    }
  }
}

BOOST_AUTO_TEST_CASE(bits_of_products_of_groups_do_not_depend_on_threads) {
  const std::vector<std::int64_t> offsets{0, 400, 403, 403, 500, 516};
  const RowGroups groups{offsets.data(), 5};
  const std::int64_t n = 192, k = 136;
  const auto x = values<float>(516 * k, "x"), w = values<float>(5 * n * k, "w"), dy = values<float>(516 * n, "dy");
  check_threads([&] {
    std::vector<float> y(static_cast<std::size_t>(516 * n));
    grouped_gemm_rounded<float>(groups, n, k, x.data(), w.data(), Trans::yes, y.data());
    return y;
  });
  check_threads([&] {
    std::vector<float> dw(static_cast<std::size_t>(5 * n * k));
    grouped_weight_gemm<float>(groups, n, k, dy.data(), x.data(), 0, dw.data());
    return dw;
  });
}

namespace {

/// A layer of experts in LibTorch: each token's experts one after the other.
at::Tensor plain_experts(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& router,
                         const at::Tensor& gate_up, const at::Tensor& down, std::int64_t per_token, bool normalised) {
  const std::int64_t E = router.size(0), F = gate_up.size(0) / (2 * E), C = x.size(1);
  const at::Tensor p = at::softmax(at::matmul(x, router.t()), 1);
  std::vector<at::Tensor> rows;
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    const auto [weights, chosen] = p[n].topk(per_token);
    const at::Tensor scale = normalised ? weights / weights.sum() : weights;
    at::Tensor sum = residual[n];
    for (std::int64_t j = 0; j < per_token; ++j) {
      const auto e = chosen[j].item<std::int64_t>();
      const at::Tensor raised = at::matmul(gate_up.slice(0, e * 2 * F, (e + 1) * 2 * F), x[n]);
      const at::Tensor activated = at::silu(raised.slice(0, 0, F)) * raised.slice(0, F, 2 * F);
      sum = sum + scale[j] * at::matmul(down.slice(0, e * C, (e + 1) * C), activated);
    }
    rows.push_back(sum);
  }
  return at::stack(rows);
}

at::Tensor made(at::IntArrayRef shape, std::string_view name) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  auto of = values<double>(count, name);
  return at::from_blob(of.data(), shape, at::kDouble).clone();
}

double error(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a.to(at::kDouble) - b).abs().max().item<double>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_layer_of_experts_and_its_gradients_are_those_of_plain_operations) {
  const std::int64_t C = 6, F = 5, E = 4;
  for (const std::int64_t per_token : {1, 2, 4}) {
    for (const bool normalised : {true, false}) {
      for (const std::int64_t tokens : {0, 1, 23}) {
        const std::vector<Shape> shapes{{E, C}, {E * 2 * F, C}, {E * C, F}};
        std::vector<LogicalTensor> tensors;
        for (std::size_t i = 0; i < shapes.size(); ++i)
          tensors.push_back({fmt::format("w{}", i), Role::up, shapes[i], {}, {}});
        Unit unit("experts", tensors, Precision::fp64);
        std::vector<at::Tensor> leaves;
        for (const auto& parameter : unit.parameters()) {
          parameter->master().copy_(made(parameter->shape(), parameter->name()));
          leaves.push_back(parameter->master().clone().requires_grad_(true));
        }
        unit.zero_grad();
        const Router router(*unit.parameters()[0], per_token, normalised);
        const GroupedLinear up(*unit.parameters()[1], E), down(*unit.parameters()[2], E);
        const at::Tensor x = made({tokens, C}, "x").requires_grad_(true),
                         other = made({tokens, C}, "x").requires_grad_(true);
        const at::Tensor r = made({tokens, C}, "r").requires_grad_(true),
                         base = made({tokens, C}, "r").requires_grad_(true);
        const Routing routing = router(x);
        const at::Tensor rows = up(dispatch(x, routing), routing.offsets);
        const at::Tensor y = combine(r, down(activate_gated(rows, Activation::silu), routing.offsets), routing);
        BOOST_TEST(y.size(0) == tokens);
        const at::Tensor dy = made({tokens, C}, "dy");
        torch::autograd::backward({y}, {dy});
        unit.finish_gradients();
        if (tokens == 0) continue;  // LibTorch stacks no rows
        const at::Tensor expected = plain_experts(base, other, leaves[0], leaves[1], leaves[2], per_token, normalised);
        torch::autograd::backward({expected}, {dy});
        BOOST_TEST(error(y, expected) < 1e-12);
        BOOST_TEST(error(x.grad(), other.grad()) < 1e-11);
        BOOST_TEST(error(r.grad(), base.grad()) < 1e-12);
        for (std::size_t i = 0; i < leaves.size(); ++i)
          BOOST_TEST(error(unit.parameters()[i]->gradient(), leaves[i].grad()) < 1e-11,
                     "weights " << i << ", " << per_token << " of " << E);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_what_experts_add_the_same_is_dropped_in_both_passes) {
  const std::int64_t N = 11, C = 6, E = 3, k = 2;
  std::vector<LogicalTensor> tensors;
  tensors.push_back({"w", Role::router, {E, C}, {}, {}});
  Unit unit("router", tensors, Precision::fp64);
  unit.parameters()[0]->master().copy_(made({E, C}, "w"));
  unit.zero_grad();
  const Router router(*unit.parameters()[0], k, true);
  const Dropout dropout{dropout_mask(0.4, 3, 5, 1, DropoutSite::mlp_output), at::arange(N, at::kLong)};
  const at::Tensor kept = dropped(dropout, at::ones({N, C}, at::kDouble), at::kDouble);
  const at::Tensor residual = made({N, C}, "r").requires_grad_(true), dy = made({N, C}, "dy");
  const auto gradients = [&](bool by_hand) {
    const at::Tensor x = made({N, C}, "x").requires_grad_(true);
    const Routing routing = router(x);
    const at::Tensor rows = dispatch(x, routing);
    const at::Tensor y = by_hand ? residual + kept * combine(at::zeros({N, C}, at::kDouble), rows, routing)
                                 : combine(residual, rows, routing, dropout);
    torch::autograd::backward({y}, {dy});
    return std::pair(y.detach(), x.grad());
  };
  const auto [y, dx] = gradients(false);
  const auto [expected, expected_dx] = gradients(true);
  BOOST_TEST(error(y, expected) < 1e-14);
  BOOST_TEST(error(dx, expected_dx) < 1e-14);
  BOOST_TEST(error(y, residual.detach()) > 0.01);
  BOOST_TEST((kept.eq(0).any().item<bool>() && kept.ne(0).any().item<bool>()));
}

BOOST_AUTO_TEST_CASE(the_auxiliary_loss_and_its_gradient_are_those_of_each_sample_by_itself) {
  const std::int64_t C = 6, E = 4, T = 5, B = 4, N = B * T + 3;
  constexpr std::int64_t padding = 2;  // a sample, and the rows behind the last
  constexpr double scale = 0.7;
  const at::Tensor of_rows = at::full({N}, -1, at::TensorOptions().dtype(at::kInt));
  for (std::int64_t row = 0; row < B * T; ++row)
    if (row / T != padding) of_rows[row].fill_(row / T);
  for (const std::int64_t k : {1, 2, 4}) {
    for (const bool normalised : {true, false}) {
      std::vector<LogicalTensor> tensors;
      tensors.push_back({"w", Role::router, {E, C}, {}, {}});
      Unit unit("router", tensors, Precision::fp64);
      unit.parameters()[0]->master().copy_(made({E, C}, "w"));
      unit.zero_grad();
      const Router router(*unit.parameters()[0], k, normalised);
      const at::Tensor x = made({N, C}, "x").requires_grad_(true), other = made({N, C}, "x").requires_grad_(true);
      const at::Tensor w = made({E, C}, "w").requires_grad_(true), dweights = made({N, k}, "dweights");
      RoutedSamples samples{.of_rows = of_rows, .counted = true, .count = B, .tokens = T};
      BOOST_TEST(!router(x, {}, samples).aux_loss.defined());
      samples.scale = scale;
      const Routing routing = router(x, {}, samples);
      torch::autograd::backward({routing.weights}, {dweights});
      unit.finish_gradients();

      const at::Tensor p = at::softmax(at::matmul(other, w.t()), 1);
      at::Tensor weights = at::gather(p, 1, routing.chosen.to(at::kLong));
      if (normalised) weights = weights / at::matmul(weights, at::ones({k, k}, at::kDouble));
      at::Tensor loss = at::zeros({}, at::kDouble);
      std::vector<double> choices(static_cast<std::size_t>(E));
      for (std::int64_t s = 0; s < B; ++s) {
        if (s == padding) continue;
        const at::Tensor f = at::zeros({E}, at::kDouble);
        for (std::int64_t token = s * T; token < (s + 1) * T; ++token)
          for (std::int64_t j = 0; j < k; ++j) {
            const auto expert = routing.chosen[token][j].item<std::int64_t>();
            f[expert].add_(1.0 / static_cast<double>(T));
            choices[static_cast<std::size_t>(expert)] += 1;
          }
        loss = loss + at::matmul(p.slice(0, s * T, (s + 1) * T), f).sum() * E / T;
      }
      torch::autograd::backward({weights, loss}, {dweights, at::full({}, scale, at::kDouble)});
      BOOST_TEST(std::abs(routing.aux_loss.item<double>() - loss.item<double>()) < 1e-13);
      BOOST_TEST(at::equal(routing.choices, at::tensor(choices, at::kDouble)));
      BOOST_TEST(error(x.grad(), other.grad()) < 1e-13);
      BOOST_TEST(error(unit.parameters()[0]->gradient(), w.grad()) < 1e-13);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
