// How ranks along the axis tp share each block (Shoeybi et al., "Megatron-LM", 2019): heads and the width of the MLP
// are cut, the matrices that begin a half of a layer by their outputs and those that end it by their inputs; the table
// of tokens and the head by the vocabulary. Norms and what is added to the stream are held alike. Pure.
#pragma once

#include "architecture/architecture.hpp"

#include <cstdint>

namespace lockstep {

/// Says of each tensor how so many ranks cut it; one rank cuts none. Throws Error(usage), with the arithmetic, where
/// heads cannot be shared out or the width has fewer columns than there are ranks.
void cut_over(Architecture& architecture, std::int64_t ranks);

/// The shape of the largest part that one of so many ranks has of a tensor.
Shape longest_part(const LogicalTensor& tensor, std::int64_t ranks);

/// What one of so many ranks computes, the largest part: its heads, width and vocabulary, of the same channels.
HfConfig part_of(HfConfig config, std::int64_t ranks);

}  // namespace lockstep
