// What the files of an input hold, as content sums (base/content_sum.hpp): added up from what ranks read as they
// prepare it, remembered as long as the file system says that a file is the same, or read by all ranks for the sums
// alone.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep {

/// FileStamp is what changes when a file is written: a file with the stamp of an earlier one is taken for that one.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileStamp&) const = default;
};

/// Nothing where no such file is there. Local.
std::optional<FileStamp> stamp_of(const Path& path);
/// The same of an input, which may be an object of a store: that has the time that the store has told, and its name
/// for an inode.
std::optional<FileStamp> stamp_of(const InputFile& file);

/// ContentMemory keeps sums by stamp, in a small file of JSON. It trusts stamps that were some seconds old when it was
/// written: a younger file may have been written again within one tick of the file system's clock.
class ContentMemory {
 public:
  /// What `path` remembers: nothing where there is no such file, or it is another one. Local. Throws Error(storage).
  static ContentMemory read(const Path& path);
  /// Local. Throws Error(storage).
  void write(const Path& path) const;
  void add(const FileStamp& stamp, std::uint64_t sum) { sums_[stamp] = sum; }
  std::optional<std::uint64_t> find(const InputFile& file) const;

 private:
  std::map<FileStamp, std::uint64_t> sums_;
  std::int64_t written_ns_ = 0;
};

/// What is to be remembered of files whose stamps were taken before they were read: those that still have them. Local.
ContentMemory memory_of(const std::vector<InputFile>& files, const std::vector<std::optional<FileStamp>>& stamps,
                        const std::vector<std::uint64_t>& sums);

/// What all ranks have read, by file. Collective over `ranks`, which have lists of one length.
std::vector<ReadContent> gather_contents(Communicator& ranks, const std::vector<ReadContent>& own);

/// The sums of whole files: those that are known, and those that the ranks read here, each its part of all bytes.
struct InputSums {
  std::vector<std::uint64_t> sums;  // by file
  std::uint64_t bytes_read = 0;     // by all ranks
};
/// `known` is equal on all ranks. Collective over the session's world. Ends with Error(verdict) on a request to stop;
/// throws Error(input) for a file that has become shorter, Error(storage).
InputSums complete_sums(Session& session, const std::vector<InputFile>& files,
                        const std::vector<std::optional<std::uint64_t>>& known);

}  // namespace lockstep
