// A prepared dataset on disk: FOLDER/DATASET.json, written last, and FOLDER/{train,validation}/tokens-NNNNN.h5. A split
// is one stream of tokens, document after document, cut into shards; a shard is mapped when it is first read. Our own
// shards are equally long; others are parts of a token file of another program, which is read in place. Text documents
// are joined by the end-of-text token. Documents made of records follow each other without it, and a mask marks the
// tokens that may count as labels. Making a dataset: prepare/prepare.hpp. The tokens of a training step:
// data/data_loader.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json_fwd.hpp"
#include "layout/dtype.hpp"
#include "tokenizer/special_tokens.hpp"

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

/// The tokens of a shard in a file of another program, which is not changed. A file of ours holds the document starts.
struct OutsideTokens {
  std::uint64_t offset = 0;  // of the first byte of the range that holds the tokens
  std::uint64_t extent = 0;  // bytes in that range
  DType dtype = DType::u16;  // an integer, little-endian
  /// Whether other bytes lie between documents; `documents` then also gives the position of each in the file.
  bool apart = false;
  std::string documents;             // HDF5, within the dataset's folder: "train/documents-00000.h5"
  std::uint64_t document_bytes = 0;  // of that file
  Hash128 document_hash = {};        // of that file
};

struct ShardEntry {
  /// Within the dataset's folder: "train/tokens-00000.h5"; outside of it: "../corpus.bin", "/data/a.bin".
  std::string file;
  std::int64_t first_token = 0;  // of the stream
  std::int64_t tokens = 0;
  std::int64_t first_document = 0;            // that starts here or later
  std::int64_t documents = 0;                 // that start in this shard
  std::uint64_t bytes = 0;                    // of the file
  Hash128 hash;                               // of the file, or of the shard's bytes in it
  std::optional<OutsideTokens> outside = {};  // not set: a shard of our own
};

struct SplitEntry {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::uint64_t text_bytes = 0;  // UTF-8 bytes that were encoded
  std::vector<ShardEntry> shards;
};

/// Says whether shards hold a mask: a byte for each token, 1 if it may count as a label, else 0.
enum class TokenMasks {
  absent,  // every token may
  present,
};

/// Sets the start of each shard from the counts of the shards before it.
void number_shards(SplitEntry& split);
/// Adds the hashes of all shards, which identify the content of a split.
void add_content(StreamHash& hash, const SplitEntry& split);

/// The content of DATASET.json.
struct DatasetManifest {
  std::string tokenizer;  // its name
  Hash128 tokenizer_hash;
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;
  SpecialTokens special_tokens = SpecialTokens::special;  // how special tokens spelled out in documents were read
  std::int64_t shard_tokens = 0;                          // of every shard of a split but the last; outside, at most
  TokenMasks masks = TokenMasks::absent;
  std::string options;          // JSON text of the options that made it, for people and for look-up
  std::string inputs = "null";  // JSON text of its inputs, likewise
  std::optional<Hash128> key =
      {};  // of everything that decides its bytes (prepare/preparation_key.hpp); not set: unknown
  SplitEntry train;
  SplitEntry validation;

  const SplitEntry& of(DataSplit split) const { return split == DataSplit::train ? train : validation; }
  int token_bytes() const { return vocabulary <= 65536 ? 2 : 4; }
};

/// Returns the JSON text, with its own hash as the last member.
std::string to_text(const DatasetManifest& manifest);
/// Reads the manifest. Throws Error(input) if FOLDER/DATASET.json is missing, malformed, of another version or damaged.
DatasetManifest read_dataset_manifest(const Path& folder);

/// Checks one whole shard: size, datasets and hash. Throws Error(input) naming the file and the defect, Error(storage).
void verify_shard_file(const Path& folder, const DatasetManifest& manifest, const ShardEntry& shard);

/// Random access to the tokens and document starts of a split. A shard is opened, and compared with the manifest, when
/// it is first read; Error(input) then names a file that is missing or differs from the manifest. Several threads may
/// read. Local.
class TokenStream {
 public:
  static constexpr std::size_t most_mapped = 4096;  // shards at a time; a process has a limited number of mappings

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
  /// Returns the stream positions in [begin, end) at which a document starts, ascending.
  std::vector<std::int64_t> document_starts(std::int64_t begin, std::int64_t end) const;
  std::int64_t shards() const;
  std::int64_t shard_at(std::int64_t position) const;  // the number of the shard that holds the token
  /// Reads every byte of a shard's file and compares its hash; ends early once `given_up` returns true. Throws
  /// Error(input) naming a damaged file, Error(storage).
  void verify_shard(std::int64_t shard, const std::function<bool()>& given_up = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes the document starts of a shard in another program's file: `starts`, in tokens from the shard's first, and, if
/// the documents lie apart, their byte positions in the file, `places`. Durable. Sets the members of `outside` that
/// describe the written file, except its name. Throws Error(storage).
void write_document_starts(const Path& path, std::span<const std::uint64_t> starts,
                           std::span<const std::uint64_t> places, OutsideTokens& outside);

/// Makes the file of a shard; ShardWriters then write its tokens and document starts. Throws Error(storage).
void create_shard(const Path& path, int token_bytes, std::int64_t tokens, std::int64_t documents,
                  TokenMasks masks = TokenMasks::absent);

/// Writes consecutive tokens of a shard and the documents that start there; several processes may write one shard. The
/// written data is durable after finish.
class ShardWriter {
 public:
  /// Writes from token `first_token` of the shard on; the first document that starts is its `first_document`-th.
  ShardWriter(const Path& path, std::int64_t first_token, std::int64_t first_document);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;
  /// Starts a document at the next appended token.
  void start_document();
  /// Appends tokens. `mask` has one entry for each token if the shard has masks; else it is empty. Throws Error(bug)
  /// for more tokens than the shard has, Error(storage).
  void append(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> mask = {});
  /// Returns the content_sum of the written bytes at their place in the file (base/content_sum.hpp). Throws
  /// Error(storage), Error(bug) for more documents than the shard has.
  std::uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the entry of a written shard: counts, size and hash of its file; the caller sets the other members.
/// `written` is the sum of its writers' results: it detects an incoherent file system that loses bytes of one of
/// several writers, which no hash would show. `alive` is called as the reading proceeds. Throws Error(storage).
ShardEntry describe_shard(const Path& path, std::uint64_t written, const std::function<void()>& alive = {});

}  // namespace lockstep
