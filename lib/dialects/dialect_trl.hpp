// The part of the dialect transformers for TRL's supervised fine-tuning (trl sft) and for recipes built on it. Source
// of names and meanings: its classes SFTConfig, ModelConfig, ScriptArguments and DatasetMixtureConfig.
#pragma once

#include "dialects/lowering.hpp"

#include <span>

namespace lockstep::trl {

std::span<const DialectKey> keys();
/// Translates the keys that have a meaning only together.
void finish(Lowering& lowering);

}  // namespace lockstep::trl
