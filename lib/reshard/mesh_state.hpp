// A state as a job on another mesh would hold it: which layout each tensor has there, who has what alike, and what
// becomes of state that belongs to single ranks. Pure; how the model's own tensors are cut: reshard/model_layouts.hpp.
#pragma once

#include "reshard/model_layouts.hpp"
#include "reshard/new_state.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// What is known of the model whose state it is.
struct KnownModel {
  std::optional<ModelFacts> facts = {};
  std::string lacks = {};  // without facts: why, as the end of a sentence
};

/// What a checkpoint's documents say of its model. `values` is the text of the component trainer, which has the config
/// of the model too; empty if there is none. Pure.
KnownModel model_known_to(const Manifest& source, const std::string& values);

/// Lays the state out on the mesh. Weights, and what an optimizer keeps of them, are as the model's config.json says;
/// other tensors keep their splits over axes that both meshes have, and are cut by rows where the new one shards.
/// State that belongs to ranks or nodes stays on the same mesh; on another one it is left out where a load does not
/// need it. Throws Error(usage) where it does, and where pp or tp change and the model is not known. Pure.
void lay_out_on(const AskedMesh& asked, const KnownModel& model, NewState& state);

}  // namespace lockstep
