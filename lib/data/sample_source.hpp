// Where samples come from: a source has so many of them, says what each takes of a row, and fills rows with them. Which
// sample comes when: data/sample_order.hpp. Which rows make a step: data/data_loader.hpp.
#pragma once

#include "data/packing.hpp"
#include "data/sample_order.hpp"
#include "data/shard_verifier.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A row of a batch, T tokens. As a source gets it, it is padding: token 0, labels that do not count, positions from 0
/// on, one segment.
struct SampleRow {
  std::span<std::int32_t> tokens, labels, positions;  // (T)
  std::vector<std::int64_t> segments{0};              // where those of attention begin, rising
  std::int64_t valid_tokens = 0;                      // labels that count
};

/// Local; from any thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::vector<const TokenStream*> streams() const = 0;  // whose tokens they are
  virtual std::int64_t samples() const = 0;
  virtual std::vector<std::int64_t> samples_by_dataset() const { return {samples()}; }  // end to end they are all
  virtual std::int64_t length() const = 0;                    // of a row that takes any of them, tokens
  virtual std::int64_t cost(std::int64_t sample) const = 0;   // tokens of a row that it takes
  virtual std::int64_t most_segments() const = 0;             // of a row
  virtual const Packing* packing() const { return nullptr; }  // that decided it; null: there is none
  /// Fills a row of at least cost(sample) tokens. Throws Error(input) for a damaged shard or packing, Error(storage)
  /// for one that cannot be read any more.
  virtual void fill(std::int64_t sample, SampleRow& row) const = 0;
  /// Tells the verifier which shards the sample reads.
  virtual void declare_use(std::int64_t sample, ShardVerifier& verifier) const = 0;
};

enum class Documents {
  joined,    // attention and positions run over the whole window
  isolated,  // each document is a segment: positions restart, the label across its end is ignored
};

/// WindowTail says what becomes of tokens at the end of a split that fill no window.
enum class WindowTail {
  unused,
  padded,  // they are one more sample
};

/// Windows of the stream, one after the other: SampleWindows.
class WindowSource : public SampleSource {
 public:
  /// `stream` outlives the source. Throws Error(usage) unless length ≥ 1, Error(input) for a stream without a window;
  /// where the tail is padded, without a label.
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

/// Rows of whole documents, or parts of long ones, each a segment of attention with positions of its own.
class PackedSource : public SampleSource {
 public:
  /// `stream` outlives the source; `packing` is of it, and made with these settings.
  PackedSource(const TokenStream& stream, Packing packing, const PackingSettings& settings);
  const Packing* packing() const override { return &packing_; }
  std::vector<const TokenStream*> streams() const override { return {stream_}; }
  std::int64_t samples() const override { return packing_.rows(); }
  std::int64_t length() const override { return settings_.length; }
  std::int64_t cost(std::int64_t sample) const override;
  std::int64_t most_segments() const override { return packing_.counts().most_documents + 1; }  // and padding
  void fill(std::int64_t sample, SampleRow& row) const override;
  void declare_use(std::int64_t sample, ShardVerifier& verifier) const override;

 private:
  PackedDocument document(std::int64_t sample, std::int64_t index) const;
  [[noreturn]] void fail_damaged(std::int64_t sample, const std::string& how) const;
  const TokenStream* stream_;
  Packing packing_;
  PackingSettings settings_;
};

/// Consecutive samples of another source.
class PartOfSource : public SampleSource {
 public:
  /// Samples [begin, begin + samples) of it, at least one.
  PartOfSource(std::shared_ptr<const SampleSource> source, std::int64_t begin, std::int64_t samples);
  std::vector<const TokenStream*> streams() const override { return source_->streams(); }
  std::int64_t samples() const override { return samples_; }
  std::int64_t length() const override { return source_->length(); }
  std::int64_t cost(std::int64_t sample) const override { return source_->cost(begin_ + sample); }
  std::int64_t most_segments() const override { return source_->most_segments(); }
  const Packing* packing() const override { return source_->packing(); }
  void fill(std::int64_t sample, SampleRow& row) const override { source_->fill(begin_ + sample, row); }
  void declare_use(std::int64_t sample, ShardVerifier& verifier) const override {
    source_->declare_use(begin_ + sample, verifier);
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::int64_t begin_ = 0;
  std::int64_t samples_ = 0;
};

/// The samples of several sources, each a dataset, one source after the other.
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
  std::vector<std::int64_t> begins_;  // of each among all samples
  std::int64_t samples_ = 0;
};

}  // namespace lockstep
