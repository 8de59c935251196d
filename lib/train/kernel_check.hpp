// Which kernels of a device a run needs. A device need not have every kernel; a run that needs one that is missing is
// refused before its first step. The entries: tensor/functions/kernel_table.hpp.
#pragma once

#include "architecture/model_config.hpp"
#include "config/train_config.hpp"
#include "layout/mesh.hpp"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A part of a run and the entries that it calls, by table: "bf16 gemm".
struct KernelNeed {
  std::string part;  // in words of the configuration: "optimizer.name muon"
  std::vector<std::string> kernels;
};

/// Returns the needs of a run, on any of its ranks. Pure.
std::vector<KernelNeed> kernel_needs(const TrainConfig& config, const ModelConfig& model, const Mesh& mesh);

/// Throws Error(usage) naming the parts that need one of the `absent` entries. Local.
void require_kernels(const std::vector<KernelNeed>& needs, const std::set<std::string>& absent,
                     std::string_view device);

}  // namespace lockstep
