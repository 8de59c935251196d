// safetensors, read and written: a file of named tensors behind a JSON header, alone or as shards with an index in a
// folder. A model's folder with its config, names checked against an architecture: exchange/model_folder.hpp.
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

/// The type of a safetensors spelling ("BF16") and back; nothing for types that Lockstep does not have (complex,
/// sub-byte, F8_E8M0).
std::optional<DType> dtype_from_safetensors(std::string_view name);
std::string_view safetensors_name(DType dtype);

/// Where a tensor lies in its file.
struct SafetensorsEntry {
  TensorDescription tensor;
  std::uint64_t begin = 0;  // byte offset in the file, not in the data section
  std::uint64_t end = 0;
};

/// The entries of a header in the order of their data. `bytes` is the whole file; data are not touched.
/// Throws Error(input) naming `origin` and the place for a header that is too long or malformed, unknown types,
/// negative or overflowing shapes, sizes that do not fit, holes, overlaps, duplicates, and bytes behind the last
/// tensor.
std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::byte> bytes, const std::string& origin);

/// The tensors of a .safetensors file, an index (*.safetensors.index.json) or a folder: of its model.safetensors, else
/// of the files that model.safetensors.index.json names, else of model-00001-of-N.safetensors to model-N-of-N. Files
/// are mapped, so only what is read occupies memory. As in transformers, an index only lists files: all their tensors
/// are taken, and of a tensor in several files the one in the last file, in the order of names. Throws Error(input) for
/// a damaged or missing file, and for different tensors of one name in files without an index. Local.
std::unique_ptr<TensorSource> open_safetensors(const Path& path, Remarks& remarks);
std::unique_ptr<TensorSource> open_safetensors(const Path& path);
/// Whether the folder holds files that open_safetensors takes.
bool has_safetensors(const Path& folder);

/// Rows [first, end) of dim 0 of a tensor; of a scalar its only one.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// What one of several writers has of the same files. One of them creates the files, the others join it afterwards and
/// finish before it does.
struct SafetensorsShare {
  enum class Role { creates, joins } role = Role::creates;
  std::string staged_as;       // the same for all of them, and for no other writer in this folder
  std::vector<RowRange> rows;  // of each declared tensor, what this one writes
};

struct SafetensorsOptions {
  std::string stem = "model";                  // model.safetensors, model-00001-of-00002.safetensors
  std::uint64_t shard_bytes = 5'000'000'000;   // a file holds at least one tensor, else at most this many data bytes
  std::optional<SafetensorsShare> share = {};  // nothing: all rows
};

/// Writes declared tensors into an existing folder. Tensors may be interleaved, rows of one tensor come in order. The
/// bytes are a function of the declaration and the data alone. finish() publishes the files under their names, the
/// index last; without it nothing is left. Of a writer that joined another, finish() makes its rows durable.
class SafetensorsWriter : public TensorSink {
 public:
  /// Throws Error(storage), Error(bug) for a name declared twice.
  SafetensorsWriter(const Path& folder, std::vector<TensorDescription> tensors, SafetensorsOptions options = {});
  ~SafetensorsWriter() override;
  void write(const std::string& name, const Box& box, std::span<const std::byte> bytes) override;
  void finish() override;
  /// Names of the files that finish() publishes, the index last if there is one.
  std::vector<std::string> files() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
