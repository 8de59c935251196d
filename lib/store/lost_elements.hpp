// Finds the elements that a damaged checkpoint has lost, as boxes of its tensors: no part returns them, because it is
// missing, cut short, or does not match its hashes. The defects of each file: store/checkpoint_verify.hpp.
#pragma once

#include "base/verify_level.hpp"
#include "store/checkpoint_reader.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

struct LostTensor {
  std::string name;  // full name
  /// Shape that the boxes refer to: the shape that users know, or the stored shape if the boxes are no boxes of it.
  Shape shape;
  DType dtype = DType::f32;
  std::vector<Box> boxes;     // in order, without overlap
  std::int64_t elements = 0;  // in the boxes
};

enum class KnownFrom { index, parts };

/// Small values count as the bytes of their text.
struct Losses {
  KnownFrom known_from =
      KnownFrom::index;             // source of the list of tensors; parts list only tensors with pieces in them
  std::vector<LostTensor> tensors;  // tensors with lost elements
  std::vector<std::string> untold;  // with KnownFrom::parts: parts that cannot be read, with the reason
  std::int64_t elements = 0;
  std::int64_t of_elements = 0;
  std::uint64_t bytes = 0;
  std::uint64_t of_bytes = 0;
};

/// Finds the losses of a checkpoint. `damaged` are the files in which a verification of this level found defects, with
/// "" for defects in no file. Parts outside of `damaged` count as intact; in the others each block is examined, from
/// the level hashes on with its content. Only tables of parts are read that may share a tensor's boxes with a damaged
/// part. Never throws for a defect. Local.
Losses find_losses(const CheckpointReader& checkpoint, VerifyLevel level, const std::set<std::string>& damaged);
/// Does the same if manifest or index is damaged, from the tables of the parts in the folder. Local.
Losses find_losses(const Path& checkpoint, VerifyLevel level);

/// Returns `count` elements of `box` from `first` on, in its row-major order, as few boxes. Pure.
std::vector<Box> boxes_of_stretch(const Box& box, std::int64_t first, std::int64_t count);
/// Returns the elements of `from` (boxes without overlap) that lie in none of `boxes`, as few boxes, in order. Pure.
std::vector<Box> boxes_without(std::vector<Box> from, std::vector<Box> boxes);
/// Returns "[0:64, :]", as in NumPy; "whole" if the box is all of the tensor. Pure.
std::string slice_text(const Box& box, const Shape& shape);

}  // namespace lockstep
