#include "data/sample_order.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <string>

namespace lockstep {

SampleWindows::SampleWindows(std::int64_t tokens, std::int64_t length) : length_(length) {
  if (length < 1) fail(ExitCode::usage, "samples of {} tokens: the length must be at least 1", length);
  count_ = std::max<std::int64_t>(tokens - 1, 0) / length;
  if (count_ == 0) {
    throw Error(ExitCode::input,
                fmt::format("the split has {}: too few for a sample of {} and its last label", counted(tokens, "token"),
                            counted(length, "token")),
                fmt::format("use samples of at most {}, or prepare more text",
                            counted(std::max<std::int64_t>(tokens - 1, 1), "token")));
  }
}

SampleOrder::SampleOrder(const OrderSettings& settings) : settings_(settings) {
  for (const std::int64_t samples : settings.datasets) {
    invariant(samples > 0, "a dataset has samples");
    begins_.push_back(samples_);
    samples_ += samples;
  }
  invariant(settings.dropped >= 0 && samples_ > settings.dropped, "an order has samples");
  invariant(!settings.proportions || (settings.proportions->parts.size() == begins_.size() && settings.dropped == 0),
            "proportions must cover all datasets, and no samples can be dropped");
  if (settings.proportions) turns_.emplace(*settings.proportions);
}

bool SampleOrder::permutes(Shuffled what) const {
  return settings_.shuffle != Shuffle::never && (settings_.shuffled == what || settings_.shuffled == Shuffled::both);
}

/// A dataset has permutations of its own; without one they are those of all samples.
std::int64_t SampleOrder::permuted(std::int64_t sample, std::int64_t of, std::int64_t epoch,
                                   std::optional<std::size_t> dataset) const {
  const std::int64_t keyed = settings_.shuffle == Shuffle::once ? 0 : epoch;
  const std::string name = dataset ? fmt::format("samples of dataset {} in epoch {}", *dataset, keyed)
                                   : fmt::format("samples of epoch {}", keyed);
  return static_cast<std::int64_t>(
      Permutation(static_cast<std::uint64_t>(of), settings_.seed, name)(static_cast<std::uint64_t>(sample)));
}

std::int64_t SampleOrder::sample_at(DataPosition position) const {
  invariant(position.epoch >= 0 && position.sample >= 0 && position.sample < samples(),
            "a data position lies within its epoch");
  std::int64_t sample = position.sample, epoch = position.epoch;
  if (permutes(Shuffled::mixture)) sample = permuted(sample, samples_, epoch, {});
  std::size_t dataset = 0;
  if (turns_) {
    const MixtureSchedule::Slot turn = turns_->at(epoch * samples_ + sample);
    dataset = turn.dataset;
    epoch = turn.number / settings_.datasets[dataset];
    sample = turn.number % settings_.datasets[dataset];
  } else {
    dataset = dataset_of(sample);
    sample -= begins_[dataset];
  }
  if (permutes(Shuffled::datasets)) sample = permuted(sample, settings_.datasets[dataset], epoch, dataset);
  return begins_[dataset] + sample;
}

std::size_t SampleOrder::dataset_of(std::int64_t sample) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(begins_, sample) - begins_.begin() - 1);
}

DataPosition SampleOrder::advance(DataPosition position, std::int64_t samples) const {
  const std::int64_t sample = position.sample + samples;
  return {position.epoch + sample / this->samples(), sample % this->samples()};
}

}  // namespace lockstep
