// Files that appear complete or not at all, read whole or mapped; folders made, listed, synchronised and removed. All
// that the project asks of the file system beyond paths goes through here: errors come as Error, with the name and the
// reason of the system.
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

/// What stands under a name.
enum class FileKind { nothing, file, folder, link, other };
/// Links are followed; one that leads nowhere is `nothing`. Throws Error(storage) where the system does not say: no
/// permission, a loop of links, a name too long, a failing disk.
FileKind kind_of(const Path& path);
/// The same of the name itself: a link is a link.
FileKind kind_of_name(const Path& path);
bool is_there(const Path& path);   // kind_of(path) is not `nothing`
bool is_folder(const Path& path);  // kind_of(path) is `folder`

/// What a folder holds, in the order of names. Throws Error(storage), also if there is no such folder.
std::vector<Path> list_folder(const Path& folder);

/// Removes what stands under the name, folders with all they hold, of links the link only. Throws Error(storage).
void remove_tree(const Path& path);
/// The same where nothing depends on it: false if something is left.
bool try_remove_tree(const Path& path) noexcept;
/// The same, a file at a time and a large one by `step` bytes at a time: some file systems stand still while they free
/// a large file. Calls `between` after each; what it throws ends the removal. Throws Error(storage).
void remove_tree_in_steps(const Path& path, std::uint64_t step, const std::function<void()>& between);

/// Absolute, without "." and ".." and without a slash at the end. Throws Error(usage) for an empty path.
Path absolute_path(const Path& path);
/// Whether both names lead to one file or folder; false if one leads nowhere. Throws Error(storage).
bool is_same(const Path& a, const Path& b);

/// The bytes of a regular file. Throws Error(input) if it does not exist or is something else, Error(storage) if it
/// cannot be read.
std::string read_file(const Path& path);

/// Writes beside the target, synchronises, renames over it, synchronises the folder: readers see the old file or the
/// whole new one. Throws Error(storage); the target is then untouched and nothing is left behind.
void publish_file(const Path& path, std::string_view content);

/// Creates the folder and its parents; the names of new ones survive a crash. Throws Error(storage).
void make_folder(const Path& path);

/// fsync of a folder, so that names created or renamed in it survive a crash. Throws Error(storage).
void sync_folder(const Path& path);

/// rename(2) and fsync of the parent of the target. Throws Error(storage).
void publish_rename(const Path& from, const Path& to);
/// The same to a name that nothing has: where the new name may not survive a crash, it is taken back.
void durable_rename(const Path& from, const Path& to);
/// Exchanges two names in one step; false where the file system cannot. Exchanged back where it may not survive a
/// crash. Throws Error(storage).
bool durable_exchange(const Path& from, const Path& to);

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
/// A file to be read, never waiting for one. Throws Error(input) if there is none, or what is no regular file: a
/// folder, a FIFO, a device, or if it is a pointer of Git LFS; Error(storage).
FileDescriptor open_regular(const Path& path);
/// The same; nothing if nothing has the name.
std::optional<FileDescriptor> open_if_there(const Path& path);
/// The length of a regular file; nothing if nothing has the name. Throws Error(input) for what is no regular file,
/// Error(storage) if the system does not say.
std::optional<std::uint64_t> length_of(const Path& path);
/// All of `bytes` at `offset`; short writes are continued. Throws Error(storage).
void write_at(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset, const Path& path);
/// Fills `bytes` from `offset`. Throws Error(storage), Error(input) if the file is too short.
void read_at(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path);
void sync_file(const FileDescriptor& file, const Path& path);

/// A regular file mapped read-only for the life of the object.
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
