// The data loaders of a rank: its part of the global batch of a step, and its part of an evaluation over a split.
// Batches are pure functions of the position; the global samples do not depend on the number of ranks. The samples:
// data/sample_source.hpp; their order: data/sample_order.hpp.
#pragma once

#include "data/batch.hpp"
#include "data/sample_order.hpp"
#include "data/sample_source.hpp"
#include "data/shard_verifier.hpp"
#include "program/batch_plan.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

/// EpochTail says how the last samples of an epoch are used if they do not fill a step.
enum class EpochTail {
  joined,      // the first samples of the next epoch complete the step
  short_step,  // they form a short step
};

struct DataLoaderSettings {
  std::int64_t global_batch = 0;  // samples in a step, over all ranks
  std::int64_t micro_batch = 0;   // most samples that a rank computes at once
  std::int64_t rank = 0;          // number among the data-parallel ranks
  std::int64_t world = 1;
  std::uint64_t seed = 0;  // of the sample order
  Shuffle shuffle = Shuffle::every_epoch;
  EpochTail tail = EpochTail::joined;
  // rows are as long as the longest sample computed with them, rounded up to a multiple of this; not set: all rows have
  // the length of the source
  std::optional<std::int64_t> pad_to_multiple = {};
  // of the datasets of the source, as in OrderSettings
  std::optional<Proportions> proportions = {};
  Shuffled shuffled = Shuffled::mixture;
  // an epoch uses a multiple of this many samples and drops the last ones
  std::int64_t epoch_multiple = 1;
};

/// TrainingDataLoader makes training batches. Local; make_step may be called from any thread.
class TrainingDataLoader {
 public:
  /// `source` must outlive the loader. Throws Error(usage) if a step has fewer samples than there are ranks, if a size
  /// is below 1, or if an epoch has fewer samples than epoch_multiple.
  TrainingDataLoader(const SampleSource& source, const DataLoaderSettings& settings);
  std::int64_t samples_per_epoch() const { return order_.samples(); }
  /// The micro-batches of a step, equal on all ranks (gradient accumulation)
  std::int64_t accumulation() const { return accumulation_; }
  /// Returns the number of samples, over all ranks, of the step whose first sample is at `position`.
  std::int64_t samples_of_step(DataPosition position) const;
  /// Returns this rank's part of the step whose first sample is at `position`. Every rank gets accumulation()
  /// micro-batches of at most micro_batch samples. A rank whose samples run out gets batches of one row without a
  /// counting label. All ranks have rows of the same length.
  StepBatch make_step(std::int64_t step, DataPosition position) const;
  /// Tells the verifier which shards all ranks read in the step at `position`.
  void declare_use(DataPosition position, ShardVerifier& verifier) const;
  /// Returns the position of the next step.
  DataPosition next(DataPosition position) const { return order_.advance(position, samples_of_step(position)); }

 private:
  std::int64_t sample_at(DataPosition position, std::int64_t number) const;
  std::int64_t length_of_step(DataPosition position) const;
  const SampleSource* source_;
  DataLoaderSettings settings_;
  SampleOrder order_;
  std::int64_t accumulation_ = 0;
};

/// EvaluationDataLoader makes batches that cover a split once, with its samples in order, or a number of samples spread
/// evenly over the split. It ignores the settings of the sample order. Local.
class EvaluationDataLoader {
 public:
  /// `global_batches`: evaluates the samples of this many global batches if the source has more; not set: all samples.
  /// The source must outlive the loader. Throws Error(usage) for sizes below 1.
  EvaluationDataLoader(const SampleSource& source, const DataLoaderSettings& settings,
                       std::optional<std::int64_t> global_batches);
  std::int64_t samples() const { return samples_; }              // evaluated samples, over all ranks
  std::int64_t micro_batches() const { return micro_batches_; }  // equal on all ranks
  /// Returns the index-th micro-batch of this rank; one row without a counting label if its samples have run out.
  Batch batch(std::int64_t index) const;

 private:
  std::int64_t sample(std::int64_t number) const;
  const SampleSource* source_;
  DataLoaderSettings settings_;
  std::int64_t samples_ = 0;
  std::int64_t micro_batches_ = 0;
};

}  // namespace lockstep
