// The part of the dialect transformers for the file that Accelerate writes for a launch: sharding, the mesh, and
// DeepSpeed. Source of names: its documents and the classes FullyShardedDataParallelPlugin and ParallelismConfig.
#pragma once

#include "dialects/lowering.hpp"

#include <span>

namespace lockstep::accelerate {

std::span<const DialectKey> keys();
std::span<const DialectKey> parts();
/// Translates the keys that have a meaning only together.
void finish(Lowering& lowering);

}  // namespace lockstep::accelerate
