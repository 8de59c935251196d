// A Hugging Face model folder as the start of training: its config, and its safetensors checked against the tensors of
// the architecture.
#pragma once

#include "base/files.hpp"
#include "exchange/hf_config.hpp"
#include "exchange/remarks.hpp"
#include "store/tensor_source.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lockstep {

/// Reads the config of a folder (its config.json) or of the file itself. Throws as parse_hf_config does.
ModelConfig read_hf_config(const Path& path);

/// Head says how the output head of a model is stored in its folder.
enum class Head {
  as_configured,  // config.json says whether it is tied to the embedding
  own,            // config.json ties it, but the files hold a different one: both are kept
};
/// Compares head and embedding piece by piece, if config.json ties them and the files have both. As in transformers,
/// they are tied only if they are equal. Local. Throws as open_safetensors does.
Head head_in(const Path& folder, const ModelConfig& config);
/// Returns the config of a model with this head: untied for Head::own.
ModelConfig with_head(ModelConfig config, Head head);

/// Defaults of text generation: a file of model folders and exports, and a document of checkpoints.
inline constexpr const char* generation_config_file = "generation_config.json";
/// Returns the text of that file; nothing if the folder has none or is itself a file. Throws Error(input) if it is not
/// a JSON object, and as require_within does. Local.
std::optional<std::string> generation_config_in(const Path& folder);

/// Throws Error(input) if `file` is a link out of the folder, which could publish any file of this machine. In the
/// cache of Hugging Face, links from snapshots to blobs are allowed. Throws Error(storage). Local.
void require_within(const Path& folder, const Path& file);

/// Opens the weights of `folder` under the names of `expected`. Names in the files may lack or have the prefix
/// "transformer." or "model.". All names may also begin with the prefix of a wrapper, such as "module." or
/// "_orig_mod.". If only the head of a tied model is there, it is used as the embedding. Types are as in the file:
/// fp32, bf16, fp16 or fp64. Remarks list every tensor that is not read, except a tied head. Throws Error(input) with
/// all tensors that are missing, have a wrong shape or type, or are unexpected in a module of the model.
std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected,
                                                 Remarks& remarks);
std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected);

/// Reads a box of a tensor of fp64, fp32, bf16 or fp16 as fp32. `tensor` is one of source.list(). Throws as
/// TensorSource::read does, and Error(input) for other types.
void read_as_float(const TensorSource& source, const TensorDescription& tensor, const Box& box, std::span<float> out);

}  // namespace lockstep
