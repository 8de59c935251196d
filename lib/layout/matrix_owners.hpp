// Assigns whole matrices to the ranks of a group. Pure arithmetic: every rank computes the same assignment.
#pragma once

#include "layout/shape.hpp"

#include <vector>

namespace lockstep {

/// Returns the owner of each matrix (rows, cols), a rank of the group. The costliest matrix is assigned first, each to
/// the rank with the least work so far, the lowest of several. A matrix costs rows · cols · min(rows, cols), as
/// products with its transpose do.
std::vector<int> matrix_owners(const std::vector<Shape>& matrices, int ranks);

/// Returns the largest number of elements that one rank owns then.
std::int64_t most_owned(const std::vector<Shape>& matrices, int ranks);

}  // namespace lockstep
