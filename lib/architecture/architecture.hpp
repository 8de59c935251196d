// A model as data: what a Hugging Face config describes, cut into blocks with their logical tensors. Pure; needs no
// weights and no LibTorch. The config's reader is exchange/hf_config.hpp; the model made real is model/.
#pragma once

#include "exchange/hf_config.hpp"
#include "layout/layout.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How a tensor starts when nothing is loaded. Element i of tensor `name` is a function of (seed, name, i) alone.
struct Initial {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  double std = 0;
};

/// What a tensor is to its block; the block's code finds its parameters by this, never by name.
enum class Role {
  token_embedding,
  position_embedding,
  attention_norm,
  attention_norm_bias,
  query,
  query_bias,
  query_norm,
  key,
  key_bias,
  key_norm,
  value,
  value_bias,
  qkv,
  qkv_bias,
  attention_output,
  attention_output_bias,
  mlp_norm,
  mlp_norm_bias,
  gate,
  gate_bias,
  up,
  up_bias,
  down,
  down_bias,
  router,
  expert_gate_up,
  expert_down,
  shared_expert_gate,
  final_norm,
  final_norm_bias,
  head
};
std::string_view name_of(Role role);

struct LogicalTensor {
  std::string name;  // Hugging Face name, "model.layers.0.mlp.up_proj.weight"; of stacked experts see file_tensors.hpp
  Role role{};
  Shape shape;  // as Hugging Face stores it: gpt2's Conv1D weights are (in, out), all others (out, in). Those of
                // experts are stacked: (E·2F, C), of each expert gate and then up, and (E·C, F)
  Initial initial;
  std::int64_t matrix_rows = 0;  // of each matrix, where it is a stack of several; 0: it is one, or a vector
  bool in_out = false;           // a matrix stored as (in, out), or a stack of such
  std::string alias_of;          // tied: the name of the tensor whose storage it is; empty otherwise
  bool trained = true;           // false: frozen, it has no gradient and stays as it is
  int update = 0;                // the way in which an optimizer updates it, of those that it declares
  UpdateNeeds update_needs = UpdateNeeds::parts;  // wherever its parts lie
  std::string unit = {};          // that it forms within its block, with others of this name; empty: the block's
  Shape view = {};                // of which ranks hold boxes; empty: its shape
  std::optional<Split> cut = {};  // of the view, among ranks that share blocks; absent: these have all of it
  // Axes of these along which its gradients add up, for each computes with it on its part of a block. Along the others
  // that do not cut it they are equal.
  std::vector<AxisName> summed = {};
};

/// Rows and columns of a matrix as stored: of one of a stack.
Shape matrix_shape(const LogicalTensor& tensor);

inline const Shape& view_of(const LogicalTensor& tensor) { return tensor.view.empty() ? tensor.shape : tensor.view; }

/// What is never cut by a pipeline.
struct BlockDescription {
  enum class Kind { embedding, decoder, head } kind = Kind::decoder;
  int layer = -1;  // of a decoder block
  std::vector<LogicalTensor> tensors;
};

struct Architecture {
  HfConfig config;
  std::vector<BlockDescription> blocks;  // embedding, decoder × L, head
};

Architecture describe(const HfConfig& config);

/// Says of stored tensors, by name, which are frozen and which form units of their own: the first true of `units`, a
/// name and whom it takes. Who says so: the options of a run.
struct TensorRules {
  std::function<bool(const std::string& tensor)> freezes;
  std::function<int(const LogicalTensor& tensor)> updated_by;
  std::function<UpdateNeeds(const LogicalTensor& tensor)> update_needs = {};
  std::vector<std::pair<std::string, std::function<bool(const std::string& tensor)>>> units;
};
void mark(Architecture& architecture, const TensorRules& rules);

/// Every stored tensor once (aliases left out), in block order.
std::vector<LogicalTensor> stored_tensors(const Architecture& architecture);
std::int64_t parameter_count(const Architecture& architecture);  // stored elements
std::int64_t trained_count(const Architecture& architecture);    // of these, what is not frozen
/// N of 6N + 12·L·C·T: elements that take part in matrix products with a token (input embeddings excluded unless tied
/// to the head; of experts as many as a token goes to).
std::int64_t matmul_parameter_count(const Architecture& architecture);
/// Keys that attention of a layer counts for each query: all T of a sample, as if it were not causal, or its window.
std::int64_t attended_keys(const HfConfig& config, int layer, std::int64_t length);
/// Model FLOPs of one token, forward and backward: 6N + 12·L·(H·D)·T (Chowdhery et al., "PaLM", 2022, appendix B),
/// where T is attended_keys of each layer.
double flops_per_token(const Architecture& architecture, std::int64_t sequence_length);

}  // namespace lockstep
