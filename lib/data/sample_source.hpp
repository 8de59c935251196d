// Sources of samples. A source has a number of samples, tells the length of each in a row, and fills rows with them.
// Their order: data/sample_order.hpp. The rows of a step: data/data_loader.hpp.
#pragma once

#include "data/packing.hpp"
#include "data/sample_order.hpp"
#include "data/shard_verifier.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// SampleRow is a row of a batch, T tokens. A source receives it as padding: token 0, labels that do not count,
/// positions from 0 on, one segment.
struct SampleRow {
  std::span<std::int32_t> tokens, labels, positions;  // (T)
  std::vector<std::int64_t> segments{0};              // starts of attention segments, ascending
  std::int64_t valid_tokens = 0;                      // labels with a loss
};

/// SampleSource is the interface of all sources. Local; from any thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::vector<const TokenStream*> streams() const = 0;  // the streams that samples read
  virtual std::int64_t samples() const = 0;
  virtual std::vector<std::int64_t> samples_by_dataset() const { return {samples()}; }  // their sum is samples()
  virtual std::int64_t length() const = 0;                    // tokens of a row that has room for any sample
  virtual std::int64_t cost(std::int64_t sample) const = 0;   // tokens of a row that the sample takes
  virtual std::int64_t most_segments() const = 0;             // most segments in a row
  virtual const Packing* packing() const { return nullptr; }  // the packing in use; null: none
  /// Fills a row of at least cost(sample) tokens. Throws Error(input) for a damaged shard or packing, Error(storage)
  /// for one that can no longer be read.
  virtual void fill(std::int64_t sample, SampleRow& row) const = 0;
  /// Tells the verifier which shards the sample reads.
  virtual void declare_use(std::int64_t sample, ShardVerifier& verifier) const = 0;
};

enum class Documents {
  joined,  // attention and positions run over the whole window
  // each document is a segment: positions restart, and the last token of a document has no label
  isolated,
};

/// WindowTail says how the tokens at the end of a split are used if they do not fill a window.
enum class WindowTail {
  unused,
  padded,  // they form one more sample, padded
};

/// Returns the number of documents whose labels do not all lie in one window of this length. Local; reads all document
/// starts. Throws Error(input) for a damaged shard.
std::int64_t documents_cut_by_windows(const TokenStream& stream, std::int64_t length);

/// Windows of the stream, one after the other, as SampleWindows defines them.
class WindowSource : public SampleSource {
 public:
  /// `stream` must outlive the source. Throws Error(usage) unless length ≥ 1; Error(input) for a stream too short for a
  /// window, or, with a padded tail, for a label.
  WindowSource(const TokenStream& stream, std::int64_t length, Documents documents, WindowTail tail);
  std::vector<const TokenStream*> streams() const override { return {stream_}; }
  std::int64_t samples() const override { return samples_; }
  std::int64_t length() const override { return length_; }
  std::int64_t cost(std::int64_t sample) const override;
  std::int64_t most_segments() const override;  // looks at all documents
  void fill(std::int64_t sample, SampleRow& row) const override;
  void declare_use(std::int64_t sample, ShardVerifier& verifier) const override;

 private:
  const TokenStream* stream_;
  std::int64_t length_;
  Documents documents_;
  std::int64_t samples_ = 0;
};

/// Rows of whole documents, or parts of long ones. Each is a segment of attention with its own positions.
class PackedSource : public SampleSource {
 public:
  /// `stream` must outlive the source. `packing` was made from it with these settings.
  PackedSource(const TokenStream& stream, Packing packing, const PackingSettings& settings);
  const Packing* packing() const override { return &packing_; }
  std::vector<const TokenStream*> streams() const override { return {stream_}; }
  std::int64_t samples() const override { return packing_.rows(); }
  std::int64_t length() const override { return settings_.length; }
  std::int64_t cost(std::int64_t sample) const override;
  std::int64_t most_segments() const override { return packing_.counts().most_documents + 1; }  // one more for padding
  void fill(std::int64_t sample, SampleRow& row) const override;
  void declare_use(std::int64_t sample, ShardVerifier& verifier) const override;

 private:
  PackedDocument document(std::int64_t sample, std::int64_t index) const;
  [[noreturn]] void fail_damaged(std::int64_t sample, const std::string& how) const;
  const TokenStream* stream_;
  Packing packing_;
  PackingSettings settings_;
};

/// PartOfSource has some samples of another source: consecutive ones, of its order or of a permutation.
class PartOfSource : public SampleSource {
 public:
  /// Has the samples [begin, begin + samples) of `source`, at least one.
  PartOfSource(std::shared_ptr<const SampleSource> source, std::int64_t begin, std::int64_t samples);
  /// Has this many samples of `source`, at least one, each at most once, drawn by `seed`.
  static std::shared_ptr<const PartOfSource> drawn(std::shared_ptr<const SampleSource> source, std::int64_t samples,
                                                   std::uint64_t seed);
  std::vector<const TokenStream*> streams() const override { return source_->streams(); }
  std::int64_t samples() const override { return samples_; }
  std::int64_t length() const override { return source_->length(); }
  std::int64_t cost(std::int64_t sample) const override { return source_->cost(in_source(sample)); }
  std::int64_t most_segments() const override { return source_->most_segments(); }
  const Packing* packing() const override { return source_->packing(); }
  void fill(std::int64_t sample, SampleRow& row) const override { source_->fill(in_source(sample), row); }
  void declare_use(std::int64_t sample, ShardVerifier& verifier) const override {
    source_->declare_use(in_source(sample), verifier);
  }

 private:
  std::int64_t in_source(std::int64_t sample) const {
    return permutation_ ? permutation_->sample_at({.epoch = 0, .sample = sample}) : begin_ + sample;
  }
  std::shared_ptr<const SampleSource> source_;
  std::optional<SampleOrder> permutation_;
  std::int64_t begin_ = 0;
  std::int64_t samples_ = 0;
};

/// JoinedSource has the samples of several sources, one source after the other; each source is a dataset.
class JoinedSource : public SampleSource {
 public:
  explicit JoinedSource(std::vector<std::shared_ptr<const SampleSource>> sources);
  std::vector<const TokenStream*> streams() const override;
  std::int64_t samples() const override { return samples_; }
  std::vector<std::int64_t> samples_by_dataset() const override;
  std::int64_t length() const override;
  std::int64_t cost(std::int64_t sample) const override;
  std::int64_t most_segments() const override;
  void fill(std::int64_t sample, SampleRow& row) const override;
  void declare_use(std::int64_t sample, ShardVerifier& verifier) const override;

 private:
  std::size_t source_of(std::int64_t sample) const;
  std::vector<std::shared_ptr<const SampleSource>> sources_;
  std::vector<std::int64_t> begins_;  // the first sample of each source among all
  std::int64_t samples_ = 0;
};

}  // namespace lockstep
