// Reads and writes safetensors: named tensors after a JSON header, in a single file or in shards with an index. Model
// folders with their config, and names checked against an architecture: exchange/model_folder.hpp.
#pragma once

#include "base/files.hpp"
#include "exchange/remarks.hpp"
#include "store/tensor_source.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Converts between types and their safetensors spelling ("BF16"). Returns nothing for types that Lockstep does not
/// have (complex, sub-byte, F8_E8M0).
std::optional<DType> dtype_from_safetensors(std::string_view name);
std::string_view safetensors_name(DType dtype);

/// The place of a tensor in its file.
struct SafetensorsEntry {
  TensorDescription tensor;
  std::uint64_t begin = 0;  // byte offset in the file, not in the data section
  std::uint64_t end = 0;
};

/// Returns the entries of a header, in the order of their data. `bytes` is the whole file; tensor data is not read.
/// Throws Error(input) naming `origin` and the place for a header that is too long or malformed, unknown types,
/// negative or overflowing shapes, wrong sizes, holes, overlaps, duplicates, and bytes after the last tensor.
std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::byte> bytes, const std::string& origin);

/// Opens the tensors of a .safetensors file, an index (*.safetensors.index.json) or a folder. A folder is read through
/// model.safetensors, or model.safetensors.index.json, or model-00001-of-N.safetensors to model-N-of-N. Files are
/// mapped, so only the parts that are read occupy memory. As in transformers, an index only lists files: all tensors of
/// those files are used. If several of them have a tensor, the last file by name counts. Local. Throws Error(input) for
/// a damaged or missing file, and for different tensors of one name in files without an index.
std::unique_ptr<TensorSource> open_safetensors(const Path& path, Remarks& remarks);
std::unique_ptr<TensorSource> open_safetensors(const Path& path);
/// Returns whether the folder holds files that open_safetensors accepts.
bool has_safetensors(const Path& folder);

/// Rows [first, end) of dim 0 of a tensor; a scalar has one row.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// The part of one of several writers of the same files. One writer creates the files; the others join after that and
/// finish before it does.
struct SafetensorsShare {
  enum class Role { creates, joins } role = Role::creates;
  std::string staged_as;       // equal for all of them, and unique in this folder
  std::vector<RowRange> rows;  // rows of this writer, for each declared tensor
};

struct SafetensorsOptions {
  std::string stem = "model";                  // model.safetensors, model-00001-of-00002.safetensors
  std::uint64_t shard_bytes = 5'000'000'000;   // a file holds at least one tensor, else at most this many data bytes
  std::optional<SafetensorsShare> share = {};  // not set: all rows
};

/// Writes declared tensors into an existing folder. Tensors may be interleaved; rows of one tensor come in order. The
/// bytes depend only on the declaration and the data. finish() publishes the files under their names, the index last;
/// without it no file is left. For a writer that joined, finish() makes its rows durable.
class SafetensorsWriter : public TensorSink {
 public:
  /// Throws Error(storage), and Error(bug) for a name that is declared twice.
  SafetensorsWriter(const Path& folder, std::vector<TensorDescription> tensors, SafetensorsOptions options = {});
  ~SafetensorsWriter() override;
  void write(const std::string& name, const Box& box, std::span<const std::byte> bytes) override;
  void finish() override;
  /// Returns the names of the files that finish() publishes; the index, if any, is last.
  std::vector<std::string> files() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
