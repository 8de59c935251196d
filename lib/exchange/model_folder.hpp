// A Hugging Face model folder as the start of training: its config and its safetensors, checked against what the
// architecture needs.
#pragma once

#include "base/files.hpp"
#include "exchange/hf_config.hpp"
#include "exchange/remarks.hpp"
#include "store/tensor_source.hpp"

#include <memory>
#include <span>

namespace lockstep {

/// The config of a folder (its config.json) or of the file itself. Throws as parse_hf_config does.
HfConfig read_hf_config(const Path& path);

/// Head says how the output head of a model stands in the files of its folder.
enum class Head {
  as_configured,  // config.json says whether it is the embedding
  own,            // config.json ties it to the embedding, and the files have another one: both are kept
};
/// Compares head and embedding, a piece at a time, where config.json ties them and the files have both. As in
/// transformers they are tied only if they are equal. Local. Throws as open_safetensors does.
Head head_in(const Path& folder, const HfConfig& config);
/// The config of a model with such a head: untied where that is its own.
HfConfig with_head(HfConfig config, Head head);

/// The weights of `folder` under the names of `expected`. The files may leave out or add the prefix "transformer." or
/// "model.", and all their names may begin with a wrapper's prefix, as "module." or "_orig_mod.". If only the head of a
/// tied model is there, it is the embedding too. The types are the file's: fp32, bf16, fp16 or fp64. Remarks name every
/// tensor that is not read, but for a tied head that is there twice. Throws Error(input) with all missing and wrongly
/// shaped tensors at once, and those of the model's modules that it does not expect.
std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected,
                                                 Remarks& remarks);
std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected);

/// Reads a box of a tensor of fp64, fp32, bf16 or fp16 as fp32. `tensor` is one of source.list(). Throws as
/// TensorSource::read does, Error(input) for other types.
void read_as_float(const TensorSource& source, const TensorDescription& tensor, const Box& box, std::span<float> out);

}  // namespace lockstep
