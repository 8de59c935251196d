// Content sums (base/content_sum.hpp) of the input files. They are added up from the parts that ranks read while
// preparing, remembered while the file's metadata is unchanged, or computed by reading the files on all ranks.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep {

/// FileStamp is the metadata that changes when a file is written. A file with an earlier stamp is considered unchanged.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileStamp&) const = default;
};

/// Returns the stamp of a regular file, or nothing if there is none. Local.
std::optional<FileStamp> stamp_of(const Path& path);
/// Returns the stamp of an input. For an object of an object store it holds the time reported by the store, and a hash
/// of the name in place of the inode.
std::optional<FileStamp> stamp_of(const InputFile& file);

/// ContentMemory keeps sums by stamp in a small JSON file. It trusts a stamp only if it is at least 2 s older than the
/// JSON file: a younger file may have been written again within one tick of the file system's clock.
class ContentMemory {
 public:
  /// Reads the memory at `path`; it is empty if there is no such file or if the file has another form. Local. Throws
  /// Error(storage).
  static ContentMemory read(const Path& path);
  /// Local. Throws Error(storage).
  void write(const Path& path) const;
  void add(const FileStamp& stamp, std::uint64_t sum) { sums_[stamp] = sum; }
  std::optional<std::uint64_t> find(const InputFile& file) const;

 private:
  std::map<FileStamp, std::uint64_t> sums_;
  std::int64_t written_ns_ = 0;
};

/// Returns the memory of files whose stamps were taken before they were read. It omits files that have changed since.
/// Local.
ContentMemory memory_of(const std::vector<InputFile>& files, const std::vector<std::optional<FileStamp>>& stamps,
                        const std::vector<std::uint64_t>& sums);

/// Returns the sums over all ranks of the content that each has read, by file. Collective over `ranks`; their lists
/// have equal lengths.
std::vector<ReadContent> gather_contents(Communicator& ranks, const std::vector<ReadContent>& own);

/// InputSums holds the sums of whole files: known ones, and others that the ranks read, each an equal part of the
/// bytes.
struct InputSums {
  std::vector<std::uint64_t> sums;  // by file
  std::uint64_t bytes_read = 0;     // by all ranks
};
/// Completes the sums; `known` is equal on all ranks. Collective over the session's world. Ends with Error(verdict) on
/// a stop request. Throws Error(input) for a file that has become shorter, Error(storage).
InputSums complete_sums(Session& session, const std::vector<InputFile>& files,
                        const std::vector<std::optional<std::uint64_t>>& known);

}  // namespace lockstep
