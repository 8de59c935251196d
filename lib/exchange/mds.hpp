// Token shards of mosaicml-streaming (MDS): a folder with index.json and files of samples. Each sample is a document.
// Other token files: exchange/token_files.hpp.
#pragma once

#include "exchange/token_files.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

/// Returns whether the path is a folder with an index.json of this format, or that file.
bool is_mds(const Path& path);

/// The tokens of a shard: for each sample that has tokens, the number of its first token and its place in the file.
struct MdsSamples {
  DType dtype = DType::u16;
  std::vector<std::uint64_t> starts;  // in tokens
  std::vector<std::uint64_t> places;  // in bytes
  std::uint64_t end = 0;              // bytes; the end of the last tokens
  std::int64_t tokens = 0;
};

class MdsIndex {
 public:
  /// Reads the index of a folder, or an index.json. Throws Error(input) naming it if it is malformed, or if it has
  /// shards of other formats or versions, compression other than zstd, or no column of tokens.
  explicit MdsIndex(const Path& path);
  ~MdsIndex();
  MdsIndex(MdsIndex&&) noexcept;
  MdsIndex& operator=(MdsIndex&&) noexcept;

  /// Returns the file of each shard; the uncompressed one if there are both. Throws Error(input) naming a file that is
  /// missing, or whose length differs from the index.
  std::vector<TokenFile> files() const;
  /// Reads the samples from the bytes of an uncompressed shard. Throws Error(input) naming file and sample if the bytes
  /// do not match the index.
  MdsSamples samples(const TokenFile& file, std::span<const std::byte> bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
