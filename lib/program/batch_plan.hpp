// How a step's global batch is divided: samples over ranks, a rank's samples over micro-batches. The global batch is
// what a run keeps; everything here follows from it and the number of ranks. Which samples these are:
// data/sample_order.hpp.
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
  std::int64_t global_batch = 0;  // samples a step, over all ranks
  std::int64_t ranks = 1;         // that share the data
  std::int64_t micro_batch = 0;   // samples a rank computes at once, at most
  std::int64_t accumulation = 1;  // micro-batches of every rank: the largest share needs so many
  bool operator==(const BatchPlan&) const = default;
};

/// The part of `rank` when `total` samples are divided among `ranks` as evenly as possible: the first ranks get one
/// more. Local, pure.
SampleRange share_of(std::int64_t total, std::int64_t ranks, std::int64_t rank);

/// Micro-batches that every rank runs so that the largest share fits in batches of at most `micro_batch` samples.
/// Local, pure.
std::int64_t accumulation_of(std::int64_t total, std::int64_t ranks, std::int64_t micro_batch);

/// Without `micro_batch` a rank computes all of its samples at once. Throws Error(usage) if there are more ranks than
/// samples, naming both, or for sizes below 1.
BatchPlan plan_batch(std::int64_t global_batch, std::int64_t ranks, std::optional<std::int64_t> micro_batch);

/// How often a step goes through the schedule of a pipeline, and with how many micro-batches each time.
struct PassPlan {
  std::int64_t passes = 1;
  std::int64_t micro_batches = 1;
  bool operator==(const PassPlan&) const = default;
};

/// What is asked of a step's batch; what is absent follows from the rest.
struct BatchWishes {
  std::optional<std::int64_t> micro_batch = {};    // samples at once
  std::optional<std::int64_t> micro_batches = {};  // of a pass
  std::optional<std::int64_t> passes = {};
};

/// As plan_batch; without `micro_batch` the samples of a rank are divided among `passes` × `micro_batches`. Throws
/// Error(usage), with the arithmetic, also if they cannot be, or contradict each other.
std::pair<BatchPlan, PassPlan> plan_passes(std::int64_t global_batch, std::int64_t ranks, const BatchWishes& wishes);

/// The samples of `rank`.
SampleRange samples_of(const BatchPlan& plan, std::int64_t rank);

/// Those of one of its micro-batches: full ones first, then what is left, then none.
SampleRange samples_of(const BatchPlan& plan, std::int64_t rank, std::int64_t micro_batch_index);

}  // namespace lockstep
