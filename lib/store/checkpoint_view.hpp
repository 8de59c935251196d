// VIEW.h5 shows every tensor of a checkpoint as one dataset to any HDF5 tool. It has no elements of its own: its
// virtual datasets refer to the parts by paths relative to the folder, so it moves with the checkpoint. It can be made
// at any time. No hash covers it and no load reads it, because an HDF5 tool that finds no part shows NaN without an
// error. Whether the parts are sound: store/checkpoint_verify.hpp.
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
  std::size_t files = 0;                 // parts with elements in the view
  std::vector<std::string> absent = {};  // parts that are not as listed, and why
  std::vector<std::pair<std::string, std::int64_t>> gaps =
      {};                                  // tensors with elements in those parts, and their number
  std::vector<std::string> left_out = {};  // tensors and aliases without a place, and why
};

/// Writes or replaces VIEW.h5 in the folder of a checkpoint, in one step and never through a link. The same checkpoint
/// gives the same bytes. Reads the tables of all parts, and no elements. Throws Error(storage), also if the system
/// cannot say whether a part exists.
WrittenView write_view(const CheckpointReader& checkpoint);

/// Returns whether a name in a checkpoint's folder is a view, or an unfinished one that a killed process left.
bool is_view(std::string_view name);

}  // namespace lockstep
