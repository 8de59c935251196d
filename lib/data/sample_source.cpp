#include "data/sample_source.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "data/batch.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace lockstep {

namespace {

/// Fills tokens and labels of a row from `at` on with `labels` of the stream's tokens from `begin`, and the token
/// behind each, where its mask lets it count.
void copy_tokens(const TokenStream& stream, std::int64_t begin, std::int64_t labels, SampleRow& row, std::int64_t at) {
  const auto first = static_cast<std::size_t>(at), count = static_cast<std::size_t>(labels);
  std::vector<std::int32_t> window(count + 1);
  stream.copy(begin, window);
  std::copy(window.begin(), window.end() - 1, row.tokens.subspan(first, count).begin());
  const auto labels_of_row = row.labels.subspan(first, count);
  std::copy(window.begin() + 1, window.end(), labels_of_row.begin());
  row.valid_tokens += labels;
  if (stream.masks() == TokenMasks::absent) return;
  std::vector<std::uint8_t> mask(count);
  stream.copy_mask(begin + 1, mask);
  for (std::size_t i = 0; i < count; ++i) {
    if (mask[i] == 0) labels_of_row[i] = ignored_label;
  }
  row.valid_tokens -= std::ranges::count(mask, std::uint8_t{0});
}

/// A segment of attention begins at `at`, with positions of its own up to `end`.
void begin_segment(SampleRow& row, std::int64_t at, std::int64_t end) {
  if (at > 0) row.segments.push_back(at);
  const auto positions = row.positions.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(end - at));
  std::iota(positions.begin(), positions.end(), 0);
}

/// Every document that starts inside begins a segment, and the label before it, its first token, does not count.
void isolate_documents(const TokenStream& stream, std::int64_t begin, std::int64_t labels, SampleRow& row) {
  for (const std::int64_t start : stream.document_starts(begin + 1, begin + labels + 1)) {
    const std::int64_t at = start - begin;
    std::int32_t& label = row.labels[static_cast<std::size_t>(at - 1)];
    if (std::exchange(label, ignored_label) != ignored_label) --row.valid_tokens;
    if (at < labels) begin_segment(row, at, std::ssize(row.tokens));  // else it is the document of the last label only
  }
}

}  // namespace

std::int64_t documents_cut_by_windows(const TokenStream& stream, std::int64_t length) {
  constexpr std::int64_t tokens_at_once = std::int64_t{1} << 22;
  std::int64_t cut = 0, document = -1;         // where the present one begins
  const auto end_at = [&](std::int64_t end) {  // window k has the labels k·length + 1 to (k + 1)·length
    if (document >= 0 && end - document > 2 && document / length != (end - 2) / length) ++cut;
  };
  for (std::int64_t begin = 0; begin < stream.tokens(); begin += tokens_at_once) {
    for (const std::int64_t start : stream.document_starts(begin, begin + tokens_at_once)) {
      end_at(start);
      document = start;
    }
  }
  end_at(stream.tokens());
  return cut;
}

WindowSource::WindowSource(const TokenStream& stream, std::int64_t length, Documents documents, WindowTail tail)
    : stream_(&stream), length_(length), documents_(documents) {
  switch (tail) {
    case WindowTail::unused: samples_ = SampleWindows(stream.tokens(), length).count(); break;
    case WindowTail::padded:
      if (length < 1) fail(ExitCode::usage, "samples of {} tokens: the length must be at least 1", length);
      if (stream.tokens() < 2)
        fail(ExitCode::input, "a split of {} tokens is too short to evaluate: it has no label", stream.tokens());
      samples_ = ceil_div(stream.tokens() - 1, length);
      break;
  }
}

std::int64_t WindowSource::cost(std::int64_t sample) const {
  return std::min(length_, stream_->tokens() - 1 - sample * length_);
}

std::int64_t WindowSource::most_segments() const {
  if (documents_ == Documents::joined) return 1;
  constexpr std::int64_t samples_at_once = 4096;
  std::int64_t most = 1, count = 0, sample = -1;
  for (std::int64_t begin = 0; begin < stream_->tokens(); begin += samples_at_once * length_) {
    const std::int64_t end = std::min(begin + samples_at_once * length_, stream_->tokens());
    for (const std::int64_t start : stream_->document_starts(begin, end)) {
      if (start / length_ != sample) {
        sample = start / length_;
        count = 1;  // what the sample begins with
      }
      if (start % length_ != 0) ++count;
      most = std::max(most, count);
    }
  }
  return most;
}

void WindowSource::fill(std::int64_t sample, SampleRow& row) const {
  const std::int64_t begin = sample * length_, labels = cost(sample);
  copy_tokens(*stream_, begin, labels, row, 0);
  if (documents_ == Documents::isolated) isolate_documents(*stream_, begin, labels, row);
}

void WindowSource::declare_use(std::int64_t sample, ShardVerifier& verifier) const {
  const std::int64_t begin = sample * length_;
  verifier.use(*stream_, begin, begin + cost(sample) + 1);
}

PackedSource::PackedSource(const TokenStream& stream, Packing packing, const PackingSettings& settings)
    : stream_(&stream), packing_(std::move(packing)), settings_(settings) {}

PackedDocument PackedSource::document(std::int64_t sample, std::int64_t index) const {
  const PackedDocument document = packing_.document(sample, index);
  if (document.labels < 1 || document.begin < 0 || document.begin >= stream_->tokens() - document.labels)
    fail_damaged(sample, fmt::format("a document has {} labels from token {} on, of {}", document.labels,
                                     document.begin, stream_->tokens()));
  return document;
}

void PackedSource::fail_damaged(std::int64_t sample, const std::string& how) const {
  packing_.require_intact();
  fail(ExitCode::input, "row {} of the packing is damaged: {}", sample, how);
}

std::int64_t PackedSource::cost(std::int64_t sample) const {
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < packing_.documents(sample); ++i)
    tokens += rounded_up(document(sample, i).labels, settings_.multiple);
  if (tokens < 1 || tokens > settings_.length)
    fail_damaged(sample, fmt::format("its documents take {} tokens of {}", tokens, settings_.length));
  return tokens;
}

void PackedSource::fill(std::int64_t sample, SampleRow& row) const {
  const std::int64_t taken = cost(sample);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < packing_.documents(sample); ++i) {
    const PackedDocument document = this->document(sample, i);
    const std::int64_t end = at + rounded_up(document.labels, settings_.multiple);
    begin_segment(row, at, end);
    copy_tokens(*stream_, document.begin, document.labels, row, at);
    at = end;
  }
  if (taken < std::ssize(row.tokens)) begin_segment(row, taken, std::ssize(row.tokens));  // padding
  packing_.require_intact();
}

void PackedSource::declare_use(std::int64_t sample, ShardVerifier& verifier) const {
  for (std::int64_t i = 0; i < packing_.documents(sample); ++i) {
    const PackedDocument document = this->document(sample, i);
    verifier.use(*stream_, document.begin, document.begin + document.labels + 1);
  }
  packing_.require_intact();
}

PartOfSource::PartOfSource(std::shared_ptr<const SampleSource> source, std::int64_t begin, std::int64_t samples)
    : source_(std::move(source)), begin_(begin), samples_(samples) {
  invariant(begin >= 0 && samples > 0 && samples <= source_->samples() - begin, "a part lies within its source");
}

std::shared_ptr<const PartOfSource> PartOfSource::drawn(std::shared_ptr<const SampleSource> source,
                                                        std::int64_t samples, std::uint64_t seed) {
  SampleOrder permutation({.datasets = {source->samples()}, .seed = seed, .shuffle = Shuffle::once});
  auto part = std::make_shared<PartOfSource>(std::move(source), 0, samples);
  part->permutation_ = std::move(permutation);
  return part;
}

JoinedSource::JoinedSource(std::vector<std::shared_ptr<const SampleSource>> sources) : sources_(std::move(sources)) {
  for (const auto& source : sources_) {
    begins_.push_back(samples_);
    samples_ += source->samples();
  }
}

std::size_t JoinedSource::source_of(std::int64_t sample) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(begins_, sample) - begins_.begin() - 1);
}

std::vector<const TokenStream*> JoinedSource::streams() const {
  std::vector<const TokenStream*> streams;
  for (const auto& source : sources_) std::ranges::copy(source->streams(), std::back_inserter(streams));
  return streams;
}

std::vector<std::int64_t> JoinedSource::samples_by_dataset() const {
  std::vector<std::int64_t> samples;
  for (const auto& source : sources_) samples.push_back(source->samples());
  return samples;
}

std::int64_t JoinedSource::length() const {
  std::int64_t length = 0;
  for (const auto& source : sources_) length = std::max(length, source->length());
  return length;
}

std::int64_t JoinedSource::cost(std::int64_t sample) const {
  const std::size_t source = source_of(sample);
  return sources_[source]->cost(sample - begins_[source]);
}

std::int64_t JoinedSource::most_segments() const {
  std::int64_t most = 1;
  for (const auto& source : sources_) most = std::max(most, source->most_segments());
  return most;
}

void JoinedSource::fill(std::int64_t sample, SampleRow& row) const {
  const std::size_t source = source_of(sample);
  sources_[source]->fill(sample - begins_[source], row);
}

void JoinedSource::declare_use(std::int64_t sample, ShardVerifier& verifier) const {
  const std::size_t source = source_of(sample);
  sources_[source]->declare_use(sample - begins_[source], verifier);
}

}  // namespace lockstep
