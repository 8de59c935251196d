// The ways to divide a step that the tests know.
#pragma once

#include "base/precision.hpp"
#include "layout/dtype.hpp"
#include "optim/optimizer.hpp"
#include "program/program_options.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

/// One way to divide a step.
struct Composition {
  int replicas = 1, shards = 1;
  int zero = 3;                // of shards
  int inner = 1;               // shards that gather weights from each other alone after a forward
  bool after_backward = true;  // of ZeRO-3: weights are let go
  Accumulate accumulate = Accumulate::whole;
  int prefetch = 1;
  std::int64_t micro_batch = 2;
  RecomputePolicy recompute = RecomputePolicy::none;
  std::int64_t bucket_bytes = 0;
  const char* family = "gpt2";
  std::optional<DType> reduce = {};  // type of sums over ranks; absent: of the master weights
  std::int64_t steps = 3;
  int stages = 1;  // ranks along pp
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;  // stages a rank
  int passes = 1;
  bool in_backward = false;  // the optimizer
  bool ragged = false;       // micro-batches are of different length
  int node = 1;              // replicas of a cell, each with its shards
  LocalOptions local = {};
  OptimizerName optimizer = OptimizerName::adamw;
  OffloadOptions offload = {};
  int tensor = 1;         // ranks that share each block
  bool sequence = false;  // and the rows of the stream
  int ulysses = 1;        // ranks that share rows
  int ring = 1;           // likewise
  bool folds = false;     // weights are sharded over these too
  int experts = 1;        // ranks that share out experts
  bool apart = false;     // which are far from each other
  double capacity = 2;    // of their experts

  int data_ranks() const { return replicas * node * shards; }
  int ranks() const { return stages * data_ranks() * ring * ulysses * tensor; }
  std::string text() const {
    std::string how = shards == 1 ? fmt::format("DDP {}", replicas)
                                  : fmt::format("{}ZeRO-{} {}", replicas > 1 ? fmt::format("HSDP {} × ", replicas) : "",
                                                zero, shards);
    if (shards > 1) how += fmt::format(", prefetch {}", prefetch);
    if (tensor > 1) how += fmt::format(", TP {}{}", tensor, sequence ? " with SP" : "");
    if (ring > 1) how += fmt::format(", ring {}", ring);
    if (ulysses > 1) how += fmt::format(", Ulysses {}", ulysses);
    if (experts > 1)
      how += fmt::format(", EP {}{}{}", experts, apart ? " apart" : "",
                         capacity == 2 ? "" : fmt::format(" of capacity {}", capacity));
    if (folds) how += " that shards too";
    if (inner > 1) how += fmt::format(", kept by {}", inner);
    if (zero == 3 && !after_backward) how += ", kept after backward";
    if (stages > 1)
      how += fmt::format(", {} stages of {}{}", stages * chunks, name_of(schedule),
                         passes > 1 ? fmt::format(" in {} passes", passes) : "");
    const char* kept = accumulate == Accumulate::whole ? "whole" : accumulate == Accumulate::shards ? "shards" : "sums";
    how += fmt::format(", accumulate {}, micro-batch {}", kept, micro_batch);
    if (recompute.every > 0) how += ", recompute";
    if (!recompute.keeps.empty()) how += " without " + recompute.keeps.text();
    if (optimizer == OptimizerName::muon) how += ", Muon";
    if (optimizer == OptimizerName::adafactor) how += ", Adafactor";
    if (in_backward) how += ", optimizer in backward";
    if (!local.axes.empty())
      how += fmt::format(", local from {}, period {}, {} replicas a cell", local.start_step, local.period, node);
    if (offload.optimizer) how += ", optimizer offloaded";
    if (offload.shards) how += ", shards offloaded";
    if (offload.activations) how += ", activations offloaded";
    if (bucket_bytes > 0) how += fmt::format(", buckets of {} B", bucket_bytes);
    return fmt::format("{}, {}", how, family);
  }
};

/// Pipelines by themselves and of data parallelism of each kind.
inline std::vector<Composition> pipelines() {
  std::vector<Composition> all;
  struct Size {
    int stages, replicas, shards;
  };
  for (const auto& [stages, replicas, shards] : {Size{2, 1, 1},
                                                 {3, 1, 1},
                                                 {4, 1, 1},
                                                 {2, 2, 1},
                                                 {2, 1, 2},
                                                 {5, 1, 1},
                                                 {3, 2, 1},
                                                 {2, 1, 3},
                                                 {3, 1, 2},
                                                 {2, 2, 2},
                                                 {4, 1, 2},
                                                 {4, 2, 1}}) {
    int zero = stages % 3 + 1;
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      Composition one{.replicas = replicas, .shards = shards, .zero = zero, .family = "deep llama"};
      one.stages = stages;
      one.schedule = schedule;
      one.chunks = one_stage ? 1 : 2;
      if (all.size() % 2 == 0 || schedule == PipelineSchedule::zbv) one.family = "deep gpt2";  // tied
      if (replicas * shards == 1 && stages < 4) one.steps = 20;
      if (schedule == PipelineSchedule::gpipe) one.recompute = RecomputePolicy::block;
      if (stages == 2 && one_stage && replicas * shards != 3) one.passes = 2;
      one.accumulate =
          std::array{Accumulate::sums, Accumulate::shards, Accumulate::whole}[static_cast<std::size_t>(zero - 1)];
      one.prefetch = zero % 3;
      zero = zero % 3 + 1;
      if (all.size() % 3 == 1) one.bucket_bytes = all.size() % 2 == 0 ? 1 << 20 : 1 << 13;
      all.push_back(one);
    }
  }
  Composition kept{.shards = 4, .inner = 2, .accumulate = Accumulate::shards, .family = "deep llama"};
  kept.stages = 2;
  kept.chunks = 2;
  kept.schedule = PipelineSchedule::interleaved_zero_bubble;
  all.push_back(kept);
  return all;
}

/// Ranks that share blocks, by themselves and with each other way to divide a step.
inline std::vector<Composition> shared_blocks() {
  std::vector<Composition> all;
  for (const int tensor : {2, 3, 4, 6}) {
    all.push_back({.family = "shared llama", .steps = 20, .tensor = tensor});
    all.push_back({.micro_batch = 3, .recompute = RecomputePolicy::block, .family = "tied llama", .tensor = tensor});
    all.push_back({.micro_batch = 1, .family = "shared llama in parts", .tensor = tensor});
  }
  for (const int tensor : {2, 4, 6})
    for (const char* family : {"grouped llama", "shared qwen3", "shared gpt2"})
      all.push_back({.micro_batch = tensor == 4 ? 3 : 2,
                     .recompute = tensor == 4 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = family,
                     .steps = 20,
                     .tensor = tensor});
  all.push_back({.replicas = 2, .accumulate = Accumulate::sums, .family = "shared qwen3", .tensor = 4});
  for (int zero = 1; zero <= 3; ++zero)
    all.push_back({.shards = 2,
                   .zero = zero,
                   .accumulate = Accumulate::shards,
                   .family = zero == 2 ? "grouped llama" : "shared qwen3",
                   .tensor = 4});
  all.push_back({.family = "grouped llama", .stages = 2, .tensor = 4});
  for (int zero = 1; zero <= 3; ++zero)
    all.push_back({.shards = zero == 3 ? 3 : 2, .zero = zero, .family = "shared gpt2", .tensor = 2});
  all.push_back({.family = "shared gpt2", .stages = 2, .schedule = PipelineSchedule::zbv, .chunks = 2, .tensor = 3});
  all.push_back({.micro_batch = 1, .family = "shared gpt2 in parts", .tensor = 4});
  for (const int tensor : {2, 3, 4}) {
    if (tensor < 4)
      all.push_back({.replicas = 2, .accumulate = Accumulate::sums, .family = "tied llama", .tensor = tensor});
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = 2,
                     .zero = zero,
                     .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                     .prefetch = zero - 1,
                     .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = zero == 2 ? "tied llama" : "shared llama",
                     .tensor = tensor});
  }
  all.push_back({.replicas = 2, .shards = 2, .family = "shared llama", .tensor = 2});
  all.push_back({.shards = 4, .inner = 2, .accumulate = Accumulate::shards, .family = "tied llama", .tensor = 2});
  for (const int tensor : {2, 3, 4}) {
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      all.push_back({.family = all.size() % 2 == 0 ? "tied llama" : "shared llama",
                     .stages = 2,
                     .schedule = schedule,
                     .chunks = one_stage ? 1 : 2,
                     .passes = schedule == PipelineSchedule::gpipe ? 2 : 1,
                     .tensor = tensor});
    }
  }
  for (int zero = 1; zero <= 3; ++zero)
    all.push_back({.shards = 2,
                   .zero = zero,
                   .accumulate = Accumulate::shards,
                   .family = zero == 1 ? "tied llama" : "shared llama",
                   .stages = 2,
                   .schedule = zero == 3 ? PipelineSchedule::zbv : PipelineSchedule::one_f_one_b,
                   .chunks = zero == 3 ? 2 : 1,
                   .tensor = 2});
  all.push_back({.shards = 2, .family = "shared llama", .offload = {.shards = true}, .tensor = 2});
  all.push_back(
      {.replicas = 2, .family = "tied llama", .offload = {.optimizer = true, .activations = true}, .tensor = 2});
  for (std::size_t count = all.size(), i = 0; i < count; ++i) {
    all.push_back(all[i]);
    all.back().sequence = true;
  }
  return all;
}

/// Ranks that share rows of samples, by themselves and with each other way to divide a step.
inline std::vector<Composition> shared_rows() {
  std::vector<Composition> all;
  for (const int ulysses : {2, 3, 4, 6}) {
    all.push_back({.family = "shared llama in documents", .steps = 20, .ulysses = ulysses});
    all.push_back({.micro_batch = 3, .recompute = RecomputePolicy::block, .family = "tied llama", .ulysses = ulysses});
    if (ulysses != 3) all.push_back({.micro_batch = 1, .family = "grouped llama in documents", .ulysses = ulysses});
  }
  all.push_back({.micro_batch = 1, .family = "gpt2", .ulysses = 2});
  all.push_back({.micro_batch = 1, .family = "gpt2 in parts", .ulysses = 2});
  for (const int ulysses : {2, 3, 4}) {
    all.push_back({.replicas = 2, .accumulate = Accumulate::sums, .family = "tied llama", .ulysses = ulysses});
    for (int zero = 1; zero <= 3; ++zero)
      for (const bool folds : {true, false})
        all.push_back({.shards = 2,
                       .zero = zero,
                       .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                       .prefetch = zero - 1,
                       .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                       .family = zero == 2 ? "tied llama" : "shared llama in documents",
                       .ulysses = ulysses,
                       .folds = folds});
  }
  all.push_back({.family = "shared llama", .ulysses = 4, .folds = true});  // shards along no other axis
  all.push_back({.shards = 4, .inner = 2, .accumulate = Accumulate::shards, .family = "tied llama", .ulysses = 2});
  all.push_back({.replicas = 2, .shards = 2, .family = "grouped llama", .ulysses = 2, .folds = true});
  for (const auto& [tensor, ulysses] : {std::pair{2, 2}, {2, 3}, {3, 2}})
    for (const bool sequence : {false, true})
      all.push_back(
          {.family = "shared llama in documents", .tensor = tensor, .sequence = sequence, .ulysses = ulysses});
  all.push_back({.family = "shared gpt2", .tensor = 2, .sequence = true, .ulysses = 2});
  all.push_back({.replicas = 2, .family = "shared qwen3", .tensor = 2, .sequence = true, .ulysses = 2});
  all.push_back({.shards = 2, .accumulate = Accumulate::shards, .family = "tied llama", .tensor = 2, .ulysses = 2});
  for (const int ulysses : {2, 3, 4})
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      all.push_back({.family = all.size() % 2 == 0 ? "tied llama" : "shared llama in documents",
                     .stages = 2,
                     .schedule = schedule,
                     .chunks = one_stage ? 1 : 2,
                     .ulysses = ulysses});
    }
  all.push_back({.family = "shared llama", .stages = 2, .tensor = 2, .ulysses = 2});
  all.push_back({.shards = 2, .family = "shared llama", .offload = {.shards = true}, .ulysses = 2, .folds = true});
  all.push_back(
      {.replicas = 2, .family = "tied llama", .offload = {.optimizer = true, .activations = true}, .ulysses = 2});
  return all;
}

/// Ranks that share rows in a ring, by themselves and with each other way to divide a step.
inline std::vector<Composition> rings() {
  std::vector<Composition> all;
  for (const int ring : {2, 3, 4, 5, 6}) {
    all.push_back({.family = "shared llama in documents", .steps = 20, .ring = ring});
    all.push_back({.micro_batch = 3, .recompute = RecomputePolicy::block, .family = "tied llama", .ring = ring});
    all.push_back({.micro_batch = 1, .family = "windowed llama in documents", .ring = ring});
    if (ring % 2 == 0) all.push_back({.family = "windowed llama with dropout in documents", .ring = ring});
  }
  all.push_back({.micro_batch = 1, .family = "gpt2", .ring = 2});
  all.push_back({.family = "gpt2 in parts", .ring = 3});
  all.push_back({.family = "gpt2 with dropout", .ring = 2});
  for (const auto& [ring, ulysses] : {std::pair{2, 2}, {3, 2}, {2, 3}, {4, 2}, {2, 4}})
    for (const char* family : {"windowed llama in documents", "grouped llama in documents"})
      if (ulysses != 3 || family[0] == 'w') all.push_back({.family = family, .ulysses = ulysses, .ring = ring});
  for (const int ring : {2, 3, 4}) {
    all.push_back({.replicas = 2, .accumulate = Accumulate::sums, .family = "tied llama", .ring = ring});
    for (int zero = 1; zero <= 3; ++zero)
      for (const bool folds : {true, false})
        all.push_back({.shards = 2,
                       .zero = zero,
                       .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                       .prefetch = zero - 1,
                       .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                       .family = zero == 2 ? "tied llama" : "windowed llama in documents",
                       .ring = ring,
                       .folds = folds});
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      all.push_back({.family = all.size() % 2 == 0 ? "tied llama" : "shared llama in documents",
                     .stages = 2,
                     .schedule = schedule,
                     .chunks = one_stage ? 1 : 2,
                     .ring = ring});
    }
  }
  for (const auto& [tensor, ring] : {std::pair{2, 2}, {2, 3}, {3, 2}, {4, 2}})
    for (const bool sequence : {false, true})
      all.push_back({.family = tensor == 3 ? "shared llama in documents" : "grouped llama in documents",
                     .tensor = tensor,
                     .sequence = sequence,
                     .ring = ring});
  all.push_back({.family = "shared qwen3", .tensor = 2, .sequence = true, .ulysses = 2, .ring = 2});
  all.push_back({.shards = 2, .family = "shared llama in documents", .ulysses = 2, .ring = 2, .folds = true});
  all.push_back({.family = "shared llama", .stages = 2, .tensor = 2, .ring = 2});
  all.push_back({.shards = 4, .inner = 2, .accumulate = Accumulate::shards, .family = "tied llama", .ring = 2});
  all.push_back({.shards = 2, .family = "shared llama", .offload = {.shards = true}, .ring = 2, .folds = true});
  all.push_back(
      {.replicas = 2, .family = "tied llama", .offload = {.optimizer = true, .activations = true}, .ring = 2});
  all.push_back({.recompute = RecomputePolicy::block, .family = "mixtral", .ring = 2});
  all.push_back({.micro_batch = 1, .family = "mixtral", .ring = 3});
  return all;
}

/// Models with experts: each rank that holds a layer holds all of its experts.
inline std::vector<Composition> experts() {
  std::vector<Composition> all;
  for (const int replicas : {1, 2, 3, 4})
    all.push_back({.replicas = replicas,
                   .accumulate = replicas % 2 == 0 ? Accumulate::sums : Accumulate::whole,
                   .micro_batch = replicas,
                   .recompute = replicas > 2 ? RecomputePolicy::none : RecomputePolicy::block,
                   .family = "mixtral",
                   .steps = 20});
  for (const auto& [replicas, shards] : {std::pair{1, 2}, {1, 3}, {2, 2}, {1, 4}, {2, 3}}) {
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.replicas = replicas,
                     .shards = shards,
                     .zero = zero,
                     .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                     .micro_batch = zero,
                     .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = zero == 2 ? "deep qwen3_moe" : "mixtral"});
  }
  for (const int stages : {2, 3, 4}) {
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      all.push_back({.recompute = stages == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = "deep qwen3_moe",
                     .stages = stages,
                     .schedule = schedule,
                     .chunks = one_stage ? 1 : 2});
    }
  }
  all.push_back({.shards = 2, .family = "deep qwen3_moe", .stages = 2, .schedule = PipelineSchedule::zbv, .chunks = 2});
  all.push_back({.replicas = 2, .family = "mixtral", .offload = {.optimizer = true, .activations = true}});
  all.push_back({.shards = 2, .family = "deep qwen3_moe", .offload = {.shards = true}});
  all.push_back({.micro_batch = 1, .recompute = RecomputePolicy::block, .family = "mixtral", .ulysses = 2});
  all.push_back({.shards = 2, .family = "mixtral", .ulysses = 2, .folds = true});
  return all;
}

/// Models of which all tokens share an expert beside those that they go to.
inline std::vector<Composition> shared_experts() {
  std::vector<Composition> all;
  const auto keeping = [](std::initializer_list<Keep> values) { return RecomputePolicy{1, values}; };
  for (const int ranks : {2, 3, 4}) {
    all.push_back({.replicas = ranks,
                   .accumulate = ranks == 2 ? Accumulate::sums : Accumulate::whole,
                   .micro_batch = 1,
                   .recompute = ranks == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = "deep qwen2_moe",
                   .steps = 20});
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = ranks,
                     .zero = zero,
                     .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                     .micro_batch = zero,
                     .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = zero == 2 ? "balanced qwen2_moe" : "deep qwen2_moe"});
    all.push_back({.shards = ranks,
                   .micro_batch = 1,
                   .recompute = keeping({Keep::projections, Keep::mlp, Keep::experts}),
                   .family = "deep qwen2_moe with dropout"});
    all.push_back({.recompute = RecomputePolicy::block, .family = "balanced qwen2_moe", .ulysses = ranks});
    all.push_back({.micro_batch = 3,
                   .recompute = keeping({Keep::projections, Keep::mlp}),
                   .family = "balanced qwen2_moe with dropout in documents",
                   .ulysses = ranks});
    all.push_back({.micro_batch = 1, .family = "balanced qwen2_moe in documents", .ring = ranks});
    all.push_back({.micro_batch = ranks == 3 ? 3 : 1,
                   .recompute = ranks == 3 ? RecomputePolicy::none : keeping({Keep::projections, Keep::mlp}),
                   .family = ranks == 4 ? "balanced qwen2_moe with dropout" : "balanced qwen2_moe",
                   .tensor = ranks,
                   .sequence = true});
  }
  all.push_back({.replicas = 2, .family = "balanced qwen2_moe", .experts = 2, .capacity = 1});
  all.push_back({.recompute = RecomputePolicy::block,
                 .family = "balanced qwen2_moe",
                 .tensor = 4,
                 .sequence = true,
                 .experts = 2});
  for (const PipelineSchedule schedule : pipeline_schedules) {
    const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
    all.push_back({.recompute = one_stage ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = "deep qwen2_moe",
                   .stages = 2,
                   .schedule = schedule,
                   .chunks = one_stage ? 1 : 2});
  }
  all.push_back({.replicas = 2, .shards = 2, .accumulate = Accumulate::shards, .family = "deep qwen2_moe in parts"});
  all.push_back({.shards = 2, .family = "deep qwen2_moe", .stages = 2});
  all.push_back({.shards = 2, .family = "balanced qwen2_moe", .ulysses = 2, .folds = true});
  all.push_back({.family = "balanced qwen2_moe in documents", .ulysses = 2, .ring = 2});
  all.push_back({.replicas = 2, .family = "deep qwen2_moe", .offload = {.optimizer = true, .activations = true}});
  all.push_back({.shards = 2, .family = "deep qwen2_moe", .offload = {.shards = true}});
  return all;
}

/// Models with experts whose auxiliary loss counts.
inline std::vector<Composition> balanced_experts() {
  std::vector<Composition> all;
  for (const int replicas : {2, 3, 4})
    all.push_back({.replicas = replicas,
                   .accumulate = replicas % 2 == 0 ? Accumulate::sums : Accumulate::whole,
                   .micro_batch = 3,
                   .recompute = replicas == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = replicas == 2 ? "balanced qwen3_moe" : "balanced mixtral",
                   .steps = 20});
  for (const int shards : {2, 3, 4})
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = shards,
                     .zero = zero,
                     .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                     .micro_batch = zero,
                     .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = zero == 2 ? "balanced mixtral" : "balanced qwen3_moe"});
  for (const int stages : {2, 3})
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      all.push_back({.recompute = one_stage ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = "balanced qwen3_moe",
                     .stages = stages,
                     .schedule = schedule,
                     .chunks = one_stage ? 1 : 2});
    }
  for (const int ulysses : {2, 3, 4})
    for (const char* family : {"balanced mixtral", "balanced mixtral in documents"})
      for (const std::int64_t micro_batch : {1, 3})
        all.push_back({.micro_batch = micro_batch,
                       .recompute = micro_batch == 1 ? RecomputePolicy::block : RecomputePolicy::none,
                       .family = family,
                       .steps = micro_batch == 1 ? 20 : 3,
                       .ulysses = ulysses});
  for (const int ulysses : {2, 3}) all.push_back({.replicas = 2, .family = "balanced mixtral", .ulysses = ulysses});
  for (const int ring : {2, 3})
    for (const std::int64_t micro_batch : {1, 3})
      all.push_back({.micro_batch = micro_batch, .family = "balanced mixtral in documents", .ring = ring});
  all.push_back({.micro_batch = 3, .family = "balanced mixtral in documents", .ulysses = 2, .ring = 2});
  all.push_back({.shards = 2, .family = "balanced mixtral", .ulysses = 2, .folds = true});
  all.push_back({.family = "balanced mixtral", .stages = 2, .ulysses = 2});
  all.push_back({.replicas = 2, .family = "balanced qwen3_moe", .offload = {.optimizer = true, .activations = true}});
  for (const int tensor : {2, 3, 4})
    for (const std::int64_t micro_batch : {1, 3})
      all.push_back({.micro_batch = micro_batch,
                     .recompute = micro_batch == 1 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = "balanced mixtral",
                     .steps = tensor == 3 ? 20 : 3,
                     .tensor = tensor,
                     .sequence = true});
  all.push_back({.micro_batch = 1, .family = "balanced mixtral with dropout", .tensor = 2, .sequence = true});
  all.push_back({.shards = 2, .family = "mixtral", .tensor = 2, .sequence = true});
  all.push_back({.family = "balanced mixtral", .stages = 2, .tensor = 2, .sequence = true});
  for (const auto& [ulysses, ring] : {std::pair{2, 1}, {1, 2}})
    all.push_back({.micro_batch = 1,
                   .family = "balanced mixtral in documents",
                   .tensor = 2,
                   .sequence = true,
                   .ulysses = ulysses,
                   .ring = ring});
  for (const auto& [replicas, shards] : {std::pair{2, 2}, {3, 2}, {2, 3}, {2, 4}})
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.replicas = replicas,
                     .shards = shards,
                     .zero = zero,
                     .inner = shards == 4 && zero == 3 ? 2 : 1,
                     .accumulate = zero == 1   ? Accumulate::sums
                                   : zero == 2 ? Accumulate::whole
                                               : Accumulate::shards,
                     .micro_batch = zero,
                     .recompute = zero == 2 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = zero == 2 ? "balanced qwen3_moe" : "balanced mixtral in documents"});
  all.push_back({.replicas = 2, .shards = 2, .family = "balanced mixtral", .ulysses = 2, .folds = true});
  all.push_back({.replicas = 2, .shards = 2, .family = "balanced mixtral in documents", .ring = 2});
  return all;
}

/// Ranks that share out experts, with each other way to divide a step.
inline std::vector<Composition> parallel_experts() {
  std::vector<Composition> all;
  for (const int ranks : {2, 3, 4, 6}) {
    const char* family = ranks == 3 || ranks == 6 ? "six experts" : "four experts";
    for (const double capacity : {1.0, 2.0})
      for (const bool apart : {false, true})
        all.push_back({.replicas = ranks,
                       .micro_batch = apart ? 1 : 3,
                       .recompute = apart == (capacity == 1) ? RecomputePolicy::block : RecomputePolicy::none,
                       .family = family,
                       .steps = ranks < 4 ? 20 : 3,
                       .experts = ranks,
                       .apart = apart,
                       .capacity = capacity});
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = ranks,
                     .zero = zero,
                     .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                     .micro_batch = zero,
                     .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = family,
                     .experts = ranks,
                     .capacity = 1});
    if (ranks != 6) {
      all.push_back({.micro_batch = 1, .family = family, .ulysses = ranks, .experts = ranks});
      all.push_back({.micro_batch = 3, .family = "six experts", .ring = ranks, .experts = ranks == 4 ? 2 : ranks});
    }
    if (ranks < 4)
      all.push_back(
          {.micro_batch = 1, .family = family, .tensor = ranks, .sequence = true, .experts = ranks, .capacity = 1});
  }
  for (const bool apart : {false, true}) {  // ranks that have the same experts: replicas, or shards of them
    all.push_back(
        {.replicas = 4, .accumulate = Accumulate::sums, .family = "four experts", .experts = 2, .apart = apart});
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = 4,
                     .zero = zero,
                     .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                     .micro_batch = zero,
                     .family = "four experts",
                     .experts = 2,
                     .apart = apart,
                     .capacity = 1});
    all.push_back({.replicas = 2, .shards = 2, .family = "four experts", .experts = 2, .apart = apart});
    all.push_back({.shards = 2, .family = "four experts", .ulysses = 2, .folds = true, .experts = 2, .apart = apart});
    all.push_back(
        {.replicas = 2, .family = "six experts", .tensor = 2, .sequence = true, .experts = 2, .apart = apart});
    all.push_back({.shards = 6, .family = "six experts", .experts = apart ? 3 : 2, .apart = apart});
    all.push_back(
        {.replicas = 2, .family = "four experts", .tensor = 4, .sequence = true, .experts = 2, .apart = apart});
  }
  for (const PipelineSchedule schedule : pipeline_schedules) {
    const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
    all.push_back({.replicas = 2,
                   .recompute = one_stage ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = "balanced qwen3_moe",
                   .stages = 2,
                   .schedule = schedule,
                   .chunks = one_stage ? 1 : 2,
                   .experts = 2,
                   .capacity = 1});
  }
  all.push_back({.shards = 2, .family = "deep qwen3_moe", .stages = 2, .experts = 2});
  all.push_back({.shards = 2, .zero = 2, .family = "four experts", .offload = {.shards = true}, .experts = 2});
  all.push_back(
      {.replicas = 2, .family = "four experts", .offload = {.optimizer = true, .activations = true}, .experts = 2});
  all.push_back({.replicas = 2, .family = "four experts with dropout", .experts = 2});
  all.push_back({.replicas = 2, .family = "four experts in parts", .experts = 2});
  for (const int ranks : {2, 3, 4})
    all.push_back({.replicas = ranks,
                   .micro_batch = 1,
                   .recompute = {1, {Keep::projections, Keep::mlp, Keep::experts}},
                   .family = ranks == 3 ? "six experts" : "four experts",
                   .experts = ranks,
                   .capacity = 1});
  return all;
}

/// Dropout with each other way to divide a step.
inline std::vector<Composition> dropouts() {
  std::vector<Composition> all;
  for (const int ranks : {2, 3, 4}) {
    all.push_back({.replicas = ranks, .micro_batch = 1, .family = "gpt2 with dropout"});
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = ranks,
                     .zero = zero,
                     .accumulate = Accumulate::shards,
                     .micro_batch = zero,
                     .recompute = zero == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = zero == 2 ? "gpt2 with dropout" : "llama with dropout"});
    all.push_back({.recompute = ranks == 2 ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = "shared llama with dropout",
                   .tensor = ranks});
    all.push_back({.recompute = ranks == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = "shared llama with dropout in documents",
                   .ulysses = ranks});
  }
  for (const PipelineSchedule schedule : pipeline_schedules) {
    const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
    all.push_back({.recompute = one_stage ? RecomputePolicy::block : RecomputePolicy::none,
                   .family = "deep gpt2 with dropout",
                   .stages = 2,
                   .schedule = schedule,
                   .chunks = one_stage ? 1 : 2});
  }
  all.push_back({.replicas = 2, .family = "shared llama with dropout", .tensor = 2});
  for (const int tensor : {2, 3, 4})
    for (const char* family : {"shared gpt2 with dropout", "shared llama with dropout"})
      all.push_back({.micro_batch = 3,
                     .recompute = tensor == 3 ? RecomputePolicy::block : RecomputePolicy::none,
                     .family = family,
                     .tensor = tensor,
                     .sequence = true});
  all.push_back({.shards = 2, .family = "deep llama with dropout", .stages = 2});
  all.push_back({.family = "shared llama with dropout", .stages = 2, .tensor = 2});
  all.push_back({.family = "shared llama with dropout", .tensor = 2, .ulysses = 2});
  all.push_back({.micro_batch = 1, .family = "gpt2 with dropout in documents", .ulysses = 2});
  all.push_back({.replicas = 2, .family = "deep gpt2 with dropout", .offload = {.activations = true}});
  for (const int ranks : {2, 3, 4}) {
    all.push_back({.shards = ranks,
                   .accumulate = Accumulate::shards,
                   .micro_batch = 1,
                   .recompute = ranks == 3 ? RecomputePolicy::none : RecomputePolicy::block,
                   .family = "balanced mixtral with dropout"});
    all.push_back({.family = "balanced mixtral with dropout", .ulysses = ranks});
  }
  return all;
}

/// Blocks that keep values for their repetition, with each other way to divide a step.
inline std::vector<Composition> keep_sets() {
  std::vector<Composition> all;
  const auto keeping = [](std::initializer_list<Keep> values) { return RecomputePolicy{1, values}; };
  for (const RecomputePolicy& recompute : {keeping({Keep::attention}), keeping({Keep::projections, Keep::mlp}),
                                           keeping({Keep::attention, Keep::projections, Keep::mlp})}) {
    for (const int ranks : {2, 3, 4}) {
      const bool many = recompute.keeps.has(Keep::mlp);
      all.push_back({.replicas = ranks,
                     .micro_batch = 1,
                     .recompute = recompute,
                     .family = many ? "gpt2 with dropout" : "llama"});
      all.push_back({.shards = ranks,
                     .accumulate = Accumulate::shards,
                     .recompute = recompute,
                     .family = many ? "llama" : "gpt2"});
      all.push_back({.micro_batch = 3, .recompute = recompute, .family = "tied llama", .tensor = ranks});
      all.push_back({.recompute = recompute,
                     .family = many ? "shared gpt2 with dropout" : "shared llama",
                     .tensor = ranks,
                     .sequence = true});
      all.push_back({.recompute = recompute, .family = "shared llama in documents", .ulysses = ranks});
      all.push_back({.recompute = recompute, .family = "windowed llama in documents", .ring = ranks});
    }
    for (const char* family : {"shared qwen3 in documents", "windowed llama with dropout in documents"})
      all.push_back({.recompute = recompute, .family = family, .ulysses = 2, .ring = 2});
    for (const PipelineSchedule schedule : pipeline_schedules) {
      const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
      all.push_back({.recompute = recompute,
                     .family = one_stage ? "deep gpt2 with dropout" : "deep llama",
                     .stages = 2,
                     .schedule = schedule,
                     .chunks = one_stage ? 1 : 2});
    }
    all.push_back({.recompute = recompute, .family = "shared qwen3", .tensor = 2, .sequence = true, .ulysses = 2});
    all.push_back({.recompute = recompute, .family = "shared llama", .stages = 2, .tensor = 2});
  }
  for (const int ranks : {2, 3, 4}) {
    all.push_back({.replicas = ranks, .micro_batch = 1, .recompute = keeping({Keep::experts}), .family = "mixtral"});
    all.push_back({.shards = ranks,
                   .recompute = keeping({Keep::attention, Keep::projections, Keep::mlp, Keep::experts}),
                   .family = "deep qwen3_moe"});
    all.push_back({.recompute = keeping({Keep::projections, Keep::mlp, Keep::experts}),
                   .family = "deep qwen3_moe",
                   .stages = ranks,
                   .schedule = PipelineSchedule::zbv,
                   .chunks = 2});
  }
  all.push_back({.micro_batch = 1, .recompute = keeping({Keep::experts}), .family = "mixtral", .ulysses = 2});
  for (const auto& [ulysses, ring] : {std::pair{1, 2}, {2, 2}})
    all.push_back({.micro_batch = 1,
                   .recompute = keeping({Keep::attention, Keep::experts}),
                   .family = "balanced mixtral in documents",
                   .ulysses = ulysses,
                   .ring = ring});
  Composition part{
      .recompute = {2, {Keep::projections, Keep::mlp}}, .family = "deep llama", .offload = {.activations = true}};
  part.replicas = 2;
  all.push_back(part);
  return all;
}

/// Every composition that the tests know, for all numbers of ranks.
inline std::vector<Composition> all_compositions() {
  std::vector<Composition> all = pipelines();
  for (const auto& [replicas, shards] :
       {std::pair{1, 2}, {1, 3}, {1, 4}, {2, 2}, {1, 5}, {1, 6}, {3, 2}, {2, 3}, {1, 8}, {2, 4}, {4, 2}}) {
    for (int zero = 1; zero <= 3; ++zero) {
      const bool tied = (replicas + shards + zero) % 2 == 0;
      Composition one{.replicas = replicas, .shards = shards, .zero = zero, .family = tied ? "gpt2" : "llama"};
      one.steps = replicas == 1 ? 20 : 3;
      if (shards > 4 || replicas > 2) one.steps = 3;
      all.push_back(one);
      one.steps = 3;
      one.accumulate = replicas > 1 && zero != 2 ? Accumulate::sums : Accumulate::shards;
      one.micro_batch = 1;
      one.prefetch = zero == 3 ? 2 : 0;
      one.family = tied ? "llama" : "gpt2";
      all.push_back(one);
      if (zero == 3) {
        one.recompute = RecomputePolicy::block;
        one.prefetch = 0;
        all.push_back(one);
        one.accumulate = Accumulate::whole;
        one.bucket_bytes = 1 << 20;
        all.push_back(one);
        one.bucket_bytes = 0;
        one.after_backward = false;
        if (replicas == 1) all.push_back(one);
        for (int inner = 2; inner < shards; ++inner) {
          if (shards % inner != 0) continue;
          one.inner = inner;
          one.after_backward = inner == 2;
          one.prefetch = 1;
          one.accumulate = inner == 2 ? Accumulate::shards : Accumulate::whole;
          one.recompute = inner == 2 ? RecomputePolicy::none : RecomputePolicy::block;
          all.push_back(one);
        }
      }
    }
  }
  for (const auto& [replicas, shards] : {std::pair{2, 1}, {1, 2}, {1, 3}, {2, 2}, {1, 4}})
    for (const char* family : {"gpt2 in parts", "llama in parts"})
      all.push_back(
          {.replicas = replicas, .shards = shards, .accumulate = Accumulate::sums, .micro_batch = 1, .family = family});
  all.push_back({.shards = 2,
                 .accumulate = Accumulate::shards,
                 .family = "deep llama in parts",
                 .stages = 2,
                 .schedule = PipelineSchedule::zbv,
                 .chunks = 2});
  for (Composition one : pipelines()) {
    if (one.stages != 2 || one.data_ranks() == 3) continue;
    one.offload.activations = true;
    one.recompute = RecomputePolicy::none;
    one.steps = 3;
    all.push_back(one);
  }
  for (const auto& [replicas, shards] : {std::pair{2, 1}, {1, 2}, {3, 1}, {1, 3}, {2, 2}, {1, 4}})
    all.push_back({.replicas = replicas, .shards = shards, .family = "deep gpt2", .offload = {.activations = true}});
  for (const auto& of : {shared_blocks(), shared_rows(), rings(), experts(), shared_experts(), balanced_experts(),
                         parallel_experts(), dropouts(), keep_sets()})
    all.insert(all.end(), of.begin(), of.end());
  for (const int replicas : {2, 3, 4, 5, 6, 8})
    for (const Accumulate accumulate : {Accumulate::whole, Accumulate::sums})
      all.push_back({.replicas = replicas, .accumulate = accumulate, .micro_batch = 1});
  return all;
}

}  // namespace lockstep::test
