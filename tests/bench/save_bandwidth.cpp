// save_bandwidth FOLDER ROUNDS: saves a state of the size and shapes of GPT-2 124M with its moments from one rank,
// again and again, each time beside raw O_DIRECT writes of the same memory and of one buffer that stays in the
// processor's cache, and prints the least times as one JSON line: those of the save by phase, and the share of the
// processors' time in which it hashes and fingerprints.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "bench/save_baselines.hpp"
#include "checkpoint/save.hpp"
#include "comm/communicator.hpp"
#include "tensor/memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

using namespace lockstep;
using namespace lockstep::bench;
using State = Gpt2State;

namespace {

struct Saved {
  double seconds = 1e9;
  std::map<Phase, double> begun;  // seconds after the call
  double phase(Phase phase, Phase next) const { return begun.at(next) - begun.at(phase); }
};

Saved save_once(Saver& saver, State& state, const Path& run) {
  Saved saved;
  const double start = monotonic_seconds();
  const auto enter = [&](Phase phase) { saved.begun[phase] = monotonic_seconds() - start; };
  saver.save({state.component()}, {.run = run, .step = 1, .world = state.world, .enter = enter});
  saved.seconds = monotonic_seconds() - start;
  return saved;
}

void measure(const Path& folder, int rounds) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    fail(ExitCode::storage, "cannot measure saves in {}: no such folder", folder.string());
  keep_memory();
  State state({"", "exp_avg/", "exp_avg_sq/"}, 1);
  const c10::DataPtr buffer = c10::GetCPUAllocator()->allocate(request_bytes);
  std::memset(buffer.get(), 5, request_bytes);
  const auto ranks = solo_communicator();
  Saver saver(*ranks);  // one for all rounds, as in training
  constexpr std::size_t raw_threads = 3;
  double raw = 1e9, raw_buffer = 1e9, computing = 1e9;
  Saved best;
  for (int round = 0; round < rounds; ++round) {
    raw = std::min(raw, raw_write(folder / "raw", requests_of(state), raw_threads));
    const Path run = folder / fmt::format("run-{}", round);
    const Saved saved = save_once(saver, state, run);
    std::filesystem::remove_all(run);
    if (saved.seconds < best.seconds) best = saved;
    raw_buffer = std::min(raw_buffer, raw_write(folder / "raw", requests_of(buffer, state.bytes), raw_threads));
    computing = std::min(computing, compute(state));
  }
  const double processors = std::max(1u, std::thread::hardware_concurrency());
  const Json line = {{"bytes", state.bytes},
                     {"raw_s", raw},
                     {"raw_one_buffer_s", raw_buffer},
                     {"save_s", best.seconds},
                     {"stage_s", best.begun.at(Phase::save_write)},
                     {"write_s", best.phase(Phase::save_write, Phase::save_seal)},
                     {"seal_s", best.phase(Phase::save_seal, Phase::save_commit)},
                     {"commit_s", best.seconds - best.begun.at(Phase::save_commit)},
                     {"hash_and_fingerprint_one_thread_s", computing},
                     {"hash_and_fingerprint_of_processors", computing / (best.seconds * processors)},
                     {"save_gb_per_s", static_cast<double>(state.bytes) / best.seconds / 1e9},
                     {"raw_gb_per_s", static_cast<double>(state.bytes) / raw / 1e9},
                     {"of_raw", raw / best.seconds},
                     {"of_raw_one_buffer", raw_buffer / best.seconds}};
  std::printf("%s\n", to_text(line).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: save-bandwidth FOLDER ROUNDS\n");
    return static_cast<int>(ExitCode::usage);
  }
  try {
    measure(argv[1], std::atoi(argv[2]));
  } catch (const Error& error) {
    std::fprintf(stderr, "save-bandwidth: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
