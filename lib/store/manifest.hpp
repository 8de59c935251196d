// MANIFEST.json, the commit record of a checkpoint: what was saved and by whom. It carries its own hash and that of
// INDEX.h5, which lists files and tensors (store/checkpoint_index.hpp), and is written last: a folder without a valid
// one is no checkpoint. Where the pieces of a tensor lie, the parts say themselves (store/part_table.hpp).
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
inline constexpr std::string_view view_file = "VIEW.h5";  // made from the others at any time: no hash covers it
/// The entry that holds a cell's small values: JSON text as bytes.
inline constexpr std::string_view values_entry = "_values";

/// Neighbours in Manifest::files.
struct FileRange {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const FileRange&) const = default;
};

/// What tells which boxes of a tensor each rank had when it was saved.
enum class TensorHolding { layout, boxes };

struct StoredTensor {
  std::string component;
  std::string cell = {};  // owner; empty for logical tensors, which belong to all
  std::string name;       // within the component; values_entry for the small values of a cell
  Layout layout;          // as it was saved; cell-owned: whole, on the mesh "cell"
  std::vector<std::string> aliases = {};
  Fingerprint fingerprint = {};
  std::vector<FileRange> files = {};              // that have pieces of it, ascending
  bool by_layout = false;                         // each piece lies in the box that the layout gives its writer
  TensorHolding holding = TensorHolding::layout;  // boxes: each rank its own, and the layout is without splits
};
/// "model/wte.weight", "rank=3/rng/state": unique within a checkpoint.
std::string full_name(const StoredTensor& tensor);
bool is_values(const StoredTensor& tensor);

struct StoredComponent {
  std::string key;
  Pattern pattern = Pattern::replicated;
  std::vector<AxisName> equal_along = {};
  bool required = true;
  Validation validation = Validation::tensor;
  Remap remap_policy = Remap::exact;
  std::vector<std::pair<std::string, std::vector<Rank>>> cells = {};  // by name; empty where the only cell is "all"
};

struct StoredFile {
  std::string path;  // within the checkpoint: "replicated/part-0000.h5"
  std::uint64_t bytes = 0;
  Hash128 hash = {};        // store/part_file.hpp says over what
  Hash128 table_hash = {};  // of its table (store/part_table.hpp), which lies there
  TableColumns table = {};
  std::vector<Rank> writers = {};
  std::string node = {};  // on whose own storage it lies; empty: on storage that all share
};

/// A number that checkpoints of a run are compared by, and which of its values are better.
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
  std::vector<NodeRanks> nodes = {};  // that they ran on; empty: not known
  std::vector<StoredComponent> components;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
  Hash128 state_digest;
  std::vector<Metric> metrics;  // what a best checkpoint is chosen by
  std::vector<std::pair<std::string, std::string>>
      documents;  // "config.yaml", "config.json": texts that belong to the state
};

/// One line that names a state: XXH3-128 over "name shape dtype fingerprint" of all tensors and values, sorted. No
/// layout changes it.
Hash128 state_digest(const std::vector<StoredTensor>& tensors);

/// The document's text, ending with its own hash; it names files and tensors by the INDEX.h5 in `files`.
std::string manifest_text(const Manifest& manifest);
/// Without tensors, and of the files with INDEX.h5 alone: add_index brings them. Throws Error(input) naming `origin` if
/// it is no manifest or its own hash does not match, Error(usage) if it is of another format, needs a feature or uses
/// words that this program does not know.
Manifest parse_manifest(const std::string& text, const std::string& origin);
/// Both files. Throws the same, and Error(storage) if one cannot be read or is not there.
Manifest read_manifest(const Path& checkpoint);

/// The ranks that saved, as patterns see them, and back. Pure.
World world_of(const Manifest& manifest);
std::vector<NodeRanks> nodes_of(const World& world);
/// Says which ranks the cells of a component have: they follow from the mesh and the nodes. Pure.
void add_cells(StoredComponent& stored, const World& world);

/// The entry of INDEX.h5. Throws Error(input), without an origin, if there is none.
const StoredFile& index_of(const Manifest& manifest);
/// Throws Error(input) where two tensors have one name, or one is of no component, or a file lies elsewhere.
void check_names(const Manifest& manifest);

const StoredComponent* find_component(const Manifest& manifest, const std::string& key);  // null if absent

}  // namespace lockstep
