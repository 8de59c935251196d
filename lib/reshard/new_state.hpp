// The state that will be written: the kept tensors with their new layouts and types. It is a value, derived step by
// step from a manifest; nothing else is read. Layouts on another mesh: reshard/mesh_state.hpp. Writing it:
// reshard/write_state.hpp.
#pragma once

#include "config/values.hpp"
#include "store/manifest.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct NewState {
  Manifest facts;                     // step, mesh, nodes, components, metrics and documents; no tensors, no files
  std::vector<StoredTensor> tensors;  // with their new layouts and types
  std::vector<std::size_t> sources;   // by tensor: its number in the source
  std::vector<std::string> notes;     // remarks for people about the result, a line each
};

/// Returns all of a checkpoint unchanged. Pure.
NewState whole_state(const Manifest& source);

/// Leaves out everything outside the named part (reshard/named_part.hpp). Throws Error(usage) as named_part does, and
/// if nothing is left. Pure.
void select(NewState& state, const std::vector<NamePattern>& only, const std::vector<NamePattern>& skip);

/// Gives the weights another type: floating tensors of 16 bits or more in component model. Throws Error(usage) if there
/// is no such component. Pure.
void retype_weights(NewState& state, DType dtype);

/// Leaves out the marked tensors, and components that lose all their tensors. Pure.
void leave_out(NewState& state, const std::vector<bool>& leaves);

}  // namespace lockstep
