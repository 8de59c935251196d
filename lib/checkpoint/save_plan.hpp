// A save plan holds everything that a rank knows before it saves: the state of the job, the pieces that the rank writes
// and compares, and the parts that they go to. It serves all saves of the same state. checkpoint/save.hpp executes it;
// the places of pieces: store/checkpoint_plan.hpp.
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
  CheckpointPlan plan;                           // this rank's part, and all boxes that the ranks of that part hold
  std::vector<Validation> compared;              // by piece: how deeply
  std::vector<int> holders;                      // by piece: number of ranks that hold it
  std::vector<bool> held;                        // by piece: whether this rank holds it
  std::vector<std::size_t> mine;                 // numbers of the pieces that this rank writes or compares
  std::unique_ptr<Communicator> part;            // the ranks that write to the same part
  std::unique_ptr<Communicator> keepers;         // with node-local storage: their keepers; null on other ranks
  std::uint64_t bytes_here = 0;                  // bytes that go to the storage of this rank
  std::vector<PlannedFile> files;                // on rank 0: of all parts, by path, without their pieces
  std::vector<std::vector<std::size_t>> led;     // on rank 0: by leader, the numbers of its files in the plan's order
  std::vector<std::optional<PartImage>> images;  // by file of the plan: set on its leader after the first stamp
  bool laid_out = false;                         // then no rank waits for the layout of a part
  std::vector<std::uint64_t> offsets;            // by piece of this rank's parts; set once laid out
};

/// Plans a save. `earlier` is reused if all ranks still describe their state in the same way. The cost of a rank and
/// the amount of communication grow with the tensors and with the boxes of the ranks of a part; only rank 0 gathers the
/// files of all parts. `before` runs first on each rank, within the agreement. Collective over `ranks`. Throws as
/// collect_state does.
std::unique_ptr<SavePlan> plan_save(Communicator& ranks, const World& world, const std::vector<Component>& components,
                                    std::optional<int> ranks_per_file, const RunStorage& storage,
                                    const std::function<void()>& before, std::unique_ptr<SavePlan> earlier);

/// Returns the bytes of this rank's pieces, ordered as `mine`. Local.
std::vector<Region> memory_of_rank(const SavePlan& plan);

}  // namespace lockstep
