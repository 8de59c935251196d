// DeepSpeed's part of the dialect transformers: the file that a Trainer's key deepspeed names, and the section
// deepspeed_config of Accelerate's file. The stage of ZeRO, offloading, batch, clipping, precision and optimizer are
// translated. Source of names: DeepSpeed's page on its configuration.
#pragma once

#include "dialects/lowering.hpp"

namespace lockstep::accelerate {

/// Translates both. Options that the Trainer's own keys set take precedence over Accelerate's.
void lower_deepspeed(Lowering& lowering);

}  // namespace lockstep::accelerate
