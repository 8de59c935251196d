// Packs documents into rows of a batch: decides once for a whole split which documents, or parts of documents, share a
// row. Pure arithmetic; the result does not depend on the number of threads. The packing on disk:
// data/packing_index.hpp. Filling a row: data/sample_source.hpp.
//
// A document of n tokens has n − 1 labels and takes n − 1 tokens of a row: its last token is only a label.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "config/packing_options.hpp"
#include "store/token_shards.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class PackingMethod {
  none,        // each document has a row of its own
  sequential,  // next fit: documents in order, a new row once one does not fit
  multipack,   // first fit, the longest first
  best_fit,    // best fit, the longest first
  custom,      // by PackingSettings::by_user
};

/// CustomPacking is a packing method of a plug-in.
struct CustomPacking {
  std::string who;         // in messages: "the packing pairs of ./pairs.so"
  std::string identity;    // everything that the result depends on, as text
  std::int64_t group = 0;  // default of PackingSettings::group
  /// Returns the row of each document, given their costs in tokens; rows are numbered from 0 without a gap. Pure;
  /// several threads call it.
  std::function<std::vector<std::int64_t>(std::span<const std::int64_t> costs, std::int64_t length)> place;
};

struct PackingSettings {
  PackingMethod method = PackingMethod::none;
  std::int64_t length = 0;  // of a row, in tokens
  // a document takes a multiple of this many tokens in a row; length is also a multiple of it
  std::int64_t multiple = 1;
  // documents that are packed together; `none` and `sequential` ignore it and pack all documents at once
  std::int64_t group = 0;
  LongDocuments long_documents = LongDocuments::split;
  std::shared_ptr<const CustomPacking> by_user = {};
};

/// PackedDocument is a document, or a part of one, in a row: tokens [begin, begin + labels) of the stream. The label of
/// each is the token that follows it in the stream.
struct PackedDocument {
  std::int64_t begin = 0;
  std::int64_t labels = 0;
};

/// PackingCounts sums up a packing. Labels are positions with a label, whether or not a mask excludes them from the
/// loss. The packed, masked, truncated and dropped labels add up to all tokens of the split except the first one of
/// each document.
struct PackingCounts {
  std::int64_t documents = 0;            // in the split
  std::int64_t empty_documents = 0;      // without a label; left out
  std::int64_t split_documents = 0;      // longer than a row, and split
  std::int64_t truncated_documents = 0;  // longer than a row, and truncated
  std::int64_t truncated_labels = 0;     // cut off
  std::int64_t dropped_documents = 0;    // longer than a row, and dropped
  std::int64_t dropped_labels = 0;
  // documents, or parts of long ones, without a label that counts; left out
  std::int64_t masked_parts = 0;
  std::int64_t masked_labels = 0;
  std::int64_t packed_labels = 0;
  std::int64_t most_documents = 0;  // most documents in one row
  bool operator==(const PackingCounts&) const = default;
};

/// Packing holds the rows of documents, as arrays in memory or in a mapped file.
class Packing {
 public:
  /// `starts`: for each row the index of its first document, then the number of documents. `owner` keeps the arrays
  /// alive. `file` is the mapped file that holds them, or null.
  Packing(std::span<const std::uint64_t> starts, std::span<const std::uint64_t> begins,
          std::span<const std::uint32_t> labels, const PackingCounts& counts, const Hash128& made_from,
          std::shared_ptr<const void> owner, const MappedFile* file = nullptr);

  std::int64_t rows() const { return std::ssize(starts_) - 1; }
  std::int64_t documents(std::int64_t row) const;  // in the row; a part of a document counts as one
  PackedDocument document(std::int64_t row, std::int64_t index) const;  // documents of a row are in stream order
  const PackingCounts& counts() const { return counts_; }
  /// Returns the hash_of_documents of the packed stream.
  const Hash128& made_from() const { return made_from_; }

  std::span<const std::uint64_t> starts() const { return starts_; }
  std::span<const std::uint64_t> begins() const { return begins_; }
  std::span<const std::uint32_t> labels() const { return labels_; }
  /// Throws Error(storage) if the arrays lie in a mapped file and a part of it could not be read
  /// (base/mapped_file.hpp). Call it after each use.
  void require_intact() const;

 private:
  std::span<const std::uint64_t> starts_, begins_;
  std::span<const std::uint32_t> labels_;
  PackingCounts counts_;
  Hash128 made_from_;
  std::shared_ptr<const void> owner_;
  const MappedFile* file_ = nullptr;
};

/// Returns a hash of the document starts of a split, as its shards have them now. A recorded hash of the shards does
/// not show whether the same starts were read. Local; reads all document starts.
Hash128 hash_of_documents(const TokenStream& stream);

/// Returns the row of each document, given their costs in tokens, for a built-in method. Rows are numbered in the order
/// in which they are opened. `length` is the length of a row, at least the largest cost. `multipack` and `best_fit`
/// place the longest document first, and of equal costs the first one first. If several rows fit equally well,
/// `best_fit` takes the one filled last. Pure.
std::vector<std::uint64_t> place_documents(PackingMethod method, std::span<const std::int64_t> costs,
                                           std::int64_t length);

/// Packs the documents of a split; groups of documents are packed in parallel on `threads` threads. Local. Throws
/// Error(usage) unless multiple divides length and both lie between 1 and 2^31 − 1, and for invalid rows of a custom
/// packing; Error(input) if no document with a counting label is left, or if the split does not begin with a document.
Packing make_packing(const TokenStream& stream, const PackingSettings& settings, int threads);

/// Describes the settings completely, except the stream: "best_fit of groups of 1000, rows of 64 tokens, long documents
/// split". Pure.
std::string to_text(const PackingSettings& settings);
/// Returns PackingSettings::multiple, parsed from such a text. Pure.
std::int64_t multiple_in(std::string_view text);

}  // namespace lockstep
