// What a rank has to know before it saves: what the job holds, which pieces of it the rank writes and compares, and to
// which parts. It serves all saves of the same state. checkpoint/save.hpp carries it out; where pieces go:
// store/checkpoint_plan.hpp.
#pragma once

#include "checkpoint/collected_state.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/component.hpp"
#include "store/part_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

struct SavePlan {
  CollectedState collected;
  std::vector<int> part_of_rank;
  CheckpointPlan plan;                           // of the part of this rank, and of all that ranks of that part hold
  std::vector<Validation> compared;              // by piece: how deeply
  std::vector<int> holders;                      // by piece: ranks that hold it
  std::vector<bool> held;                        // by piece: this rank is one of them
  std::vector<std::size_t> mine;                 // numbers of the pieces that this rank writes or compares
  std::unique_ptr<Communicator> part;            // the ranks that write to the same parts
  std::unique_ptr<Communicator> keepers;         // of storages of nodes' own, by storage; null elsewhere
  std::uint64_t bytes_here = 0;                  // that go to the storage of this rank
  std::vector<PlannedFile> files;                // on rank 0: of all parts, by path, without their pieces
  std::vector<std::vector<std::size_t>> led;     // on rank 0: by leader, the numbers of its files in the plan's order
  std::vector<std::optional<PartImage>> images;  // by file of the plan: on its leader, once it was stamped
  bool laid_out = false;                         // so that no rank has to wait for the layout of a part
  std::vector<std::uint64_t> offsets;            // by piece of the parts of this rank, once laid out
};

/// Takes over `earlier` where all ranks describe their state as they did then. What it costs a rank, and what ranks
/// tell each other, grows with the tensors and with what the ranks of a part hold; rank 0 is told the files of all.
/// `before` runs first on each rank, within the agreement. Collective over `ranks`. Throws what collect_state throws.
std::unique_ptr<SavePlan> plan_save(Communicator& ranks, const World& world, const std::vector<Component>& components,
                                    std::optional<int> ranks_per_file, const RunStorage& storage,
                                    const std::function<void()>& before, std::unique_ptr<SavePlan> earlier);

/// What this rank brings to a save, by `mine`. Local.
std::vector<std::span<const std::byte>> bytes_of_rank(const SavePlan& plan);

}  // namespace lockstep
