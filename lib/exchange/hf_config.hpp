// Reads and writes a Hugging Face config.json of the families that Lockstep trains. The original text is kept in the
// ModelConfig, so that an export can write it back with changes.
#pragma once

#include "architecture/model_config.hpp"
#include "base/json_fwd.hpp"
#include "layout/dtype.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Parses a config.json. A plug-in family is first translated into a built-in one. Throws Error(input) for a malformed
/// document or a failure of the plug-in. Throws Error(usage) for an unsupported family, activation, RoPE variant or
/// other mathematics. One error lists all problems with key and value; `origin` is the file's name.
ModelConfig parse_hf_config(const std::string& text, const std::string& origin);

/// Returns the config.json of an export: the original with the values of `config`, in the spellings of transformers 4
/// and 5. `dtype_name` ("bfloat16", see hf_dtype_name) is written as torch_dtype and dtype.
Json to_json(const ModelConfig& config, const std::string& dtype_name);

/// Returns the Hugging Face name of a type of weights: "float32", "bfloat16", "float16", "float64". Throws Error(bug)
/// for other types.
std::string hf_dtype_name(DType dtype);

/// Returns the reasons why transformers 5 cannot load a model with the exported configuration; empty: it can. Pure.
std::vector<std::string> problems_in_transformers(const ModelConfig& config);

}  // namespace lockstep
