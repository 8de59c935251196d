// MANIFEST.json is the commit record of a checkpoint: the saved state and its ranks. It has its own hash and the hash
// of INDEX.h5, which lists files and tensors (store/checkpoint_index.hpp). It is written last; a folder without a valid
// manifest is not a checkpoint. The places of pieces are listed in the parts themselves (store/part_table.hpp).
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "store/component.hpp"
#include "store/fingerprint.hpp"
#include "store/part_table.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

inline constexpr std::string_view manifest_file = "MANIFEST.json";
inline constexpr std::string_view index_file = "INDEX.h5";
inline constexpr std::string_view view_file = "VIEW.h5";  // made from the others at any time; no hash covers it
/// The entry that holds a cell's small values: JSON text as bytes.
inline constexpr std::string_view values_entry = "_values";

/// A range of Manifest::files.
struct FileRange {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const FileRange&) const = default;
};

/// Says how the boxes of each rank at the time of the save are known.
enum class TensorHolding { layout, boxes };

struct StoredTensor {
  std::string component;
  std::string cell = {};  // owner; empty for logical tensors, which belong to all
  std::string name;       // within the component; values_entry for the small values of a cell
  Layout layout;          // as it was saved; cell-owned: whole, on the mesh "cell"
  std::vector<std::string> aliases = {};
  Fingerprint fingerprint = {};
  std::vector<FileRange> files = {};              // with pieces of it, ascending
  bool by_layout = false;                         // each piece lies in the box that the layout gives its writer
  TensorHolding holding = TensorHolding::layout;  // boxes: each rank has boxes of its own, and the layout has no splits
};
/// Returns "model/wte.weight", "rank=3/rng/state": unique within a checkpoint.
std::string full_name(const StoredTensor& tensor);
bool is_values(const StoredTensor& tensor);

struct StoredComponent {
  std::string key;
  Pattern pattern = Pattern::replicated;
  std::vector<AxisName> equal_along = {};
  bool required = true;
  Validation validation = Validation::tensor;
  Remap remap_policy = Remap::exact;
  std::vector<std::pair<std::string, std::vector<Rank>>> cells = {};  // by name; empty if the only cell is "all"
};

struct StoredFile {
  std::string path;  // within the checkpoint: "replicated/part-0000.h5"
  std::uint64_t bytes = 0;
  Hash128 hash = {};        // defined in store/part_file.hpp
  Hash128 table_hash = {};  // of the table in it (store/part_table.hpp)
  TableColumns table = {};
  std::vector<Rank> writers = {};
  std::string node = {};  // node that has it on storage of its own; empty: shared storage
};

/// A number by which checkpoints of a run are compared, and which of its values are better.
struct Metric {
  std::string name;  // "validation_loss"
  double value = 0;
  bool higher_is_better = false;
};

struct NodeRanks {
  std::string name;
  std::vector<Rank> ranks;  // ascending
};

struct Manifest {
  int format = 2;
  std::int64_t step = 0;
  std::string uuid;
  std::string created;                // UTC
  std::string software;               // "lockstep 0.1.0"
  Mesh mesh;                          // of the ranks that saved
  std::vector<NodeRanks> nodes = {};  // nodes of these ranks; empty: not known
  std::vector<StoredComponent> components;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
  Hash128 state_digest;
  std::vector<Metric> metrics;  // they select the best checkpoint
  /// "config.yaml", "config.json": texts that belong to the state.
  std::vector<std::pair<std::string, std::string>> documents;
};

/// Returns a digest of the state: XXH3-128 over "name shape dtype fingerprint" of all tensors and values, sorted. It
/// does not depend on layouts.
Hash128 state_digest(const std::vector<StoredTensor>& tensors);

/// Returns the document's text, ending with its own hash. It refers to files and tensors by the INDEX.h5 in `files`.
std::string manifest_text(const Manifest& manifest);
/// Returns a manifest without tensors and with INDEX.h5 as its only file; add_index brings the others. Throws
/// Error(input) naming `origin` if it is not a manifest or its own hash does not match, Error(usage) if it has another
/// format, needs an unknown feature or uses unknown words.
Manifest parse_manifest(const std::string& text, const std::string& origin);
/// Reads both files. Throws the same, and Error(storage) if one cannot be read or does not exist.
Manifest read_manifest(const Path& checkpoint);

/// Convert between the manifest's ranks and nodes and a World. Pure.
World world_of(const Manifest& manifest);
std::vector<NodeRanks> nodes_of(const World& world);
/// Sets the ranks of a component's cells, which follow from the mesh and the nodes. Pure.
void add_cells(StoredComponent& stored, const World& world);

/// Returns the entry of INDEX.h5. Throws Error(input), without an origin, if there is none.
const StoredFile& index_of(const Manifest& manifest);
/// Throws Error(input) if two tensors have one name, a tensor has no component, or a file lies outside of the folder.
void check_names(const Manifest& manifest);

const StoredComponent* find_component(const Manifest& manifest, const std::string& key);  // null if there is none

}  // namespace lockstep
