#include "data/data_loader.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace lockstep {

namespace {

DataLoaderSettings checked(const DataLoaderSettings& settings) {
  if (settings.micro_batch < 1)
    fail(ExitCode::usage, "cannot load micro-batches of {} samples: at least 1 is needed", settings.micro_batch);
  invariant(settings.pad_to_multiple.value_or(1) >= 1, "pad_to_multiple must be at least 1");
  invariant(settings.epoch_multiple >= 1, "epoch_multiple must be at least 1");
  invariant(settings.rank >= 0 && settings.rank < settings.world, "the rank must be below the number of ranks");
  return settings;
}

/// Which of `all` number `index` of `samples` is that are spread evenly over them: floor(index · all / samples), of
/// factors that do not overflow.
std::int64_t spread(std::int64_t index, std::int64_t samples, std::int64_t all) {
  return index * (all / samples) + index * (all % samples) / samples;
}

/// Of the samples of an epoch those that are not used in it.
std::int64_t dropped_of_epoch(const SampleSource& source, const DataLoaderSettings& settings) {
  if (source.samples() >= settings.epoch_multiple) return source.samples() % settings.epoch_multiple;
  const bool steps = settings.epoch_multiple == settings.global_batch;
  throw Error(
      ExitCode::usage,
      fmt::format("an epoch of {} is shorter than one {} of {}, and data.drop_last drops an incomplete one",
                  counted(source.samples(), "sample"), steps ? "step" : "micro-batch of all ranks",
                  counted(settings.epoch_multiple, "sample")),
      fmt::format("leave data.drop_last out, or make the {} smaller", steps ? "global batch" : "micro-batches"));
}

// Builds a batch row by row.
class BatchBuilder {
 public:
  explicit BatchBuilder(std::int64_t length) { batch_.length = length; }

  /// A row with a sample, which has `number` in the step or evaluation; returns its labels that count.
  std::int64_t add_sample(std::int64_t number, const SampleSource& source, std::int64_t sample) {
    SampleRow row = add_row(number);
    source.fill(sample, row);
    const std::int64_t begin = (batch_.samples - 1) * batch_.length;
    for (const std::int64_t segment : row.segments) batch_.documents.push_back(begin + segment);
    batch_.valid_tokens += row.valid_tokens;
    return row.valid_tokens;
  }

  /// A row in which no label counts.
  void add_padding() {
    add_row(-1);
    batch_.documents.push_back((batch_.samples - 1) * batch_.length);
  }

  Batch take() {
    batch_.documents.push_back(std::ssize(batch_.tokens));
    return std::move(batch_);
  }

 private:
  SampleRow add_row(std::int64_t number) {
    const std::size_t begin = batch_.tokens.size(), count = static_cast<std::size_t>(batch_.length);
    batch_.tokens.resize(begin + count, 0);
    batch_.labels.resize(begin + count, ignored_label);
    batch_.positions.resize(begin + count);
    const auto row = [&](std::vector<std::int32_t>& values) { return std::span(values).subspan(begin, count); };
    std::iota(row(batch_.positions).begin(), row(batch_.positions).end(), 0);
    batch_.numbers.push_back(number);
    ++batch_.samples;
    return {row(batch_.tokens), row(batch_.labels), row(batch_.positions)};
  }

  Batch batch_;
};

/// Of rows that are as long as the longest of so many samples, as the settings say.
std::int64_t padded_length(std::int64_t longest, const SampleSource& source, const DataLoaderSettings& settings) {
  return std::min(rounded_up(std::max<std::int64_t>(longest, 1), *settings.pad_to_multiple), source.length());
}

}  // namespace

TrainingDataLoader::TrainingDataLoader(const SampleSource& source, const DataLoaderSettings& settings)
    : source_(&source),
      settings_(checked(settings)),
      order_(OrderSettings{.datasets = source.samples_by_dataset(),
                           .proportions = settings.proportions,
                           .seed = settings.seed,
                           .shuffle = settings.shuffle,
                           .shuffled = settings.shuffled,
                           .dropped = dropped_of_epoch(source, settings)}) {
  if (settings.global_batch < settings.world) {
    throw Error(ExitCode::usage,
                fmt::format("cannot divide a step of {} among {}", counted(settings.global_batch, "sample"),
                            counted(settings.world, "rank")),
                fmt::format("start at most {} or enlarge the global batch",
                            counted(std::max<std::int64_t>(settings.global_batch, 1), "rank")));
  }
  accumulation_ = accumulation_of(settings.global_batch, settings.world, settings.micro_batch);
}

std::int64_t TrainingDataLoader::sample_at(DataPosition position, std::int64_t number) const {
  return order_.sample_at(order_.advance(position, number));
}

std::int64_t TrainingDataLoader::samples_of_step(DataPosition position) const {
  switch (settings_.tail) {
    case EpochTail::joined: return settings_.global_batch;
    case EpochTail::short_step: return std::min(settings_.global_batch, order_.samples() - position.sample);
  }
  throw Error(ExitCode::bug, "the end of an epoch has no steps");
}

std::int64_t TrainingDataLoader::length_of_step(DataPosition position) const {
  if (!settings_.pad_to_multiple) return source_->length();
  std::int64_t longest = 0;
  for (std::int64_t number = 0, samples = samples_of_step(position); number < samples; ++number)
    longest = std::max(longest, source_->cost(sample_at(position, number)));
  return padded_length(longest, *source_, settings_);
}

StepBatch TrainingDataLoader::make_step(std::int64_t step, DataPosition position) const {
  const SampleRange share = share_of(samples_of_step(position), settings_.world, settings_.rank);
  StepBatch result;
  result.step = step;
  result.samples = share.count;
  result.length = length_of_step(position);
  result.uses.resize(source_->samples_by_dataset().size());
  for (std::int64_t micro = 0; micro < accumulation_; ++micro) {
    BatchBuilder builder(result.length);
    const std::int64_t begin = micro * settings_.micro_batch;
    const std::int64_t end = std::min(begin + settings_.micro_batch, share.count);
    for (std::int64_t number = share.begin + begin; number < share.begin + end; ++number) {
      const std::int64_t sample = sample_at(position, number);
      DatasetUse& use = result.uses[order_.dataset_of(sample)];
      ++use.samples;
      use.tokens += builder.add_sample(number, *source_, sample);
    }
    if (begin >= end) builder.add_padding();
    result.micro_batches.push_back(builder.take());
    result.valid_tokens += result.micro_batches.back().valid_tokens;
  }
  return result;
}

void TrainingDataLoader::declare_use(DataPosition position, ShardVerifier& verifier) const {
  if (std::ranges::all_of(source_->streams(), [&](const TokenStream* stream) { return verifier.uses_all(*stream); }))
    return;
  for (std::int64_t number = 0, samples = samples_of_step(position); number < samples; ++number)
    source_->declare_use(sample_at(position, number), verifier);
}

EvaluationDataLoader::EvaluationDataLoader(const SampleSource& source, const DataLoaderSettings& settings,
                                           std::optional<std::int64_t> global_batches)
    : source_(&source), settings_(checked(settings)), samples_(source.samples()) {
  if (global_batches && *global_batches <= samples_ / settings.global_batch)
    samples_ = *global_batches * settings.global_batch;
  micro_batches_ = accumulation_of(samples_, settings.world, settings.micro_batch);
}

std::int64_t EvaluationDataLoader::sample(std::int64_t number) const {
  return spread(number, samples_, source_->samples());
}

Batch EvaluationDataLoader::batch(std::int64_t index) const {
  const SampleRange share = share_of(samples_, settings_.world, settings_.rank);
  const std::int64_t begin = share.begin + std::min(index * settings_.micro_batch, share.count);
  const std::int64_t end = std::min(begin + settings_.micro_batch, share.begin + share.count);
  std::int64_t length = source_->length();
  if (settings_.pad_to_multiple) {
    std::int64_t longest = 0;
    for (std::int64_t number = begin; number < end; ++number)
      longest = std::max(longest, source_->cost(sample(number)));
    length = padded_length(longest, *source_, settings_);
  }
  BatchBuilder builder(length);
  for (std::int64_t number = begin; number < end; ++number) builder.add_sample(number, *source_, sample(number));
  if (begin >= end) builder.add_padding();
  return builder.take();
}

}  // namespace lockstep
