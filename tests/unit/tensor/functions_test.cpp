// Each function against plain operations of LibTorch in fp64, differentiated by autograd with ordinary leaves.
#include "tensor/functions/activation.hpp"
#include "tensor/functions/attention.hpp"
#include "tensor/functions/embedding.hpp"
#include "tensor/functions/head_norm.hpp"
#include "tensor/functions/linear.hpp"
#include "tensor/functions/loss.hpp"
#include "tensor/functions/norm.hpp"
#include "tensor/functions/rotary_table.hpp"
#include "tensor/unit.hpp"
#include "tensor/weight_gradients.hpp"

#include "random_values.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(functions)

using namespace lockstep;

namespace {

at::Tensor random_tensor(at::IntArrayRef shape, std::string_view name) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  auto values = random_values<double>(count, name);
  return at::from_blob(values.data(), shape, at::kDouble).clone();
}

at::Tensor leaf(const at::Tensor& tensor) { return tensor.detach().clone().requires_grad_(true); }

double error(const at::Tensor& value, const at::Tensor& expected) {
  if (value.numel() == 0) return value.sizes() == expected.sizes() ? 0 : 1;
  return (value.to(at::kDouble) - expected).abs().max().item<double>();
}

/// A unit with random weights whose parameters are compared with ordinary leaves.
struct Weights {
  explicit Weights(const std::vector<Shape>& shapes, Precision precision = Precision::fp64,
                   std::int64_t row_multiple = 0)
      : unit("weights", tensors(shapes, row_multiple), precision) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      unit.parameters()[i]->master().copy_(random_tensor(shapes[i], fmt::format("weight {}", i)));
    }
    unit.update_compute_copy();
    for (const auto& parameter : unit.parameters()) leaves.push_back(leaf(parameter->compute().to(at::kDouble)));
    unit.zero_grad();
  }
  /// The rows of the last one have padding.
  static std::vector<LogicalTensor> tensors(const std::vector<Shape>& shapes, std::int64_t row_multiple) {
    std::vector<LogicalTensor> list;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      list.push_back({fmt::format("w{}", i), Role::up, shapes[i], {}, {}});
    list.back().row_multiple = row_multiple;
    return list;
  }
  Parameter& operator[](std::size_t i) { return *unit.parameters()[i]; }
  Parameter* at(std::size_t i) { return unit.parameters()[i].get(); }
  double worst_gradient() {
    double worst = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      worst = std::max(worst, error(unit.parameters()[i]->gradient(), leaves[i].grad()));
    return worst;
  }
  Unit unit;
  std::vector<at::Tensor> leaves;
};

/// Differentiates ours(x) and oracle(x) with the same output gradient; the largest error of outputs and input
/// gradients.
template <class Ours, class Oracle>
double compare(const at::Tensor& input, const Ours& ours, const Oracle& oracle) {
  const at::Tensor x = leaf(input), reference = leaf(input);
  const at::Tensor y = ours(x), expected = oracle(reference);
  const at::Tensor dy = random_tensor(expected.sizes(), "output gradient");
  torch::autograd::backward({y}, {dy.to(y.scalar_type())});
  torch::autograd::backward({expected}, {dy});
  return std::max(error(y, expected), error(x.grad(), reference.grad()));
}

at::Tensor reference_attention(const at::Tensor& qkv, const AttentionShape& shape,
                               const std::vector<std::int64_t>& starts, const at::Tensor& angles) {
  const auto tokens = qkv.size(0);
  const auto parts = qkv.split_with_sizes(
      {shape.heads * shape.head_size, shape.kv_heads * shape.head_size, shape.kv_heads * shape.head_size}, 1);
  const auto heads = [&](const at::Tensor& part, std::int64_t count) {
    return part.view({tokens, count, shape.head_size}).transpose(0, 1);
  };
  const auto turned = [&](const at::Tensor& x) {
    if (!angles.defined()) return x;
    const auto halves = x.chunk(2, 2);
    return at::cat(
        {halves[0] * angles.cos() - halves[1] * angles.sin(), halves[1] * angles.cos() + halves[0] * angles.sin()}, 2);
  };
  const auto group = shape.heads / shape.kv_heads;
  const at::Tensor q = turned(heads(parts[0], shape.heads)),
                   k = turned(heads(parts[1], shape.kv_heads)).repeat_interleave(group, 0);
  const at::Tensor v = heads(parts[2], shape.kv_heads).repeat_interleave(group, 0);
  at::Tensor seen = at::zeros({tokens, tokens}, at::kBool);
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    for (std::int64_t i = starts[s]; i < starts[s + 1]; ++i) {
      const std::int64_t first = shape.window > 0 ? std::max(starts[s], i + 1 - shape.window) : starts[s];
      seen[i].slice(0, first, i + 1).fill_(true);
    }
  }
  const at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(shape.head_size));
  const at::Tensor p = at::softmax(scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()), 2);
  return at::matmul(p, v).transpose(0, 1).reshape({tokens, shape.heads * shape.head_size});
}

at::Tensor positions_in(const std::vector<std::int64_t>& starts) {
  const at::Tensor positions = at::empty({starts.back()}, at::kInt);
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    positions.slice(0, starts[s], starts[s + 1]).copy_(at::arange(starts[s + 1] - starts[s]));
  return positions;
}

/// A layer as a function of its input.
auto of_input(const Linear& layer) {
  return [&layer](const at::Tensor& x) { return layer(x, x.size(0)); };
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear_layers_of_both_layouts_equal_matrix_products) {
  for (const std::int64_t rows : {0, 1, 9}) {
    Weights conv({{5, 7}, {7}});
    const Linear layer({conv.at(0)}, {conv.at(1)}, WeightLayout::in_out);
    BOOST_TEST(compare(random_tensor({rows, 5}, "x"), of_input(layer),
                       [&](const at::Tensor& x) { return at::matmul(x, conv.leaves[0]) + conv.leaves[1]; }) < 1e-13);
    BOOST_TEST(conv.worst_gradient() < 1e-13);
    Weights plain({{7, 5}});
    const Linear unbiased({plain.at(0)}, {nullptr}, WeightLayout::out_in);
    BOOST_TEST(compare(random_tensor({rows, 5}, "x"), of_input(unbiased),
                       [&](const at::Tensor& x) { return at::matmul(x, plain.leaves[0].t()); }) < 1e-13);
    BOOST_TEST(plain.worst_gradient() < 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(weights_side_by_side_equal_separate_layers_whether_they_are_adjacent_or_not) {
  for (const std::int64_t width : {8, 3}) {  // 8 × 5 doubles end at a multiple of 64 bytes, 3 × 5 do not
    Weights weights({{width, 5}, {width, 5}, {2, 5}, {width}});
    const Linear layer({weights.at(0), weights.at(1), weights.at(2)}, {nullptr, weights.at(3), nullptr},
                       WeightLayout::out_in);
    const auto oracle = [&](const at::Tensor& x) {
      return at::cat({at::matmul(x, weights.leaves[0].t()), at::matmul(x, weights.leaves[1].t()) + weights.leaves[3],
                      at::matmul(x, weights.leaves[2].t())},
                     1);
    };
    BOOST_TEST(compare(random_tensor({6, 5}, "x"), of_input(layer), oracle) < 1e-13);
    BOOST_TEST(weights.worst_gradient() < 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(a_second_backward_adds_to_the_gradient_of_the_first) {
  Weights weights({{4, 3}, {4}});
  const Linear layer({weights.at(0)}, {weights.at(1)}, WeightLayout::out_in);
  for (const char* name : {"first", "second"}) {
    compare(random_tensor({5, 3}, name), of_input(layer),
            [&](const at::Tensor& x) { return at::matmul(x, weights.leaves[0].t()) + weights.leaves[1]; });
  }
  BOOST_TEST(weights[0].touches() == 2);
  BOOST_TEST(weights.worst_gradient() < 1e-13);
}

BOOST_AUTO_TEST_CASE(a_linear_layer_onto_a_residual_passes_the_gradient_around) {
  for (const Precision precision : {Precision::fp64, Precision::bf16}) {
    const double tolerance = precision == Precision::fp64 ? 1e-13 : 0.1;
    Weights weights({{3, 4}, {4}}, precision);
    const Linear layer({weights.at(0)}, {weights.at(1)}, WeightLayout::in_out);
    const at::Tensor x = random_tensor({6, 3}, "x").to(compute_type(precision)).to(at::kDouble);
    const at::Tensor input = leaf(x.to(compute_type(precision))), reference = leaf(x);
    const auto ours = [&](const at::Tensor& residual) {
      return layer.add_linear(residual.to(stream_type(precision)), input);
    };
    BOOST_TEST(compare(random_tensor({6, 4}, "residual"), ours, [&](const at::Tensor& r) {
                 return r + at::matmul(reference, weights.leaves[0]) + weights.leaves[1];
               }) < 1e-6 + tolerance * 1e-6);
    BOOST_TEST(weights.worst_gradient() < tolerance);
    BOOST_TEST(error(input.grad(), reference.grad()) < tolerance);
  }
}

BOOST_AUTO_TEST_CASE(norms_equal_their_definitions_and_add_the_gradient_that_goes_around) {
  for (const std::int64_t rows : {0, 1, 70}) {
    Weights weights({{6}, {6}});
    const Normalisation layer(Norm::layer_norm, 1e-5, weights[0], weights.at(1));
    const auto around = [](const Normalisation::Output& output) { return output.residual * 3 + output.normalised; };
    BOOST_TEST(compare(
                   random_tensor({rows, 6}, "x"), [&](const at::Tensor& x) { return around(layer(x)); },
                   [&](const at::Tensor& x) {
                     return x * 3 + at::layer_norm(x, {6}, weights.leaves[0], weights.leaves[1], 1e-5);
                   }) < 1e-12);
    BOOST_TEST(weights.worst_gradient() < 1e-12);
    Weights scale(std::vector<Shape>{{6}});
    const Normalisation rms(Norm::rms_norm, 1e-6, scale[0], nullptr);
    BOOST_TEST(compare(
                   random_tensor({rows, 6}, "x"), [&](const at::Tensor& x) { return rms(x).normalised; },
                   [&](const at::Tensor& x) {
                     return x * (x.square().mean(-1, true) + 1e-6).rsqrt() * scale.leaves[0];
                   }) < 1e-12);
    BOOST_TEST(scale.worst_gradient() < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(activations_equal_their_definitions) {
  const auto definition = [](Activation kind, const at::Tensor& x) {
    switch (kind) {
      case Activation::gelu_tanh: return at::gelu(x, "tanh");
      case Activation::gelu_erf: return at::gelu(x);
      case Activation::silu: return at::silu(x);
      case Activation::relu: return at::relu(x);
    }
    return x;
  };
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu_erf, Activation::silu, Activation::relu}) {
    Weights weights(std::vector<Shape>{{9}});
    const at::Tensor x = random_tensor({40, 9}, "x") * 3;
    BOOST_TEST(compare(
                   x, [&](const at::Tensor& u) { return activate(u, kind, weights.at(0)); },
                   [&](const at::Tensor& u) { return definition(kind, u + weights.leaves[0]); }) < 1e-13);
    BOOST_TEST(weights.worst_gradient() < 1e-12);
    const auto single = [&](const at::Tensor& u) { return activate(u.to(at::kFloat), kind, nullptr); };
    BOOST_TEST(compare(x, single, [&](const at::Tensor& u) { return definition(kind, u); }) < 1e-5);
    BOOST_TEST(compare(
                   random_tensor({7, 10}, "gate"), [&](const at::Tensor& u) { return activate_gated(u, kind); },
                   [&](const at::Tensor& u) { return definition(kind, u.slice(1, 0, 5)) * u.slice(1, 5, 10); }) <
               1e-13);
    const auto with_row_gates = [&](const at::Tensor& u) {
      return activate_gated(u.slice(1, 0, 10).contiguous(), kind, u.slice(1, 10, 11).contiguous());
    };
    BOOST_TEST(compare(random_tensor({70, 11}, "gate"), with_row_gates, [&](const at::Tensor& u) {
                 return definition(kind, u.slice(1, 0, 5)) * u.slice(1, 5, 10) * at::sigmoid(u.slice(1, 10, 11));
               }) < 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(attention_equals_masked_soft_max_within_each_segment) {
  const std::vector<std::vector<std::int64_t>> batches{{0, 1}, {0, 5, 5, 12}, {0, 64, 65, 195}, {0, 200}};
  for (const auto& starts : batches) {
    for (const AttentionShape& shape :
         {AttentionShape{4, 4, 6}, AttentionShape{6, 2, 4}, AttentionShape{3, 1, 2}, AttentionShape{3, 1, 2, 1},
          AttentionShape{4, 2, 6, 7}, AttentionShape{2, 2, 4, 70}, AttentionShape{2, 1, 4, 1000}}) {
      const at::Tensor segments = at::tensor(starts, at::kLong), positions = positions_in(starts);
      RotaryTable table({}, shape.head_size, at::kDouble);
      const at::Tensor frequency =
          at::pow(10000.0, at::arange(0, shape.head_size, 2, at::kDouble) / -static_cast<double>(shape.head_size));
      const at::Tensor angles = positions.to(at::kDouble).unsqueeze(1) * frequency;
      for (const at::Tensor& rotary : {at::Tensor(), table.table_for(200, 200)}) {
        const at::Tensor qkv = random_tensor({starts.back(), shape.width()}, "qkv");
        const double worst = compare(
            qkv, [&](const at::Tensor& x) { return causal_attention(x, shape, segments, positions, rotary); },
            [&](const at::Tensor& x) {
              return reference_attention(x, shape, starts, rotary.defined() ? angles : rotary);
            });
        BOOST_TEST(worst < 1e-12);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rotary_table_begins_anew_where_the_length_has_other_frequencies) {
  const auto slowest = [](const at::Tensor& table) { return std::asin(table[1][1].select(0, 1).item<double>()); };
  const Rope dynamic{.kind = RopeKind::dynamic, .factor = 2, .original_positions = 100};
  RotaryTable table(dynamic, 4, at::kDouble);
  const at::Tensor within = table.table_for(50, 50);
  BOOST_TEST(slowest(within) == 0.01, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(table.table_for(100, 60).const_data_ptr() == within.const_data_ptr());
  BOOST_TEST(slowest(table.table_for(200, 200)) == 0.01 / 3, boost::test_tools::tolerance(1e-12));  // √(θ · 3²)
  BOOST_TEST(slowest(table.table_for(99, 99)) == 0.01, boost::test_tools::tolerance(1e-12));
  const Rope scaled{.kind = RopeKind::yarn, .factor = 1, .original_positions = 100, .attention_factor = 0.5};
  BOOST_TEST(RotaryTable(scaled, 4, at::kDouble).table_for(9, 9)[0][0][0].item<double>() == 0.5);
}

BOOST_AUTO_TEST_CASE(norms_of_heads_are_those_of_each_query_and_key_and_leave_values_alone) {
  for (const AttentionShape& shape : {AttentionShape{3, 1, 5}, AttentionShape{4, 2, 16}}) {
    for (const std::int64_t rows : {1, 70}) {
      Weights weights({{shape.head_size}, {shape.head_size}});
      const HeadNorm norm(shape, 1e-6, weights[0], weights[1]);
      const auto oracle = [&](const at::Tensor& x) {
        const at::Tensor heads = x.view({rows, -1, shape.head_size});
        const at::Tensor normal = heads * (heads.square().mean(-1, true) + 1e-6).rsqrt();
        const std::int64_t keys = shape.heads, values = shape.heads + shape.kv_heads;
        return at::cat({normal.slice(1, 0, keys) * weights.leaves[0], normal.slice(1, keys, values) * weights.leaves[1],
                        heads.slice(1, values)},
                       1)
            .view({rows, -1});
      };
      const at::Tensor x = random_tensor({rows, shape.width()}, "x");
      BOOST_TEST(compare(x, norm, oracle) < 1e-12);
      BOOST_TEST(weights.worst_gradient() < 1e-12);
      BOOST_TEST(compare(x, norm, oracle) < 1e-12);
      BOOST_TEST(weights.worst_gradient() < 1e-12);  // a second backward adds
    }
  }
}

BOOST_AUTO_TEST_CASE(attention_over_no_token_is_empty) {
  const at::Tensor y = causal_attention(at::empty({0, 12}, at::kFloat), {2, 2, 2}, at::zeros({1}, at::kLong),
                                        at::empty({0}, at::kInt), {});
  BOOST_TEST(y.sizes() == (at::IntArrayRef{0, 4}));
}

BOOST_AUTO_TEST_CASE(embeddings_receive_gradients_although_no_input_needs_one) {
  Weights tables({{11, 3}, {6, 3}});
  const at::Tensor tokens = at::tensor({4, 0, 4, 10, 4}, at::kInt), positions = at::tensor({0, 1, 2, 0, 1}, at::kInt);
  const at::Tensor y = embed(tables[0], tables.at(1), tokens, positions, at::kDouble);
  const at::Tensor expected = tables.leaves[0].index_select(0, tokens) + tables.leaves[1].index_select(0, positions);
  BOOST_TEST(error(y, expected) == 0);
  const at::Tensor dy = random_tensor({5, 3}, "dy");
  torch::autograd::backward({y}, {dy});
  torch::autograd::backward({expected}, {dy});
  BOOST_TEST(tables.worst_gradient() < 1e-14);
  const at::NoGradGuard no_grad;
  BOOST_TEST(!embed(tables[0], nullptr, tokens, positions, at::kDouble).requires_grad());
}

BOOST_AUTO_TEST_CASE(the_loss_is_the_sum_over_labels_that_count) {
  Weights head({{13, 4}});
  const at::Tensor labels = at::tensor({3, -100, 12, 0, -100}, at::kInt);
  const auto oracle = [&](const at::Tensor& x) {
    return at::cross_entropy_loss(at::matmul(x, head.leaves[0].t()), labels.to(at::kLong), {}, at::Reduction::Sum);
  };
  BOOST_TEST(compare(
                 random_tensor({5, 4}, "x"), [&](const at::Tensor& x) { return loss_sum(x, head[0], labels); },
                 oracle) < 1e-13);
  BOOST_TEST(head.worst_gradient() < 1e-13);
}

BOOST_AUTO_TEST_CASE(the_loss_of_smoothed_labels_is_that_of_pytorch_in_each_type) {
  const at::Tensor labels = at::tensor({3, -100, 12, 0, -100}, at::kInt);
  for (const auto& [precision, bound] :
       {std::pair{Precision::fp64, 1e-13}, {Precision::fp32, 3e-6}, {Precision::fp16, 1e-3}, {Precision::bf16, 1e-2}})
    for (const double smoothing : {0.0, 0.1, 0.5, 0.99})
      for (const std::int64_t most_kept_bytes : {std::int64_t{0}, std::int64_t{1} << 20}) {
        Weights head({{13, 4}}, precision);
        const auto ours = [&](const at::Tensor& x) {
          return loss_sum(x, head[0], labels, {.smoothing = smoothing}, most_kept_bytes);
        };
        const auto oracle = [&](const at::Tensor& x) {
          return at::cross_entropy_loss(at::matmul(x.to(at::kDouble), head.leaves[0].t()), labels.to(at::kLong), {},
                                        at::Reduction::Sum, -100, smoothing);
        };
        const at::Tensor x = random_tensor({5, 4}, "x").to(compute_type(precision));
        BOOST_TEST(compare(x, ours, oracle) < bound);
        BOOST_TEST(head.worst_gradient() < bound);
      }
}

/// The values of `memory` from the end of `tensor` on.
at::Tensor behind(const at::Tensor& tensor, std::int64_t count) {
  return at::from_blob(static_cast<std::byte*>(tensor.mutable_data_ptr()) + tensor.nbytes(), {count}, tensor.options());
}

BOOST_AUTO_TEST_CASE(a_loss_computes_with_rows_behind_the_head_and_they_change_nothing) {
  constexpr std::int64_t channels = 4, padding = 3;
  const at::Tensor labels = at::tensor({3, -100, 12, 0, -100}, at::kInt);
  for (const auto& [precision, bound] :
       {std::pair{Precision::fp64, 1e-13}, {Precision::fp32, 3e-6}, {Precision::fp16, 1e-3}, {Precision::bf16, 1e-2}})
    for (const double smoothing : {0.0, 0.1})
      for (const std::int64_t most_kept_bytes : {std::int64_t{0}, std::int64_t{1} << 20}) {
        Weights head({{13, channels}}, precision, 13 + padding);
        BOOST_TEST(head[0].rows_in_memory() == 13 + padding);
        BOOST_TEST(head[0].compute().sizes() == (at::IntArrayRef{13, channels}));
        const at::Tensor weights_behind = behind(head[0].compute(), padding * channels);
        const at::Tensor gradient_behind = behind(head[0].gradient(), padding * channels);
        BOOST_TEST(weights_behind.eq(0).all().item<bool>());
        gradient_behind.fill_(std::numeric_limits<double>::quiet_NaN());
        const auto ours = [&](const at::Tensor& x) {
          return loss_sum(x, head[0], labels, {.smoothing = smoothing}, most_kept_bytes);
        };
        const auto oracle = [&](const at::Tensor& x) {
          return at::cross_entropy_loss(at::matmul(x.to(at::kDouble), head.leaves[0].t()), labels.to(at::kLong), {},
                                        at::Reduction::Sum, -100, smoothing);
        };
        const at::Tensor x = random_tensor({5, channels}, "x").to(compute_type(precision));
        BOOST_TEST(compare(x, ours, oracle) < bound);
        BOOST_TEST(head.worst_gradient() < bound);
        BOOST_TEST(gradient_behind.eq(0).all().item<bool>());
        const at::Tensor logits = head_logits(x, head[0]);
        BOOST_TEST(logits.sizes() == (at::IntArrayRef{5, 13}));
        BOOST_TEST(logits.is_contiguous());
        BOOST_TEST(error(logits, at::matmul(x.to(at::kDouble), head.leaves[0].t())) < bound);
      }
}

template <class M>
RowLoss::Rows<M> half_squares() {
  return [](std::int64_t rows, std::int64_t vocabulary, const M* logits, const std::int32_t* labels, double* losses,
            M* derivative) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const bool counts = labels[r] >= 0;
      losses[r] = 0;
      for (std::int64_t i = r * vocabulary; i < (r + 1) * vocabulary; ++i) {
        losses[r] += counts ? 0.5 * logits[i] * logits[i] : 0;
        if (derivative != nullptr) derivative[i] = counts ? logits[i] : 0;
      }
    }
  };
}

BOOST_AUTO_TEST_CASE(a_loss_of_users_is_differentiated_in_each_type_whether_its_derivative_is_kept_or_not) {
  const RowLoss half{half_squares<float>(), half_squares<double>()};
  const at::Tensor labels = at::tensor({3, -100, 12, 0, -100}, at::kInt);
  for (const auto& [precision, bound] :
       {std::pair{Precision::fp64, 1e-13}, {Precision::fp32, 3e-6}, {Precision::fp16, 1e-2}, {Precision::bf16, 1e-1}})
    for (const std::int64_t most_kept_bytes : {std::int64_t{0}, std::int64_t{1} << 20}) {
      Weights head({{13, 4}}, precision);
      const auto ours = [&](const at::Tensor& x) {
        return loss_sum(x, head[0], labels, {.of_user = &half}, most_kept_bytes);
      };
      const auto oracle = [&](const at::Tensor& x) {
        const at::Tensor logits = at::matmul(x.to(at::kDouble), head.leaves[0].t());
        return (logits * logits * labels.ge(0).unsqueeze(1)).sum() / 2;
      };
      const at::Tensor x = random_tensor({5, 4}, "x").to(compute_type(precision));
      BOOST_TEST(compare(x, ours, oracle) < bound);
      BOOST_TEST(head.worst_gradient() < bound);
      const at::NoGradGuard no_grad;
      at::Tensor correct;
      const double alone = loss_sum(x, head[0], labels, {.of_user = &half}, 0, nullptr, &correct).item<double>();
      BOOST_TEST(alone == ours(x).item<double>());
      BOOST_TEST(correct.item<double>() == 0);
    }
}

BOOST_AUTO_TEST_CASE(labels_that_are_most_probable_are_counted_where_nothing_is_differentiated) {
  Weights head({{13, 4}});
  const at::Tensor x = random_tensor({40, 4}, "x");
  const at::Tensor best = at::matmul(x, head.leaves[0].t()).argmax(1).to(at::kInt);
  at::Tensor labels = best.clone();
  for (const std::int64_t wrong : {3, 17}) labels[wrong] = (best[wrong] + 1) % 13;
  labels[20] = -100;
  const at::NoGradGuard no_grad;
  at::Tensor correct;
  loss_sum(x, head[0], labels, {}, 0, nullptr, &correct);
  BOOST_TEST(correct.item<double>() == 37);
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_kept_are_computed_again_slice_by_slice) {
  constexpr std::int64_t vocabulary = 1 << 22;  // a slice has 4 of the 6 rows
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Weights head({{vocabulary, 2}}, precision);
    const at::Tensor labels = at::tensor({3, -100, 12, 0, 5, 1 << 21}, at::kInt);
    const auto gradients = [&](std::int64_t most_kept_bytes, bool parts) {
      const at::Tensor x = leaf(random_tensor({6, 2}, "x").to(compute_type(precision)));
      head.unit.zero_grad();
      const at::Tensor loss = loss_sum(x, head[0], labels, {.smoothing = 0.2}, most_kept_bytes);
      if (parts) {
        DeferredWeightGradients left = backward_input(loss, at::full({}, 0.3, at::kDouble));
        BOOST_TEST(head[0].touches() == 0);
        head[0].compute().fill_(std::numeric_limits<double>::quiet_NaN());
        left.compute();
        head.unit.update_compute_copy();
        if (precision == Precision::fp32) head[0].master().copy_(head.leaves[0].detach());
      } else {
        torch::autograd::backward({loss}, {at::full({}, 0.3, at::kDouble)});
      }
      return std::vector{loss, x.grad(), head[0].gradient().clone()};
    };
    const auto kept = gradients(std::int64_t{1} << 40, false), sliced = gradients(0, false);
    BOOST_TEST(at::equal(kept[0], sliced[0]));
    BOOST_TEST(at::allclose(kept[1].to(at::kDouble), sliced[1].to(at::kDouble), 1e-5, 1e-9));
    BOOST_TEST(at::allclose(kept[2], sliced[2], 1e-5, 1e-9));
    for (const std::int64_t most : {std::int64_t{0}, std::int64_t{1} << 40}) {
      const auto whole = most == 0 ? sliced : kept, parted = gradients(most, true);
      for (std::size_t i = 0; i < whole.size(); ++i) BOOST_TEST(at::equal(whole[i], parted[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(without_autograd_the_loss_is_the_same) {
  Weights head({{13, 4}}, Precision::fp32);
  const at::Tensor x = random_tensor({5, 4}, "x").to(at::kFloat), labels = at::tensor({3, -100, 12, 0, 7}, at::kInt);
  const double recorded = loss_sum(leaf(x), head[0], labels).item<double>();
  const at::NoGradGuard no_grad;
  BOOST_TEST(loss_sum(x, head[0], labels).item<double>() == recorded);
}

BOOST_AUTO_TEST_CASE(a_batch_without_a_counting_label_has_loss_0_and_gradients_0) {
  for (const std::int64_t rows : {0, 3}) {
    Weights head({{7, 4}}, Precision::fp32);
    const at::Tensor x = leaf(random_tensor({rows, 4}, "x").to(at::kFloat));
    const at::Tensor loss = loss_sum(x, head[0], at::full({rows}, -100, at::kInt));
    torch::autograd::backward({loss}, {at::ones({}, at::kDouble)});
    BOOST_TEST(loss.item<double>() == 0);
    BOOST_TEST(head[0].gradient().eq(0).all().item<bool>());
    BOOST_TEST(x.grad().eq(0).all().item<bool>());
  }
}

BOOST_AUTO_TEST_SUITE_END()
