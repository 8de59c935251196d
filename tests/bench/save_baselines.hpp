// What a save is measured against: raw O_DIRECT writes of the same memory, and the hashes and fingerprints alone.
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "bench/gpt2_state.hpp"
#include "store/piece_pass.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep::bench {

constexpr std::uint64_t request_bytes = 16 << 20;

inline double seconds_of(const std::function<void()>& work) {
  const double start = monotonic_seconds();
  work();
  return monotonic_seconds() - start;
}

using Requests = std::vector<std::span<const std::byte>>;

/// The state's memory in whole pages; without the few small tensors, which malloc aligns to less.
inline Requests requests_of(const Gpt2State& state) {
  Requests requests;
  for (const Gpt2State::Tensor& tensor : state.tensors) {
    if (reinterpret_cast<std::uintptr_t>(tensor.values.data()) % page_bytes != 0) continue;
    const auto bytes = std::as_bytes(tensor.values);
    for (std::uint64_t at = 0; at + page_bytes <= bytes.size(); at += request_bytes)
      requests.push_back(bytes.subspan(at, std::min(request_bytes, (bytes.size() - at) / page_bytes * page_bytes)));
  }
  return requests;
}

/// The same memory again and again.
inline Requests requests_of(const c10::DataPtr& memory, std::uint64_t bytes) {
  return Requests(static_cast<std::size_t>(bytes / request_bytes),
                  {static_cast<const std::byte*>(memory.get()), request_bytes});
}

/// In seconds. The file has its length before, as parts have.
inline double raw_write(const Path& path, const Requests& requests, std::size_t threads) {
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

/// What one thread needs, in seconds, to fingerprint all of the state and to hash what one of `writers` writes, as a
/// save does: in chunks that stay in the cache.
inline double compute(const Gpt2State& state, std::size_t writers = 1) {
  constexpr std::size_t chunk_bytes = 1 << 16;
  return seconds_of([&] {
    for (const Gpt2State::Tensor& tensor : state.tensors) {
      const auto bytes = std::as_bytes(tensor.values);
      StreamHash hash;
      for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes) {
        const auto chunk = bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at));
        if (at / chunk_bytes % writers == 0) hash.add(chunk);
        fingerprint(tensor.layout.global, DType::f32, whole(tensor.layout.global), chunk,
                    static_cast<std::int64_t>(at / sizeof(float)));
      }
      hash.digest();
    }
  });
}

}  // namespace lockstep::bench
