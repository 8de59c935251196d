// What ranks along the axis ulysses, which share the rows of sequences, ask of a model: within attention each has all
// rows of some heads. Pure.
#pragma once

#include "exchange/hf_config.hpp"
#include "layout/sequence.hpp"

#include <cstdint>

namespace lockstep {

/// Throws Error(usage), with the arithmetic, where heads that so many ranks along tp leave cannot be shared out among
/// those along ulysses. Key heads may be fewer than ranks, which then have them several times.
void check_heads(const HfConfig& config, std::int64_t tensor_ranks, const SequenceRanks& ranks);

}  // namespace lockstep
