// Loading: each rank asks for the boxes it holds, whatever ranks and layouts the checkpoint was saved by. Which
// checkpoint: checkpoint/resume.hpp. Reading a checkpoint without ranks: store/checkpoint_reader.hpp.
#pragma once

#include "base/hash.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/component.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct LoadReport {
  std::uint64_t bytes = 0;            // that this rank filled
  Hash128 state_digest;               // as the manifest says; proven for the components that were loaded
  std::vector<std::string> left_out;  // of them, state of the checkpoint that is not used. Equal on all ranks
  std::vector<std::string>
      notes;  // optional components that were absent, state that was derived or dropped. Equal on all ranks
};

/// Fills the tensors of the components bit for bit, checks every block and the fingerprint of every logical tensor over
/// all ranks, then gives the values back through `restore` (or `remap`, where the cells changed and the policy allows
/// it). Collective over `ranks`; the reader may be another object on each rank, of the same checkpoint. All ranks throw
/// one Error: input (damage), storage (what cannot be read), usage (a tensor or component that the checkpoint lacks,
/// another shape or type, state in the checkpoint that nobody asked for, cells that cannot be mapped).
LoadReport load(Communicator& ranks, const World& world, const CheckpointReader& reader,
                const std::vector<Component>& components);

}  // namespace lockstep
