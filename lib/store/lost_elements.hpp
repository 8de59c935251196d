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

/// `level` says how far to look: a part that has its length gives all back, up to coverage; from hashes on the blocks
/// of the parts in `damaged` are read. Throws nothing for what it finds. Local.
Losses find_losses(const CheckpointReader& checkpoint, VerifyLevel level, const std::set<std::string>& damaged);
/// The same of a checkpoint whose manifest or index is damaged: the parts in its folder say what they hold.
Losses find_losses(const Path& checkpoint, VerifyLevel level);

/// The elements of `box` from `first` on, `count` of them in its row-major order, as few boxes. Pure.
std::vector<Box> boxes_of_stretch(const Box& box, std::int64_t first, std::int64_t count);
/// What of a tensor lies in none of `boxes`, which lie in it, as few boxes, in order. Pure.
std::vector<Box> boxes_without(const Shape& shape, std::vector<Box> boxes);
/// "[0:64, :]", as in NumPy; "whole" where the box is all of it. Pure.
std::string slice_text(const Box& box, const Shape& shape);

}  // namespace lockstep
