// Checks a model for context parallelism along ulysses: ranks share the rows of sequences, and within attention each
// has all rows of some heads. Pure.
#pragma once

#include "architecture/model_config.hpp"
#include "layout/sequence.hpp"

#include <cstdint>

namespace lockstep {

/// Throws Error(usage), with the arithmetic, if the heads of a rank along tp (with `tensor_ranks` of them) cannot be
/// divided among the ranks along ulysses. There may be fewer key heads than ranks; several ranks then hold the same key
/// head.
void check_heads(const ModelConfig& config, std::int64_t tensor_ranks, const SequenceRanks& ranks);

}  // namespace lockstep
