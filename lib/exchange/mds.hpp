// Tokens in the shards of mosaicml-streaming (MDS): a folder with index.json and files of samples, each of which is a
// document. Other token files: exchange/token_files.hpp.
#pragma once

#include "exchange/token_files.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

/// Whether the path is a folder with an index.json of this format, or that file.
bool is_mds(const Path& path);

/// Where the tokens of a shard lie: of each sample the number of its first token and its place in the file.
struct MdsSamples {
  DType dtype = DType::u16;
  std::vector<std::uint64_t> starts;  // in tokens
  std::vector<std::uint64_t> places;  // in bytes
  std::uint64_t end = 0;              // in bytes, of the last one
  std::int64_t tokens = 0;
};

class MdsIndex {
 public:
  /// Of the folder, or the index.json. Throws Error(input) naming it for a malformed one, shards of other formats and
  /// versions, compression but zstd, and columns none of which holds tokens.
  explicit MdsIndex(const Path& path);
  ~MdsIndex();
  MdsIndex(MdsIndex&&) noexcept;
  MdsIndex& operator=(MdsIndex&&) noexcept;

  /// Of each shard the file, the uncompressed one where both are there. Throws Error(input) naming a file that is not
  /// there, or not as long as the index says.
  std::vector<TokenFile> files() const;
  /// Of the bytes of an uncompressed shard. Throws Error(input) naming the file, with the sample, for what is no whole
  /// shard as the index describes it.
  MdsSamples samples(const TokenFile& file, std::span<const std::byte> bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
