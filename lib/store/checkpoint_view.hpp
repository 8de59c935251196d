// VIEW.h5: every tensor of a checkpoint as one dataset, for any tool that reads HDF5. It has no element of its own: its
// virtual datasets show what lies in the parts, under names relative to the folder, so it moves with the checkpoint. It
// can be made at any time; no hash covers it and no load reads it, for a tool that finds no part shows NaN without a
// word. store/checkpoint_verify.hpp tells whether the parts are sound.
#pragma once

#include "base/files.hpp"
#include "store/checkpoint_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// More parts than this make a view slow and may be more files than a process can open.
inline constexpr std::size_t most_mapped_files = 512;

struct WrittenView {
  std::size_t tensors = 0;
  std::size_t aliases = 0;
  std::size_t files = 0;                                        // parts that it shows elements of
  std::vector<std::string> absent = {};                         // parts that are not as listed, and why
  std::vector<std::pair<std::string, std::int64_t>> gaps = {};  // tensors with elements in those, and how many
  std::vector<std::string> left_out = {};                       // tensors and aliases that have no place, and why
};

/// Writes VIEW.h5 into the folder of a checkpoint, or replaces it, in one step and never by way of a link; the same
/// checkpoint gives the same bytes. Reads the tables of all parts, and no element. Throws Error(storage), also for a
/// part of which the system does not say whether it is there.
WrittenView write_view(const CheckpointReader& checkpoint);

/// Whether a name in a checkpoint's folder is a view, or one that was being written when its process was killed.
bool is_view(std::string_view name);

}  // namespace lockstep
