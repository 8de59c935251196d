// Batch is one micro-batch of one rank; StepBatch is the part of a step that a rank computes. Token fields are (B, T)
// row-major. The loader that makes them: data/data_loader.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

constexpr std::int32_t ignored_label = -100;

struct Batch {
  std::int64_t samples = 0;             // B
  std::int64_t length = 0;              // T
  std::vector<std::int32_t> tokens;     // (B, T) int32
  std::vector<std::int32_t> labels;     // (B, T) int32: the next token; ignored_label: no loss here
  std::vector<std::int32_t> positions;  // (B, T) int32: position within the sample
  // starts of the attention segments in the flattened B·T tokens, then B·T; samples + 1 entries unless documents are
  // isolated
  std::vector<std::int64_t> documents;
  std::int64_t valid_tokens = 0;  // labels with a loss
  // (B): the number of each sample in the global batch of the step, or in the evaluation; −1: padding. Random draws are
  // keyed by these numbers; empty: no random draws
  std::vector<std::int64_t> numbers;
};

/// DatasetUse counts the samples and tokens used from one dataset.
struct DatasetUse {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  // labels with a loss
  bool operator==(const DatasetUse&) const = default;
};
/// Convert uses to numbers that can be summed over ranks, numbers_of_use for each dataset, and back. Pure.
constexpr std::size_t numbers_of_use = 2;
std::vector<double> numbers_of(const std::vector<DatasetUse>& uses);
std::vector<DatasetUse> uses_of(const std::vector<double>& numbers);

/// StepBatch is one rank's part of a step. Every rank has the same number of micro-batches; a rank that has fewer
/// samples gets batches without a counting label.
struct StepBatch {
  std::int64_t step = 0;  // 0-based
  std::vector<Batch> micro_batches;
  std::int64_t valid_tokens = 0;  // of this rank
  std::int64_t samples = 0;       // of this rank, padding excluded
  std::int64_t length = 0;        // T, the length of every row on all ranks
  std::vector<DatasetUse> uses;   // of this rank, one for each dataset
};

}  // namespace lockstep
