// A part of what a checkpoint holds: some of its components, and of these some tensors. How people name one:
// reshard/named_part.hpp.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace lockstep {

struct CheckpointPart {
  std::vector<bool> tensors;         // by number in Manifest::tensors: whether it belongs to the part
  std::set<std::string> components;  // keys of those that belong to it, whole or with some of their tensors
};

}  // namespace lockstep
