// save_ranks FOLDER ROUNDS, on some ranks: saves weights of the size and shapes of GPT-2 124M that all ranks hold and
// compare, again and again, each time with an older checkpoint that goes, beside raw O_DIRECT writes of as many bytes
// by as many ranks, a copy of what a rank holds, and saves that compare nothing. Prints the medians as one JSON line.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "bench/measured.hpp"
#include "bench/save_baselines.hpp"
#include "checkpoint/save.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/mpi_session.hpp"
#include "comm/together.hpp"
#include "store/trash.hpp"
#include "tensor/memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace lockstep;
using namespace lockstep::bench;

namespace {

// The requests that one of `ranks` writes, evenly.
Requests share_of(const Requests& all, int rank, int ranks) {
  Requests share;
  for (std::size_t i = static_cast<std::size_t>(rank); i < all.size(); i += static_cast<std::size_t>(ranks))
    share.push_back(all[i]);
  return share;
}

void copy(const Gpt2State& state, std::byte* to) {
  for (const Gpt2State::Tensor& tensor : state.tensors) {
    const auto bytes = std::as_bytes(tensor.values);
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
}

// Medians by name, of what all ranks measured.
class Figures {
 public:
  explicit Figures(Communicator& world) : world_(world) {}
  // From a start on all ranks to the end on the last.
  void time(const std::string& name, const std::function<void()>& work) {
    meet();
    add(name, seconds_of(work));
  }
  void add(const std::string& name, double seconds) {
    values_[name].push_back(world_.all_reduce(seconds, Reduce::max));
  }
  void meet() { world_.all_reduce(std::int64_t{0}, Reduce::max); }
  void forget() { values_.clear(); }
  double median(const std::string& name) const {
    std::vector<double> values = values_.at(name);
    std::sort(values.begin(), values.end());
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  }

 private:
  Communicator& world_;
  std::map<std::string, std::vector<double>> values_;
};

void measure(Communicator& world, const Path& folder, int rounds) {
  together(world, "", [&] {
    if (rounds < 1) fail(ExitCode::usage, "saves are measured in 1 round or more");
    if (!is_folder(folder)) fail(ExitCode::storage, "cannot measure saves in {}: no such folder", folder.string());
  });
  keep_memory();
  Gpt2State state({""}, world.size());
  const c10::DataPtr memory = c10::GetCPUAllocator()->allocate(state.bytes);
  std::memset(memory.get(), 5, state.bytes);
  Component alone = state.component();
  alone.validation = Validation::none;
  const Path run = folder / "run";
  std::optional<TrashCollector> trash;
  together(world, "", [&] {
    if (world.rank() == 0) trash.emplace(run);
  });
  Saver compares(world), compares_beside(world), compares_nothing(world);  // each keeps its plan, as in training
  SaveRequest request{
      .run = run, .world = state.world, .retention = {.keep_last = 1}, .trash = trash ? &*trash : nullptr};
  const auto next = [&]() -> const SaveRequest& {
    ++request.step;
    return request;
  };
  const Requests mine = share_of(requests_of(state), world.rank(), world.size());
  Figures figures(world);
  for (int round = -1; round < rounds; ++round) {
    if (round == 0) figures.forget();  // what was before made plans and took memory
    figures.meet();
    figures.add("raw", raw_write(folder / fmt::format("raw-{}", world.rank()), mine, 1));
    figures.time("save", [&] { compares.save({state.component()}, next()); });
    figures.time("uncompared", [&] { compares_nothing.save({alone}, next()); });
    figures.time("copy", [&] { copy(state, static_cast<std::byte*>(memory.get())); });
    figures.time("begin", [&] { compares_beside.begin({state.component()}, next(), 0); });
    figures.time("beside", [&] { compares_beside.advance(true); });
    figures.meet();
    figures.add("hashes", compute(state, static_cast<std::size_t>(world.size())));
  }
  const double processors = std::max(1u, std::thread::hardware_concurrency());
  const double busy = std::min(1.0, world.size() / processors);  // of them, while each rank computes on one
  const auto seconds = [&](const char* name) { return figures.median(name); };
  const Json line = {{"ranks", world.size()},
                     {"bytes", state.bytes},
                     {"raw_s", seconds("raw")},
                     {"save_s", seconds("save")},
                     {"of_raw", seconds("raw") / seconds("save")},
                     {"save_without_comparison_s", seconds("uncompared")},
                     {"comparison_of_save", 1 - seconds("uncompared") / seconds("save")},
                     {"hash_and_fingerprint_s", seconds("hashes")},
                     {"hash_and_fingerprint_of_processors", seconds("hashes") * busy / seconds("save")},
                     {"copy_s", seconds("copy")},
                     {"stall_s", seconds("begin")},
                     {"stall_of_copy", seconds("begin") / seconds("copy")},
                     {"in_background_s", seconds("beside")}};
  together(world, "printing", [&] {
    if (world.rank() != 0) return;
    trash.reset();
    std::printf("%s\n", to_text(line).c_str());
    std::filesystem::remove_all(run);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const MpiSession mpi;
  const std::unique_ptr<Communicator> world = mpi_world();
  return bench::measured(
      "save-ranks", argc, argv, [&](const Path& folder, int rounds) { measure(*world, folder, rounds); },
      world->rank() == 0);
}
