// Files that appear complete or not at all, read whole or mapped; directories made, listed and synchronised.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

using Path = std::filesystem::path;

/// The bytes of a file. Throws Error(input) if it does not exist, Error(storage) if it cannot be read.
std::string read_file(const Path& path);

/// Writes beside the target, synchronises, renames over it, synchronises the folder: readers see the old file or the
/// whole new one. Throws Error(storage); the target is then untouched and nothing is left behind.
void publish_file(const Path& path, std::string_view content);

/// Creates the folder and its parents. Throws Error(storage).
void make_folder(const Path& path);

/// fsync of a folder, so that names created or renamed in it survive a crash. Throws Error(storage).
void sync_folder(const Path& path);

/// rename(2) and fsync of the parent of the target. Throws Error(storage).
void publish_rename(const Path& from, const Path& to);

/// An owned file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  int release();
  /// Closes now. Throws Error(storage) if close reports a lost write.
  void close(const Path& path);

 private:
  int fd_ = -1;
};

/// open(2) with errors as Error(storage), or Error(input) where a file to be read does not exist.
FileDescriptor open_file(const Path& path, int flags, int mode = 0666);
/// All of `bytes` at `offset`; short writes are continued. Throws Error(storage).
void write_at(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset, const Path& path);
/// Fills `bytes` from `offset`. Throws Error(storage), Error(input) if the file is too short.
void read_at(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path);
void sync_file(const FileDescriptor& file, const Path& path);

/// A file mapped read-only for the life of the object.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
