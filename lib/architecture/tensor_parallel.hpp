// How ranks along the axis tp share each block (Shoeybi et al., "Megatron-LM", 2019): heads and the width of the MLP
// are cut, the matrices that begin a half of a layer by their outputs and those that end it by their inputs; the table
// of tokens and the head by the vocabulary. Norms and what is added to the stream are held alike; where ranks share the
// stream out by rows too (sequence parallelism: Korthikanti et al., "Reducing activation recomputation in large
// transformer models", 2022) each uses them on its rows, and their gradients add up. Pure.
#pragma once

#include "architecture/architecture.hpp"
#include "program/model_plan.hpp"

namespace lockstep {

/// How so many ranks share blocks of this model: where it has fewer key heads than they are, neighbours have the same.
/// With `rows` these have the rows of the stream between them too.
BlockSharing sharing_among(int ranks, const HfConfig& config, bool rows = false);

/// Says of each tensor how the ranks cut it, and where its gradients add up; one rank cuts none. Throws Error(usage),
/// with the arithmetic, where heads or experts cannot be shared out or the width has fewer columns than there are
/// ranks.
void cut_over(Architecture& architecture, const BlockSharing& sharing);

/// Whether it is of experts that ranks share out: each has its own.
bool is_shared_out(const LogicalTensor& tensor, const BlockSharing& sharing);

/// The shape of the largest part that one of the ranks has of a tensor.
Shape longest_part(const LogicalTensor& tensor, const BlockSharing& sharing);

/// What one of the ranks computes, the largest part: its heads, width and vocabulary, of the same channels.
HfConfig part_of(HfConfig config, const BlockSharing& sharing);

}  // namespace lockstep
