// The compressed-tensors format pack-quantized with 8 bits per weight, as transformers and vLLM read it: names, types
// and shapes of the tensors that replace a weight, and the section of config.json. The numbers: quant/int8.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "store/tensor_source.hpp"

#include <array>
#include <string>

namespace lockstep {

/// The tensors that represent a weight (out, in) named "X.weight".
struct PackedInt8 {
  TensorDescription packed;  // "X.weight_packed" int32 (out, ⌈in/4⌉)
  TensorDescription scale;   // "X.weight_scale" bf16 (out, 1)
  TensorDescription shape;   // "X.weight_shape" int64 (2): out, in
};
PackedInt8 packed_int8(const std::string& weight_name, const Shape& shape);

/// Returns the value of "quantization_config": all Linear modules except the head; int8, symmetric, one scale per
/// channel.
Json int8_quantization_config();

}  // namespace lockstep
