// Checks whether the ranks of a job fit into the memory of their machines. A pure function of the needs of each rank
// (program/memory_estimate.hpp) and of the limits that it runs under (base/machine_memory.hpp).
#pragma once

#include "base/machine_memory.hpp"
#include "program/program_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct RankMemory {
  std::string host;
  std::int64_t bytes = 0;  // that the rank needs
  std::vector<MemoryLimit> limits;

  std::string encode() const;
  static RankMemory decode(const std::string& text);
};

/// available: the memory that is free now, for a start. total: the whole memory, for a plan.
enum class MemoryCompared { available, total };

/// The limit that its ranks exceed most, with the arithmetic: "node17: its 4 ranks need 4 × 59 GiB = 236 GiB of memory,
/// and 21.3 GiB of 23.4 GiB are available". Nothing if all ranks fit.
std::optional<std::string> memory_shortage(const std::vector<RankMemory>& ranks, MemoryCompared compared);

/// Returns how a run needs less memory of its machines, for a hint: "a smaller train.micro_batch, --train.recompute
/// block or fewer ranks on a machine". `peak` is the program that needs the most; not set: no program needs more than
/// the load or the save of the weights and the optimizer state.
std::string less_machine_memory(std::optional<ProgramPhase> peak);
/// Returns how it needs less memory of its devices.
std::string less_device_memory(std::optional<ProgramPhase> peak);

}  // namespace lockstep
