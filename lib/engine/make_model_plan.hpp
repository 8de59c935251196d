// A model plan is what programs need to know of a model: blocks and units as plain numbers, from the architecture
// alone. Pure; needs no weights.
#pragma once

#include "architecture/block_profile.hpp"
#include "program/model_plan.hpp"
#include "tensor/gemm.hpp"

#include <cstdint>

namespace lockstep {

struct MicroBatchShape {
  std::int64_t samples = 0;  // B
  std::int64_t length = 0;   // T
  ForwardFor purpose = ForwardFor::batch;
  SequenceRanks sequence = {};  // that share its rows
  std::int64_t segments = 1;    // of a sample, which attention keeps apart, at most
};

/// What of a rank's processor decides how much scratch memory kernels have.
struct Processor {
  int threads = 1;
  Multiplier multiplier = Multiplier::library;
};

/// Blocks with their stash, boundary, workspaces and FLOPs on one micro-batch of `shape`, the units that units_of
/// (architecture/units.hpp) gives, as model/model.hpp stores them, and what blocks share. The peak of a program with
/// this plan (program/memory_estimate.hpp) is that of live_bytes() (tensor/live_memory.hpp) in its step. Local.
ModelPlan plan_of(const Architecture& whole, const UnitTypes& types, const MicroBatchShape& shape,
                  const Buckets& buckets = {}, const Processor& processor = {}, const Sharding& sharding = {});

/// Numbers that the heartbeat of a training step adds up beside its own: by layer with experts and by expert how many
/// choices of tokens fall on it.
std::int64_t expert_loads(const HfConfig& config);
/// The whole of what each rank puts in, with the uses of so many datasets.
std::int64_t heartbeat_bytes_of(const HfConfig& config, std::int64_t datasets = 0);

}  // namespace lockstep
