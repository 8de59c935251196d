// Which rank of a group works on which whole matrix, where the group shares matrices out. Pure arithmetic: every rank
// comes to the same answer.
#pragma once

#include "layout/shape.hpp"

#include <vector>

namespace lockstep {

/// By matrix (rows, cols), the rank of the group that works on it: the costliest first, each to the rank that has least
/// to do so far, of such the lowest. A matrix costs rows · cols · min(rows, cols), as products with its transpose do.
std::vector<int> matrix_owners(const std::vector<Shape>& matrices, int ranks);

/// The most elements that one rank owns then.
std::int64_t most_owned(const std::vector<Shape>& matrices, int ranks);

}  // namespace lockstep
