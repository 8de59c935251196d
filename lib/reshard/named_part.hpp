// A part of a checkpoint as people name it: what is taken and what is left out, by components and by patterns of
// tensors. checkpoint-reshard writes such a part, and train begins a run with one.
#pragma once

#include "config/values.hpp"
#include "store/checkpoint_part.hpp"
#include "store/manifest.hpp"

#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct PartNames {
  std::vector<NamePattern> only;  // none: all is taken
  std::vector<NamePattern> skip;
  std::string prefix;  // of both options, as messages name them: "--", "checkpoint."
};

/// What one of `only` takes, if there are any, without what one of `skip` takes. A pattern that is the name of a
/// component takes that; another one every tensor whose full name, or for `only` an alias, has a match. A component
/// without tensors belongs to the part unless it is skipped or others are taken. Throws Error(usage) for a pattern that
/// takes nothing, with the nearest name. Pure.
CheckpointPart named_part(std::span<const StoredComponent> components, std::span<const StoredTensor> tensors,
                          const PartNames& names);

}  // namespace lockstep
