// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019): how ranks along the axis tp cut the tensors of each block.
// Heads and the width of the MLP are divided: column-parallel matrices first, row-parallel ones second; token embedding
// and head are cut by the vocabulary. Norms and biases of the stream are replicated. With sequence parallelism
// (Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022) each rank applies them to
// its rows, and their gradients are summed. Expert parallelism is applied here too. Pure.
#pragma once

#include "architecture/architecture.hpp"
#include "program/model_plan.hpp"

namespace lockstep {

/// Returns how `ranks` ranks share the blocks of this model. If it has fewer key heads than ranks, neighbours hold the
/// same key heads. `rows`: sequence parallelism.
BlockSharing sharing_among(int ranks, const ModelConfig& config, bool rows = false);

/// Sets for each tensor how the ranks cut it, and along which axes its gradients are summed; a single rank cuts
/// nothing. Throws Error(usage), with the arithmetic, if heads or experts cannot be divided or a width has fewer
/// columns than ranks.
void cut_over(Architecture& architecture, const BlockSharing& sharing);

/// Whether it is a tensor of experts under expert parallelism: each rank has its own experts.
bool is_shared_out(const LogicalTensor& tensor, const BlockSharing& sharing);

/// Returns the shape of the largest part of a tensor on one of the ranks.
Shape longest_part(const LogicalTensor& tensor, const BlockSharing& sharing);

/// Returns the largest part of the model that one of the ranks computes: its heads, width and vocabulary. The number of
/// channels stays the same.
ModelConfig part_of(ModelConfig config, const BlockSharing& sharing);

}  // namespace lockstep
