#include "model/model.hpp"

#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "base/error.hpp"
#include "layout/box_runs.hpp"
#include "small_models.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <map>

BOOST_AUTO_TEST_SUITE(models)

using namespace lockstep;

namespace {

/// The sum of losses over `batch`; gradients are added to the units.
double run(Model& model, const Batch& batch, double seed) {
  const BatchTensors tensors = to_tensors(batch, model.config());
  std::vector<at::Tensor> inputs(model.block_count()), outputs(model.block_count());
  for (std::size_t i = 0; i < model.block_count(); ++i) {
    if (i > 0) inputs[i] = outputs[i - 1].detach().requires_grad_(true);
    outputs[i] = model.block(i).forward(inputs[i], tensors);
  }
  at::Tensor gradient = at::scalar_tensor(seed, at::kDouble);
  for (std::size_t i = model.block_count(); i-- > 0;) {
    torch::autograd::backward({outputs[i]}, {gradient});
    if (i > 0) gradient = inputs[i].grad();
  }
  return outputs.back().item<double>();
}

std::map<std::string, at::Tensor> gradients(Model& model, const std::vector<Batch>& batches, double seed) {
  for (const auto& unit : model.units()) unit->zero_grad();
  for (const Batch& batch : batches) run(model, batch, seed);
  for (const auto& unit : model.units()) unit->finish_gradients();
  std::map<std::string, at::Tensor> result;
  for (const Parameter* parameter : model.parameters()) result[parameter->name()] = parameter->gradient().clone();
  return result;
}

double worst_difference(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  double worst = 0;
  for (const auto& [name, value] : a) worst = std::max(worst, value.sub(b.at(name)).abs().max().item<double>());
  return worst;
}

/// Weights in memory, as fp32 or bf16.
class MemorySource : public TensorSource {
 public:
  MemorySource(const Model& model, at::ScalarType type) {
    for (const Parameter* p : model.parameters()) {
      tensors_[p->name()] = p->master().to(type).contiguous();
      list_.push_back({p->name(), p->shape(), type == at::kBFloat16 ? DType::bf16 : DType::f32});
    }
  }
  void rename(const std::string& from, const std::string& to) {
    tensors_[to] = tensors_.at(from);
    for (TensorDescription& t : list_) {
      if (t.name == from) t.name = to;
    }
  }
  void reshape(const std::string& name, Shape shape) {
    for (TensorDescription& t : list_) {
      if (t.name == name) t.shape = shape;
    }
  }
  const std::vector<TensorDescription>& list() const override { return list_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const at::Tensor rows =
        box.begin.empty() ? tensors_.at(name) : tensors_.at(name).slice(0, box.begin[0], box.begin[0] + box.extent[0]);
    BOOST_REQUIRE(out.size() == static_cast<std::size_t>(rows.nbytes()));
    std::memcpy(out.data(), rows.contiguous().const_data_ptr(), out.size());
  }

 private:
  std::map<std::string, at::Tensor> tensors_;
  std::vector<TensorDescription> list_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_tied_head_shares_the_embeddings_parameter_and_both_touch_it) {
  Model model(small_gpt2(), Precision::fp64);
  model.initialise(1);
  BOOST_TEST(&model.parameter("lm_head.weight") == &model.parameter("transformer.wte.weight"));
  BOOST_TEST(model.head().parameters().size() == 3u);
  BOOST_TEST(model.units().back()->parameters().size() == 2u);
  BOOST_TEST(model.units().size() == model.block_count());
  for (const auto& unit : model.units()) unit->zero_grad();
  run(model, counting_batch(1, 5, 23), 1);
  BOOST_TEST(model.parameter("transformer.wte.weight").touches() == 2);
  for (const Parameter* parameter : model.parameters()) BOOST_TEST(parameter->touches() >= 1);
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_an_error_that_suggests_the_nearest) {
  const Model model(small_gpt2(), Precision::fp32);
  BOOST_CHECK_EXCEPTION(model.parameter("transformer.wpe.weights"), Error, [](const Error& error) {
    return error.hint().find("transformer.wpe.weight") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(micro_batches_add_up_to_the_whole_batch) {
  for (const Architecture& architecture : {small_gpt2(), small_llama()}) {
    Model model(architecture, Precision::fp64);
    model.initialise(4);
    const std::int64_t vocabulary = model.config().vocabulary;
    Batch last = counting_batch(1, 7, vocabulary);
    for (std::int32_t& token : last.tokens) token = static_cast<std::int32_t>((token + 2) % vocabulary);
    for (std::int32_t& label : last.labels) label = static_cast<std::int32_t>((label + 2) % vocabulary);
    const auto whole = gradients(model, {counting_batch(3, 7, vocabulary)}, 1.0 / 21);
    const auto parts = gradients(model, {counting_batch(2, 7, vocabulary), last}, 1.0 / 21);
    BOOST_TEST(worst_difference(whole, parts) < 1e-15);
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_slopes_of_the_loss) {
  for (const Architecture& architecture : {small_gpt2(), small_llama()}) {
    Model model(architecture, Precision::fp64);
    model.initialise(4);
    const Batch batch = counting_batch(2, 6, model.config().vocabulary);
    const auto exact = gradients(model, {batch}, 1);
    for (Parameter* parameter : model.parameters()) {
      const at::Tensor values = parameter->master().flatten();
      const std::int64_t place = parameter->elements() / 2;
      constexpr double step = 1e-5;
      const double centre = values[place].item<double>();
      values[place].fill_(centre + step);
      const double above = run(model, batch, 0);
      values[place].fill_(centre - step);
      const double below = run(model, batch, 0);
      values[place].fill_(centre);
      const double slope = exact.at(parameter->name()).flatten()[place].item<double>();
      BOOST_TEST(std::abs((above - below) / (2 * step) - slope) < 1e-7 * (1 + std::abs(slope)), parameter->name());
    }
  }
}

BOOST_AUTO_TEST_CASE(isolated_documents_give_the_gradients_of_separate_samples) {
  for (const Architecture& architecture : {small_gpt2(), small_llama()}) {
    Model model(architecture, Precision::fp64);
    model.initialise(4);
    const std::int64_t vocabulary = model.config().vocabulary;
    const Batch separate = counting_batch(2, 6, vocabulary);
    Batch packed = separate;
    packed.samples = 1;
    packed.length = 12;
    BOOST_TEST(worst_difference(gradients(model, {separate}, 1), gradients(model, {packed}, 1)) < 1e-14);
    packed.documents = {0, 12};
    BOOST_TEST(worst_difference(gradients(model, {separate}, 1), gradients(model, {packed}, 1)) > 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_batch_in_which_no_label_counts_gives_loss_0_and_gradients_0_without_nan) {
  for (const Precision precision : {Precision::fp32, Precision::fp64, Precision::bf16, Precision::fp16}) {
    Model model(small_llama(), precision);
    model.initialise(4);
    Batch batch = counting_batch(1, 6, 29);
    batch.labels.assign(6, ignored_label);
    for (const auto& [name, gradient] : gradients(model, {batch}, 1))
      BOOST_TEST(gradient.eq(0).all().item<bool>(), name);
    BOOST_TEST(run(model, batch, 1) == 0);
  }
}

BOOST_AUTO_TEST_CASE(runs_are_equal_bit_for_bit) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Model first(small_gpt2(), precision), second(small_gpt2(), precision);
    first.initialise(4);
    second.initialise(4);
    const std::vector<Batch> batches{counting_batch(3, 17, 23), counting_batch(2, 9, 23)};
    BOOST_TEST(worst_difference(gradients(first, batches, 0.1), gradients(second, batches, 0.1)) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_forward_that_is_run_again_has_the_same_bits) {
  Model model(small_llama(), Precision::fp32);
  model.initialise(4);
  const BatchTensors batch = to_tensors(counting_batch(3, 17, 29), model.config());
  const at::Tensor x = model.block(0).forward({}, batch).detach().requires_grad_(true);
  const at::Tensor recorded = model.block(1).forward(x, batch);
  const at::NoGradGuard no_grad;
  BOOST_TEST(model.block(1).forward(x, batch).equal(recorded));
  BOOST_TEST(!model.block(1).forward(x, batch).requires_grad());
}

BOOST_AUTO_TEST_CASE(loaded_weights_equal_those_of_the_source_whatever_its_type) {
  Model original(small_gpt2(), Precision::fp32);
  original.initialise(9);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Precision precision : {Precision::fp32, Precision::fp64, Precision::bf16}) {
      Model model(small_gpt2(), precision);
      model.load(MemorySource(original, type));
      for (const Parameter* p : model.parameters()) {
        BOOST_TEST(p->master().to(at::kFloat).equal(original.parameter(p->name()).master().to(type).to(at::kFloat)),
                   p->name());
        BOOST_TEST(p->compute().equal(p->master().to(compute_type(precision))), p->name());
      }
    }
  }
}

namespace {

/// Weights whose element i is a function of i and of the tensor's name; counts what is read of each.
class CountingSource : public TensorSource {
 public:
  explicit CountingSource(const Architecture& architecture) {
    for (const LogicalTensor& tensor : stored_tensors(architecture))
      list_.push_back({tensor.name, tensor.shape, DType::f32});
  }
  static float value(const std::string& name, std::int64_t element) {
    return static_cast<float>((element * 7 + std::ssize(name)) % 8191);
  }
  const std::vector<TensorDescription>& list() const override { return list_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    BOOST_REQUIRE(std::ssize(out) == elements(box) * 4);
    bytes[name] += std::ssize(out);
    for_each_run(box, whole(find_tensor(*this, name).shape), box, [&](const BoxRun& run) {
      for (std::int64_t i = 0; i < run.length; ++i) {
        const float number = value(name, run.in_a + i);
        std::memcpy(out.data() + (run.in_b + i) * 4, &number, 4);
      }
    });
  }
  mutable std::map<std::string, std::int64_t> bytes;

 private:
  std::vector<TensorDescription> list_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_reads_its_own_boxes_of_a_source_and_nothing_else) {
  for (const Architecture& architecture : {small_gpt2(), small_llama(), small_qwen3_moe(), small_qwen2_moe()}) {
    Sharding sharding{.axes = {"dp_shard"}, .shards = 2};
    sharding.blocks = sharing_among(2, architecture.config, architecture.config.experts.count > 0);
    Architecture shared = architecture;
    cut_over(shared, sharding.blocks);
    const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_shard", 2}, {"tp", 2}});
    const bool tied = architecture.config.tied_head;
    ModelPlan plan;
    plan.blocks.resize(architecture.blocks.size());
    plan.units = units_of(shared, UnitTypes{}, {}, sharding);
    const std::vector<PipelinePart> parts = parts_of({Pipeline{.ranks = 2}, {{0, 2}, {2, 4}}}, plan);
    std::int64_t all = 0;
    for (Rank rank = 0; rank < 8; ++rank) {
      Model model(architecture, Precision::fp32, {}, {}, {.mesh = mesh, .sharding = sharding, .rank = rank}, parts);
      const CountingSource source(architecture);
      model.load(source);
      std::map<std::string, std::int64_t> own;
      bool right = true;
      for (const Parameter* parameter : model.parameters()) {
        if (parameter->shard_elements() == 0) continue;
        own[parameter->name()] = parameter->shard_elements() * 4;
        const float* const values = parameter->master().const_data_ptr<float>();
        const Box& box = parameter->box();
        for_each_run(box, whole(view_of(parameter->description())), box, [&](const BoxRun& run) {
          for (std::int64_t i = 0; i < run.length; ++i)
            right = right && values[run.in_b + i] == CountingSource::value(parameter->name(), run.in_a + i);
        });
      }
      BOOST_TEST(right);
      BOOST_TEST((source.bytes == own));
      BOOST_TEST(own.contains(stored_tensors(architecture).front().name) == (rank < 4 || tied));
      for (const auto& [name, bytes] : own) all += bytes;
    }
    std::int64_t stored = 0;
    for (const LogicalTensor& tensor : stored_tensors(architecture)) stored += elements(tensor.shape) * 4;
    BOOST_TEST(all < 3 * stored);  // 8 ranks: what tp has alike twice, a tied table on two stages
  }
}

BOOST_AUTO_TEST_CASE(a_tied_weight_may_be_stored_under_either_name) {
  Model original(small_gpt2(), Precision::fp32), model(small_gpt2(), Precision::fp32);
  original.initialise(9);
  MemorySource source(original, at::kFloat);
  source.rename("transformer.wte.weight", "lm_head.weight");
  model.load(source);
  BOOST_TEST(
      model.parameter("transformer.wte.weight").master().equal(original.parameter("transformer.wte.weight").master()));
}

BOOST_AUTO_TEST_CASE(a_missing_tensor_and_another_shape_are_errors_that_name_the_tensor) {
  Model original(small_gpt2(), Precision::fp32), model(small_gpt2(), Precision::fp32);
  const auto names = [](const Error& error) {
    return error.code() == ExitCode::input &&
           std::string(error.what()).find("transformer.wpe.weight") != std::string::npos;
  };
  MemorySource missing(original, at::kFloat);
  missing.rename("transformer.wpe.weight", "other");
  BOOST_CHECK_EXCEPTION(model.load(missing), Error, names);
  MemorySource reshaped(original, at::kFloat);
  reshaped.reshape("transformer.wpe.weight", {16, 32});
  BOOST_CHECK_EXCEPTION(model.load(reshaped), Error, names);
}

BOOST_AUTO_TEST_CASE(tokens_outside_the_vocabulary_and_positions_outside_the_table_are_errors) {
  const ModelConfig config = small_gpt2().config;
  const auto says = [](const char* text) {
    return [=](const Error& error) {
      return error.code() == ExitCode::input && std::string(error.what()).find(text) != std::string::npos;
    };
  };
  Batch batch = counting_batch(1, 4, 23);
  batch.tokens[2] = 23;
  BOOST_CHECK_EXCEPTION(to_tensors(batch, config), Error, says("token 23"));
  batch = counting_batch(1, 4, 23);
  batch.labels[2] = -1;
  BOOST_CHECK_EXCEPTION(to_tensors(batch, config), Error, says("label -1"));
  BOOST_CHECK_EXCEPTION(to_tensors(counting_batch(1, 33, 23), config), Error, says("position 32"));
}

BOOST_AUTO_TEST_CASE(the_choice_of_experts_does_not_flip_when_a_block_is_recomputed) {
  Model model(small_qwen3_moe(), Precision::fp64);
  model.initialise(5);
  Parameter& router = model.parameter("model.layers.1.mlp.gate.weight");
  // Two experts are all but equal: rounding decides between them.
  router.master()[1].copy_(router.master()[3]);
  for (const auto& unit : model.units()) unit->update_compute_copy();
  const BatchTensors batch = to_tensors(counting_batch(2, 9, model.config().vocabulary), model.config());
  const at::Tensor x = model.block(1).forward(model.block(0).forward({}, batch), batch).detach();
  Replay first;
  const at::Tensor output = model.block(2).forward(x, batch, &first);
  router.master()[3].mul_(1 + 1e-15);  // as if a recomputed product had been rounded otherwise
  router.master()[1].mul_(1 - 1e-15);
  for (const auto& unit : model.units()) unit->update_compute_copy();
  Replay free, again{.experts = first.experts.clone()};
  const at::Tensor flipped = model.block(2).forward(x, batch, &free);
  const at::Tensor recomputed = model.block(2).forward(x, batch, &again);
  BOOST_TEST(!at::equal(free.experts, first.experts));
  BOOST_TEST(at::equal(again.experts, first.experts));
  const auto distance = [&](const at::Tensor& other) { return output.sub(other).abs().max().item<double>(); };
  BOOST_TEST(distance(recomputed) < 1e-12);
  BOOST_TEST(distance(flipped) > 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
