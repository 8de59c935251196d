// Which sample comes when: of one dataset or of several, a permutation for each epoch, and the position that a
// checkpoint keeps; windows of a token stream, the simplest samples. Pure arithmetic; nothing here depends on ranks.
// How datasets share the samples: data/mixture.hpp. How a step's samples become batches: data/data_loader.hpp.
#pragma once

#include "base/random.hpp"
#include "data/mixture.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Where training is in its data: `sample` of samples_per_epoch samples of `epoch` were consumed. GLOBAL: the same on
/// all ranks.
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
  every_epoch,  // anew in each
  once,         // all epochs have the order of the first
  never,
};

/// Shuffled says what is permuted where samples are of several datasets.
enum class Shuffled {
  mixture,   // all of them together, as they were mixed
  datasets,  // those of each dataset among themselves, before they are mixed
  both,
};

struct OrderSettings {
  std::vector<std::int64_t> datasets;           // samples of each; end to end they are those of the source
  std::optional<Proportions> proportions = {};  // of the datasets, each then in epochs of its own; absent: an epoch has
                                                // each sample once
  std::uint64_t seed = 0;
  Shuffle shuffle = Shuffle::every_epoch;
  Shuffled shuffled = Shuffled::mixture;
  std::int64_t dropped =
      0;  // of the samples of an epoch, those that come last and are not used in it; 0 with proportions
};

/// The order of samples: permutations keyed by (seed, epoch), O(1) per index, without a table. With proportions an
/// epoch of the whole is as many samples as there are.
class SampleOrder {
 public:
  explicit SampleOrder(const OrderSettings& settings);
  std::int64_t samples() const { return samples_ - settings_.dropped; }  // an epoch
  /// Which sample of the source comes at the position; position.sample < samples().
  std::int64_t sample_at(DataPosition position) const;
  /// Which dataset a sample of the source is of.
  std::size_t dataset_of(std::int64_t sample) const;
  /// The position `samples` samples later; epochs follow each other without a gap.
  DataPosition advance(DataPosition position, std::int64_t samples) const;

 private:
  bool permutes(Shuffled what) const;
  std::int64_t permuted(std::int64_t sample, std::int64_t of, std::int64_t epoch,
                        std::optional<std::size_t> dataset) const;
  OrderSettings settings_;
  std::optional<Turns> turns_;        // of proportions
  std::vector<std::int64_t> begins_;  // of each dataset among all samples
  std::int64_t samples_ = 0;
};

}  // namespace lockstep
