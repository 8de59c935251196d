#include "data/sample_order.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>

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

SampleOrder::SampleOrder(std::int64_t samples, std::uint64_t seed, Shuffle shuffle, std::int64_t dropped)
    : samples_(samples), dropped_(dropped), seed_(seed), shuffle_(shuffle) {
  invariant(dropped >= 0 && samples > dropped, "an order has samples");
}

Permutation SampleOrder::permutation(std::int64_t epoch) const {
  return Permutation(static_cast<std::uint64_t>(samples_), seed_, fmt::format("samples of epoch {}", epoch));
}

std::int64_t SampleOrder::sample_at(DataPosition position) const {
  invariant(position.epoch >= 0 && position.sample >= 0 && position.sample < samples(),
            "a data position lies within its epoch");
  if (shuffle_ == Shuffle::never) return position.sample;
  return static_cast<std::int64_t>(
      permutation(shuffle_ == Shuffle::once ? 0 : position.epoch)(static_cast<std::uint64_t>(position.sample)));
}

DataPosition SampleOrder::advance(DataPosition position, std::int64_t samples) const {
  const std::int64_t sample = position.sample + samples;
  return {position.epoch + sample / this->samples(), sample % this->samples()};
}

}  // namespace lockstep
