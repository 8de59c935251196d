// A prepared dataset on disk: FOLDER/DATASET.json, written last, and FOLDER/{train,validation}/tokens-NNNNN.h5. A split
// is one stream of tokens, documents one after the other, cut into shards; a shard is mapped when it is first read.
// Shards of our own are equally long; others lie in place, as a part of a token file that another program wrote.
// Documents of text are joined by the end-of-text token; those made of records stand back to back, and a mask says
// which of their tokens may count as labels. Who makes them: data/prepare.hpp. Which tokens a training step takes:
// data/data_loader.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json_fwd.hpp"
#include "config/special_tokens.hpp"
#include "layout/dtype.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class DataSplit { train, validation };
std::string_view name_of(DataSplit split);  // "train", "validation": also the folder's name

/// Where the tokens of a shard lie in a file of another program, which stays as it is. Where its documents start stands
/// in a file of ours.
struct OutsideTokens {
  std::uint64_t offset = 0;          // of the first of the bytes in which the tokens lie
  std::uint64_t extent = 0;          // how many these are
  DType dtype = DType::u16;          // an integer, little-endian
  bool apart = false;                // other bytes lie between documents, of which each starts where `documents` says
  std::string documents;             // HDF5, within the dataset's folder: "train/documents-00000.h5"
  std::uint64_t document_bytes = 0;  // of that file
  Hash128 document_hash = {};        // of that file
};

struct ShardEntry {
  std::string
      file;  // within the dataset's folder: "train/tokens-00000.h5"; outside of it "../corpus.bin", "/data/a.bin"
  std::int64_t first_token = 0;  // of the stream
  std::int64_t tokens = 0;
  std::int64_t first_document = 0;            // that starts here or behind
  std::int64_t documents = 0;                 // that start in this shard
  std::uint64_t bytes = 0;                    // of the file
  Hash128 hash;                               // of the file, or of the bytes in it that are the shard's
  std::optional<OutsideTokens> outside = {};  // absent: a shard of our own
};

struct SplitEntry {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::uint64_t text_bytes = 0;  // UTF-8 bytes that were encoded
  std::vector<ShardEntry> shards;
};

/// TokenMasks says whether shards hold a mask: a byte for each token, 1 where it may count as a label, else 0.
enum class TokenMasks {
  absent,  // every token may
  present,
};

/// Sets where each shard begins, from what the shards before it hold.
void number_shards(SplitEntry& split);
/// Adds what tells the content of a split from any other: hashes of all its shards.
void add_content(StreamHash& hash, const SplitEntry& split);

/// The manifest is what DATASET.json says.
struct DatasetManifest {
  std::string tokenizer;  // its name
  Hash128 tokenizer_hash;
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;
  SpecialTokens special_tokens = SpecialTokens::special;  // how those that documents spell out were read
  std::int64_t shard_tokens = 0;                          // of every shard of a split but the last; outside, at most
  TokenMasks masks = TokenMasks::absent;
  std::string options;              // JSON text of what made it, for people and for look-up
  std::string inputs = "null";      // JSON text of what it was made from, likewise
  std::optional<Hash128> key = {};  // of all that decided its bytes (data/preparation_key.hpp); absent: none is known
  SplitEntry train;
  SplitEntry validation;

  const SplitEntry& of(DataSplit split) const { return split == DataSplit::train ? train : validation; }
  int token_bytes() const { return vocabulary <= 65536 ? 2 : 4; }
};

/// With a hash of itself as the last member.
std::string to_text(const DatasetManifest& manifest);
/// Throws Error(input) if FOLDER/DATASET.json is absent, malformed, of another version or damaged.
DatasetManifest read_dataset_manifest(const Path& folder);

/// Checks one shard as a whole: size, datasets and hash. Throws Error(input) naming the file and what is wrong,
/// Error(storage).
void verify_shard_file(const Path& folder, const DatasetManifest& manifest, const ShardEntry& shard);

/// A split: random access to tokens and document starts. A shard is opened, and compared with the manifest, when it is
/// first read: Error(input) then names a file that is not there or not what the manifest says. Local; many threads may
/// read.
class TokenStream {
 public:
  static constexpr std::size_t most_mapped = 4096;  // shards at a time: a process has no end of mappings

  /// Opens no shard. Throws Error(input) if the counts of the shards do not make up those of the split.
  TokenStream(const Path& folder, const DatasetManifest& manifest, DataSplit split);
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;

  std::int64_t tokens() const;
  std::int64_t documents() const;
  /// Fills `out` with the tokens from `begin`, across shards. Throws Error(bug) beyond the end.
  void copy(std::int64_t begin, std::span<std::int32_t> out) const;
  TokenMasks masks() const;
  /// Fills `out` with 1 for each token from `begin` on that may count as a label, 0 for others. Throws Error(bug)
  /// beyond the end.
  void copy_mask(std::int64_t begin, std::span<std::uint8_t> out) const;
  /// Stream positions in [begin, end) at which a document starts, ascending.
  std::vector<std::int64_t> document_starts(std::int64_t begin, std::int64_t end) const;
  std::int64_t shards() const;
  std::int64_t shard_at(std::int64_t position) const;  // the number of the shard that holds the token
  /// Reads every byte of a shard's file and compares its hash; ends early once `given_up` says so. Throws Error(input)
  /// naming a damaged file, Error(storage).
  void verify_shard(std::int64_t shard, const std::function<bool()>& given_up = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes where the documents of tokens outside start: `starts`, counted in tokens from the shard's first, and, if they
/// lie apart, the bytes of the file at which they do. Durable; sets the members of `outside` that tell of the file, but
/// its name. Throws Error(storage).
void write_document_starts(const Path& path, std::span<const std::uint64_t> starts,
                           std::span<const std::uint64_t> places, OutsideTokens& outside);

/// Makes the file of a shard, whose tokens and document starts ShardWriters then write. Throws Error(storage).
void create_shard(const Path& path, int token_bytes, std::int64_t tokens, std::int64_t documents,
                  TokenMasks masks = TokenMasks::absent);

/// Writes consecutive tokens of a shard and the documents that start there; several processes may write one shard. What
/// was written is durable after finish.
class ShardWriter {
 public:
  /// From token `first_token` of the shard on; the first document that starts is its `first_document`-th.
  ShardWriter(const Path& path, std::int64_t first_token, std::int64_t first_document);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;
  /// A document starts at the token appended next.
  void start_document();
  /// `mask`: of each token, where the shard has masks; else empty. Throws Error(bug) for more tokens than the shard
  /// has, Error(storage).
  void append(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> mask = {});
  /// Returns the content_sum of the bytes that were written, where they stand in the file (base/content_sum.hpp).
  /// Throws Error(storage), Error(bug) for more documents than the shard has.
  std::uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The entry of a shard that is written: counts, size and hash of its file. Other members are left to the caller.
/// `written` is the sum of what its writers returned: a file system that is not coherent loses bytes of one of several,
/// and no hash would tell. `alive` is called as the reading gets on. Throws Error(storage).
ShardEntry describe_shard(const Path& path, std::uint64_t written, const std::function<void()>& alive = {});

}  // namespace lockstep
