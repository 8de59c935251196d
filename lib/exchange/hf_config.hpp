// A Hugging Face config.json read into typed values, for the families that Lockstep trains. The original text is kept,
// so that an export can give it back with what changed.
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

/// Shares that are dropped in training, from 0 to below 1.
struct DropoutRates {
  double embedding = 0;
  double attention = 0;  // of the probabilities
  double residual = 0;   // of what attention and the MLP add to the stream
  bool operator==(const DropoutRates&) const = default;
  bool any() const { return embedding > 0 || attention > 0 || residual > 0; }
};

/// MLPs of which each token goes to a few, chosen by a router: those of the largest soft-max of x·W. Beside them a
/// layer may have one that all tokens go to, the shared expert; what that gives a token counts with weight σ(x·w).
struct Experts {
  std::int64_t count = 0;                // E; 0: no layer has experts
  std::int64_t per_token = 0;            // k
  std::int64_t feed_forward = 0;         // F of each
  std::int64_t shared_feed_forward = 0;  // F of the shared one; 0: there is none
  bool normalised = true;                // the weights of a token's experts are divided by their sum
  std::vector<bool> layers = {};         // by layer: whether experts take the place of its MLP
  double aux_coefficient = 0;            // of the loss that asks for even loads; 0: there is none
};

struct HfConfig {
  Family family = Family::gpt2;
  std::int64_t vocabulary = 0;    // V
  std::int64_t channels = 0;      // C
  std::int64_t layers = 0;        // L
  std::int64_t heads = 0;         // H
  std::int64_t kv_heads = 0;      // ≤ H, divides it
  std::int64_t head_size = 0;     // D; H·D may differ from C, not in gpt2
  std::int64_t feed_forward = 0;  // F
  std::int64_t max_positions = 0;
  Norm norm = Norm::layer_norm;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu_tanh;
  bool gated_mlp = false;  // SwiGLU: down(act(gate x) · up x)
  Positions positions = Positions::learned;
  Rope rope = {};
  std::vector<std::int64_t> windows = {};  // by layer, as window_of gives them; empty: no layer has one
  bool query_key_norm = false;             // an RMSNorm over each head of q and k, before they are turned
  bool qkv_bias = true;
  bool output_bias = true;  // of attention
  bool mlp_bias = true;
  Experts experts = {};
  bool tied_head = true;
  DropoutRates dropout = {};
  double initializer_range = 0.02;
  std::int64_t bos_token = -1;  // -1: none
  std::int64_t eos_token = -1;
  std::shared_ptr<const Json> original;  // the whole document

  /// Keys that a query of a layer sees at most, the last ones, its own among them; 0: all up to its own.
  std::int64_t window_of(int layer) const;
  bool has_experts(int layer) const;
  bool has_shared_expert(int layer) const { return has_experts(layer) && experts.shared_feed_forward > 0; }
  /// Layers with experts among the first so many.
  std::int64_t expert_layers(std::int64_t first) const;
};

/// Of a family that a plug-in brings it is what that says in the words of a built-in one. Throws Error(input) for a
/// malformed document, or where the plug-in fails, Error(usage) for a family, activation, RoPE variant or other
/// mathematics that is not supported; one error with all problems, each naming key and value; `origin` is the file's
/// name.
HfConfig parse_hf_config(const std::string& text, const std::string& origin);

/// The document to write beside exported weights: the original with the values above, in the spellings of transformers
/// 4 and 5; `dtype_name` ("bfloat16", see hf_dtype_name) as torch_dtype and dtype.
Json to_json(const HfConfig& config, const std::string& dtype_name);

/// "float32", "bfloat16", "float16", "float64": a type of weights as Hugging Face configs spell it. Throws Error(bug)
/// for other types.
std::string hf_dtype_name(DType dtype);

/// Why transformers 5 does not load a model with the exported configuration; empty: it does. Pure.
std::vector<std::string> problems_in_transformers(const HfConfig& config);

}  // namespace lockstep
