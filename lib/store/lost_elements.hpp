// What a damaged checkpoint has lost, as boxes of its tensors: the elements that no part gives back, because it is
// missing or cut short or does not match its hashes. What is wrong with which file: store/checkpoint_verify.hpp.
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
  Shape shape;       // that the boxes are of: the one that people know, or the stored one where they are no boxes of it
  DType dtype = DType::f32;
  std::vector<Box> boxes;     // in order, without overlap
  std::int64_t elements = 0;  // in them
};

enum class KnownFrom { index, parts };

/// Small values count as the bytes of their text.
struct Losses {
  KnownFrom known_from = KnownFrom::index;  // which tensors there are; parts know only those they have pieces of
  std::vector<LostTensor> tensors;          // that lost elements
  std::vector<std::string> untold;          // where parts are asked: those that say nothing, with the reason
  std::int64_t elements = 0;
  std::int64_t of_elements = 0;
  std::uint64_t bytes = 0;
  std::uint64_t of_bytes = 0;
};

/// `damaged` are the files that a verification of this level found defects of, with "" for what it found in none: a
/// part that is not among them gives all back, and of the others each block is looked at, from hashes on its content
/// too. Tables are read of the parts alone that may share a tensor's boxes with a damaged one. Throws nothing for what
/// it finds. Local.
Losses find_losses(const CheckpointReader& checkpoint, VerifyLevel level, const std::set<std::string>& damaged);
/// The same of a checkpoint whose manifest or index is damaged: the parts in its folder say what they hold.
Losses find_losses(const Path& checkpoint, VerifyLevel level);

/// The elements of `box` from `first` on, `count` of them in its row-major order, as few boxes. Pure.
std::vector<Box> boxes_of_stretch(const Box& box, std::int64_t first, std::int64_t count);
/// What of `from`, boxes of a tensor that do not overlap, lies in none of `boxes`, as few boxes, in order. Pure.
std::vector<Box> boxes_without(std::vector<Box> from, std::vector<Box> boxes);
/// "[0:64, :]", as in NumPy; "whole" where the box is all of it. Pure.
std::string slice_text(const Box& box, const Shape& shape);

}  // namespace lockstep
