// Loading: each rank gets the boxes it holds, whatever ranks and layouts the checkpoint was saved by. Who reads what of
// it: checkpoint/shared_read.hpp. Which checkpoint: checkpoint/resume.hpp. Reading a checkpoint without ranks:
// store/checkpoint_reader.hpp.
#pragma once

#include "base/hash.hpp"
#include "checkpoint/node_view.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_part.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/component.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct LoadReport {
  std::uint64_t bytes = 0;  // of tensors and values that this rank got
  std::uint64_t read = 0;   // bytes that this rank read from storage: those that no other rank did, and tables
  Hash128 state_digest;     // as the manifest says; proven for the components that were loaded
  std::vector<std::string> left_out;  // of them, state of the checkpoint that is not used. Equal on all ranks
  std::vector<std::string>
      notes;  // optional components that were absent, state that was derived or dropped. Equal on all ranks
};

/// Fills the tensors of the components bit for bit, checks every block and the fingerprint of every logical tensor over
/// all ranks, then gives the values back through `restore` (or `remap`, where the cells changed and the policy allows
/// it). Collective over `ranks`; the reader may be another object on each rank, of the same checkpoint. All ranks throw
/// one Error: input (damage), storage (what cannot be read), usage (a tensor or component that the checkpoint lacks,
/// another shape or type, state in the checkpoint that nobody asked for, cells that cannot be mapped). `threads` of
/// each rank read and hash. Of a `part`, the same on all ranks, only that is loaded: state that does not belong to it
/// is left as it is, and so are the values of a component of which the part has tensors only. `access` says who can
/// read which files, where not all ranks can; the reader learns the tables of the others.
LoadReport load(Communicator& ranks, const World& world, const CheckpointReader& reader,
                const std::vector<Component>& components, int threads = 1,
                const std::optional<CheckpointPart>& part = {}, const FileAccess& access = {});

}  // namespace lockstep
