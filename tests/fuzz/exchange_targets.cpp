// Files of other people's making: Hugging Face configs, safetensors and their index, model folders.
#include "architecture/architecture.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "exchange/hf_config.hpp"
#include "exchange/model_folder.hpp"
#include "exchange/safetensors.hpp"
#include "fuzz/targets.hpp"

namespace lockstep::test {

namespace {

constexpr const char* gpt2_config =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 29, "n_positions": 16, "n_embd": 16, "n_layer": 2,
  "n_head": 2, "n_inner": null, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "resid_pdrop": 0, "embd_pdrop": 0,
  "attn_pdrop": 0, "bos_token_id": 28, "eos_token_id": [28, 3], "tie_word_embeddings": true, "scale_attn_weights": true})";
constexpr const char* llama_config =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 29, "hidden_size": 16, "intermediate_size": 40,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 16, "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "default"},
  "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16", "layer_types": ["full_attention", "full_attention"]})";

constexpr const char* qwen_config =
    R"({"model_type": "qwen2", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "use_sliding_window": true, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"],
  "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 16}})";

/// What is accepted has a size, and says the same once exported.
void read_hf(const std::string& text) {
  const ModelConfig config = parse_hf_config(text, "config.json");
  const ModelConfig again = parse_hf_config(to_text(to_json(config, "float32")), "exported config.json");
  const Architecture architecture = describe(config);
  require(parameter_count(architecture) > 0 && parameter_count(describe(again)) == parameter_count(architecture),
          "the exported config is of another model");
  require(flops_per_token(architecture, 8) > 0, "a model without work");
}

std::string written_safetensors(const Path& folder, const std::string& prefix) {
  const std::vector<TensorDescription> tensors{{prefix + "wte.weight", {3, 4}, DType::f32},
                                               {prefix + "norm", {5}, DType::bf16},
                                               {prefix + "none", {0, 2}, DType::i64},
                                               {prefix + "scalar", {}, DType::f64}};
  SafetensorsWriter writer(folder, tensors);
  for (const TensorDescription& tensor : tensors) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(elements(tensor.shape) * size_of(tensor.dtype)),
                                       std::byte{7});
    writer.write(tensor.name, whole(tensor.shape), bytes);
  }
  writer.finish();
  return read_file(folder / "model.safetensors");
}

void read_all(const TensorSource& source) {
  for (const TensorDescription& tensor : source.list()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(elements(tensor.shape) * size_of(tensor.dtype)));
    source.read(tensor.name, whole(tensor.shape), bytes);
  }
}

/// Mutations of the header alone, with its length put right: what lies behind the first eight bytes.
std::string with_true_length(std::string input, Dice& dice) {
  const std::size_t end = input.rfind('}');
  if (input.size() < 8 || end == std::string::npos || end < 8 || dice.one_in(4)) return input;
  const std::uint64_t length = end + 1 - 8;
  for (std::size_t i = 0; i < 8; ++i) input[i] = static_cast<char>(length >> (8 * i));
  return input;
}

}  // namespace

std::vector<Target> exchange_targets(const Path& folder) {
  Target config{.name = "config.json of a model",
                .seeds = {gpt2_config, llama_config, qwen_config},
                .names = {"config.json", "not supported by this version"},
                .read = read_hf};
  config.words = {"\"model_type\": \"llama\",",
                  "\"quantization_config\": {},",
                  "\"rope_scaling\": null,",
                  "num_key_value_heads",
                  "head_dim",
                  "vocab_size",
                  "n_inner",
                  "sliding_window",
                  "max_window_layers",
                  "\"rope_type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [2, 3],",
                  "\"rope_type\": \"llama3\", \"low_freq_factor\": 1, \"high_freq_factor\": 4,",
                  "\"type\": \"dynamic\",",
                  "rope_parameters",
                  "layer_types"};

  const Path single = folder / "single";
  make_folder(single);
  Target file{.name = "model.safetensors",
              .seeds = {written_safetensors(single, ""), written_safetensors(single, "h.0.")},
              .words = {"\"__metadata__\":{\"a\":\"b\"},", "\"data_offsets\":[0,0]", "\"shape\":[",
                        "\"dtype\":\"F8_E4M3\"", "BOOL", "4294967296", "\\u0000"},
              .names = {"model.safetensors"},
              .seal = with_true_length,
              .read = {}};
  file.read = [single](const std::string& bytes) {
    put_file(single / "model.safetensors", bytes);
    const auto source = open_safetensors(single);
    read_all(*source);
    const std::vector<TensorDescription> wanted{{"transformer.wte.weight", {3, 4}, DType::f32}};
    try {
      read_all(*open_model_weights(single, wanted));
    } catch (const Error& error) {  // mostly: other tensors
      require(std::string(error.what()).find(single.string()) != std::string::npos, error.what());
    }
  };

  const Path sharded = folder / "sharded";
  make_folder(sharded);
  put_file(sharded / "a.safetensors", written_safetensors(sharded, "a."));
  put_file(sharded / "b.safetensors", written_safetensors(sharded, "b."));
  std::filesystem::remove(sharded / "model.safetensors");
  Json map = Json::object();
  for (const char* const name : {"wte.weight", "norm", "none", "scalar"}) {
    map[std::string("a.") + name] = "a.safetensors";
    map[std::string("b.") + name] = "b.safetensors";
  }
  Target index{.name = "model.safetensors.index.json",
               .seeds = {to_text(Json{{"metadata", {{"total_size", 100}}}, {"weight_map", map}}, 1)},
               .words = {"../a.safetensors", ".", "a.safetensors", "\"weight_map\": {", "\\u0000", "/dev/null"},
               .names = {"index.json", "a.safetensors", "b.safetensors", sharded.string()},
               .read = {}};
  index.read = [sharded](const std::string& text) {
    put_file(sharded / "model.safetensors.index.json", text);
    read_all(*open_safetensors(sharded));
  };
  std::vector<Target> targets{config, file, index};
  for (Target& target : token_file_targets(folder / "tokens")) targets.push_back(std::move(target));
  return targets;
}

}  // namespace lockstep::test
