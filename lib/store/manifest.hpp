// MANIFEST.json, the commit record of a checkpoint: what was saved, by whom, in which files, with which hashes. It
// carries its own hash and is written last: a folder without a valid one is no checkpoint.
// store/piece_index.hpp says where each piece lies.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "store/component.hpp"
#include "store/fingerprint.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

inline constexpr std::string_view manifest_file = "MANIFEST.json";
inline constexpr std::string_view index_file = "INDEX.h5";
/// The entry that holds a cell's small values: JSON text as bytes.
inline constexpr std::string_view values_entry = "_values";

struct StoredTensor {
  std::string component;
  std::string cell;  // owner; empty for logical tensors, which belong to all
  std::string name;  // within the component; values_entry for the small values of a cell
  Layout layout;     // as it was saved; cell-owned: whole, on the mesh "cell"
  std::vector<std::string> aliases = {};
  Fingerprint fingerprint = {};
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
  Hash128 hash;  // store/part_file.hpp says over what
};

struct Manifest {
  std::int64_t step = 0;
  std::string uuid;
  std::string created;   // UTC
  std::string software;  // "lockstep 0.1.0"
  Mesh mesh;             // of the ranks that saved
  std::vector<StoredComponent> components;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
  Hash128 state_digest;
  std::vector<std::pair<std::string, double>> metrics;  // "validation_loss", …: what a best checkpoint is chosen by
  std::vector<std::pair<std::string, std::string>>
      documents;  // "config.yaml", "config.json": texts that belong to the state
};

/// One line that names a state: XXH3-128 over "name shape dtype fingerprint" of all tensors and values, sorted. No
/// layout changes it.
Hash128 state_digest(const std::vector<StoredTensor>& tensors);

/// The document's text, ending with its own hash.
std::string manifest_text(const Manifest& manifest);
/// Throws Error(input) naming `origin` if it is no manifest or its own hash does not match, Error(usage) if it is of
/// another format or uses words that this program does not know.
Manifest parse_manifest(const std::string& text, const std::string& origin);
/// Throws the same, and Error(storage) if it cannot be read or is not there.
Manifest read_manifest(const Path& checkpoint);

const StoredComponent* find_component(const Manifest& manifest, const std::string& key);  // null if absent

}  // namespace lockstep
