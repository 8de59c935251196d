// What a rank is fed: its part of a step's global batch, and its part of an evaluation over a whole split. Pure
// functions of the position; the same global samples whatever the number of ranks. What samples are:
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

/// EpochTail says what becomes of samples at the end of an epoch that are fewer than a step.
enum class EpochTail {
  joined,      // the first of the next epoch complete the step
  short_step,  // they are a step
};

struct DataLoaderSettings {
  std::int64_t global_batch = 0;  // samples a step, over all ranks
  std::int64_t micro_batch = 0;   // samples that a rank computes at once, at most
  std::int64_t rank = 0;          // among the ranks that share the data
  std::int64_t world = 1;
  std::uint64_t seed = 0;  // of the order
  Shuffle shuffle = Shuffle::every_epoch;
  EpochTail tail = EpochTail::joined;
  std::optional<std::int64_t> pad_to_multiple = {};  // rows are as long as the longest sample that is computed with
                                                     // them, up to such a multiple; absent: all as long as any sample
  std::optional<Proportions> proportions = {};       // of the datasets of the source, as of an order
  Shuffled shuffled = Shuffled::mixture;
  std::int64_t epoch_multiple = 1;  // an epoch uses the first of its samples, the largest multiple of so many
};

/// Training batches. Local; make_step may be called from any thread.
class TrainingDataLoader {
 public:
  /// `source` must outlive the loader. Throws Error(usage) for more ranks than samples a step or sizes below 1, or
  /// where an epoch has fewer samples than epoch_multiple.
  TrainingDataLoader(const SampleSource& source, const DataLoaderSettings& settings);
  std::int64_t samples_per_epoch() const { return order_.samples(); }
  std::int64_t accumulation() const { return accumulation_; }  // micro-batches a step, equal on all ranks
  /// Of the step whose first sample is at `position`, over all ranks.
  std::int64_t samples_of_step(DataPosition position) const;
  /// This rank's part of the step whose first sample is at `position`. Every rank gets accumulation() micro-batches of
  /// at most micro_batch samples; where its samples run out, batches of one sample in which no label counts. Rows are
  /// as long on all ranks.
  StepBatch make_step(std::int64_t step, DataPosition position) const;
  /// Tells the verifier which shards the step at `position` reads, those of all ranks.
  void declare_use(DataPosition position, ShardVerifier& verifier) const;
  /// The position of the step after it.
  DataPosition next(DataPosition position) const { return order_.advance(position, samples_of_step(position)); }

 private:
  std::int64_t sample_at(DataPosition position, std::int64_t number) const;
  std::int64_t length_of_step(DataPosition position) const;
  const SampleSource* source_;
  DataLoaderSettings settings_;
  SampleOrder order_;
  std::int64_t accumulation_ = 0;
};

/// Batches that cover a split once, its samples in order; or a number of them, spread evenly over the split. Of the
/// settings it does not read those of the order. Local.
class EvaluationDataLoader {
 public:
  /// `global_batches`: as many samples as so many steps train on, where the source has more; absent: all. The source
  /// must outlive the loader. Throws Error(usage) for sizes below 1.
  EvaluationDataLoader(const SampleSource& source, const DataLoaderSettings& settings,
                       std::optional<std::int64_t> global_batches);
  std::int64_t samples() const { return samples_; }              // that are evaluated, over all ranks
  std::int64_t micro_batches() const { return micro_batches_; }  // equal on all ranks
  /// The index-th micro-batch of this rank; one sample without a counting label where its samples ran out.
  Batch batch(std::int64_t index) const;

 private:
  std::int64_t sample(std::int64_t number) const;
  const SampleSource* source_;
  DataLoaderSettings settings_;
  std::int64_t samples_ = 0;
  std::int64_t micro_batches_ = 0;
};

}  // namespace lockstep
