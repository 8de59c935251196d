// Names a part of a checkpoint by components and patterns of tensors, to take or to leave out. checkpoint-reshard
// writes such a part, and train starts a run from one.
#pragma once

#include "config/values.hpp"
#include "store/checkpoint_part.hpp"
#include "store/manifest.hpp"

#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct PartNames {
  std::vector<NamePattern> only;  // empty: everything
  std::vector<NamePattern> skip;
  std::string prefix;  // of both options in messages: "--" or "checkpoint."
};

/// Returns everything that matches `only` (or everything, if it is empty), minus everything that matches `skip`. A
/// pattern that equals the key of a component matches that component; any other pattern matches tensors by their full
/// names and, in `only`, also by their aliases. A component without tensors belongs to the part unless it is skipped,
/// or `only` is set and does not name it. Throws Error(usage) with the nearest name if a pattern matches nothing. Pure.
CheckpointPart named_part(std::span<const StoredComponent> components, std::span<const StoredTensor> tensors,
                          const PartNames& names);

}  // namespace lockstep
