// Documents become rows: which of them, or which parts, share a row of a batch, decided once for a whole split. Pure
// arithmetic, equal for any number of threads. Where it is kept: data/packing_index.hpp. How a row is filled:
// data/sample_source.hpp.
//
// A document of n tokens has n − 1 labels, and takes as many tokens of a row: its last token is a label alone.
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
  custom,      // as PackingSettings::by_user says
};

/// A way to pack that is no built-in one.
struct CustomPacking {
  std::string who;         // in messages: "the packing pairs of ./pairs.so"
  std::string identity;    // all that decides what it gives
  std::int64_t group = 0;  // as PackingSettings::group, where nobody says it
  /// The row of each document of such costs, numbered from 0 without a gap. Pure; several threads call it.
  std::function<std::vector<std::int64_t>(std::span<const std::int64_t> costs, std::int64_t length)> place;
};

struct PackingSettings {
  PackingMethod method = PackingMethod::none;
  std::int64_t length = 0;    // of a row, tokens
  std::int64_t multiple = 1;  // tokens that a document takes in a row are a multiple of it, as length is
  std::int64_t group = 0;     // documents that are looked at, and share rows, at once; of none and sequential: all
  LongDocuments long_documents = LongDocuments::split;
  std::shared_ptr<const CustomPacking> by_user = {};
};

/// A document, or a part of one, as it lies in a row: tokens [begin, begin + labels) of the stream, and as labels the
/// token behind each.
struct PackedDocument {
  std::int64_t begin = 0;
  std::int64_t labels = 0;
};

/// What packing made of the documents. Labels are those that rows have room for, whether a mask lets them count or not.
/// They add up: those packed, masked, truncated and dropped are all of a split but the first token of each document.
struct PackingCounts {
  std::int64_t documents = 0;            // of the split
  std::int64_t empty_documents = 0;      // without a label: they are left out
  std::int64_t split_documents = 0;      // longer than a row
  std::int64_t truncated_documents = 0;  // the same
  std::int64_t truncated_labels = 0;     // cut off
  std::int64_t dropped_documents = 0;    // the same
  std::int64_t dropped_labels = 0;
  std::int64_t masked_parts = 0;  // documents, or parts of long ones, in which no label counts: they are left out
  std::int64_t masked_labels = 0;
  std::int64_t packed_labels = 0;
  std::int64_t most_documents = 0;  // of a row
  bool operator==(const PackingCounts&) const = default;
};

/// Rows of documents: arrays in memory, or in a file that is mapped.
class Packing {
 public:
  /// `starts`: by row the index of its first document, then their number. `owner` keeps the arrays, and `file`, in
  /// which they lie if there is one.
  Packing(std::span<const std::uint64_t> starts, std::span<const std::uint64_t> begins,
          std::span<const std::uint32_t> labels, const PackingCounts& counts, const Hash128& made_from,
          std::shared_ptr<const void> owner, const MappedFile* file = nullptr);

  std::int64_t rows() const { return std::ssize(starts_) - 1; }
  std::int64_t documents(std::int64_t row) const;                       // in it; parts count
  PackedDocument document(std::int64_t row, std::int64_t index) const;  // in the order of the stream
  const PackingCounts& counts() const { return counts_; }
  /// The hash_of_documents of the stream that was packed.
  const Hash128& made_from() const { return made_from_; }

  std::span<const std::uint64_t> starts() const { return starts_; }
  std::span<const std::uint64_t> begins() const { return begins_; }
  std::span<const std::uint32_t> labels() const { return labels_; }
  /// Throws Error(storage) if the arrays lie in a file of which something was read that it does not hold
  /// (base/mapped_file.hpp). To be called behind each use.
  void require_intact() const;

 private:
  std::span<const std::uint64_t> starts_, begins_;
  std::span<const std::uint32_t> labels_;
  PackingCounts counts_;
  Hash128 made_from_;
  std::shared_ptr<const void> owner_;
  const MappedFile* file_ = nullptr;
};

/// Of where the documents of a split begin, as its shards say now: what is known of them elsewhere, such as a hash of
/// the shards, does not tell what was read. Local; reads all document starts.
Hash128 hash_of_documents(const TokenStream& stream);

/// The row of each document of such costs, by a built-in method, rows numbered as they are opened; of rows of `length`
/// at least the largest cost. Of equal costs the first comes first; of rows that fit equally well, the one that was
/// filled last. Pure.
std::vector<std::uint64_t> place_documents(PackingMethod method, std::span<const std::int64_t> costs,
                                           std::int64_t length);

/// Packs the documents of a split, groups of them on so many threads. Local. Throws Error(usage) unless multiple
/// divides length and both lie between 1 and 2^31 − 1, and for rows of a custom packing that are none, Error(input) if
/// no document has a label that counts and is left, or the split does not begin with a document.
Packing make_packing(const TokenStream& stream, const PackingSettings& settings, int threads);

/// All that says which packing of which documents it is, but for those of a stream that is not known: "best_fit into
/// rows of 64 tokens, groups of 1000 documents, long documents split". Pure.
std::string to_text(const PackingSettings& settings);
/// PackingSettings::multiple of such a text. Pure.
std::int64_t multiple_in(std::string_view text);

}  // namespace lockstep
