// save_bandwidth FOLDER ROUNDS: saves a state of the size and shapes of GPT-2 124M with its moments from one rank,
// again and again, each time beside raw O_DIRECT writes of the same memory and of one buffer that stays in the
// processor's cache, and prints the least times as one JSON line: those of the save by phase, and the share of the
// processors' time in which it hashes and fingerprints.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "bench/gpt2_state.hpp"
#include "checkpoint/save.hpp"
#include "comm/communicator.hpp"
#include "store/piece_pass.hpp"
#include "tensor/memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

using namespace lockstep;
using State = bench::Gpt2State;

namespace {

constexpr std::uint64_t request_bytes = 16 << 20;

double seconds_of(const std::function<void()>& work) {
  const double start = monotonic_seconds();
  work();
  return monotonic_seconds() - start;
}

using Requests = std::vector<std::span<const std::byte>>;

// The state's memory in whole pages; without the few small tensors, which malloc aligns to less.
Requests requests_of(const State& state) {
  Requests requests;
  for (const State::Tensor& tensor : state.tensors) {
    if (reinterpret_cast<std::uintptr_t>(tensor.values.data()) % page_bytes != 0) continue;
    const auto bytes = std::as_bytes(tensor.values);
    for (std::uint64_t at = 0; at + page_bytes <= bytes.size(); at += request_bytes)
      requests.push_back(bytes.subspan(at, std::min(request_bytes, (bytes.size() - at) / page_bytes * page_bytes)));
  }
  return requests;
}

// The same memory again and again.
Requests requests_of(const c10::DataPtr& memory, std::uint64_t bytes) {
  return Requests(static_cast<std::size_t>(bytes / request_bytes),
                  {static_cast<const std::byte*>(memory.get()), request_bytes});
}

// The file has its length before, as parts have.
double raw_write(const Path& path, const Requests& requests, std::size_t threads) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
  for (const auto& request : requests) {
    offsets.push_back(bytes);
    bytes += request.size();
  }
  const double seconds = seconds_of([&] {
    const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT);
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) fail_errno("lengthen", path);
    std::vector<std::jthread> writers;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      writers.emplace_back([&, thread] {
        for (std::size_t i = thread; i < requests.size(); i += threads) write_at(file, requests[i], offsets[i], path);
      });
    }
    writers.clear();
    sync_file(file, path);
    sync_folder(path.parent_path());
  });
  std::filesystem::remove(path);
  return seconds;
}

// What one thread needs to hash and fingerprint all of the state as a save does: in chunks that stay in the cache.
double compute(const State& state) {
  constexpr std::size_t chunk_bytes = 1 << 16;
  return seconds_of([&] {
    for (const State::Tensor& tensor : state.tensors) {
      const auto bytes = std::as_bytes(tensor.values);
      StreamHash hash;
      for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes) {
        const auto chunk = bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at));
        hash.add(chunk);
        fingerprint(tensor.layout.global, DType::f32, whole(tensor.layout.global), chunk,
                    static_cast<std::int64_t>(at / sizeof(float)));
      }
      hash.digest();
    }
  });
}

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
