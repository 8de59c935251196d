// What transformers and vLLM expect of a compressed-tensors model, format pack-quantized, 8 bits a weight: names, types
// and shapes of the tensors that replace one weight, and the section of config.json that announces them. The numbers:
// quant/int8.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "store/tensor_source.hpp"

#include <array>
#include <string>

namespace lockstep {

/// The tensors that stand for a weight (out, in) named "X.weight".
struct PackedInt8 {
  TensorDescription packed;  // "X.weight_packed" int32 (out, ⌈in/4⌉)
  TensorDescription scale;   // "X.weight_scale" bf16 (out, 1)
  TensorDescription shape;   // "X.weight_shape" int64 (2): out, in
};
PackedInt8 packed_int8(const std::string& weight_name, const Shape& shape);

/// The value of "quantization_config": all Linear modules but the head; int8, symmetric, a scale a channel.
Json int8_quantization_config();

}  // namespace lockstep
