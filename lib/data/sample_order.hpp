// Which sample comes when: a permutation of them for each epoch, and the position that a checkpoint keeps; windows of a
// token stream, the simplest samples. Pure arithmetic; nothing here depends on ranks. How a step's samples become
// batches: data/data_loader.hpp.
#pragma once

#include "base/random.hpp"

#include <cstdint>

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

/// The order of samples: a permutation keyed by (seed, epoch), O(1) per index, without a table.
class SampleOrder {
 public:
  /// `dropped`: of so many samples, those that come last in an epoch, none is used in it.
  SampleOrder(std::int64_t samples, std::uint64_t seed, Shuffle shuffle = Shuffle::every_epoch,
              std::int64_t dropped = 0);
  std::int64_t samples() const { return samples_ - dropped_; }  // an epoch
  /// Which sample of the source comes at the position; position.sample < samples().
  std::int64_t sample_at(DataPosition position) const;
  /// The position `samples` samples later; epochs follow each other without a gap.
  DataPosition advance(DataPosition position, std::int64_t samples) const;

 private:
  Permutation permutation(std::int64_t epoch) const;
  std::int64_t samples_ = 0;
  std::int64_t dropped_ = 0;
  std::uint64_t seed_ = 0;
  Shuffle shuffle_ = Shuffle::every_epoch;
};

}  // namespace lockstep
