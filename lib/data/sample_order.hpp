// The order of samples: a permutation of one or several datasets for each epoch, and the data position that a
// checkpoint stores. Also windows of a token stream, the simplest samples. Pure arithmetic, independent of ranks.
// Mixtures of datasets: data/mixture.hpp. Batches of a step: data/data_loader.hpp.
#pragma once

#include "base/random.hpp"
#include "data/mixture.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// The position of training in its data: `sample` of the samples_per_epoch samples of `epoch` have been consumed.
/// GLOBAL: equal on all ranks.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
  bool operator==(const DataPosition&) const = default;
};

/// Non-overlapping windows of T + 1 tokens at stride T: window i holds tokens [i·T, i·T + T] of the stream; its last
/// token is the first of the next window, so every token but the stream's first is a label at most once. A tail shorter
/// than a window is not used.
class SampleWindows {
 public:
  /// Throws Error(input) if not one window fits, Error(usage) unless length ≥ 1.
  SampleWindows(std::int64_t tokens, std::int64_t length);
  std::int64_t count() const { return count_; }  // samples per epoch
  std::int64_t begin(std::int64_t window) const { return window * length_; }
  std::int64_t length() const { return length_; }  // T

 private:
  std::int64_t length_ = 0;
  std::int64_t count_ = 0;
};

enum class Shuffle {
  every_epoch,  // a new permutation in each epoch
  once,         // all epochs have the order of the first one
  never,
};

/// Shuffled says which samples are permuted if there are several datasets.
enum class Shuffled {
  mixture,   // all samples of the mixture together
  datasets,  // the samples of each dataset, before they are mixed
  both,
};

struct OrderSettings {
  // samples of each dataset; the source has them in this order, one dataset after the other
  std::vector<std::int64_t> datasets;
  // of the datasets; each dataset then has its own epochs; not set: an epoch has each sample once
  std::optional<Proportions> proportions = {};
  std::uint64_t seed = 0;
  Shuffle shuffle = Shuffle::every_epoch;
  Shuffled shuffled = Shuffled::mixture;
  // number of samples at the end of an epoch that are not used in it; 0 with proportions
  std::int64_t dropped = 0;
};

/// SampleOrder is the order of samples: permutations keyed by (seed, epoch), O(1) per index, without a table. With
/// proportions, an epoch has as many samples as the source.
class SampleOrder {
 public:
  explicit SampleOrder(const OrderSettings& settings);
  std::int64_t samples() const { return samples_ - settings_.dropped; }  // in an epoch
  /// Returns the sample of the source at the position; position.sample < samples().
  std::int64_t sample_at(DataPosition position) const;
  /// Returns the dataset of a sample of the source.
  std::size_t dataset_of(std::int64_t sample) const;
  /// Returns the position `samples` samples later; epochs follow each other without a gap.
  DataPosition advance(DataPosition position, std::int64_t samples) const;

 private:
  bool permutes(Shuffled what) const;
  std::int64_t permuted(std::int64_t sample, std::int64_t of, std::int64_t epoch,
                        std::optional<std::size_t> dataset) const;
  OrderSettings settings_;
  std::optional<MixtureSchedule> turns_;  // set with proportions
  std::vector<std::int64_t> begins_;      // the first sample of each dataset among all samples
  std::int64_t samples_ = 0;
};

}  // namespace lockstep
