// HDF5 as this project uses it: typed contiguous datasets at known byte offsets, a few attributes, no conversion. The
// HDF5 library lays out a file; large payloads are written and read at the datasets' offsets with plain system calls.
// Serial, and safe from several threads. Contents of such files: store/part_file.hpp (checkpoints),
// store/token_shards.hpp (tokens), store/checkpoint_view.hpp (virtual datasets).
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "layout/dtype.hpp"
#include "layout/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A dataset of an open file. bf16 and fp16 are HDF5 float types; fp8 and bool are bytes, named by the attribute
/// `dtype`.
struct Hdf5Dataset {
  std::string path;  // "/model/wte.weight/0:8,0:4"
  Shape shape;
  DType dtype = DType::u8;
  std::uint64_t offset = 0;  // of the first element in the file, bytes; 0 if the dataset has no element
  std::uint64_t bytes = 0;
};

/// Maps elements of a virtual dataset to another file.
struct Hdf5Mapping {
  Box target;           // of the virtual dataset
  std::string file;     // path relative to the folder of the virtual dataset's file
  std::string dataset;  // in that file
  Box source;  // of that dataset, with as many elements in the same order; it may have another number of dimensions
};

/// One open HDF5 file. Writing throws Error(storage) and reading Error(input), with the library's innermost reason.
class Hdf5File {
 public:
  /// Creates a new file in the format of HDF5 1.10 (checksummed metadata, no time stamps: equal content gives equal
  /// bytes). Datasets of 4 KiB or more start at multiples of 4096. Throws Error(storage), also if the file exists.
  static Hdf5File create(const Path& path);
  /// Opens an existing file read-only, without locks. Throws Error(input) if it is not HDF5 or incomplete.
  static Hdf5File open(const Path& path);
  /// Opens `content` as a read-only file; `origin` names it in errors. Throws Error(input) as open does.
  static Hdf5File open_image(std::string_view content, const Path& origin);
  Hdf5File(Hdf5File&& other) noexcept;
  Hdf5File& operator=(Hdf5File&&) = delete;
  ~Hdf5File();

  /// Creates a contiguous dataset whose space is reserved now and never filled; groups of the path are made as needed.
  /// The bytes may then be written with `write`, or by pwrite at the offset once the file is closed.
  Hdf5Dataset create_dataset(const std::string& path, DType dtype, const Shape& shape);
  /// Writes the whole dataset: row-major, little-endian, in its own type.
  void write(const std::string& path, std::span<const std::byte> bytes);
  /// Creates a dataset with this content.
  Hdf5Dataset add(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> bytes);

  /// Creates a dataset without bytes of its own that shows elements of other files. Elements without a source read as
  /// NaN, or as 0 if HDF5 stores the type as integers. Nothing is opened: the sources need not exist.
  void create_virtual(const std::string& path, DType dtype, const Shape& shape, std::span<const Hdf5Mapping> mappings);
  /// Adds another name for the object at path `target`.
  void add_link(const std::string& path, const std::string& target);

  bool has(const std::string& path) const;
  Hdf5Dataset dataset(const std::string& path) const;
  /// Returns all datasets below `group`, by path.
  std::vector<Hdf5Dataset> datasets(const std::string& group = "/") const;
  void read(const std::string& path, std::span<std::byte> out) const;
  /// Returns a dataset of bytes as text.
  std::string read_text(const std::string& path) const;

  /// Sets an attribute of a dataset or group; "/" is the file itself.
  void set_attribute(const std::string& path, const std::string& name, std::string_view value);
  void set_attribute(const std::string& path, const std::string& name, std::int64_t value);
  void set_attribute(const std::string& path, const std::string& name, const Shape& value);

  /// Writes the library's buffers and closes the file; does not fsync. Throws Error(storage), while the destructor
  /// ignores errors.
  void close();

 private:
  Hdf5File(Path path, std::int64_t id, ExitCode blame);
  Path path_;
  std::int64_t id_ = -1;  // hid_t
  ExitCode blame_;        // of this file's errors
};

}  // namespace lockstep
