// A model as data: the model that a Hugging Face config describes, as blocks with their logical tensors. Pure; needs no
// weights and no LibTorch. The config's reader is exchange/hf_config.hpp; the network itself is in model/.
#pragma once

#include "architecture/model_config.hpp"
#include "layout/layout.hpp"
#include "layout/shape.hpp"
#include "program/model_plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Initial values of a tensor when nothing is loaded. Element i of tensor `name` is a function of (seed, name, i)
/// alone.
struct Initial {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  double std = 0;
};

/// Role of a tensor in its block. The block's code finds its parameters by role, never by name.
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
  // Hugging Face name, "model.layers.0.mlp.up_proj.weight"; names of stacked experts: file_tensors.hpp.
  std::string name;
  Role role{};
  // Shape as Hugging Face stores it: gpt2's Conv1D weights are (in, out), all others (out, in). Expert weights are
  // stacked: gate_up (E·2F, C), for each expert gate and then up, and down (E·C, F).
  Shape shape;
  Initial initial;
  std::int64_t matrix_rows = 0;                   // rows per matrix of a stack; 0: a single matrix, or a vector
  bool in_out = false;                            // a matrix stored as (in, out), or a stack of such
  std::string alias_of;                           // tied: the tensor whose storage it uses; else empty
  bool trained = true;                            // false: frozen, without gradient and updates
  int update = 0;                                 // index of its update rule (update_rules_of of optim/optimizer.hpp)
  UpdateNeeds update_needs = UpdateNeeds::parts;  // data that its update needs beyond this rank's part
  // Name of a unit of its own within its block, with the other tensors of this name; empty: the block's unit.
  std::string unit = {};
  Shape view = {};  // view whose boxes ranks hold; empty: its shape
  // How tensor or expert parallelism cuts the view. Not set: each of these ranks has the whole tensor.
  std::optional<Split> cut = {};
  // Axes of tensor parallelism along which gradients are summed, because each rank uses the tensor on its part of a
  // block. Along the other ones that do not cut it, gradients are equal.
  std::vector<AxisName> summed = {};
  // Of a matrix with a row for each token: memory that kernels use has a multiple of this many rows of a rank's part.
  // 0: another tensor.
  std::int64_t row_multiple = 0;
};

/// Rows and columns of a matrix as stored; for a stack, of one of its matrices.
Shape matrix_shape(const LogicalTensor& tensor);

inline const Shape& view_of(const LogicalTensor& tensor) { return tensor.view.empty() ? tensor.shape : tensor.view; }

/// A block: the smallest part of a model that the pipeline does not cut.
struct BlockDescription {
  enum class Kind { embedding, decoder, head } kind = Kind::decoder;
  int layer = -1;  // of a decoder block
  std::vector<LogicalTensor> tensors;
};

struct Architecture {
  ModelConfig config;
  std::vector<BlockDescription> blocks;  // embedding, decoder × L, head
};

Architecture describe(const ModelConfig& config);

/// Makes the rows of token embedding and head a multiple of `multiple` in the memory that kernels use: products of a
/// GPU whose rows are a multiple of 64 are several times faster. The added rows are zero and belong to no tensor.
void pad_vocabulary(Architecture& architecture, std::int64_t multiple);

/// Rules from a run's options for stored tensors: which are frozen, how they are updated, and which form units of their
/// own. `units` has pairs of a name and a predicate; the first that is true decides.
struct TensorRules {
  std::function<bool(const std::string& tensor)> freezes;
  std::function<int(const LogicalTensor& tensor)> updated_by;
  std::function<UpdateNeeds(const LogicalTensor& tensor)> update_needs = {};
  std::vector<std::pair<std::string, std::function<bool(const std::string& tensor)>>> units;
};
void mark(Architecture& architecture, const TensorRules& rules);

/// Returns every stored tensor once (without aliases), in block order.
std::vector<LogicalTensor> stored_tensors(const Architecture& architecture);
std::int64_t parameter_count(const Architecture& architecture);  // stored elements
std::int64_t trained_count(const Architecture& architecture);    // stored elements that are not frozen
/// N of 6N + 12·L·C·T: elements that take part in matrix products with a token. Input embeddings are excluded unless
/// tied to the head; of experts only the number that a token goes to counts.
std::int64_t matmul_parameter_count(const Architecture& architecture);
/// Keys that FLOPs count for each query of a layer: all T of a sample, as if attention were not causal, or its window.
std::int64_t attended_keys(const ModelConfig& config, int layer, std::int64_t length);
/// Model FLOPs of one token, forward and backward: 6N + 12·L·(H·D)·T (Chowdhery et al., "PaLM", 2022, appendix B),
/// where T is attended_keys of each layer.
double flops_per_token(const Architecture& architecture, std::int64_t sequence_length);

}  // namespace lockstep
