#include "tokenizer/tokenizer_class.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

namespace {

constexpr std::string_view end_of_text = "<|endoftext|>";
constexpr std::array<NamedToken, 3> gpt2_tokens{
    {{"unk_token", end_of_text}, {"bos_token", end_of_text}, {"eos_token", end_of_text}}};
constexpr std::array<NamedToken, 3> qwen2_tokens{
    {{"unk_token", end_of_text}, {"eos_token", end_of_text}, {"pad_token", end_of_text}}};
constexpr std::array<NamedToken, 4> neox_tokens{
    {{"unk_token", end_of_text}, {"bos_token", end_of_text}, {"eos_token", end_of_text}, {"pad_token", "<|padding|>"}}};
constexpr std::array<NamedToken, 7> roberta_tokens{{{"bos_token", "<s>"},
                                                    {"eos_token", "</s>"},
                                                    {"unk_token", "<unk>"},
                                                    {"sep_token", "</s>"},
                                                    {"pad_token", "<pad>"},
                                                    {"cls_token", "<s>"},
                                                    {"mask_token", "<mask>"}}};
constexpr std::array<NamedToken, 3> sentencepiece_tokens{
    {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}};

constexpr std::array<ByteLevelClass, 6> classes{{{"GPT2Tokenizer", PieceRule::gpt2, false, gpt2_tokens},
                                                 {"CodeGenTokenizer", PieceRule::gpt2, false, gpt2_tokens},
                                                 {"Qwen2Tokenizer", PieceRule::qwen2, true, qwen2_tokens},
                                                 {"GPTNeoXTokenizer", PieceRule::gpt2, true, neox_tokens},
                                                 {"RobertaTokenizer", PieceRule::gpt2, false, roberta_tokens},
                                                 {"BartTokenizer", PieceRule::gpt2, false, roberta_tokens}}};

// Which class reads a folder whose tokenizer_config.json names none.
constexpr std::array<std::pair<std::string_view, std::string_view>, 30> class_of_model{
    {{"gpt2", "GPT2Tokenizer"},
     {"gpt_neo", "GPT2Tokenizer"},
     {"gptj", "GPT2Tokenizer"},
     {"opt", "GPT2Tokenizer"},
     {"phi", "GPT2Tokenizer"},
     {"codegen", "GPT2Tokenizer"},
     {"dbrx", "GPT2Tokenizer"},
     {"starcoder2", "GPT2Tokenizer"},
     {"gpt_neox", "GPTNeoXTokenizer"},
     {"mamba", "GPTNeoXTokenizer"},
     {"mamba2", "GPTNeoXTokenizer"},
     {"falcon_mamba", "GPTNeoXTokenizer"},
     {"mpt", "GPTNeoXTokenizer"},
     {"olmo", "GPTNeoXTokenizer"},
     {"olmoe", "GPTNeoXTokenizer"},
     {"rwkv", "GPTNeoXTokenizer"},
     {"xlstm", "GPTNeoXTokenizer"},
     {"qwen2", "Qwen2Tokenizer"},
     {"qwen2_moe", "Qwen2Tokenizer"},
     {"qwen2_audio", "Qwen2Tokenizer"},
     {"qwen2_vl", "Qwen2Tokenizer"},
     {"qwen2_5_vl", "Qwen2Tokenizer"},
     {"qwen2_5_omni", "Qwen2Tokenizer"},
     {"qwen3", "Qwen2Tokenizer"},
     {"qwen3_moe", "Qwen2Tokenizer"},
     {"qwen3_next", "Qwen2Tokenizer"},
     {"qwen3_vl", "Qwen2Tokenizer"},
     {"roberta", "RobertaTokenizer"},
     {"xlm-roberta", "XLMRobertaTokenizer"},
     {"bart", "RobertaTokenizer"}}};

// Their ids are not those of the pieces.
constexpr std::array<std::string_view, 11> renumbering{
    "XLMRobertaTokenizer", "CamembertTokenizer", "BarthezTokenizer", "MBartTokenizer",
    "MBart50Tokenizer",    "NllbTokenizer",      "XGLMTokenizer",    "SeamlessM4TTokenizer",
    "PegasusTokenizer",    "M2M100Tokenizer",    "PLBartTokenizer"};

std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string without_fast(std::string name) {
  if (name.ends_with("Fast") && name != "PreTrainedTokenizerFast") name.resize(name.size() - 4);
  return name;
}

}  // namespace

const ByteLevelClass* byte_level_class(std::string_view name) {
  const auto found = std::ranges::find(classes, name, &ByteLevelClass::name);
  return found == classes.end() ? nullptr : &*found;
}

std::string tokenizer_class_of(const Json& config, const Path& folder) {
  const Path path = folder / "config.json";
  const Json model = is_there(path) ? parse_json(read_file(path), path.string()) : Json();
  const std::string model_type = text_of(model, "model_type");
  std::string named = text_of(config, "tokenizer_class");
  if (named.empty()) named = text_of(model, "tokenizer_class");
  const auto of_model =
      std::ranges::find(class_of_model, std::string_view(model_type), &decltype(class_of_model)::value_type::first);
  // transformers ignores the class that folders of this model name.
  if (of_model != class_of_model.end() && (named.empty() || model_type == "qwen2"))
    return std::string(of_model->second);
  return without_fast(std::move(named));
}

std::span<const NamedToken> llama_tokens() { return sentencepiece_tokens; }

void require_own_numbers(const std::string& tokenizer_class, const std::string& origin) {
  if (std::ranges::find(renumbering, std::string_view(tokenizer_class)) == renumbering.end()) return;
  throw Error(ExitCode::usage,
              fmt::format("{}: the tokenizer_class {} renumbers the pieces of the model, which is not supported",
                          origin, tokenizer_class),
              "save it as tokenizer.json: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
}

}  // namespace lockstep
