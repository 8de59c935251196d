// The state of a job as all ranks agree on it: every tensor of every component with its holders, and this rank's own
// bytes of each. Both saving and loading begin with it. What is done with it: checkpoint/save.hpp,
// checkpoint/load_checkpoint.hpp.
#pragma once

#include "comm/communicator.hpp"
#include "store/component.hpp"
#include "store/manifest.hpp"
#include "store/write_plan.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A local box is what this rank has of a tensor.
struct LocalBox {
  Box box;
  std::span<std::byte> bytes;  // empty if the rank holds nothing of it
};

struct CollectedState {
  std::vector<StoredTensor> tensors;           // equal on all ranks, as are the next two
  std::vector<std::vector<Holding>> holdings;  // by tensor
  std::vector<StoredComponent> components;
  std::vector<LocalBox> local;     // by tensor
  std::vector<StateTree> trees;    // by component: of this rank
  std::deque<std::string> values;  // bytes of this rank's values entries; `local` points into it
};

enum class Contents { tensors, tensors_and_values };

/// Collective over `ranks`. Throws on all ranks: usage (a pattern or shape that contradicts, another order of
/// components), verdict (a rank lacks what the layout gives it, or has another amount of it), and what `collect` threw.
/// `before` runs first on each rank, within the agreement.
CollectedState collect_state(Communicator& ranks, const World& world, const std::vector<Component>& components,
                             Contents contents, const std::function<void()>& before);

}  // namespace lockstep
