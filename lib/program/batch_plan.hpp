// Divides the global batch of a step: samples over ranks, and the samples of a rank over micro-batches. A run keeps its
// global batch; all other numbers follow from it and the number of ranks. data/sample_order.hpp chooses the samples.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep {

/// A contiguous part of a step's samples.
struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

struct BatchPlan {
  std::int64_t global_batch = 0;  // samples per step, over all ranks
  std::int64_t ranks = 1;         // data-parallel ranks
  std::int64_t micro_batch = 0;   // samples that a rank computes at once, at most
  std::int64_t accumulation = 1;  // micro-batches of every rank, enough for the largest share
  bool operator==(const BatchPlan&) const = default;
};

/// The share of `rank` if `total` samples are divided among `ranks` as evenly as possible: the first ranks get one
/// more. Local, pure.
SampleRange share_of(std::int64_t total, std::int64_t ranks, std::int64_t rank);

/// Micro-batches of every rank, so that the largest share fits in micro-batches of at most `micro_batch` samples.
/// Local, pure.
std::int64_t accumulation_of(std::int64_t total, std::int64_t ranks, std::int64_t micro_batch);

/// Without `micro_batch`, a rank computes all of its samples at once. Throws Error(usage), which names both numbers, if
/// there are more ranks than samples, and Error(usage) for sizes below 1.
BatchPlan plan_batch(std::int64_t global_batch, std::int64_t ranks, std::optional<std::int64_t> micro_batch);

/// How often a step runs the schedule of a pipeline, and with how many micro-batches each time.
struct PassPlan {
  std::int64_t passes = 1;
  std::int64_t micro_batches = 1;
  bool operator==(const PassPlan&) const = default;
};

/// The sizes that the user has set; the others follow from them.
struct BatchRequest {
  std::optional<std::int64_t> micro_batch = {};    // samples per micro-batch
  std::optional<std::int64_t> micro_batches = {};  // per pass
  std::optional<std::int64_t> passes = {};
};

/// Extends plan_batch: without `micro_batch`, the samples of a rank are divided among `passes` × `micro_batches`. Also
/// throws Error(usage), with the arithmetic, if they cannot be divided or the sizes contradict each other.
std::pair<BatchPlan, PassPlan> plan_passes(std::int64_t global_batch, std::int64_t ranks, const BatchRequest& wishes);

/// The samples of `rank`.
SampleRange samples_of(const BatchPlan& plan, std::int64_t rank);

/// The samples of one micro-batch of `rank`. Full micro-batches come first, then one with the remainder, then empty
/// ones.
SampleRange samples_of(const BatchPlan& plan, std::int64_t rank, std::int64_t micro_batch_index);

}  // namespace lockstep
