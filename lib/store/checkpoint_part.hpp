// A part of a checkpoint's state: some components, each with all or some of its tensors. How a user names a part:
// reshard/named_part.hpp.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace lockstep {

struct CheckpointPart {
  std::vector<bool> tensors;         // by number in Manifest::tensors: whether it belongs to the part
  std::set<std::string> components;  // keys of components that belong to it, whole or in part
};

}  // namespace lockstep
