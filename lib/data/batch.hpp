// What one micro-batch of one rank carries. All token-shaped fields are (B, T) row-major.
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
  std::vector<std::int32_t> labels;     // (B, T) int32: the next token, ignored_label where it does not count
  std::vector<std::int32_t> positions;  // (B, T) int32: position within the sample
  std::vector<std::int64_t> documents;  // starts of attention segments in the flattened B·T tokens, then B·T: samples +
                                        // 1 entries unless documents are isolated
  std::int64_t valid_tokens = 0;        // labels that count
  std::vector<std::int64_t> numbers;    // (B): of each sample in the global batch of the step, or among those of an
                                        // evaluation; −1 for padding. Random draws go by them; empty: there are none
};

/// What is taken of a dataset.
struct DatasetUse {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  // labels that count
  bool operator==(const DatasetUse&) const = default;
};
/// The same as numbers that are added up over ranks, and back. Pure.
constexpr std::size_t numbers_of_use = 2;
std::vector<double> numbers_of(const std::vector<DatasetUse>& uses);
std::vector<DatasetUse> uses_of(const std::vector<double>& numbers);

/// One rank's part of a step: the same number of micro-batches on every rank (a rank that has fewer samples gets
/// batches in which no label counts), and the count of labels over all ranks that normalises the loss.
struct StepBatch {
  std::int64_t step = 0;  // 0-based
  std::vector<Batch> micro_batches;
  std::int64_t valid_tokens = 0;  // of this rank
  std::int64_t samples = 0;       // of this rank, without padding
  std::int64_t length = 0;        // of every row, T, on all ranks
  std::vector<DatasetUse> uses;   // by dataset, of this rank
};

}  // namespace lockstep
