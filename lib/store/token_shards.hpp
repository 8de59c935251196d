// A prepared dataset on disk: FOLDER/DATASET.json, written last, and FOLDER/{train,validation}/tokens-NNNNN.h5. A split
// is one stream of tokens, documents joined by the end-of-text token, cut into shards of equal length; shards are
// mapped and read in place. Who makes them from text: data/prepare.hpp. Which tokens a training step takes:
// data/data_loader.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json_fwd.hpp"
#include "config/special_tokens.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep {

enum class DataSplit { train, validation };
std::string_view name_of(DataSplit split);  // "train", "validation": also the folder's name

struct ShardEntry {
  std::string file;  // within the dataset's folder: "train/tokens-00000.h5"
  std::int64_t tokens = 0;
  std::int64_t documents = 0;  // that start in this shard
  std::uint64_t bytes = 0;     // of the file
  Hash128 hash;                // of the file
};

struct SplitEntry {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::uint64_t text_bytes = 0;  // UTF-8 bytes that were encoded
  std::vector<ShardEntry> shards;
};

/// The manifest is what DATASET.json says.
struct DatasetManifest {
  std::string tokenizer;  // its name
  Hash128 tokenizer_hash;
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;
  SpecialTokens special_tokens = SpecialTokens::special;  // how those that documents spell out were read
  std::int64_t shard_tokens = 0;                          // of every shard of a split but the last
  std::string options;                                    // JSON text of what made it, for people and for look-up
  std::string inputs = "null";                            // JSON text of what it was made from, likewise
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

/// A contiguous run of tokens in a mapped shard.
using TokenRun = std::variant<std::span<const std::uint16_t>, std::span<const std::uint32_t>>;

/// A split, mapped read-only: random access to tokens and document starts. Local; many threads may read.
class TokenStream {
 public:
  /// Opens all shards of the split and checks counts and file sizes against the manifest. Throws Error(input) naming
  /// the file.
  TokenStream(const Path& folder, const DatasetManifest& manifest, DataSplit split);
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;

  std::int64_t tokens() const;
  std::int64_t documents() const;
  /// Tokens [begin, begin + n) with the largest n ≤ count that one shard holds; begin < tokens(). In place, nothing is
  /// copied.
  TokenRun run(std::int64_t begin, std::int64_t count) const;
  /// Fills `out` with the tokens from `begin`, across shards. Throws Error(bug) beyond the end.
  void copy(std::int64_t begin, std::span<std::int32_t> out) const;
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

/// Writes one shard: exactly `tokens` tokens and `documents` starts, announced beforehand, appended in order. The file
/// is whole and synchronised after finish; a writer that is destroyed before leaves an unfinished file, which belongs
/// into a staging folder.
class ShardWriter {
 public:
  ShardWriter(const Path& path, int token_bytes, std::int64_t tokens, std::int64_t documents);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;
  /// A document starts at the token appended next.
  void start_document();
  void append(std::span<const std::uint32_t> tokens);
  /// Throws Error(storage), Error(bug) if counts differ from the announced ones. `file` of the result is left empty.
  ShardEntry finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
