#include "data/data_loader.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace lockstep {

namespace {

DataLoaderSettings checked(const DataLoaderSettings& settings) {
  if (settings.length < 1 || settings.micro_batch < 1) {
    fail(ExitCode::usage, "cannot feed micro-batches of {} samples of {} tokens: both must be at least 1",
         settings.micro_batch, settings.length);
  }
  invariant(settings.rank >= 0 && settings.rank < settings.world, "a rank lies within its world");
  return settings;
}

/// The window of sample `index` when `samples` of `windows` are spread evenly: floor(index · windows / samples), of
/// factors that do not overflow.
std::int64_t spread(std::int64_t index, std::int64_t samples, std::int64_t windows) {
  return index * (windows / samples) + index * (windows % samples) / samples;
}

// Builds a batch row by row; every row has T tokens.
class BatchBuilder {
 public:
  BatchBuilder(const TokenStream& stream, std::int64_t length, Documents documents)
      : stream_(&stream), length_(length), documents_(documents) {
    batch_.length = length;
  }

  /// Sample `number`: tokens [begin, begin + labels) of the stream and the token after each as its label; the rest of
  /// the row is padding.
  void add_window(std::int64_t number, std::int64_t begin, std::int64_t labels) {
    window_.resize(static_cast<std::size_t>(labels) + 1);
    stream_->copy(begin, window_);
    const std::size_t row = add_padding();
    batch_.numbers.back() = number;
    std::copy(window_.begin(), window_.end() - 1, batch_.tokens.begin() + static_cast<std::ptrdiff_t>(row));
    std::copy(window_.begin() + 1, window_.end(), batch_.labels.begin() + static_cast<std::ptrdiff_t>(row));
    batch_.valid_tokens += labels;
    if (documents_ == Documents::isolated) isolate(begin, labels, row);
  }

  /// A row in which no label counts; returns where it begins.
  std::size_t add_padding() {
    const std::size_t row = batch_.tokens.size();
    const std::size_t size = row + static_cast<std::size_t>(length_);
    batch_.documents.push_back(static_cast<std::int64_t>(row));
    batch_.tokens.resize(size, 0);
    batch_.labels.resize(size, ignored_label);
    batch_.positions.resize(size);
    std::iota(batch_.positions.begin() + static_cast<std::ptrdiff_t>(row), batch_.positions.end(), 0);
    batch_.numbers.push_back(-1);
    ++batch_.samples;
    return row;
  }

  Batch take() {
    batch_.documents.push_back(static_cast<std::int64_t>(batch_.tokens.size()));
    return std::move(batch_);
  }

 private:
  // Every document that starts inside the row begins a segment, and the label before it, its first token, does not
  // count.
  void isolate(std::int64_t begin, std::int64_t labels, std::size_t row) {
    for (const std::int64_t start : stream_->document_starts(begin + 1, begin + labels + 1)) {
      const std::size_t at = row + static_cast<std::size_t>(start - begin);
      batch_.labels[at - 1] = ignored_label;
      --batch_.valid_tokens;
      if (start == begin + labels) continue;  // the document of the last label only
      batch_.documents.push_back(static_cast<std::int64_t>(at));
      std::iota(batch_.positions.begin() + static_cast<std::ptrdiff_t>(at), batch_.positions.end(), 0);
    }
  }

  const TokenStream* stream_;
  std::int64_t length_;
  Documents documents_;
  Batch batch_;
  std::vector<std::int32_t> window_;
};

}  // namespace

std::int64_t most_documents(const TokenStream& stream, std::int64_t length) {
  constexpr std::int64_t samples_at_once = 4096;
  std::int64_t most = 1, count = 0, sample = -1;
  for (std::int64_t begin = 0; begin < stream.tokens(); begin += samples_at_once * length) {
    const std::int64_t end = std::min(begin + samples_at_once * length, stream.tokens());
    for (const std::int64_t start : stream.document_starts(begin, end)) {
      if (start / length != sample) {
        sample = start / length;
        count = 1;  // what the sample begins with
      }
      if (start % length != 0) ++count;
      most = std::max(most, count);
    }
  }
  return most;
}

TrainingDataLoader::TrainingDataLoader(const TokenStream& stream, const DataLoaderSettings& settings)
    : stream_(&stream),
      settings_(checked(settings)),
      windows_(stream.tokens(), settings.length),
      order_(windows_.count(), settings.seed, settings.shuffle) {
  if (settings.global_batch < settings.world) {
    throw Error(ExitCode::usage,
                fmt::format("cannot divide a step of {} among {}", counted(settings.global_batch, "sample"),
                            counted(settings.world, "rank")),
                fmt::format("start at most {} or enlarge the global batch",
                            counted(std::max<std::int64_t>(settings.global_batch, 1), "rank")));
  }
  accumulation_ = accumulation_of(settings.global_batch, settings.world, settings.micro_batch);
}

StepBatch TrainingDataLoader::make_step(std::int64_t step, DataPosition position) const {
  const SampleRange share = share_of(settings_.global_batch, settings_.world, settings_.rank);
  StepBatch result;
  result.step = step;
  result.samples = share.count;
  for (std::int64_t micro = 0; micro < accumulation_; ++micro) {
    BatchBuilder builder(*stream_, settings_.length, settings_.documents);
    const std::int64_t begin = micro * settings_.micro_batch;
    const std::int64_t end = std::min(begin + settings_.micro_batch, share.count);
    for (std::int64_t sample = begin; sample < end; ++sample) {
      const std::int64_t window = order_.window_at(order_.advance(position, share.begin + sample));
      builder.add_window(share.begin + sample, windows_.begin(window), settings_.length);
    }
    if (begin >= end) builder.add_padding();
    result.micro_batches.push_back(builder.take());
    result.valid_tokens += result.micro_batches.back().valid_tokens;
  }
  return result;
}

void TrainingDataLoader::declare_use(DataPosition position, ShardVerifier& verifier) const {
  if (verifier.uses_all(*stream_)) return;
  for (std::int64_t sample = 0; sample < settings_.global_batch; ++sample) {
    const std::int64_t begin = windows_.begin(order_.window_at(order_.advance(position, sample)));
    verifier.use(*stream_, begin, begin + windows_.length() + 1);
  }
}

EvaluationDataLoader::EvaluationDataLoader(const TokenStream& stream, const DataLoaderSettings& settings,
                                           std::optional<std::int64_t> global_batches)
    : stream_(&stream), settings_(checked(settings)) {
  const std::int64_t labels = stream.tokens() - 1;
  if (labels < 1)
    fail(ExitCode::input, "a split of {} tokens is too short to evaluate: it has no label", stream.tokens());
  windows_ = (labels + settings.length - 1) / settings.length;
  samples_ = windows_;
  if (global_batches && *global_batches <= windows_ / settings.global_batch)
    samples_ = *global_batches * settings.global_batch;
  micro_batches_ = accumulation_of(samples_, settings.world, settings.micro_batch);
}

Batch EvaluationDataLoader::batch(std::int64_t index) const {
  const SampleRange share = share_of(samples_, settings_.world, settings_.rank);
  BatchBuilder builder(*stream_, settings_.length, settings_.documents);
  const std::int64_t begin = index * settings_.micro_batch;
  const std::int64_t end = std::min(begin + settings_.micro_batch, share.count);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t first = spread(share.begin + i, samples_, windows_) * settings_.length;
    builder.add_window(share.begin + i, first, std::min(settings_.length, stream_->tokens() - 1 - first));
  }
  if (begin >= end) builder.add_padding();
  return builder.take();
}

}  // namespace lockstep
