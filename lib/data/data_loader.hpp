// What a rank is fed: its part of a step's global batch, and its part of an evaluation over a whole split. Pure
// functions of the position; the same global samples whatever the number of ranks. The order of samples:
// data/sample_order.hpp.
#pragma once

#include "data/batch.hpp"
#include "data/sample_order.hpp"
#include "data/shard_verifier.hpp"
#include "program/batch_plan.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <optional>

namespace lockstep {

enum class Documents {
  joined,    // attention and positions run over the whole window
  isolated,  // each document is a segment: positions restart, the label across its end is ignored
};

struct DataLoaderSettings {
  std::int64_t length = 0;        // T
  std::int64_t global_batch = 0;  // samples a step, over all ranks
  std::int64_t micro_batch = 0;   // samples that a rank computes at once, at most
  std::int64_t rank = 0;          // among the ranks that share the data
  std::int64_t world = 1;
  std::uint64_t seed = 0;  // of the order
  Shuffle shuffle = Shuffle::every_epoch;
  Documents documents = Documents::joined;
};

/// The most documents that a sample has parts of, where samples are `length` tokens each. Local.
std::int64_t most_documents(const TokenStream& stream, std::int64_t length);

/// Training batches. Local; make_step may be called from any thread.
class TrainingDataLoader {
 public:
  /// `stream` must outlive the loader. Throws Error(usage) for more ranks than samples a step or sizes below 1,
  /// Error(input) if the stream is shorter than a window.
  TrainingDataLoader(const TokenStream& stream, const DataLoaderSettings& settings);
  std::int64_t samples_per_epoch() const { return order_.samples(); }
  std::int64_t accumulation() const { return accumulation_; }  // micro-batches a step, equal on all ranks
  /// This rank's part of the step whose first sample is at `position`. Every rank gets accumulation() micro-batches of
  /// at most micro_batch samples; where its samples run out, batches of one sample in which no label counts.
  StepBatch make_step(std::int64_t step, DataPosition position) const;
  /// Tells the verifier which shards the step at `position` reads, those of all ranks.
  void declare_use(DataPosition position, ShardVerifier& verifier) const;
  /// The position of the step after it.
  DataPosition next(DataPosition position) const { return order_.advance(position, settings_.global_batch); }

 private:
  const TokenStream* stream_;
  DataLoaderSettings settings_;
  SampleWindows windows_;
  SampleOrder order_;
  std::int64_t accumulation_ = 0;
};

/// Batches that cover a split once: windows in order, the last one padded, so that every token but the first is a label
/// exactly once; or a number of these windows, spread evenly over the split. Of the settings it reads length,
/// global_batch, micro_batch, rank, world and documents. Local.
class EvaluationDataLoader {
 public:
  /// `global_batches`: as many samples as so many steps train on, where the split has more; absent: all. Throws
  /// Error(input) for a split of fewer than 2 tokens, Error(usage) for sizes below 1.
  EvaluationDataLoader(const TokenStream& stream, const DataLoaderSettings& settings,
                       std::optional<std::int64_t> global_batches);
  std::int64_t windows() const { return windows_; }              // of the split
  std::int64_t samples() const { return samples_; }              // of them that are evaluated, over all ranks
  std::int64_t micro_batches() const { return micro_batches_; }  // equal on all ranks
  /// The index-th micro-batch of this rank; one sample without a counting label where its samples ran out.
  Batch batch(std::int64_t index) const;

 private:
  const TokenStream* stream_;
  DataLoaderSettings settings_;
  std::int64_t windows_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t micro_batches_ = 0;
};

}  // namespace lockstep
