#include "artifact/compressed_tensors.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "quant/int8.hpp"

namespace lockstep {

PackedInt8 packed_int8(const std::string& weight_name, const Shape& shape) {
  invariant(shape.size() == 2 && weight_name.ends_with(".weight"), "int8 of a matrix that is a module's weight");
  const auto words = static_cast<std::int64_t>(int8_packed_words(static_cast<std::size_t>(shape[1])));
  return {{weight_name + "_packed", {shape[0], words}, DType::i32},
          {weight_name + "_scale", {shape[0], 1}, DType::bf16},
          {weight_name + "_shape", {2}, DType::i64}};
}

Json int8_quantization_config() {
  const Json weights{{"num_bits", 8},
                     {"type", "int"},
                     {"symmetric", true},
                     {"strategy", "channel"},
                     {"dynamic", false},
                     {"actorder", nullptr},
                     {"observer", "minmax"},
                     {"observer_kwargs", Json::object()},
                     {"block_structure", nullptr}};
  const Json group{{"targets", Json::array({"Linear"})},
                   {"input_activations", nullptr},
                   {"output_activations", nullptr},
                   {"weights", weights}};
  return {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}, {"quantization_status", "compressed"},
          {"global_compression_ratio", nullptr},  {"kv_cache_scheme", nullptr}, {"ignore", Json::array({"lm_head"})},
          {"config_groups", {{"group_0", group}}}};
}

}  // namespace lockstep
