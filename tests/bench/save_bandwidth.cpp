// save_bandwidth FOLDER ROUNDS: saves a state of the size and shapes of GPT-2 124M with its moments from one rank, again and again, each
// time beside raw O_DIRECT writes of as many bytes, and prints the least times as one JSON line.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "checkpoint/save.hpp"
#include "comm/communicator.hpp"
#include "store/piece_pass.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace lockstep;

namespace {

constexpr std::uint64_t request_bytes = 16 << 20;

std::vector<std::pair<std::string, Shape>> shapes() {
  std::vector<std::pair<std::string, Shape>> result{{"wte", {50257, 768}}, {"wpe", {1024, 768}}};
  for (int layer = 0; layer < 12; ++layer) {
    const auto add = [&](const char* name, Shape shape) { result.emplace_back(fmt::format("h.{}.{}", layer, name), std::move(shape)); };
    add("attn.weight", {768, 2304});
    add("attn.bias", {2304});
    add("proj.weight", {768, 768});
    add("proj.bias", {768});
    add("up.weight", {768, 3072});
    add("up.bias", {3072});
    add("down.weight", {3072, 768});
    add("down.bias", {768});
  }
  return result;
}

struct State {
  struct Tensor {
    std::string name;
    Layout layout;
    std::vector<float> values;
  };
  World world = single_axis_world(1);
  std::vector<Tensor> tensors;
  std::uint64_t bytes = 0;

  State() {
    std::uint32_t bits = 1;
    for (const char* kind : {"", "exp_avg/", "exp_avg_sq/"}) {
      for (const auto& [name, shape] : shapes()) {
        tensors.push_back({kind + name, replicated(shape, DType::f32, world.mesh), std::vector<float>(static_cast<std::size_t>(elements(whole(shape))))});
        for (float& value : tensors.back().values) value = static_cast<float>(bits = bits * 1664525 + 1013904223);
        bytes += tensors.back().values.size() * sizeof(float);
      }
    }
  }
  Component component() {
    return {.key = "model", .collect = [this] {
              StateTree tree;
              for (Tensor& tensor : tensors) tree.add(tensor.name, tensor.layout, std::as_writable_bytes(std::span(tensor.values)));
              return tree;
            }};
  }
};

double seconds_of(const std::function<void()>& work) {
  const double start = monotonic_seconds();
  work();
  return monotonic_seconds() - start;
}

// As much as the state, from aligned memory that is ready, by so many threads; the file has its length before, as parts have.
double raw_write(const Path& path, std::uint64_t bytes, std::uint64_t threads) {
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(static_cast<std::byte*>(std::aligned_alloc(page_bytes, request_bytes)), std::free);
  std::memset(memory.get(), 5, request_bytes);
  const double seconds = seconds_of([&] {
    const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT);
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) fail_errno("lengthen", path);
    std::vector<std::jthread> writers;
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      writers.emplace_back([&, thread] {
        for (std::uint64_t at = thread * request_bytes; at < bytes; at += threads * request_bytes)
          write_at(file, {memory.get(), std::min(request_bytes, (bytes - at + page_bytes - 1) / page_bytes * page_bytes)}, at, path);
      });
    }
    writers.clear();
    sync_file(file, path);
    sync_folder(path.parent_path());
  });
  std::filesystem::remove(path);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Path folder(argv[1]);
  State state;
  const auto ranks = solo_communicator();
  double raw = 1e9, raw_deep = 1e9, saving = 1e9, computing = 1e9;
  for (int round = 0; round < std::atoi(argv[2]); ++round) {
    raw = std::min(raw, raw_write(folder / "raw", state.bytes, 1));
    const Path run = folder / fmt::format("run-{}", round);
    SaveReport report;
    saving = std::min(saving, seconds_of([&] { report = save(*ranks, {state.component()}, {.run = run, .step = 1, .world = state.world}); }));
    std::filesystem::remove_all(run);
    raw_deep = std::min(raw_deep, raw_write(folder / "raw", state.bytes, 3));
    computing = std::min(computing, seconds_of([&] {   // what one thread needs to hash and fingerprint all of it
      for (const State::Tensor& tensor : state.tensors) {
        const auto bytes = std::as_bytes(std::span(tensor.values));
        hash128(bytes);
        fingerprint(tensor.layout.global, DType::f32, whole(tensor.layout.global), bytes);
      }
    }));
  }
  const double best = std::min(raw, raw_deep);
  const Json line = {{"bytes", state.bytes}, {"raw_one_thread_s", raw}, {"raw_three_threads_s", raw_deep}, {"save_s", saving},
                     {"hash_and_fingerprint_one_thread_s", computing}, {"save_gb_per_s", static_cast<double>(state.bytes) / saving / 1e9},
                     {"raw_gb_per_s", static_cast<double>(state.bytes) / best / 1e9}, {"of_raw", best / saving}};
  std::printf("%s\n", to_text(line).c_str());
  return 0;
}
