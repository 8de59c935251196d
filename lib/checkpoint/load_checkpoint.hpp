// Loading: each rank gets the boxes that it holds, whichever ranks and layouts saved the checkpoint. How ranks share
// the reading: checkpoint/shared_read.hpp. Which checkpoint is loaded: checkpoint/resume.hpp. Reading a checkpoint
// without ranks: store/checkpoint_reader.hpp.
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
  std::uint64_t bytes = 0;  // of tensors and values that this rank received
  std::uint64_t read = 0;   // bytes that this rank read from storage: its blocks, and tables
  Hash128 state_digest;     // from the manifest; verified for the components that were loaded
  /// The notes about state in the checkpoint that is not used. Equal on all ranks.
  std::vector<std::string> left_out;
  /// Components that were absent, derived, redistributed, dropped or loaded in part, one line each. Equal on all ranks.
  std::vector<std::string> notes;
};

/// Loads the components from a checkpoint. It fills their tensors bit for bit, checks every block, and checks the
/// fingerprint of every logical tensor over all ranks. Then it returns the values through `restore`, or through `remap`
/// if the cells changed and the policy allows it. Each rank reads and hashes with `threads` threads; its reader may be
/// another object for the same checkpoint.
/// If `part` is set (the same on all ranks), only that part is loaded. Other state stays as it is, and so do the values
/// of a component if the part has only its tensors. If not all ranks can read all files, `access` says which ranks read
/// which file, and the reader receives the tables of the other files.
/// Collective over `ranks`. All ranks throw one Error: input (damage), storage (a file cannot be read), usage (the
/// checkpoint lacks a tensor or component, has another shape or type, holds state that no component asks for, or its
/// cells cannot be mapped), verdict (ranks hold different state).
LoadReport load(Communicator& ranks, const World& world, const CheckpointReader& reader,
                const std::vector<Component>& components, int threads = 1,
                const std::optional<CheckpointPart>& part = {}, const FileAccess& access = {});

}  // namespace lockstep
