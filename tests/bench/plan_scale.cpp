// plan-scale ROUNDS: plans saves of 6,000 tensors by thousands of ranks, as one of these does it, and prints as JSON
// lines the least times and what the plan takes of memory; then what a save takes before its first byte where the plan
// is there already.
#include "base/error.hpp"
#include "bench/timed.hpp"
#include "checkpoint/save_plan.hpp"
#include "harness/large_checkpoint.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

using namespace lockstep;
using lockstep::test::least_ms;
using lockstep::test::print;

namespace {

constexpr std::size_t tensors = 6000;

double mebibytes_in_use() { return static_cast<double>(mallinfo2().uordblks) / (1 << 20); }

// With eight ranks to a part, as those of a node.
void plan_anew(const std::string& name, const test::LargeJob& job, int rounds) {
  const Manifest manifest = test::large_manifest(job, tensors, 1);
  const int ranks = world_size(job.mesh);
  std::vector<int> part_of_rank;
  for (Rank rank = 0; rank < ranks; ++rank) part_of_rank.push_back(rank / test::ranks_of_a_node);
  std::vector<Rank> neighbours(test::ranks_of_a_node);
  std::iota(neighbours.begin(), neighbours.end(), 0);
  std::vector<std::vector<Holding>> holdings;
  CheckpointPlan plan;
  const double before = mebibytes_in_use();
  const double ms = least_ms(rounds, [&] {
    holdings.clear();
    for (const StoredTensor& tensor : manifest.tensors) {
      const auto component = std::ranges::find(manifest.components, tensor.component, &StoredComponent::key);
      holdings.push_back(holders_of(tensor, *component, ranks, neighbours));
    }
    plan = plan_part(manifest.tensors, holdings, manifest.components, part_of_rank, 0);
  });
  print({{"job", name},
         {"ranks", ranks},
         {"tensors", tensors},
         {"pieces", plan.pieces.size()},
         {"plan_ms", ms},
         {"plan_mib", mebibytes_in_use() - before}});
}

void plan_again(int rounds) {
  const auto ranks = solo_communicator();
  const World world = single_axis_world(1);
  std::vector<float> bytes(tensors * 4);
  Component component{.key = "model", .collect = {}};
  component.collect = [&] {
    StateTree tree;
    for (std::size_t i = 0; i < tensors; ++i)
      tree.add(fmt::format("layers.{}.mlp.down_proj.weight", i), replicated({4}, DType::f32, world.mesh),
               std::as_writable_bytes(std::span(bytes).subspan(i * 4, 4)));
    return tree;
  };
  std::unique_ptr<SavePlan> plan;
  const auto planned = [&] { plan = plan_save(*ranks, world, {component}, {}, {}, [] {}, std::move(plan)); };
  const double anew_ms = least_ms(1, planned);
  print({{"tensors", tensors}, {"anew_ms", anew_ms}, {"again_ms", least_ms(rounds, planned)}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "plan-scale ROUNDS\n");
    return 2;
  }
  try {
    const int rounds = std::max(1, std::atoi(argv[1]));
    plan_anew("tp 8 x dp_shard 1024", test::tp_by_fsdp(8, 1024), rounds);
    plan_anew("pp 16 x dp_replicate 625", test::pp_by_dp(16, 625), rounds);
    plan_again(rounds);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "plan-scale: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
