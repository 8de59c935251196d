// A Hugging Face config.json as typed values, for the families that Lockstep trains. The original text is kept, so that
// an export can write it back with changes.
#pragma once

#include "base/json_fwd.hpp"
#include "exchange/hf_family.hpp"
#include "exchange/rope.hpp"
#include "layout/dtype.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

enum class Norm { layer_norm, rms_norm };
enum class Activation { gelu_tanh, gelu_erf, silu, relu };
enum class Positions { learned, rotary };

/// Dropout rates of training, from 0 to below 1.
struct DropoutRates {
  double embedding = 0;
  double attention = 0;  // of attention probabilities
  double residual = 0;   // of the outputs of attention and MLP
  bool operator==(const DropoutRates&) const = default;
  bool any() const { return embedding > 0 || attention > 0 || residual > 0; }
};

/// Mixture of experts. A router sends each token to the experts with the largest softmax(x·W). A layer may also have a
/// shared expert, an MLP for all tokens; its output is weighted with σ(x·w).
struct Experts {
  std::int64_t count = 0;                // E; 0: no experts
  std::int64_t per_token = 0;            // k
  std::int64_t feed_forward = 0;         // F of each expert
  std::int64_t shared_feed_forward = 0;  // F of the shared expert; 0: none
  bool normalised = true;                // weights of a token's experts are divided by their sum
  std::vector<bool> layers = {};         // by layer: whether experts replace its MLP
  double aux_coefficient = 0;            // weight of the load-balancing loss; 0: none
};

struct HfConfig {
  Family family = Family::gpt2;
  std::int64_t vocabulary = 0;    // V
  std::int64_t channels = 0;      // C
  std::int64_t layers = 0;        // L
  std::int64_t heads = 0;         // H
  std::int64_t kv_heads = 0;      // ≤ H, divides it
  std::int64_t head_size = 0;     // D; H·D may differ from C, except for gpt2
  std::int64_t feed_forward = 0;  // F
  std::int64_t max_positions = 0;
  Norm norm = Norm::layer_norm;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu_tanh;
  bool gated_mlp = false;  // SwiGLU: down(act(gate x) · up x)
  Positions positions = Positions::learned;
  Rope rope = {};
  std::vector<std::int64_t> windows = {};  // by layer, as window_of returns; empty: no windows
  bool query_key_norm = false;             // RMSNorm over each head of q and k, before rotation
  bool qkv_bias = true;
  bool output_bias = true;  // of attention
  bool mlp_bias = true;
  Experts experts = {};
  bool tied_head = true;
  DropoutRates dropout = {};
  double initializer_range = 0.02;
  std::int64_t bos_token = -1;  // -1: none
  std::int64_t eos_token = -1;
  std::shared_ptr<const Json> original;  // whole document

  /// Returns the sliding window of a layer: the number of last keys that a query sees, including its own; 0: no window.
  std::int64_t window_of(int layer) const;
  bool has_experts(int layer) const;
  bool has_shared_expert(int layer) const { return has_experts(layer) && experts.shared_feed_forward > 0; }
  /// Returns the number of layers with experts among the first `first` layers.
  std::int64_t expert_layers(std::int64_t first) const;
};

/// Parses a config.json. A plug-in family is first translated into a built-in one. Throws Error(input) for a malformed
/// document or a failure of the plug-in. Throws Error(usage) for an unsupported family, activation, RoPE variant or
/// other mathematics. One error lists all problems with key and value; `origin` is the file's name.
HfConfig parse_hf_config(const std::string& text, const std::string& origin);

/// Returns the config.json of an export: the original with the values above, in the spellings of transformers 4 and 5.
/// `dtype_name` ("bfloat16", see hf_dtype_name) is written as torch_dtype and dtype.
Json to_json(const HfConfig& config, const std::string& dtype_name);

/// Returns the Hugging Face name of a type of weights: "float32", "bfloat16", "float16", "float64". Throws Error(bug)
/// for other types.
std::string hf_dtype_name(DType dtype);

/// Returns the reasons why transformers 5 cannot load a model with the exported configuration; empty: it can. Pure.
std::vector<std::string> problems_in_transformers(const HfConfig& config);

}  // namespace lockstep
