// load_bandwidth FOLDER ROUNDS, on some ranks: loads weights of the size and shapes of GPT-2 124M into all of them,
// again and again, each time after the page cache has dropped the files, and beside a buffered read of the same files
// by one process that starts as cold. Prints the medians as one JSON line, with what the ranks read from storage.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "bench/gpt2_state.hpp"
#include "bench/measured.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/mpi_session.hpp"
#include "comm/together.hpp"
#include "store/run_directory.hpp"
#include "tensor/memory.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

using namespace lockstep;
using State = bench::Gpt2State;

namespace {

std::vector<Path> files_of(const Path& checkpoint) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The files are durable, so no page of them has to stay.
void drop_from_cache(const Path& checkpoint) {
  for (const Path& file : files_of(checkpoint)) {
    const FileDescriptor descriptor = open_regular(file);
    if (::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED) != 0) fail_errno("drop from the cache", file);
  }
}

std::uint64_t read_all(const Path& checkpoint) {
  std::vector<std::byte> buffer(8 << 20);
  std::uint64_t total = 0;
  for (const Path& file : files_of(checkpoint)) {
    const FileDescriptor descriptor = open_regular(file);
    const std::uint64_t length = length_of(file).value();
    for (std::uint64_t at = 0; at < length; at += buffer.size())
      read_at(descriptor, std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), length - at)), at, file);
    total += length;
  }
  return total;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// From a cold start on all ranks to the end on the last.
double cold_seconds(Communicator& world, const Path& checkpoint, const std::function<void()>& work) {
  together(world, "dropping what is cached", [&] {
    if (world.rank() == 0) drop_from_cache(checkpoint);
  });
  const double start = monotonic_seconds();
  work();
  return world.all_reduce(monotonic_seconds() - start, Reduce::max);
}

void measure(Communicator& world, const Path& folder, int rounds) {
  const Path checkpoint = checkpoint_folder(folder / "run", 1);
  together(world, "", [&] {
    if (rounds < 1) fail(ExitCode::usage, "loads are measured in 1 round or more");
    if (!is_folder(folder)) fail(ExitCode::storage, "cannot measure loads in {}: no such folder", folder.string());
  });
  keep_memory();
  State state({""}, world.size());
  together(world, "making the checkpoint", [&] {
    if (world.rank() != 0) return;
    State saved({""}, 1);
    const auto alone = solo_communicator();
    Saver(*alone).save({saved.component()}, {.run = folder / "run", .step = 1, .world = saved.world});
  });
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / world.size());
  std::vector<double> raw, loads;
  std::int64_t read = 0;
  for (int round = 0; round < rounds; ++round) {
    raw.push_back(cold_seconds(world, checkpoint, [&] {
      together(world, "reading", [&] {
        if (world.rank() == 0) read_all(checkpoint);
      });
    }));
    loads.push_back(cold_seconds(world, checkpoint, [&] {
      const LoadReport report = load(world, state.world, CheckpointReader(checkpoint), {state.component()}, threads);
      read = static_cast<std::int64_t>(report.read);
    }));
  }
  read = world.all_reduce(read, Reduce::sum);
  together(world, "printing", [&] {
    if (world.rank() != 0) return;
    const Json line = {{"ranks", world.size()},
                       {"bytes", state.bytes},
                       {"read_by_all_ranks", read},
                       {"cold_read_s", median(raw)},
                       {"load_s", median(loads)},
                       {"load_gb_per_s", static_cast<double>(state.bytes) / median(loads) / 1e9},
                       {"cold_read_gb_per_s", static_cast<double>(state.bytes) / median(raw) / 1e9},
                       {"of_cold_read", median(raw) / median(loads)}};
    std::printf("%s\n", to_text(line).c_str());
    std::filesystem::remove_all(folder / "run");
  });
}

}  // namespace

int main(int argc, char** argv) {
  const MpiSession mpi;
  const std::unique_ptr<Communicator> world = mpi_world();
  return bench::measured(
      "load-bandwidth", argc, argv, [&](const Path& folder, int rounds) { measure(*world, folder, rounds); },
      world->rank() == 0);
}
