// index-scale FOLDER ROUNDS: makes manifest and index of checkpoints of 6,000 tensors by thousands of ranks, without
// their parts, and prints as JSON lines what they weigh and the least times to open them, to compare two of them, and
// to read the table of a part of eight ranks.
#include "base/error.hpp"
#include "bench/measured.hpp"
#include "bench/timed.hpp"
#include "harness/large_checkpoint.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/inspect.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace lockstep;
using lockstep::test::least_ms;
using lockstep::test::print;

namespace {

constexpr std::size_t tensors = 6000;

void measure(const Path& folder, int rounds) {
  const std::pair<std::string, test::LargeJob> jobs[] = {{"tp 8 x dp_shard 1024", test::tp_by_fsdp(8, 1024)},
                                                         {"pp 16 x dp_replicate 625", test::pp_by_dp(16, 625)}};
  std::vector<Path> paths;
  for (const auto& [name, job] : jobs) {
    paths.push_back(folder / fmt::format("index-scale-{}", paths.size()));
    std::filesystem::remove_all(paths.back());
    make_folder(paths.back());
    const Manifest manifest = test::large_manifest(job, tensors, 1);
    const std::uint64_t bytes = test::write_large(paths.back(), manifest);
    print({{"job", name},
           {"ranks", world_size(job.mesh)},
           {"tensors", tensors},
           {"index_bytes", bytes},
           {"manifest_bytes", *length_of(paths.back() / manifest_file)},
           {"open_ms", least_ms(rounds, [&] { const CheckpointReader reader(paths.back()); })}});
  }
  print({{"diff_ms", least_ms(rounds, [&] {
            const InspectAnswer answer = compare(CheckpointReader(paths[0]), CheckpointReader(paths[1]));
            invariant(answer.code == ExitCode::done, "equal states are equal");
          })}});
  const PartTable table = test::large_table(test::large_manifest(jobs[0].second, tensors, 1));
  const Path path = folder / "index-scale-part";
  std::filesystem::remove(path);
  Hdf5File part = Hdf5File::create(path);
  const TableColumns columns = add_table(part, table);
  part.close();
  const Hash128 hash = hash_of(table);
  print({{"pieces", table.pieces.size()}, {"table_bytes", *length_of(path)}, {"read_table_ms", least_ms(rounds, [&] {
                                                                                read_part_table(path, columns, hash);
                                                                              })}});
  for (const Path& made : paths) std::filesystem::remove_all(made);
  std::filesystem::remove(path);
}

}  // namespace

int main(int argc, char** argv) { return bench::measured("index-scale", argc, argv, measure); }
