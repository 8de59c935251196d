// A checkpoint of a sharded model, for tests of code that reads such checkpoints.
#pragma once

#include "architecture/architecture.hpp"
#include "architecture/initialise.hpp"
#include "checkpoint/save.hpp"
#include "harness/thread_ranks.hpp"

#include <list>
#include <vector>

namespace lockstep::test {

/// Saves the initial weights of a model at step 1 by `count` ranks, which are threads. Each rank has boxes of its own:
/// rows, or columns of matrices if `dim` is 1.
inline void save_sharded(const Path& run, const ModelConfig& config, int count, int dim) {
  on_ranks(count, [&](Communicator& ranks) {
    const World world{make_mesh("world", {{"dp_replicate", 1}, {"dp_shard", ranks.size()}}), {}};
    std::list<std::vector<float>> weights;
    Component model{.key = "model", .pattern = Pattern::per_group, .equal_along = {"dp_replicate"}, .collect = [&] {
                      StateTree tree;
                      for (const LogicalTensor& tensor : stored_tensors(describe(config))) {
                        const int split = tensor.shape.size() > 1 ? dim : 0;
                        const Layout layout{tensor.shape, DType::f32, world.mesh, {{{"dp_shard"}, split}}, {}};
                        const Box box = box_of(layout, ranks.rank());
                        weights.emplace_back(static_cast<std::size_t>(elements(box)));
                        initialise(tensor, 7, box, std::span(weights.back()));
                        tree.add(tensor.name, layout, std::as_writable_bytes(std::span(weights.back())));
                      }
                      return tree;
                    }};
    Component trainer{.key = "trainer", .pattern = Pattern::global, .collect = [&] {
                        StateTree tree;
                        tree.set("hf_config", *config.original);
                        return tree;
                      }};
    SaveRequest request{run, 1, world};
    request.ranks_per_file = 1;
    Saver(ranks).save({model, trainer}, request);
  });
}

}  // namespace lockstep::test
