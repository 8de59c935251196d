// plan-scale ROUNDS: plans saves of 6,000 tensors by thousands of ranks, as one of these does it, and prints as JSON
// lines the least times and what the plan takes of memory; then what a save takes before its first byte where the plan
// is there already; then the same for loads of such checkpoints, of which the tables alone are there.
#include "base/error.hpp"
#include "bench/timed.hpp"
#include "checkpoint/read_plan.hpp"
#include "checkpoint/save_plan.hpp"
#include "harness/large_checkpoint.hpp"
#include "harness/temporary_folder.hpp"
#include "store/hdf5.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>

using namespace lockstep;
using lockstep::test::least_ms;
using lockstep::test::print;

namespace {

constexpr std::size_t tensors = 6000;

double mebibytes_in_use() { return static_cast<double>(mallinfo2().uordblks) / (1 << 20); }

// Eight ranks to a part, as those of a node.
std::vector<int> parts_of_nodes(int ranks) {
  std::vector<int> part_of_rank;
  for (Rank rank = 0; rank < ranks; ++rank) part_of_rank.push_back(rank / test::ranks_of_a_node);
  return part_of_rank;
}

void plan_anew(const std::string& name, const test::LargeJob& job, int rounds) {
  const Manifest manifest = test::large_manifest(job, tensors, 1);
  const int ranks = world_size(job.mesh);
  const std::vector<int> part_of_rank = parts_of_nodes(ranks);
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

// As a save by `job` leaves them: tables of those parts that have what the ranks `among` hold.
void write_tables(const Path& folder, Manifest manifest, std::span<const Rank> among) {
  const int ranks = world_size(manifest.mesh);
  const std::vector<int> part_of_rank = parts_of_nodes(ranks);
  std::vector<std::vector<Holding>> holdings;
  for (const StoredTensor& tensor : manifest.tensors) {
    const auto component = std::ranges::find(manifest.components, tensor.component, &StoredComponent::key);
    holdings.push_back(holders_of(tensor, *component, ranks, among));
  }
  const CheckpointPlan plan = plan_part(manifest.tensors, holdings, manifest.components, part_of_rank, 0);
  make_folder(folder);
  std::map<int, PartTable> tables;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    PartTable& table = tables[part_of_rank[static_cast<std::size_t>(plan.pieces[i].writer)]];
    PieceRecord record;
    if (!table.records.empty()) record.offset = table.records.back().offset + bytes_of(table.pieces.back());
    table.pieces.push_back(part_piece(plan, i));
    record.blocks.resize((bytes_of(table.pieces.back()) + block_bytes - 1) / block_bytes);
    table.records.push_back(std::move(record));
  }
  for (const auto& [part, table] : tables) {
    StoredFile& file = manifest.files[static_cast<std::size_t>(part)];
    std::filesystem::create_directories((folder / file.path).parent_path());
    Hdf5File hdf5 = Hdf5File::create(folder / file.path);
    file.table = add_table(hdf5, table);
    file.table_hash = hash_of(table);
    file.bytes = table.records.back().offset + bytes_of(table.pieces.back());
    hdf5.close();
  }
  test::write_large(folder, std::move(manifest));
}

void plan_load(const std::string& name, const Path& folder, const test::LargeJob& job, int rounds) {
  const Manifest wanted = test::large_manifest(job, tensors, 1);
  double before = mebibytes_in_use();
  const CheckpointReader reader(folder);
  std::vector<SharedTensor> reads;
  for (const StoredTensor& tensor : wanted.tensors)
    reads.push_back({reader.number_of(full_name(tensor)), tensor.layout.global, &tensor.layout, {}, {}});
  std::optional<ReadPlan> plan;
  const auto planned = [&] { plan.emplace(reader, reads, 0); };
  const double first_ms = least_ms(1, planned);
  plan.reset();
  const double tables_mib = mebibytes_in_use() - before;
  before = mebibytes_in_use();
  const double ms = least_ms(rounds, planned);
  print({{"load", name},
         {"ranks", world_size(job.mesh)},
         {"tensors", tensors},
         {"blocks", plan->own().size() + plan->of_others().size()},
         {"own_blocks", plan->own().size()},
         {"with_tables_ms", first_ms},
         {"tables_mib", tables_mib},
         {"plan_ms", ms},
         {"plan_mib", mebibytes_in_use() - before}});
}

void plan_loads(int rounds) {
  const TemporaryFolder folder;
  const test::LargeJob by_rows = test::tp_by_fsdp(8, 1024), by_stages = test::pp_by_dp(16, 625);
  std::vector<Rank> node(test::ranks_of_a_node), one_of_each_stage;
  std::iota(node.begin(), node.end(), 0);
  for (Rank stage = 0; stage < 16; ++stage) one_of_each_stage.push_back(stage * 625);
  write_tables(folder.path / "rows", test::large_manifest(by_rows, tensors, 1), node);
  write_tables(folder.path / "stages", test::large_manifest(by_stages, tensors, 1), one_of_each_stage);
  plan_load("tp 8 x dp_shard 1024, of its own", folder.path / "rows", by_rows, rounds);
  plan_load("pp 16 x dp_replicate 625, of its own", folder.path / "stages", by_stages, rounds);
  plan_load("tp 8 x dp_shard 1024, of pp 16 x dp_replicate 625", folder.path / "stages", by_rows, rounds);
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
    plan_loads(rounds);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "plan-scale: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
