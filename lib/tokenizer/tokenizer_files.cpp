#include "tokenizer/tokenizer_files.hpp"

#include "base/json.hpp"

namespace lockstep {

namespace {
constexpr const char* split_key = "split_special_tokens";  // into text, says transformers
}

std::string hf_tokenizer_json(const Json& normalizer, const Json& added_tokens, const Json& pre_tokenizer,
                              const Json& decoder, const Json& model) {
  const Json document{{"version", "1.0"},
                      {"truncation", nullptr},
                      {"padding", nullptr},
                      {"added_tokens", added_tokens},
                      {"normalizer", normalizer},
                      {"pre_tokenizer", pre_tokenizer},
                      {"post_processor", nullptr},
                      {"decoder", decoder},
                      {"model", model}};
  return to_text(document, 1) + "\n";
}

Json bpe_model_json(const Json& vocabulary, const Json& merges) {
  return Json{{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", false},
              {"vocab", vocabulary},
              {"merges", merges}};
}

Json added_token_json(const AddedToken& token) {
  return Json{{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
              {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
              {"special", token.special}};
}

void set_special_tokens(Json& config, SpecialTokens reading) {
  if (special_tokens_in(config) != reading) config[special_tokens_key] = reading == SpecialTokens::text;
}

SpecialTokens special_tokens_in(const Json& config) {
  const auto found = config.find(special_tokens_key);
  return found != config.end() && *found == true ? SpecialTokens::text : SpecialTokens::special;
}

std::string sentencepiece_config_json(const std::string& end_name, bool is_bpe) {
  Json document{{"tokenizer_class", is_bpe ? "LlamaTokenizer" : "T5Tokenizer"},
                {"clean_up_tokenization_spaces", false}};
  if (!end_name.empty()) document["eos_token"] = end_name;
  set_special_tokens(document, SpecialTokens::text);
  return to_text(document, 2) + "\n";
}

std::string tokenizer_config_json(const std::string& end_name, SpecialTokens reading) {
  Json document{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (!end_name.empty()) document["eos_token"] = end_name;
  set_special_tokens(document, reading);
  return to_text(document, 2) + "\n";
}

}  // namespace lockstep
