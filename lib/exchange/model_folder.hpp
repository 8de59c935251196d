// A Hugging Face model folder as the start of training: its config and its safetensors, checked against what the
// architecture needs.
#pragma once

#include "base/files.hpp"
#include "exchange/hf_config.hpp"
#include "store/tensor_source.hpp"

#include <memory>
#include <span>

namespace lockstep {

/// The config of a folder (its config.json) or of the file itself. Throws as parse_hf_config does.
HfConfig read_hf_config(const Path& path);

/// The weights of `folder` under the names of `expected`: files that leave out or add the prefix "transformer." or
/// "model." are understood; buffers (attn.bias, attn.masked_bias, rotary_emb.inv_freq) and a tied head stored a second
/// time are left out. The types are the file's: fp32, bf16, fp16 or fp64. Throws Error(input) with all missing,
/// unexpected and wrongly shaped tensors at once.
std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected);

/// Reads a box of a tensor of fp64, fp32, bf16 or fp16 as fp32. `tensor` is one of source.list(). Throws as
/// TensorSource::read does, Error(input) for other types.
void read_as_float(const TensorSource& source, const TensorDescription& tensor, const Box& box, std::span<float> out);

}  // namespace lockstep
