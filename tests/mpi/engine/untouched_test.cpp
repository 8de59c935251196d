// Parameters that nothing touches in a step, on one rank or on all: their contribution to the gradient is zero,
// whatever the memory held, and the optimizer treats a gradient of zeros as any other.
#include "composition_job.hpp"

#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <torch/csrc/autograd/autograd.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(untouched)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Nothing reads the table of positions and a bias of each layer any more: they have roles that blocks of this family
/// do not look for.
void leave_unread(Architecture& architecture) {
  for (BlockDescription& block : architecture.blocks) {
    for (LogicalTensor& tensor : block.tensors) {
      if (tensor.role == Role::position_embedding) tensor.role = Role::gate;
      if (tensor.role == Role::up_bias) tensor.role = Role::gate_bias;
    }
  }
}
void leave_as_is(Architecture&) {}
bool is_left_unread(const std::string& name) { return name.ends_with("wpe.weight") || name.ends_with("c_fc.bias"); }

using Gradients = std::map<std::string, at::Tensor>;

/// What the samples of step 0 that data rank `share` has add to the gradients, by autograd over a whole model.
Gradients gradients_of(const Architecture& architecture, const BatchPlan& batches, std::int64_t share) {
  Model model(architecture, Precision::fp64);
  model.initialise(7);
  for (Unit* unit : model.units()) unit->zero_grad();
  const double seed = 1.0 / static_cast<double>(samples(0, {0, global_batch}).valid_tokens);
  for (std::int64_t i = 0; i < batches.accumulation; ++i) {
    const BatchTensors batch = to_tensors(samples(0, samples_of(batches, share, i)), model.config());
    at::Tensor x;
    for (std::size_t block = 0; block < model.block_count(); ++block) x = model.block(block).forward(x, batch);
    torch::autograd::backward({x}, {at::full({}, seed, at::TensorOptions().dtype(at::kDouble))});
  }
  Gradients gradients;
  for (Unit* unit : model.units()) unit->finish_gradients();
  for (const Parameter* parameter : model.parameters())
    gradients[parameter->name()] = parameter->gradient().clone().cpu();
  return gradients;
}

/// Memory that is taken next holds no numbers, nor do the gradients that are kept.
void spoil_memory(const Job& job) {
  std::vector<at::Tensor> spoilt;
  const auto options = at::TensorOptions().dtype(at::kDouble);
  for (const Unit* unit : job.model().units()) {
    for (const auto& parameter : unit->parameters())  // padding stays zero all run
      if (unit->gradient().defined()) parameter->gradient().fill_(not_a_number);
    for (int i = 0; i < 8; ++i) {
      spoilt.push_back(at::full({unit->whole_length()}, not_a_number, options));
      spoilt.push_back(at::full({unit->length()}, not_a_number, options));
    }
  }
}

std::vector<Composition> ways() {
  const int ranks = world().size();
  return {{.replicas = ranks},
          {.replicas = ranks, .accumulate = Accumulate::sums, .micro_batch = 1},
          {.shards = ranks, .micro_batch = 1},
          {.shards = ranks, .accumulate = Accumulate::shards, .micro_batch = 1},
          {.shards = ranks, .zero = 2, .accumulate = Accumulate::shards, .micro_batch = 1}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_one_rank_does_not_touch_has_the_gradient_of_the_others) {
  const int ranks = world().size();
  const Rank without = ranks - 1;
  Architecture whole = architecture_of("gpt2"), unread = whole;
  leave_unread(unread);
  for (const Composition& how : ways()) {
    Job job(all_ranks(), how, Precision::fp64, {}, {}, world().rank() == without ? leave_unread : leave_as_is);
    spoil_memory(job);
    BOOST_TEST(job.step(0).updated, how.text());
    const BatchPlan batches = plan_batch(global_batch, ranks, how.micro_batch);
    Gradients want = gradients_of(unread, batches, without);
    for (const auto& [name, gradient] : want)
      BOOST_TEST((is_left_unread(name) == gradient.eq(0).all().item<bool>()), name);
    for (Rank rank = 0; rank < without; ++rank)
      for (const auto& [name, gradient] : gradients_of(whole, batches, rank)) want[name].add_(gradient);
    for (const LogicalTensor& tensor : job.tensors()) {
      const at::Tensor got = job.whole_gradient(tensor);
      const double error = norm_of(got.sub(want[tensor.name]));
      BOOST_TEST(error <= 1e-12 * std::max(norm_of(want[tensor.name]), 1e-3),
                 how.text() << ": " << tensor.name << " is off by " << error);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_no_rank_touches_has_gradient_zero_and_is_updated_as_such) {
  const OptimizerOptions options;
  BOOST_TEST(options.weight_decay > 0);
  for (const Composition& how : ways()) {
    Job job(all_ranks(), how, Precision::fp64, {}, {}, leave_unread);
    std::map<std::string, at::Tensor> before;
    for (const LogicalTensor& tensor : job.tensors()) before[tensor.name] = job.whole_weight(tensor).clone();
    spoil_memory(job);
    BOOST_TEST(job.step(0).updated, how.text());
    for (const LogicalTensor& tensor : job.tensors()) {
      if (!is_left_unread(tensor.name)) continue;
      BOOST_TEST(job.whole_gradient(tensor).eq(0).all().item<bool>(), how.text() << ": " << tensor.name);
      // AdamW's moments stay zero; matrices decay.
      const double kept = tensor.shape.size() >= 2 ? 1 - 1e-3 * options.weight_decay : 1;
      const at::Tensor want = before[tensor.name].mul(kept);
      const double error = norm_of(job.whole_weight(tensor).sub(want));
      BOOST_TEST(error <= 1e-15 * norm_of(want), how.text() << ": " << tensor.name << " is off by " << error);
    }
  }
}

// Of a table, rows that no token of a batch names: positions beyond the length of its samples.
BOOST_AUTO_TEST_CASE(rows_of_a_table_that_no_batch_names_have_gradient_zero) {
  for (const Composition& how : ways()) {
    Job job(all_ranks(), how, Precision::fp64, {});
    spoil_memory(job);
    BOOST_TEST(job.step(0).updated, how.text());
    for (const LogicalTensor& tensor : job.tensors()) {
      if (tensor.role != Role::position_embedding) continue;
      const at::Tensor gradient = job.whole_gradient(tensor);
      BOOST_TEST(gradient.size(0) > length);
      BOOST_TEST(gradient.narrow(0, length, gradient.size(0) - length).eq(0).all().item<bool>(), how.text());
      BOOST_TEST(norm_of(gradient.narrow(0, 0, length)) > 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
