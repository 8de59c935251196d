// The number types that a network can be trained in. The types of individual tensors: tensor/number_types.hpp.
#pragma once

namespace lockstep {

enum class Precision { fp32, fp64, bf16, fp16 };  // bf16, fp16: fp32 master weights and moments

}  // namespace lockstep
