// A component declares state that belongs to a checkpoint: its source, and the ranks that hold it identically. The
// ranks form cells: the state is equal within a cell and differs between cells. The declarations are used by
// checkpoint/save.hpp and checkpoint/load_checkpoint.hpp.
#pragma once

#include "layout/mesh.hpp"
#include "store/state_tree.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Logical tensors (global, replicated, per_group) are addressed by name and box, independent of their holders. Tensors
/// of per_rank and per_node components, and all small values, belong to a cell.
enum class Pattern {
  global,      // one value for the job, kept by rank 0; every rank gets it back
  replicated,  // equal on all ranks, compared at each save; all ranks share the writing
  per_rank,    // each rank has its own
  per_group,   // equal along the named mesh axes: a cell is the ranks that agree on all other axes
  per_node,    // equal within a machine
};
std::string_view name_of(Pattern pattern);  // "global", …: also the folder's name in a checkpoint
std::optional<Pattern> parse_pattern(std::string_view name);

/// Returns whether tensors of such a component belong to a cell, as its values do.
inline bool cell_owned(Pattern pattern) { return pattern == Pattern::per_rank || pattern == Pattern::per_node; }

/// Says how deeply a save compares the ranks of a cell.
enum class Validation {
  none,     // not at all
  quick,    // shapes, and the ends of each tensor
  rolling,  // a share of each tensor, in turn, so that a series of saves compares all of it
  tensor,   // fingerprints of all elements
  full,     // fingerprints and content hashes
};
std::string_view name_of(Validation validation);
std::optional<Validation> parse_validation(std::string_view name);

/// The share that one save compares at Validation::rolling: number `number` of `of` shares.
struct RollingShare {
  std::uint64_t number = 0;  // counted from 0
  std::uint64_t of = 1;
};

/// Says how a load handles cell-owned state if its cells differ from those of the save. Ranks of another mesh form
/// other cells, even if their number is the same.
enum class Remap {
  exact,         // the load is refused
  derive,        // the provider computes it from seed and rank; `remap` is called without cells
  redistribute,  // the provider gets the values and tensors of all cells
  drop,          // the fresh state stays; also if logical tensors are named by cell and the names differ
};
std::string_view name_of(Remap remap);
std::optional<Remap> parse_remap(std::string_view name);

struct StoredCellTensor {
  std::string name;  // within the component
  Shape shape;
  DType dtype = DType::f32;
  std::function<std::vector<std::byte>()> read;  // its bytes, checked. Throws Error(input), Error(storage)
};

struct StoredCell {
  std::string name;  // "rank=3", "pp=0,tp=2", "node=1"
  StateTree values;  // without tensors
  std::vector<StoredCellTensor> tensors = {};
};

struct Component {
  std::string key;  // "model", "optimizer", …: a lower-case word
  Pattern pattern = Pattern::replicated;
  std::vector<AxisName> equal_along = {};  // of per_group; empty: each rank is a cell
  bool required = true;                    // a checkpoint without it cannot be loaded
  Validation validation = Validation::tensor;
  Remap remap_policy = Remap::exact;
  /// Returns the state of this rank. Called by each save and load; the spans stay valid until that returns. Must not
  /// communicate. Local.
  std::function<StateTree()> collect;
  /// Takes the values back after all tensors of all components are filled and verified; default: none. Local.
  std::function<void(const StateTree&)> restore = {};
  /// Handles other cells as the remap policy says. Local.
  std::function<void(const std::vector<StoredCell>&)> remap = {};
  /// With Remap::drop: the replacement of dropped state, as text for people.
  std::string dropped = {};
};

/// The ranks of a job, with mesh and nodes.
struct World {
  Mesh mesh;
  std::vector<int> node_of_rank = {};        // empty: all on one machine
  std::vector<std::string> node_names = {};  // by node; empty: not known
};
World single_axis_world(int ranks);  // a mesh with the one axis dp_replicate

/// Returns the name of the cell of `rank`: "all", "rank=3", "node=1", or the coordinates of per_group. Local.
std::string cell_of(const Component& component, const World& world, Rank rank);
/// Returns the ranks of each cell, ascending, ordered by their lowest rank. Local.
std::vector<std::vector<Rank>> cells_of(const Component& component, const World& world);

/// Checks a component against its state. Throws Error(usage) if the pattern contradicts a tensor's layout, naming the
/// tensor and the right declaration. Throws Error(bug) for a key that is not a word, or an alias without target. Local.
void check(const Component& component, const StateTree& state);

}  // namespace lockstep
