// A backward in two halves against one in one: the same bits, whatever happens to the weights in between.
#include "architecture/block_profile.hpp"
#include "model/model.hpp"
#include "small_models.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <map>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(weight_gradients)

using namespace lockstep;

namespace {

enum class Halves { joined, block_by_block, weights_at_the_end };

/// What a micro-batch gives: gradients of parameters by name, and of the input of each block.
struct Gradients {
  std::map<std::string, at::Tensor> parameters;
  std::vector<at::Tensor> inputs;
};

struct Way {
  Halves halves = Halves::joined;
  bool recomputes = false;       // runs each forward again, right before its backward
  bool forgets_weights = false;  // they are NaN while weight gradients are computed at the end
};

void fill_weights(const Model& model, double value) {
  for (const auto& unit : model.units()) {
    unit->master().fill_(value);
    unit->compute().fill_(value);
  }
}

Gradients gradients_of(const Architecture& architecture, Precision precision, const Way& way) {
  Model model(architecture, precision);
  model.initialise(5);
  for (const auto& unit : model.units()) unit->zero_grad();
  const BatchTensors batch = to_tensors(counting_batch(3, 17, model.config().vocabulary), model.config());
  std::vector<at::Tensor> inputs(model.block_count()), outputs(model.block_count());
  for (std::size_t i = 0; i < model.block_count(); ++i) {
    const c10::AutoGradMode records(!way.recomputes);
    if (i > 0) inputs[i] = outputs[i - 1].detach().requires_grad_(true);
    outputs[i] = model.block(i).forward(inputs[i], batch);
  }
  Gradients result;
  std::vector<DeferredWeightGradients> left;
  at::Tensor gradient = at::scalar_tensor(1.0 / 51, at::kDouble);
  for (std::size_t i = model.block_count(); i-- > 0;) {
    if (way.recomputes) outputs[i] = model.block(i).forward(inputs[i], batch);
    if (way.halves == Halves::joined) {
      torch::autograd::backward({outputs[i]}, {gradient});
    } else {
      left.push_back(backward_input(outputs[i], gradient));
      if (way.halves == Halves::block_by_block) left.back().compute();
    }
    outputs[i].reset();
    if (i > 0) gradient = inputs[i].grad();
    if (i > 0) result.inputs.push_back(gradient.clone());
  }
  inputs.clear();
  if (way.forgets_weights) fill_weights(model, std::numeric_limits<double>::quiet_NaN());
  for (DeferredWeightGradients& block : left) block.compute();
  for (const Parameter* parameter : model.parameters())
    result.parameters[parameter->name()] = parameter->gradient().clone();
  return result;
}

std::vector<std::pair<std::string, Architecture>> models() {
  Architecture tied_llama = small_llama();
  tied_llama.config.tied_head = true;
  Architecture untied_gpt2 = small_gpt2();
  untied_gpt2.config.tied_head = false;
  return {{"gpt2, tied", small_gpt2()},     {"gpt2, untied", describe(untied_gpt2.config)},
          {"llama, untied", small_llama()}, {"llama, tied", describe(tied_llama.config)},
          {"qwen3_moe", small_qwen3_moe()}, {"qwen2_moe", small_qwen2_moe()}};
}

bool is_tied(const Architecture& architecture, const std::string& name) {
  for (const LogicalTensor& tensor : architecture.blocks.back().tensors)
    if (tensor.alias_of == name) return true;
  return false;
}

constexpr Precision precisions[] = {Precision::fp32, Precision::bf16, Precision::fp64};

void check_bits(const Way& way) {
  for (const auto& [model, architecture] : models()) {
    for (const Precision precision : precisions) {
      const Gradients whole = gradients_of(architecture, precision, {}),
                      parted = gradients_of(architecture, precision, way);
      for (const auto& [name, value] : whole.parameters) {
        const at::Tensor& other = parted.parameters.at(name);
        if (way.halves == Halves::weights_at_the_end && is_tied(architecture, name)) {
          const double tolerance = precision == Precision::fp64 ? 1e-15 : 1e-6;  // two terms in the other order
          BOOST_TEST(value.sub(other).abs().max().item<double>() < tolerance, model << ": " << name);
        } else {
          BOOST_TEST(at::equal(value, other), model << ": " << name);
        }
      }
      for (std::size_t i = 0; i < whole.inputs.size(); ++i)
        BOOST_TEST(at::equal(whole.inputs[i], parted.inputs[i]), model << ": gradient of input " << i);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_halves_have_the_bits_of_one_backward) {
  check_bits({.halves = Halves::block_by_block});
  check_bits({.halves = Halves::weights_at_the_end});
}

BOOST_AUTO_TEST_CASE(a_block_that_is_recomputed_before_the_first_half_has_the_same_bits) {
  check_bits({.halves = Halves::block_by_block, .recomputes = true});
  check_bits({.halves = Halves::weights_at_the_end, .recomputes = true});
}

BOOST_AUTO_TEST_CASE(the_second_half_reads_no_weight) {
  check_bits({.halves = Halves::weights_at_the_end, .forgets_weights = true});
}

BOOST_AUTO_TEST_CASE(the_first_half_finishes_norms_biases_and_embeddings_and_touches_no_matrix) {
  for (const auto& [name, architecture] : models()) {
    Model model(architecture, Precision::fp32);
    model.initialise(5);
    for (const auto& unit : model.units()) unit->zero_grad();
    const BatchTensors batch = to_tensors(counting_batch(2, 9, model.config().vocabulary), model.config());
    at::Tensor x = model.block(0).forward({}, batch).detach().requires_grad_(true);
    std::vector<DeferredWeightGradients> left;
    const std::size_t layer = model.block_count() - 2;
    left.push_back(backward_input(model.block(layer).forward(x, batch), x.detach()));
    left.push_back(backward_input(model.head().forward(x, batch), at::scalar_tensor(1.0, at::kDouble)));
    for (const std::size_t block : {layer, model.block_count() - 1}) {
      for (const Parameter* parameter : model.block(block).parameters())
        BOOST_TEST(parameter->touches() == (parameter->shape().size() == 1 ? 1 : 0), name << ": " << parameter->name());
    }
    BOOST_TEST(backward_input(model.block(0).forward({}, batch), x.detach()).empty());
    for (const Parameter* parameter : model.block(0).parameters())
      BOOST_TEST(parameter->touches() == 1, name << ": " << parameter->name());
    for (DeferredWeightGradients& block : left) {
      block.compute();
      BOOST_TEST(block.empty());
    }
    for (const Parameter* parameter : model.block(layer).parameters())
      BOOST_TEST(parameter->touches() == 1, name << ": " << parameter->name());
  }
}

BOOST_AUTO_TEST_CASE(between_the_halves_only_inputs_and_output_gradients_of_linear_layers_are_kept) {
  for (const auto& [name, architecture] : models()) {
    for (const Precision precision : precisions) {
      Model model(architecture, precision);
      model.initialise(5);
      for (const auto& unit : model.units()) unit->zero_grad();
      const BatchTensors batch = to_tensors(counting_batch(2, 9, model.config().vocabulary), model.config());
      const at::Tensor x = model.block(0).forward({}, batch).detach().requires_grad_(true);
      const DType type = unit_types(precision, {}).compute;
      for (std::size_t block = 0; block < model.block_count(); ++block) {
        const at::Tensor output = model.block(block).forward(x, batch);
        const at::Tensor gradient = output.detach().clone();
        const DeferredWeightGradients left = backward_input(output, gradient);
        BOOST_TEST(left.bytes() == profile(architecture, block, {2, 9, type}).deferred_bytes, name << " " << block);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
