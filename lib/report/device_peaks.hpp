// Peak rates and memory of accelerators according to their makers: MFU divides by the rates, and plans for a device
// that is not present compare with the memory.
#pragma once

#include "base/precision.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Dense peak of matrix products in a type, in TFLOP/s; products in narrower types than fp32 are summed in fp32. Not
/// set: the maker states none.
struct DevicePeaks {
  std::string_view name;   // "NVIDIA H100 80GB HBM3", as its driver reports it
  std::int64_t memory_gb;  // of 10^9 bytes
  std::optional<double> bf16, fp16, fp32, fp64;
  bool runs_plugin = true;  // compute capability 8.0 or higher, as the plug-in for GPUs needs
  std::optional<double> of(Precision type) const;
};

/// Memory that plans assume for a context on a device that is not present, and for the workspaces of its libraries.
constexpr std::int64_t assumed_context_bytes = std::int64_t{512} << 20;
/// cuBLAS recommends 32 MiB on Hopper (cuBLAS 13.0, cublasSetWorkspace); LibTorch has as much for its own products.
constexpr std::int64_t assumed_workspace_bytes = std::int64_t{64} << 20;
/// Multiprocessors that plans assume: those of an H100 SXM. Attention takes some memory for each.
constexpr int assumed_multiprocessors = 132;
/// Memory that plans assume for a communicator of NCCL. An A100 with NVLink takes 688 MiB for three ranks and more, and
/// 544 MiB for two (NVIDIA/nccl#964); an RTX 3060 takes 388 MiB (sgl-project/sglang#35538). Most of it are buffers of
/// channels: NCCL_MAX_NCHANNELS and NCCL_BUFFSIZE make it smaller, and all-to-all exchanges larger (NVIDIA/nccl#1685).
constexpr std::int64_t assumed_communicator_bytes = std::int64_t{688} << 20;

/// All known devices, in the order of the table.
const std::vector<DevicePeaks>& known_devices();

/// The device with exactly this name, ignoring case, the characters between words, and the maker's name. Null if it is
/// unknown; no similar device is substituted. Local.
const DevicePeaks* find_device(std::string_view name);

/// Suggests known devices for an unknown name: all with its words, else all with nearly its spelling. Two have the
/// words of "A100 80GB". Local.
std::vector<std::string_view> similar_devices(std::string_view name);

}  // namespace lockstep
