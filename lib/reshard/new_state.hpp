// The state that is to be written: what of a checkpoint is kept, and in which layouts and types. It is a value, made
// step by step from a manifest; nothing is read for it but that. Layouts on another mesh: reshard/mesh_state.hpp. Who
// writes it: reshard/write_state.hpp.
#pragma once

#include "config/values.hpp"
#include "store/manifest.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct NewState {
  Manifest facts;                     // step, mesh, nodes, components, metrics and documents; no tensors, no files
  std::vector<StoredTensor> tensors;  // with the layouts and types that they will have
  std::vector<std::size_t> sources;   // of each: its number in the source
  std::vector<std::string> notes;     // what people should know of the result, a line each
};

/// All of a checkpoint as it is. Pure.
NewState whole_state(const Manifest& source);

/// Leaves out what does not belong to the part that is named (reshard/named_part.hpp). Throws Error(usage) as
/// named_part does, and where nothing is left. Pure.
void select(NewState& state, const std::vector<NamePattern>& only, const std::vector<NamePattern>& skip);

/// Gives the weights another type: floating tensors of 16 bits and more of the component model. Pure.
void retype_weights(NewState& state, DType dtype);

/// Leaves out the tensors of these places and the components that have none any more. Pure.
void leave_out(NewState& state, const std::vector<bool>& leaves);

}  // namespace lockstep
