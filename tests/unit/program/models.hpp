// Small models and options to make programs of, fixed and random.
#pragma once

#include "program/catalogue.hpp"

#include <array>
#include <bit>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::models {

/// What AdamW keeps.
inline UpdateStates moments(DType type) { return {{{"exp_avg", type}, {"exp_avg_sq", type}}}; }

inline ModelPlan plan_of(std::vector<BlockPlan> blocks, const std::vector<ParameterPlan>& parameters,
                         const UnitTypes& types = {DType::f32, DType::f32, moments(DType::f32)},
                         std::int64_t bucket_bytes = 0, const Sharding& sharding = {}) {
  ModelPlan plan;
  plan.blocks = std::move(blocks);
  std::vector<std::string> names;
  for (const BlockPlan& block : plan.blocks) names.push_back(block.name);
  plan.units = make_units(names, parameters, types, {bucket_bytes}, sharding);
  return plan;
}

/// Embedding, two layers, head; the head's matrix is the embedding's.
inline ModelPlan tied(const UnitTypes& types = {DType::f32, DType::f32, moments(DType::f32)},
                      std::int64_t bucket_bytes = 0, const Sharding& sharding = {}) {
  return plan_of({{"embedding", 10, 100, 0, 1, 2, false},
                  {"layer.0", 1000, 100, 7, 10, 20, true},
                  {"layer.1", 1000, 100, 7, 10, 20, true},
                  {"head", 500, 0, 3, 5, 10, false}},
                 {{"wte", {16, 4}, {0, 3}}, {"w0", {8, 4}, {1}}, {"w1", {8, 4}, {2}}, {"norm", {16}, {3}}}, types,
                 bucket_bytes, sharding);
}

/// A model of so many blocks that cost alike: forward 1, backward 2, one half each where it is split.
inline ModelPlan even(int count, const std::string& prefix = "block.") {
  std::vector<BlockPlan> blocks;
  std::vector<ParameterPlan> parameters;
  for (int block = 0; block < count; ++block) {
    blocks.push_back({prefix + std::to_string(block), 1000, block + 1 == count ? 0 : 1, 0, 1, 2, false, 0, 0, 1, 1});
    parameters.push_back({"w" + std::to_string(block), {8}, {block}});
  }
  return plan_of(blocks, parameters);
}

struct Case {
  Mesh mesh;
  ModelPlan plan;
  ProgramOptions options;
};

/// Some of its stash and of its work for each value that a block may keep.
inline void roll_recomputations(ModelPlan& plan, ProgramOptions& options, std::mt19937& engine) {
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  options.recompute.keeps = KeepSet::at(static_cast<std::size_t>(roll(0, KeepSet::count - 1)));
  for (BlockPlan& block : plan.blocks) {
    const int share = roll(0, 3);
    std::int64_t workspace = 0;
    for (std::size_t index = 0; index < KeepSet::count && share > 0; ++index) {
      const auto values = static_cast<std::int64_t>(std::popcount(index));
      // Halves of the products take what the set before them does.
      if (KeepSet::at(index).has(Keep::projections) == KeepSet::at(index).has(Keep::mlp)) workspace = roll(0, 9);
      block.recomputations.push_back({.kept_bytes = values * block.stash_bytes / (4 * share),
                                      .workspace_bytes = workspace,
                                      .flops = block.forward_flops * static_cast<double>(4 - values) / 4});
    }
  }
}

inline UpdateOptions random_update(std::mt19937& engine) {
  const bool in_backward = std::uniform_int_distribution<int>(0, 2)(engine) == 0;
  const bool clips = std::uniform_int_distribution<int>(0, 1)(engine) == 0;
  return {clips && !in_backward, 48, in_backward};
}

/// A step of post-local SGD, or of a run that has none.
inline void roll_local(Case& made, std::mt19937& engine) {
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  const int kind = roll(0, 3);
  if (kind == 3) return;
  made.options.offload.shards = false;  // not averaged
  made.options.local = {.axes = {"dp_replicate"}, .start_step = roll(0, 3), .period = roll(1, 3)};
  made.options.training_step =
      std::array{TrainingStep::summing, TrainingStep::local, TrainingStep::averaging}[static_cast<std::size_t>(kind)];
}

inline Case random_case(std::mt19937& engine) {
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  const int count = roll(1, 4);
  std::vector<BlockPlan> blocks;
  std::vector<ParameterPlan> parameters;
  for (int block = 0; block < count; ++block) {
    blocks.push_back({"block." + std::to_string(block), roll(0, 50), block + 1 == count ? 0 : roll(1, 20),
                      roll(0, 1) * 30, 1.0 * roll(1, 5), 1.0 * roll(1, 5), roll(0, 2) > 0});
    for (int i = roll(block == 0, 2); i > 0; --i)
      parameters.push_back({"p" + std::to_string(parameters.size()),
                            {roll(0, 20), 3},
                            {block},
                            parameters.empty() || roll(0, 4) > 0,
                            roll(0, 4) > 0 ? "" : "own"});
  }
  if (count > 1 && roll(0, 1) == 0) parameters.front().blocks.push_back(count - 1);
  Case made;
  const int shards = roll(1, 2) * roll(1, 2);
  const bool cuts = shards > 1 && roll(0, 1) == 0;
  const bool keeps = shards == 4 && cuts && roll(0, 1) == 0;
  std::vector<std::pair<AxisName, int>> axes{{"pp", 1}, {"dp_replicate", roll(1, shards == 4 ? 2 : 3)}};
  if (keeps)
    axes.insert(axes.end(), {{"dp_shard_outer", 2}, {"dp_shard_inner", 2}});
  else
    axes.emplace_back("dp_shard", shards);
  if (shards < 4 && roll(0, 2) == 0) axes.insert(axes.begin() + 2, {"dp_node", roll(1, 2)});
  made.mesh = make_mesh("world", axes);
  const Sharding kept{{"dp_shard_outer", "dp_shard_inner"}, 4, {"dp_shard_inner"}, 2};
  made.plan = plan_of(blocks, parameters,
                      {DType::f32, roll(0, 1) == 0 ? DType::f32 : DType::bf16, moments(DType::f32),
                       roll(0, 1) == 0 ? std::optional<DType>() : DType::bf16},
                      roll(0, 2) * 400,
                      keeps  ? kept
                      : cuts ? Sharding{{"dp_shard"}, shards}
                             : Sharding{});
  made.options.micro_batches = roll(1, 3);
  made.options.eval_micro_batches = roll(0, 3);
  made.options.recompute.every = roll(0, 1) == 0 ? 0 : 1 + count % 3;
  made.options.shards = {
      roll(0, 1) == 0, roll(0, 1) == 0,
      std::array{Accumulate::whole, Accumulate::shards, Accumulate::sums}[static_cast<std::size_t>(roll(0, 2))],
      roll(0, 2)};
  made.options.update = random_update(engine);
  made.options.offload = {roll(0, 2) == 0, roll(0, 2) == 0, roll(0, 1) == 0};
  made.options.eval_reduction_bytes = 16;
  roll_local(made, engine);
  roll_recomputations(made.plan, made.options, engine);
  return made;
}

/// The same with two or three ranks along pp, at least as many blocks as stages, and any schedule.
inline Case random_pipeline(std::mt19937& engine) {
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  Case made;
  PipelineOptions& pipeline = made.options.pipeline;
  pipeline.schedule = pipeline_schedules[static_cast<std::size_t>(roll(0, 4))];
  const bool in_v = pipeline.schedule == PipelineSchedule::zbv;
  const bool interleaved = pipeline.schedule == PipelineSchedule::interleaved_1f1b ||
                           pipeline.schedule == PipelineSchedule::interleaved_zero_bubble;
  pipeline.chunks = in_v ? 2 : interleaved ? roll(1, 2) : 1;
  pipeline.passes = roll(1, 2);
  const int ranks = roll(2, 3);
  const int count = ranks * pipeline.chunks + roll(0, 1);
  std::vector<BlockPlan> blocks;
  std::vector<ParameterPlan> parameters;
  for (int block = 0; block < count; ++block) {
    const std::int64_t deferred = roll(0, 2) * 7;
    blocks.push_back({"block." + std::to_string(block), roll(0, 50), block + 1 == count ? 0 : roll(1, 20),
                      roll(0, 1) * 30, 1.0 * roll(1, 5), 1.0 * roll(1, 5), roll(0, 2) > 0, 0, 0, deferred, 0});
    for (int i = roll(block == 0, 2); i > 0; --i)
      parameters.push_back(
          {"p" + std::to_string(parameters.size()), {roll(1, 20), 3}, {block}, parameters.empty() || roll(0, 4) > 0});
  }
  if (count > 2 && roll(0, 1) == 0) parameters.front().blocks.push_back(count - 1);  // tied
  const int replicas = roll(1, 2);
  made.mesh = make_mesh("world", {{"pp", ranks}, {"dp_replicate", replicas}, {"dp_shard", roll(1, 3 - replicas)}});
  const int shards = find_axis(made.mesh, "dp_shard")->size;
  const bool cuts = shards > 1 && roll(0, 1) == 0;
  made.plan = plan_of(blocks, parameters,
                      {DType::f32, roll(0, 1) == 0 ? DType::f32 : DType::bf16, moments(DType::f32),
                       roll(0, 1) == 0 ? std::optional<DType>() : DType::bf16},
                      0, cuts ? Sharding{{"dp_shard"}, shards} : Sharding{});
  made.options.micro_batches = pipeline.passes * (interleaved ? ranks : roll(1, 4));
  made.options.eval_micro_batches = roll(0, 3);
  made.options.recompute = roll(0, 1) == 0 ? RecomputePolicy::none : RecomputePolicy::block;
  made.options.shards = {
      roll(0, 1) == 0, roll(0, 1) == 0,
      std::array{Accumulate::whole, Accumulate::shards, Accumulate::sums}[static_cast<std::size_t>(roll(0, 2))],
      roll(0, 2)};
  made.options.update = random_update(engine);
  made.options.offload = {roll(0, 2) == 0, roll(0, 2) == 0, roll(0, 1) == 0};
  made.options.eval_reduction_bytes = 16;
  roll_local(made, engine);
  roll_recomputations(made.plan, made.options, engine);
  return made;
}

}  // namespace lockstep::models
