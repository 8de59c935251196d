// Makes the model plan that step programs need: blocks and units as plain numbers, from the architecture alone, without
// weights. Pure. The plan: program/model_plan.hpp.
#pragma once

#include "architecture/block_profile.hpp"
#include "program/model_plan.hpp"
#include "tensor/gemm.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

struct MicroBatchShape {
  std::int64_t samples = 0;     // B
  std::int64_t length = 0;      // T
  SequenceRanks sequence = {};  // context parallelism: ranks that share the rows
  std::int64_t segments = 1;    // most segments of a sample that attention keeps apart
  // A pass over texts, of B texts with at most T rows each.
  std::optional<TextShape> texts = {};
};
/// The two kinds of pass over texts. Each rank along sequence axes computes all of their rows.
MicroBatchShape prompt_pass(const TextShape& texts);
MicroBatchShape token_pass(const TextShape& texts);

/// The properties of a rank's processor that decide how much scratch memory kernels use.
struct Processor {
  int threads = 1;
  Multiplier multiplier = Multiplier::library;
  int multiprocessors = 0;  // of the NVIDIA GPU that a rank computes on; 0: it has none
};

/// The plan of `whole` on one micro-batch of `shape`: blocks with their stash, boundary, workspaces, FLOPs and
/// exchanges, and the units of units_of (architecture/units.hpp) as model/model.hpp stores them. A program with this
/// plan has as its peak (program/memory_estimate.hpp) the peak of live_bytes() (tensor/live_memory.hpp) in its step.
/// Local.
ModelPlan plan_of(const Architecture& whole, const UnitTypes& types, const MicroBatchShape& shape,
                  const Buckets& buckets = {}, const Processor& processor = {}, const Sharding& sharding = {});

/// Number of extra values that the heartbeat of a training step sums: for each layer with experts and each expert, the
/// tokens routed to it.
std::int64_t expert_loads(const ModelConfig& config);
/// Numbers that a drawn token has in the reduction that tells it to all ranks.
constexpr std::size_t numbers_of_drawn = 2;
/// Bytes that each rank contributes to the draw of a token for each of `texts` texts.
std::int64_t draw_bytes_of(std::int64_t texts);
/// Bytes that each rank contributes to the heartbeat, with expert loads and the uses of `datasets` datasets.
std::int64_t heartbeat_bytes_of(const ModelConfig& config, std::int64_t datasets = 0);

}  // namespace lockstep
