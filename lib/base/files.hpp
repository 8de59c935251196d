// Access to the file system: files that are published completely or not at all, read whole or mapped; folders that are
// created, listed, synchronised and removed. All code uses these functions, so failures are reported as Error, with the
// name and the reason given by the system. Files that a program keeps in a folder: base/own_files.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

using Path = std::filesystem::path;

/// FileKind is the kind of object under a name.
enum class FileKind { nothing, file, folder, link, other };
/// Returns the kind of the object at `path`. Follows links; a dangling link is `nothing`. Throws Error(storage) if the
/// system cannot tell: no permission, a loop of links, a name too long, a failing disk.
FileKind kind_of(const Path& path);
/// Returns the kind of the name itself: a link is a link. Throws as kind_of does.
FileKind kind_of_name(const Path& path);
bool is_there(const Path& path);   // kind_of(path) is not `nothing`
bool is_folder(const Path& path);  // kind_of(path) is `folder`

/// Returns the entries of a folder, sorted by name. Throws Error(storage), also if there is no such folder.
std::vector<Path> list_folder(const Path& folder);

/// Removes the object under the name: a folder with its contents, a link without its target. Throws Error(storage).
void remove_tree(const Path& path);
/// Removes the object as remove_tree does; returns false if something is left.
bool try_remove_tree(const Path& path) noexcept;
/// Removes the object as remove_tree does, one file at a time, and a large file in pieces of `step` bytes, because some
/// file systems block while they free a large file. Calls `between` after each; an exception of it ends the removal.
/// Throws Error(storage).
void remove_tree_in_steps(const Path& path, std::uint64_t step, const std::function<void()>& between);

/// Returns the absolute path without ".", ".." and a trailing slash. Throws Error(usage) for an empty path.
Path absolute_path(const Path& path);
/// Returns whether both names lead to one file or folder; false if one leads nowhere. Throws Error(storage).
bool is_same(const Path& a, const Path& b);

/// Returns the bytes of a regular file. Throws Error(input) if it does not exist or is not a regular file,
/// Error(storage) if it cannot be read.
std::string read_file(const Path& path);

/// Writes a temporary file beside the target, synchronises it, renames it over the target, and synchronises the folder:
/// readers see the old file or the complete new one. Throws Error(storage); then the target is unchanged and no
/// temporary file is left.
void publish_file(const Path& path, std::string_view content);

/// Creates the folder and its parents; new names survive a crash. Throws Error(storage).
void make_folder(const Path& path);

/// Calls fsync on a folder, so that names created or renamed in it survive a crash. Throws Error(storage).
void sync_folder(const Path& path);

/// Calls rename(2), and fsync on the parent of the target. Throws Error(storage).
void publish_rename(const Path& from, const Path& to);
/// Renames to a name that does not exist yet. If the new name may not survive a crash, the rename is undone. Throws
/// Error(storage).
void durable_rename(const Path& from, const Path& to);
/// Exchanges two names in one step; returns false if the file system cannot. The exchange is undone if it may not
/// survive a crash. Throws Error(storage).
bool durable_exchange(const Path& from, const Path& to);

/// FileDescriptor owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  int release();
  /// Closes it now. Throws Error(storage) if close reports a lost write.
  void close(const Path& path);

 private:
  int fd_ = -1;
};

/// Calls open(2). Throws Error(input) if a file to be read does not exist, else Error(storage).
FileDescriptor open_file(const Path& path, int flags, int mode = 0666);
/// Opens a regular file for reading without blocking. Throws Error(input) if there is none, if it is a folder, FIFO or
/// device, or if it is a pointer of Git LFS; Error(storage).
FileDescriptor open_regular(const Path& path);
/// Opens a file as open_regular does; returns nothing if nothing has the name.
std::optional<FileDescriptor> open_if_there(const Path& path);
/// Returns the length of a regular file, or nothing if nothing has the name. Throws Error(input) if it is not a regular
/// file, Error(storage) if the system cannot tell.
std::optional<std::uint64_t> length_of(const Path& path);
/// Writes all of `bytes` at `offset`; short writes are continued. Throws Error(storage).
void write_at(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset, const Path& path);
/// Fills `bytes` from `offset`. Throws Error(storage), Error(input) if the file is too short.
void read_at(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path);
void sync_file(const FileDescriptor& file, const Path& path);

/// MappedFile maps a regular file read-only for the life of the object. Errors while reading it: base/mapped_file.hpp.
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
