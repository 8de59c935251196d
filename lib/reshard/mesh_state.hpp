// Changes a state to that of a job on another mesh: the layout of each tensor, the ranks that hold it alike, and the
// state that belongs to single ranks. Pure. Layouts of the model's own tensors: reshard/model_layouts.hpp.
#pragma once

#include "reshard/model_layouts.hpp"
#include "reshard/new_state.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// The model that a state belongs to, as far as it is known.
struct KnownModel {
  std::optional<ModelFacts> facts = {};
  std::string lacks = {};  // reason without facts, as the end of a sentence
};

/// Returns the model that the checkpoint's documents describe. `values` is the text of component trainer, which also
/// has the model's config; empty: there is none. Pure.
KnownModel model_known_to(const Manifest& source, const std::string& values);

/// Lays the state out on the mesh. Weights and their optimizer state follow the model's config.json. Other tensors keep
/// their splits over axes that both meshes have, and are split by rows where the new mesh shards. State of single ranks
/// or nodes stays if the mesh is the same; on another mesh it is left out if a load can do without it. Throws
/// Error(usage) if a load cannot, and if pp, tp or ep must divide the model in a new way and the model is not known.
/// Pure.
void lay_out_on(const MeshRequest& asked, const KnownModel& model, NewState& state);

}  // namespace lockstep
